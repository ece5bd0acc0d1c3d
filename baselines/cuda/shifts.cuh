// Softmax under shifts that are chosen before the first probability (kernel-gpu/src/device/forward/sm80/shifts.rs), and the
// mask (kernel-gpu/src/device/softmax/mod.rs).
//
// With c = scale · log₂e and unscaled scores s: p = 2^(c·s − shift) for any shift, as long as no p overflows fp16.
#pragma once

#include "layout.cuh"
#include "products.cuh"
#include "ptx.cuh"

namespace fa512 {

constexpr uint32_t WHOLE_WARP = 0xffffffff;

/// The larger of the values of the four lanes that hold columns of the same row.
__device__ __forceinline__ float maximum_across_quad(float value) {
    value = fmaxf(value, __shfl_xor_sync(WHOLE_WARP, value, 1));
    return fmaxf(value, __shfl_xor_sync(WHOLE_WARP, value, 2));
}

/// Shifts of the rows of one warp, as far as this lane holds them: c times a maximum.
template <int M_TILES>
struct Shifts {
    float row[M_TILES][ROWS_PER_LANE];

    /// 0 in place of −∞: of rows that attend to nothing, whose p are then 2^(−∞) = 0 and not NaN.
    __device__ __forceinline__ void or_zero() {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
            for (int r = 0; r < ROWS_PER_LANE; ++r) {
                row[m][r] = row[m][r] == -INFINITY ? 0.0f : row[m][r];
            }
        }
    }

    /// P of 16 keys, a fragment for each strip.
    __device__ __forceinline__ void probabilities(Probabilities<M_TILES>& probabilities, const Scores<M_TILES, 2>& scores,
                                                  float scale_log2) const {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            float p[2][4];
#pragma unroll
            for (int n = 0; n < 2; ++n) {
#pragma unroll
                for (int element = 0; element < 4; ++element) {
                    p[n][element] =
                        ptx::exp2(__fmaf_rn(scores[m][n].element[element], scale_log2, -row[m][element / 2]));
                }
            }
            probabilities[m] = {ptx::pack_f16(p[0][0], p[0][1]), ptx::pack_f16(p[0][2], p[0][3]),
                                ptx::pack_f16(p[1][0], p[1][1]), ptx::pack_f16(p[1][2], p[1][3])};
        }
    }
};

/// Maxima of the rows of one warp over the scores taken in, as far as this lane holds them.
template <int M_TILES>
struct RowMaxima {
    float row[M_TILES][ROWS_PER_LANE];

    /// Of no scores at all.
    __device__ __forceinline__ RowMaxima() {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
            for (int r = 0; r < ROWS_PER_LANE; ++r) {
                row[m][r] = -INFINITY;
            }
        }
    }

    /// Takes in the scores of 16 keys.
    __device__ __forceinline__ void take_in(const Scores<M_TILES, 2>& scores) {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
            for (int r = 0; r < ROWS_PER_LANE; ++r) {
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    const auto& score = scores[m][n].element;
                    row[m][r] = fmaxf(row[m][r], fmaxf(score[2 * r], score[2 * r + 1]));
                }
            }
        }
    }

    /// c times the maxima of the whole rows. Where that is −∞, p will be +∞ or NaN: the sum is not finite.
    __device__ __forceinline__ Shifts<M_TILES> shifts(float scale_log2) const {
        Shifts<M_TILES> shifts;
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
            for (int r = 0; r < ROWS_PER_LANE; ++r) {
                shifts.row[m][r] = maximum_across_quad(row[m][r]) * scale_log2;
            }
        }
        return shifts;
    }
};

/// Sets the scores that the mask excludes to −∞.
template <typename Mask, int M_TILES, int N_TILES>
__device__ __forceinline__ void mask_scores(Scores<M_TILES, N_TILES>& scores, uint32_t first_row, uint32_t first_key,
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
