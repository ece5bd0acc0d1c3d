// The forward kernel: kernel-gpu/src/device/forward/sm80/forward.rs in CUDA C++, to be read beside it.
//
// One block computes BLOCK_M query rows of one head; each warp owns strips of 16 of them. K and V pass through shared
// memory in STAGES stages of BLOCK_N keys. Launch bounds are added to the PTX, as they are for the Rust kernels.
#pragma once

#include "copy.cuh"
#include "epilogue.cuh"
#include "masks.cuh"
#include "products.cuh"
#include "shifts.cuh"

namespace fa512 {

/// Q, later O, then K and V of each stage.
extern __shared__ __align__(1024) unsigned char dynamic_shared[];

template <uint32_t BLOCK_M, uint32_t BLOCK_N>
struct SharedMemory {
    uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(dynamic_shared));

    __device__ __forceinline__ Tile<BLOCK_M> queries() const {
        return {base};
    }

    __device__ __forceinline__ Tile<BLOCK_N> keys(uint32_t stage) const {
        return {base + Tile<BLOCK_M>::BYTES + stage * 2 * Tile<BLOCK_N>::BYTES};
    }

    __device__ __forceinline__ Tile<BLOCK_N> values(uint32_t stage) const {
        return {keys(stage).base + Tile<BLOCK_N>::BYTES};
    }
};

/// The copies of one block: K and V of `steps` steps, STAGES - 1 of them ahead.
template <uint32_t BLOCK_M, uint32_t BLOCK_N, uint32_t STAGES, uint32_t THREADS, typename Sequence>
struct Pipeline {
    SharedMemory<BLOCK_M, BLOCK_N> memory;
    HeadRows key_rows, value_rows;
    uint32_t steps, length;
    Lane lane;

    /// A step, and where its tiles are.
    struct Step {
        uint32_t number, stage, free_stage;
    };

    /// Starts the first steps and waits for the first of them.
    __device__ __forceinline__ Step begin() const {
#pragma unroll
        for (uint32_t number = 0; number < STAGES - 1; ++number) {
            start_copies(number, number);
        }
        wait();
        return {0, 0, STAGES - 1};
    }

    /// Starts the copies of the step STAGES - 1 further than `step`, which was waited for.
    __device__ __forceinline__ void start_ahead(const Step& step) const {
        start_copies(step.number + STAGES - 1, step.free_stage);
    }

    /// Ends a step: waits for the next one, and until everyone has done with this one.
    __device__ __forceinline__ void finish(Step& step) const {
        wait();
        step.free_stage = step.stage;
        step.stage = step.stage + 1 == STAGES ? 0 : step.stage + 1;
        ++step.number;
    }

    /// One commit group a step, empty beyond the last, so that the count of pending groups says which steps are complete.
    __device__ __forceinline__ void start_copies(uint32_t step, uint32_t stage) const {
        if (step < steps) {
            start_copy<Sequence, THREADS>(memory.keys(stage), key_rows, step * BLOCK_N, length, lane);
            start_copy<Sequence, THREADS>(memory.values(stage), value_rows, step * BLOCK_N, length, lane);
        }
        ptx::commit_group();
    }

    __device__ __forceinline__ void wait() const {
        ptx::wait_for_oldest<STAGES>();
        __syncthreads();
    }
};

/// What a warp knows of its rows, and what it accumulates.
template <int M_TILES>
struct Warp {
    QueryFragments<M_TILES> queries;
    Shifts<M_TILES> shifts;
    Output<M_TILES> output;
    RowSums<M_TILES> sums;
    uint32_t first_row, length;
    float scale_log2;
    Lane lane;

    /// Scores of 16 keys from `first_key` on, masked if asked.
    template <typename Mask, bool MASKED>
    __device__ __forceinline__ void multiply(Scores<M_TILES, 2>& scores, Tile<MMA_K> keys, uint32_t first_key) const {
        multiply_keys<M_TILES>(scores, queries, keys, lane);
        if constexpr (MASKED) {
            mask_scores<Mask, M_TILES, 2>(scores, first_row, first_key, length, lane);
        }
    }

    /// Shifts from the first 16 keys.
    template <typename Mask, typename Sequence>
    __device__ __forceinline__ void guess_shifts(Tile<MMA_K> keys) {
        Scores<M_TILES, 2> scores = {};
        multiply_keys<M_TILES>(scores, queries, keys, lane);
        if (Mask::template touches<Sequence>(first_row, 0, MMA_K, length)) {
            mask_scores<Mask, M_TILES, 2>(scores, first_row, 0, length, lane);
        }
        RowMaxima<M_TILES> maxima;
        maxima.take_in(scores);
        shifts = maxima.shifts(scale_log2);
    }

    /// Adds a step to the output and the sums, 16 keys after another.
    template <typename Mask, bool MASKED, uint32_t BLOCK_N>
    __device__ __forceinline__ void attend(Tile<BLOCK_N> keys, Tile<BLOCK_N> values, uint32_t first_key) {
#pragma unroll
        for (uint32_t k = 0; k < BLOCK_N / MMA_K; ++k) {
            Scores<M_TILES, 2> scores = {};
            multiply<Mask, MASKED>(scores, keys.template part<MMA_K>(k), first_key + k * MMA_K);
            Probabilities<M_TILES> probabilities;
            shifts.probabilities(probabilities, scores, scale_log2);
            sums.accumulate(probabilities);
            accumulate_output<M_TILES>(output, probabilities, values.template part<MMA_K>(k), lane);
        }
    }

    /// Takes the scores of a step into the maxima. Not unrolled: this is rare.
    template <typename Mask, uint32_t BLOCK_N>
    __device__ __forceinline__ void take_maxima(RowMaxima<M_TILES>& maxima, Tile<BLOCK_N> keys, uint32_t first_key) const {
#pragma unroll 1
        for (uint32_t k = 0; k < BLOCK_N / MMA_K; ++k) {
            Scores<M_TILES, 2> scores = {};
            multiply<Mask, true>(scores, keys.template part<MMA_K>(k), first_key + k * MMA_K);
            maxima.take_in(scores);
        }
    }
};

/// O and LSE of one block's query rows. The shifts of the softmax are guessed from the first 16 keys; a block in which a
/// probability overflows under them, or is not a number, begins again with the true maxima.
template <uint32_t BLOCK_M, uint32_t BLOCK_N, uint32_t WARPS, uint32_t STAGES, typename Sequence, typename Mask>
__device__ __forceinline__ void forward(const ForwardArgs& args) {
    constexpr uint32_t THREADS = WARPS * WARP_SIZE;
    constexpr uint32_t ROWS_PER_WARP = BLOCK_M / WARPS;
    constexpr int M_TILES = ROWS_PER_WARP / MMA_M;
    static_assert(BLOCK_M == M_TILES * MMA_M * WARPS && BLOCK_N % MMA_K == 0 && STAGES >= 2);

    const uint32_t length = Sequence::length(args), kv_length = Sequence::kv_length(args);
    const Lane lane = Lane::current();
    const BlockWork work = BlockWork::of(blockIdx.x, args);
    const uint32_t first_row = work.query_tile * BLOCK_M;
    const uint32_t warp_row = lane.warp * ROWS_PER_WARP;
    const uint32_t steps = (Mask::keys_end(first_row + BLOCK_M, kv_length) + BLOCK_N - 1) / BLOCK_N;
    const BlockWork of_keys = work.of_keys(args);

    const Pipeline<BLOCK_M, BLOCK_N, STAGES, THREADS, Sequence> pipeline = {
        {},
        HeadRows::of(args.k, args.k_strides, of_keys, args.head_dim),
        HeadRows::of(args.v, args.v_strides, of_keys, args.head_dim),
        steps,
        kv_length,
        lane};
    const auto& memory = pipeline.memory;
    const auto query_rows = HeadRows::of(args.q, args.q_strides, work, args.head_dim);
    start_copy<Sequence, THREADS>(memory.queries(), query_rows, first_row, length, lane);
    auto step = pipeline.begin();

    Warp<M_TILES> warp;
    warp.first_row = first_row + warp_row;
    warp.length = kv_length;
    warp.scale_log2 = args.scale_log2;
    warp.lane = lane;
    load_queries<M_TILES>(warp.queries, memory.queries(), warp_row, lane);
    warp.template guess_shifts<Mask, Sequence>(memory.keys(0).template part<MMA_K>(0));
    for (bool exact = false;; exact = true) {
        warp.sums = {};
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
            for (int n = 0; n < HEAD_N_TILES; ++n) {
                warp.output[m][n] = {};
            }
        }
#pragma unroll 1
        while (step.number < steps) {
            pipeline.start_ahead(step);
            const auto keys = memory.keys(step.stage), values = memory.values(step.stage);
            const uint32_t first_key = step.number * BLOCK_N;
            if (!Mask::template touches<Sequence>(warp.first_row, first_key, BLOCK_N, kv_length)) {
                warp.template attend<Mask, false>(keys, values, first_key);
            } else if (first_key < Mask::keys_end(warp.first_row + ROWS_PER_WARP, kv_length)) {
                warp.template attend<Mask, true>(keys, values, first_key);
            }
            pipeline.finish(step);
        }
        if (exact || !__syncthreads_or(!warp.sums.are_finite())) {
            break;
        }

        RowMaxima<M_TILES> maxima;
        step = pipeline.begin();
#pragma unroll 1
        while (step.number < steps) {
            pipeline.start_ahead(step);
            warp.template take_maxima<Mask>(maxima, memory.keys(step.stage), step.number * BLOCK_N);
            pipeline.finish(step);
        }
        warp.shifts = maxima.shifts(args.scale_log2);
        warp.shifts.or_zero();
        step = pipeline.begin();
    }

    normalise<M_TILES>(warp.output, warp.sums);
    const auto output_rows = HeadRows::of(args.o, args.o_strides, work, args.head_dim);
    store_output<Sequence, M_TILES>(warp.output, memory.queries(), output_rows, first_row, warp_row, length, lane);
    if (args.lse != 0) {
        const uint64_t head = (uint64_t{work.batch} * args.heads.value + work.head) * length;
        store_lse<Sequence, M_TILES>(warp.shifts, warp.sums, args.lse + head * sizeof(float), warp.first_row, length,
                                     lane);
    }
}

}  // namespace fa512

/// An entry with the name and the tile configuration of a Rust one; `cargo xtask baselines` writes a line for each.
#define FA512_ENTRY(name, block_m, block_n, warps, stages, sequence, mask)                                       \
    extern "C" __global__ void name(const __grid_constant__ ForwardArgs args) {                                  \
        fa512::forward<block_m, block_n, warps, stages, fa512::sequence, fa512::mask>(args);                     \
    }
