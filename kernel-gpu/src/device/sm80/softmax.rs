//! Online softmax in base 2 (Milakov & Gimelshein, arXiv 1805.02867; Dao, arXiv 2307.08691, algorithm 1).
//!
//! With c = scale · log₂e: p = 2^(c·s − c·m), where m is the running row maximum of the unscaled scores s.

use super::{HEAD_N_TILES, Lane, Output, ROWS_PER_LANE, Scores};
use crate::config::{MMA_M, MMA_N};
use crate::device::mask::Mask;
use crate::device::ptx::{math, shuffle};
use crate::device::sequence::Sequence;
use crate::device::unroll;

/// Running maximum and sum of the rows of one warp, as far as this lane holds them.
pub struct RunningSoftmax<const M_TILES: usize> {
    /// m: maximum of the unscaled scores so far, of the whole row.
    pub maximum: [[f32; ROWS_PER_LANE]; M_TILES],
    /// l: sum of the p of this lane's columns so far, relative to `maximum`.
    pub sum: [[f32; ROWS_PER_LANE]; M_TILES],
}

impl<const M_TILES: usize> RunningSoftmax<M_TILES> {
    /// Of no scores at all.
    #[inline(always)]
    pub fn new() -> Self {
        Self { maximum: [[f32::NEG_INFINITY; ROWS_PER_LANE]; M_TILES], sum: [[0.0; ROWS_PER_LANE]; M_TILES] }
    }

    /// Takes in a tile of scores: turns it into probabilities relative to the new maximum, and rescales the sums and
    /// the output accumulated so far to it.
    ///
    /// # Safety
    /// The whole warp calls this together.
    #[inline(always)]
    pub unsafe fn update<const N_TILES: usize>(
        &mut self,
        scores: &mut Scores<M_TILES, N_TILES>,
        output: &mut Output<M_TILES>,
        scale_log2: f32,
    ) {
        unroll!(at most 4; for m in M_TILES => {
            unroll!(at most 2; for r in ROWS_PER_LANE => {
                let mut maximum = self.maximum[m][r];
                unroll!(at most 16; for n in N_TILES => {
                    maximum = math::max(maximum, math::max(scores[m][n][2 * r], scores[m][n][2 * r + 1]));
                });
                // SAFETY: the caller has the warp together.
                maximum = unsafe { across_quad(maximum, math::max) };

                let shift = finite_or_zero(maximum) * scale_log2;
                let rescale = math::exp2(math::fma(self.maximum[m][r], scale_log2, -shift));
                self.maximum[m][r] = maximum;

                let mut sum = self.sum[m][r] * rescale;
                unroll!(at most 16; for n in N_TILES => {
                    unroll!(at most 2; for column in 2 => {
                        let p = math::exp2(math::fma(scores[m][n][2 * r + column], scale_log2, -shift));
                        scores[m][n][2 * r + column] = p;
                        sum += p;
                    });
                });
                self.sum[m][r] = sum;

                unroll!(at most 8; for n in HEAD_N_TILES => {
                    output[m][n][2 * r] *= rescale;
                    output[m][n][2 * r + 1] *= rescale;
                });
            });
        });
    }

    /// Completes the sums over the lanes that share a row. Afterwards `sum` is l of the whole row.
    ///
    /// # Safety
    /// The whole warp calls this together.
    #[inline(always)]
    pub unsafe fn complete_sums(&mut self) {
        unroll!(at most 4; for m in M_TILES => {
            unroll!(at most 2; for r in ROWS_PER_LANE => {
                // SAFETY: the caller has the warp together.
                self.sum[m][r] = unsafe { across_quad(self.sum[m][r], |a, b| a + b) };
            });
        });
    }
}

/// Sets the scores that the mask excludes to −∞. `first_row` is the warp's first query row, `first_key` the tile's
/// first key.
#[inline(always)]
pub fn apply_mask<const M_TILES: usize, const N_TILES: usize, S: Sequence, M: Mask>(
    scores: &mut Scores<M_TILES, N_TILES>,
    first_row: u32,
    first_key: u32,
    length: u32,
    lane: Lane,
) {
    unroll!(at most 4; for m in M_TILES => {
        unroll!(at most 2; for r in ROWS_PER_LANE => {
            let row = first_row + m as u32 * MMA_M + r as u32 * 8 + lane.group();
            unroll!(at most 16; for n in N_TILES => {
                unroll!(at most 2; for column in 2 => {
                    let key = first_key + n as u32 * MMA_N + lane.pair_column() + column as u32;
                    if !M::attends::<S>(row, key, length) {
                        scores[m][n][2 * r + column] = f32::NEG_INFINITY;
                    }
                });
            });
        });
    });
}

/// The value itself, or 0 for −∞: the shift of a row that has attended to nothing yet, whose p are then 2^(−∞) = 0.
#[inline(always)]
fn finite_or_zero(maximum: f32) -> f32 {
    if maximum == f32::NEG_INFINITY { 0.0 } else { maximum }
}

/// Combines a value over the four lanes that hold columns of the same row.
///
/// # Safety
/// The whole warp calls this together.
#[inline(always)]
unsafe fn across_quad(value: f32, combine: impl Fn(f32, f32) -> f32) -> f32 {
    // SAFETY: the caller has the warp together.
    unsafe {
        let value = combine(value, shuffle::exchange::<1>(value));
        combine(value, shuffle::exchange::<2>(value))
    }
}
