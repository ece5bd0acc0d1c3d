// The matrix products of one warp with 16 keys at a time: S = Q·Kᵀ, O += P·V, and l += P·1
// (kernel-gpu/src/device/forward/sm80/products.rs).
#pragma once

#include "layout.cuh"
#include "ptx.cuh"

namespace fa512 {

/// Chunks (8 halves) in the depth of one mma.
constexpr uint32_t CHUNKS_PER_K_STEP = 2;

/// Q of one warp: for each strip of 16 rows, the head dimension in steps of 16.
template <int M_TILES>
using QueryFragments = ptx::FragmentA[M_TILES][HEAD_K_STEPS];
/// Scores, then probabilities, of one warp: for each strip of 16 rows, tiles of 8 keys.
template <int M_TILES, int N_TILES>
using Scores = ptx::FragmentC[M_TILES][N_TILES];
/// P of one warp for 16 keys, rounded to fp16. An accumulator tile of S has the layout of half an A fragment, so that P
/// needs no exchange between lanes.
template <int M_TILES>
using Probabilities = ptx::FragmentA[M_TILES];
/// Unnormalised O of one warp: for each strip of 16 rows, tiles of 8 columns.
template <int M_TILES>
using Output = ptx::FragmentC[M_TILES][HEAD_N_TILES];

/// Loads the warp's Q rows to A fragments.
template <int M_TILES, uint32_t ROWS>
__device__ __forceinline__ void load_queries(QueryFragments<M_TILES>& queries, Tile<ROWS> tile, uint32_t warp_row,
                                             Lane lane) {
    // Matrices in the order of A's registers: rows 0-7 and 8-15 of the left half, then of the right half.
    const uint32_t row = warp_row + lane.index % 16, chunk = lane.index / 16;
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int k = 0; k < HEAD_K_STEPS; ++k) {
            queries[m][k] = ptx::load_matrices(tile.chunk(row + m * MMA_M, k * CHUNKS_PER_K_STEP + chunk));
        }
    }
}

/// S = Q·Kᵀ for the warp's rows and 16 keys; `scores` holds zeros.
template <int M_TILES>
__device__ __forceinline__ void multiply_keys(Scores<M_TILES, 2>& scores, const QueryFragments<M_TILES>& queries,
                                              Tile<MMA_K> keys, Lane lane) {
    // K's rows are the columns of B: two n-tiles of 8 keys, left and right half of the k-step.
    const uint32_t row = lane.index / 16 * 8 + lane.index % 8, chunk = lane.index / 8 % 2;
#pragma unroll
    for (int k = 0; k < HEAD_K_STEPS; ++k) {
        const auto b = ptx::load_matrices(keys.chunk(row, k * CHUNKS_PER_K_STEP + chunk));
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            ptx::multiply_accumulate(scores[m][0], queries[m][k], b.pair[0], b.pair[1]);
            ptx::multiply_accumulate(scores[m][1], queries[m][k], b.pair[2], b.pair[3]);
        }
    }
}

/// O += P·V for the warp's rows and 16 keys.
template <int M_TILES>
__device__ __forceinline__ void accumulate_output(Output<M_TILES>& output, const Probabilities<M_TILES>& probabilities,
                                                  Tile<MMA_K> values, Lane lane) {
    // V's rows are the depth: transposed on load, two n-tiles of 8 columns at a time.
    const uint32_t row = lane.index % 16, chunk = lane.index / 16;
#pragma unroll
    for (int pair = 0; pair < HEAD_N_TILES / 2; ++pair) {
        const auto b = ptx::load_matrices_transposed(values.chunk(row, pair * 2 + chunk));
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            ptx::multiply_accumulate(output[m][2 * pair], probabilities[m], b.pair[0], b.pair[1]);
            ptx::multiply_accumulate(output[m][2 * pair + 1], probabilities[m], b.pair[2], b.pair[3]);
        }
    }
}

/// l of one warp's rows: the sums of P as it is multiplied with V, rounded to fp16. All columns of a tile are the same.
template <int M_TILES>
struct RowSums {
    ptx::FragmentC tile[M_TILES] = {};

    /// l += P·1.
    __device__ __forceinline__ void accumulate(const Probabilities<M_TILES>& probabilities) {
        constexpr uint32_t ONES = 0x3c003c00;
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            ptx::multiply_accumulate(tile[m], probabilities[m], ONES, ONES);
        }
    }

    /// Whether every sum is a finite number: no p overflowed fp16, none was NaN.
    __device__ __forceinline__ bool are_finite() const {
        float total = 0.0f;
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            total += tile[m].element[0] + tile[m].element[2];
        }
        return total < INFINITY;
    }
};

}  // namespace fa512
