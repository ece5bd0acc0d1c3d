// The forward kernel: kernel-gpu/src/device/sm80/forward.rs in CUDA C++, to be read beside it.
//
// One block computes BLOCK_M query rows of one head; each warp owns strips of 16 of them. K and V pass through shared
// memory in STAGES stages of BLOCK_N keys. Launch bounds are added to the PTX, as they are for the Rust kernels.
#pragma once

#include "copy.cuh"
#include "epilogue.cuh"
#include "masks.cuh"
#include "products.cuh"
#include "softmax.cuh"

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

/// O and LSE of one block's query rows.
template <uint32_t BLOCK_M, uint32_t BLOCK_N, uint32_t WARPS, uint32_t STAGES, typename Sequence, typename Mask>
__device__ __forceinline__ void forward(const ForwardArgs& args) {
    constexpr uint32_t THREADS = WARPS * WARP_SIZE;
    constexpr uint32_t ROWS_PER_WARP = BLOCK_M / WARPS;
    constexpr int M_TILES = ROWS_PER_WARP / MMA_M;
    constexpr int N_TILES = BLOCK_N / MMA_N;
    static_assert(BLOCK_M == M_TILES * MMA_M * WARPS && BLOCK_N % MMA_K == 0 && STAGES >= 2);

    const uint32_t length = Sequence::length(args);
    const Lane lane = Lane::current();
    const BlockWork work = BlockWork::of(blockIdx.x, args);
    const uint32_t first_row = work.query_tile * BLOCK_M;
    const uint32_t warp_row = lane.warp * ROWS_PER_WARP;

    const SharedMemory<BLOCK_M, BLOCK_N> memory;
    const auto query_rows = HeadRows::of(args.q, args.q_strides, work);
    const auto key_rows = HeadRows::of(args.k, args.k_strides, work);
    const auto value_rows = HeadRows::of(args.v, args.v_strides, work);
    const uint32_t steps = (Mask::keys_end(first_row + BLOCK_M, length) + BLOCK_N - 1) / BLOCK_N;

    // One commit group a step, empty beyond the last, so that the count of pending groups says which steps are complete.
    const auto start_step = [&](uint32_t step, uint32_t stage) {
        if (step < steps) {
            start_copy<Sequence, THREADS>(memory.keys(stage), key_rows, step * BLOCK_N, length, lane);
            start_copy<Sequence, THREADS>(memory.values(stage), value_rows, step * BLOCK_N, length, lane);
        }
        ptx::commit_group();
    };
    const auto wait_for_next_step = [] {
        ptx::wait_for_oldest<STAGES>();
        __syncthreads();
    };

    start_copy<Sequence, THREADS>(memory.queries(), query_rows, first_row, length, lane);
    for (uint32_t step = 0; step < STAGES - 1; ++step) {
        start_step(step, step);
    }
    wait_for_next_step();
    QueryFragments<M_TILES> queries;
    load_queries<M_TILES>(queries, memory.queries(), warp_row, lane);

    RunningSoftmax<M_TILES> softmax;
    Output<M_TILES> output = {};
    uint32_t stage = 0, free_stage = STAGES - 1;
    for (uint32_t step = 0; step < steps; ++step) {
        start_step(step + STAGES - 1, free_stage);

        Scores<M_TILES, N_TILES> scores = {};
        multiply_keys<M_TILES, N_TILES>(scores, queries, memory.keys(stage), lane);
        if (Mask::template touches<Sequence>(first_row, step * BLOCK_N, BLOCK_N, length)) {
            apply_mask<Mask, M_TILES, N_TILES>(scores, first_row + warp_row, step * BLOCK_N, length, lane);
        }
        softmax.template update<N_TILES>(scores, output, args.scale_log2);
        accumulate_output<M_TILES, N_TILES>(output, scores, memory.values(stage), lane);

        wait_for_next_step();
        free_stage = stage;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    softmax.complete_sums();
    normalise<M_TILES>(output, softmax);
    const auto output_rows = HeadRows::of(args.o, args.o_strides, work);
    store_output<Sequence, M_TILES>(output, memory.queries(), output_rows, first_row, warp_row, length, lane);
    if (args.lse != 0) {
        const uint64_t head = (uint64_t{work.batch} * args.heads + work.head) * length;
        store_lse<Sequence, M_TILES>(softmax, args.lse + head * sizeof(float), first_row + warp_row, length, lane);
    }
}

}  // namespace fa512

/// An entry with the name and the tile configuration of a Rust one; `cargo xtask baselines` writes a line for each.
#define FA512_ENTRY(name, block_m, block_n, warps, stages, sequence, mask)                                       \
    extern "C" __global__ void name(const __grid_constant__ ForwardArgs args) {                                  \
        fa512::forward<block_m, block_n, warps, stages, fa512::sequence, fa512::mask>(args);                     \
    }
