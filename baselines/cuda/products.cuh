// The two matrix products: S = Q·Kᵀ and O += P·V (kernel-gpu/src/device/sm80/products.rs).
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

/// S = Q·Kᵀ for the warp's rows and the tile's keys; `scores` holds zeros.
template <int M_TILES, int N_TILES, uint32_t ROWS>
__device__ __forceinline__ void multiply_keys(Scores<M_TILES, N_TILES>& scores, const QueryFragments<M_TILES>& queries,
                                              Tile<ROWS> keys, Lane lane) {
    // K's rows are the columns of B: two n-tiles of 8 keys at a time, left and right half of the k-step.
    const uint32_t row = lane.index / 16 * 8 + lane.index % 8, chunk = lane.index / 8 % 2;
#pragma unroll
    for (int k = 0; k < HEAD_K_STEPS; ++k) {
        const uint32_t first_keys = keys.chunk(row, k * CHUNKS_PER_K_STEP + chunk);
#pragma unroll
        for (int pair = 0; pair < N_TILES / 2; ++pair) {
            const auto b = ptx::load_matrices(Tile<ROWS>::below(first_keys, pair * 16));
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                ptx::multiply_accumulate(scores[m][2 * pair], queries[m][k], b.pair[0], b.pair[1]);
                ptx::multiply_accumulate(scores[m][2 * pair + 1], queries[m][k], b.pair[2], b.pair[3]);
            }
        }
    }
}

/// O += P·V for the warp's rows and the tile's keys. An accumulator tile of S has the layout of half an A fragment, so P
/// needs no exchange between lanes.
template <int M_TILES, int N_TILES, uint32_t ROWS>
__device__ __forceinline__ void accumulate_output(Output<M_TILES>& output, const Scores<M_TILES, N_TILES>& probabilities,
                                                  Tile<ROWS> values, Lane lane) {
    // V's rows are the depth: transposed on load, two n-tiles of 8 columns at a time.
    const uint32_t row = lane.index % 16, chunk = lane.index / 16;
#pragma unroll
    for (int k = 0; k < N_TILES / 2; ++k) {
        ptx::FragmentA p[M_TILES];
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            const auto &left = probabilities[m][2 * k].element, &right = probabilities[m][2 * k + 1].element;
            p[m] = {ptx::pack_f16(left[0], left[1]), ptx::pack_f16(left[2], left[3]),
                    ptx::pack_f16(right[0], right[1]), ptx::pack_f16(right[2], right[3])};
        }
#pragma unroll
        for (int pair = 0; pair < HEAD_N_TILES / 2; ++pair) {
            const uint32_t first_keys = values.chunk(row, pair * 2 + chunk);
            const auto b = ptx::load_matrices_transposed(Tile<ROWS>::below(first_keys, k * MMA_K));
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                ptx::multiply_accumulate(output[m][2 * pair], p[m], b.pair[0], b.pair[1]);
                ptx::multiply_accumulate(output[m][2 * pair + 1], p[m], b.pair[2], b.pair[3]);
            }
        }
    }
}

}  // namespace fa512
