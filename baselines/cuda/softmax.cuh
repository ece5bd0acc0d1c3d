// Online softmax in base 2 (kernel-gpu/src/device/attention/softmax.rs; Milakov & Gimelshein, arXiv 1805.02867).
//
// With c = scale · log₂e and m the running row maximum of the unscaled scores s: p = 2^(c·s − shift), shift = c·m.
#pragma once

#include "layout.cuh"
#include "products.cuh"
#include "ptx.cuh"

namespace fa512 {

constexpr uint32_t WHOLE_WARP = 0xffffffff;

/// Combines a value over the four lanes that hold columns of the same row.
template <typename Combine>
__device__ __forceinline__ float across_quad(float value, Combine combine) {
    value = combine(value, __shfl_xor_sync(WHOLE_WARP, value, 1));
    return combine(value, __shfl_xor_sync(WHOLE_WARP, value, 2));
}

/// The shift itself, or 0 for −∞: of a row that has attended to nothing yet, whose p are then 2^(−∞) = 0 and not NaN.
__device__ __forceinline__ float finite_or_zero(float shift) {
    return shift == -INFINITY ? 0.0f : shift;
}

/// Running shift and sum of the rows of one warp, as far as this lane holds them.
template <int M_TILES>
struct RunningSoftmax {
    /// c·m of the whole row so far; −∞ before the first score.
    float shift[M_TILES][ROWS_PER_LANE];
    /// l: sum of the p of this lane's columns so far.
    float sum[M_TILES][ROWS_PER_LANE];

    /// Of no scores at all.
    __device__ __forceinline__ RunningSoftmax() {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
            for (int r = 0; r < ROWS_PER_LANE; ++r) {
                shift[m][r] = -INFINITY;
                sum[m][r] = 0.0f;
            }
        }
    }

    /// Takes in a tile of scores: turns it into probabilities under the new shift, to which the sums and the output
    /// accumulated so far are rescaled.
    template <int N_TILES>
    __device__ __forceinline__ void update(Scores<M_TILES, N_TILES>& scores, Output<M_TILES>& output,
                                           float scale_log2) {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
            for (int r = 0; r < ROWS_PER_LANE; ++r) {
                float maximum = -INFINITY;
#pragma unroll
                for (int n = 0; n < N_TILES; ++n) {
                    const auto& score = scores[m][n].element;
                    maximum = fmaxf(maximum, fmaxf(score[2 * r], score[2 * r + 1]));
                }
                maximum = across_quad(maximum, [](float a, float b) { return fmaxf(a, b); });

                const float previous = shift[m][r];
                shift[m][r] = fmaxf(previous, maximum * scale_log2);
                const float finite_shift = finite_or_zero(shift[m][r]);
                const float rescale = ptx::exp2(previous - finite_shift);

                float row_sum = sum[m][r] * rescale;
#pragma unroll
                for (int n = 0; n < N_TILES; ++n) {
#pragma unroll
                    for (int column = 0; column < 2; ++column) {
                        float& score = scores[m][n].element[2 * r + column];
                        score = ptx::exp2(__fmaf_rn(score, scale_log2, -finite_shift));
                        row_sum += score;
                    }
                }
                sum[m][r] = row_sum;

#pragma unroll
                for (int n = 0; n < HEAD_N_TILES; ++n) {
                    output[m][n].element[2 * r] *= rescale;
                    output[m][n].element[2 * r + 1] *= rescale;
                }
            }
        }
    }

    /// Completes the sums over the lanes that share a row. Afterwards `sum` is l of the whole row.
    __device__ __forceinline__ void complete_sums() {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
            for (int r = 0; r < ROWS_PER_LANE; ++r) {
                sum[m][r] = across_quad(sum[m][r], [](float a, float b) { return a + b; });
            }
        }
    }
};

/// Sets the scores that the mask excludes to −∞.
template <typename Mask, int M_TILES, int N_TILES>
__device__ __forceinline__ void apply_mask(Scores<M_TILES, N_TILES>& scores, uint32_t first_row, uint32_t first_key,
                                           uint32_t length, Lane lane) {
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int r = 0; r < ROWS_PER_LANE; ++r) {
            const uint32_t end = Mask::keys_end(lane.row(first_row, m, r) + 1, length);
#pragma unroll
            for (int n = 0; n < N_TILES; ++n) {
#pragma unroll
                for (int column = 0; column < 2; ++column) {
                    const uint32_t key = first_key + n * MMA_N + lane.pair_column() + column;
                    if (key >= end) {
                        scores[m][n].element[2 * r + column] = -INFINITY;
                    }
                }
            }
        }
    }
}

}  // namespace fa512
