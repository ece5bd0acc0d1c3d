// Normalisation and the stores of O and LSE (kernel-gpu/src/device/forward/sm80/epilogue.rs).
#pragma once

#include "copy.cuh"
#include "shifts.cuh"

namespace fa512 {

/// log 2, which turns base-2 logarithms to natural ones.
constexpr float LN_2 = 0.693147180559945309417232121458f;

/// Divides O by the row sums; rows that attended to nothing become 0.
template <int M_TILES>
__device__ __forceinline__ void normalise(Output<M_TILES>& output, const RowSums<M_TILES>& sums) {
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int r = 0; r < ROWS_PER_LANE; ++r) {
            const float sum = sums.tile[m].element[2 * r];
            const float factor = sum == 0.0f ? 0.0f : ptx::reciprocal(sum);
#pragma unroll
            for (int n = 0; n < HEAD_N_TILES; ++n) {
                output[m][n].element[2 * r] *= factor;
                output[m][n].element[2 * r + 1] *= factor;
            }
        }
    }
}

/// Stores O as fp16 in 16-byte pieces: through the warp's own rows of `tile`, where the accumulator layout becomes rows.
template <typename Sequence, int M_TILES, uint32_t ROWS>
__device__ __forceinline__ void store_output(const Output<M_TILES>& output, Tile<ROWS> tile, HeadRows rows,
                                             uint32_t first_row, uint32_t warp_row, uint32_t length, Lane lane) {
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int r = 0; r < ROWS_PER_LANE; ++r) {
            const uint32_t row = lane.row(warp_row, m, r);
#pragma unroll
            for (int n = 0; n < HEAD_N_TILES; ++n) {
                const auto& element = output[m][n].element;
                ptx::store_shared_4(tile.chunk(row, n) + lane.pair_column() * HALF_BYTES,
                                    ptx::pack_f16(element[2 * r], element[2 * r + 1]));
            }
        }
    }
    __syncwarp();

    // Each lane has a chunk, so the warp stores several whole rows at once.
    constexpr uint32_t CHUNKS = Tile<ROWS>::CHUNKS_PER_ROW;
    const uint32_t chunk = lane.index % CHUNKS;
    const uint32_t end = rows.end(chunk, length);
    for (uint32_t pass = 0; pass < M_TILES * MMA_M; pass += WARP_SIZE / CHUNKS) {
        const uint32_t strip_row = lane.index / CHUNKS + pass;
        const uint32_t row = first_row + warp_row + strip_row;
        const uint4 value = ptx::load_shared_16(tile.chunk(warp_row + strip_row, chunk));
        if (!Sequence::HAS_TAIL || row < end) {
            ptx::store_global_16(rows.chunk(row, chunk), value);
        }
    }
}

/// Stores LSE = ln Σ exp(scale·s) = ln 2 · (shift + log₂ l) for the warp's rows; `lse` is the address of the head's row 0.
template <typename Sequence, int M_TILES>
__device__ __forceinline__ void store_lse(const Shifts<M_TILES>& shifts, const RowSums<M_TILES>& sums, uint64_t lse,
                                          uint32_t first_row, uint32_t length, Lane lane) {
    // The four lanes of a quad hold the same rows; the first one stores.
    if (lane.pair_column() != 0) {
        return;
    }
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int r = 0; r < ROWS_PER_LANE; ++r) {
            const uint32_t row = lane.row(first_row, m, r);
            if (!Sequence::HAS_TAIL || row < length) {
                const float value = LN_2 * (shifts.row[m][r] + ptx::log2(sums.tile[m].element[2 * r]));
                ptx::store_global_f32(lse + row * uint64_t{sizeof(float)}, value);
            }
        }
    }
}

}  // namespace fa512
