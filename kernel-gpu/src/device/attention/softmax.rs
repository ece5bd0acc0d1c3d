//! Online softmax in base 2 (Milakov & Gimelshein, arXiv 1805.02867; Dao, arXiv 2307.08691, algorithm 1).
//!
//! With c = scale · log₂e and m the running row max of the unscaled scores s: p = 2^(c·s − shift), shift = c·m.
//! The rounded shift is stored and used throughout, so its rounding error is a common factor of all p of a row and cancels.

use super::head_dim::{Fragments, HeadDim};
use super::kernel::Kernel;
use super::mask::Mask;
use super::{Lane, OutputStrip, ROWS_PER_LANE, Scores};
#[cfg(feature = "sm_90a")]
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{math, shuffle};
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::config::MMA_N;

/// ln 2, which converts base-2 to natural logarithms.
const LN_2: f32 = core::f32::consts::LN_2;

/// Running shift and sum of one warp's rows, for the rows and columns that this lane holds.
pub struct RunningSoftmax<const M_TILES: usize> {
    /// c·m of the whole row; −∞ before the first score.
    pub shift: [[f32; ROWS_PER_LANE]; M_TILES],
    /// l: sum of the p in this lane's columns.
    pub sum: [[f32; ROWS_PER_LANE]; M_TILES],
}

#[cfg(feature = "sm_90a")]
impl<const M_TILES: usize> RunningSoftmax<M_TILES> {
    /// Adds a tile of scores: turns it into probabilities under the new shift and rescales the sums to it. Calls
    /// `rescale(m, r, factor)` for each strip `m` and part `r` with the factor by which the accumulated row of the output must
    /// be multiplied ([`rescale_row`]) before V times these probabilities is added.
    ///
    /// # Safety
    /// The whole warp calls this together.
    #[inline(always)]
    pub unsafe fn update<const N_TILES: usize>(
        &mut self,
        scores: &mut Scores<M_TILES, N_TILES>,
        scale_log2: f32,
        mut rescale: impl FnMut(usize, usize, f32),
    ) {
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                // SAFETY: the caller has the warp together.
                let maximum = unsafe { row_maximum_of_quad(&scores[m], r) };

                let previous = self.shift[m][r];
                self.shift[m][r] = math::max(previous, maximum * scale_log2);
                let shift = finite_or_zero(self.shift[m][r]);
                let factor = math::exp2(previous - shift);

                self.sum[m][r] = add_probabilities(self.sum[m][r] * factor, &mut scores[m], r, scale_log2, shift);
                rescale(m, r, factor);
            });
        });
    }

    /// Completes the sums over the lanes that share a row: `sum` becomes l of the whole row.
    ///
    /// # Safety
    /// The whole warp calls this together.
    #[inline(always)]
    pub unsafe fn complete_sums(&mut self) {
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                // SAFETY: the caller has the warp together.
                self.sum[m][r] = unsafe { across_quad(self.sum[m][r], |a, b| a + b) };
            });
        });
    }
}

/// Number of 8-key tiles of scores that shifts are guessed from.
pub const GUESSED_FROM: usize = 2;

/// The larger of `maximum` and this lane's scores in part `r` (row g or g + 8) of a strip.
#[inline(always)]
pub fn row_maximum<const N_TILES: usize>(mut maximum: f32, strip: &[FragmentC; N_TILES], r: usize) -> f32 {
    unrolled!(at most 16; for n in N_TILES => {
        maximum = math::max(maximum, math::max(strip[n][2 * r], strip[n][2 * r + 1]));
    });
    maximum
}

/// The largest of a row's scores, in part `r` of a strip: [`row_maximum`] of the four lanes that share it.
///
/// # Safety
/// The whole warp calls this together.
#[inline(always)]
pub unsafe fn row_maximum_of_quad<const N_TILES: usize>(strip: &[FragmentC; N_TILES], r: usize) -> f32 {
    // SAFETY: the caller has the warp together.
    unsafe { across_quad(row_maximum(f32::NEG_INFINITY, strip, r), math::max) }
}

/// Shifts that are guessed from a few scores of each row: c times their maximum, with [room](Element::HEADROOM) for larger ones.
///
/// # Safety
/// The whole warp calls this together.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub unsafe fn guessed_shifts<E: Element>(scores: &[FragmentC; GUESSED_FROM], scale_log2: f32) -> [f32; ROWS_PER_LANE] {
    let mut shifts = [0.0; ROWS_PER_LANE];
    unrolled!(at most 2; for r in ROWS_PER_LANE => {
        // SAFETY: the caller has the warp together.
        let maximum = unsafe { row_maximum_of_quad(scores, r) };
        shifts[r] = math::fma(maximum, scale_log2, E::HEADROOM);
    });
    shifts
}

/// p = 2^(c·s − shift) of the score s.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub fn probability(score: f32, scale_log2: f32, shift: f32) -> f32 {
    math::exp2(math::fma(score, scale_log2, -shift))
}

/// Turns this lane's scores in part `r` of a strip into probabilities, in order, and returns `sum` plus their sum.
#[cfg(feature = "sm_90a")]
#[inline(always)]
fn add_probabilities<const N_TILES: usize>(
    mut sum: f32,
    strip: &mut [FragmentC; N_TILES],
    r: usize,
    scale_log2: f32,
    shift: f32,
) -> f32 {
    unrolled!(at most 16; for n in N_TILES => {
        let left = probability(strip[n][2 * r], scale_log2, shift);
        let right = probability(strip[n][2 * r + 1], scale_log2, shift);
        [strip[n][2 * r], strip[n][2 * r + 1]] = [left, right];
        sum = sum + left + right;
    });
    sum
}

/// Multiplies part `r` (row g or g + 8) of a strip of O by `factor`.
#[inline(always)]
pub fn rescale_row<K: Kernel>(strip: &mut OutputStrip<K>, r: usize, factor: f32) {
    unrolled!(at most 16; for n in K::HeadDim::N_TILES => {
        strip.all_mut()[n][2 * r] *= factor;
        strip.all_mut()[n][2 * r + 1] *= factor;
    });
}

/// Sets masked scores to −∞, in a sequence of `length` keys, for the warp's rows and the keys from `first_key` on. The warp's rows
/// begin `warp_row` rows after `first_row`, the first of `rows` rows that decide uniformly whether to mask.
#[inline(always)]
pub fn apply_mask<K: Kernel, const M_TILES: usize, const N_TILES: usize>(
    args: &ForwardArgs,
    scores: &mut Scores<M_TILES, N_TILES>,
    (first_row, rows): (u32, u32),
    warp_row: u32,
    first_key: u32,
    length: u32,
    lane: Lane,
) {
    let keys = const { N_TILES as u32 * MMA_N };
    if K::Mask::touches::<K::Sequence>(args, (first_row, rows), first_key, keys, length) {
        let first_row = first_row.wrapping_add(warp_row);
        mask_scores::<K::Mask, M_TILES, N_TILES>(args, scores, first_row, first_key, length, lane);
    }
}

/// [`apply_mask`] without that decision, for rows from `first_row` on.
#[inline(always)]
pub fn mask_scores<M: Mask, const M_TILES: usize, const N_TILES: usize>(
    args: &ForwardArgs,
    scores: &mut Scores<M_TILES, N_TILES>,
    first_row: u32,
    first_key: u32,
    length: u32,
    lane: Lane,
) {
    unrolled!(at most 4; for m in M_TILES => {
        unrolled!(at most 2; for r in ROWS_PER_LANE => {
            let row = lane.row(first_row, m, r);
            let end = M::keys_end(args, row.wrapping_add(1), length);
            mask_row(&mut scores[m], r, first_key + lane.pair_column(), end);
            if M::HAS_BEGIN {
                let begin = M::keys_begin(args, row);
                mask_row_before(&mut scores[m], r, first_key + lane.pair_column(), begin);
            }
        });
    });
}

/// Sets the scores of keys from `end` on in part `r` of a strip to −∞. The lane's first score belongs to `first_key`.
#[inline(always)]
fn mask_row<const N_TILES: usize>(strip: &mut [FragmentC; N_TILES], r: usize, first_key: u32, end: u32) {
    unrolled!(at most 16; for n in N_TILES => {
        let key = first_key + n as u32 * MMA_N;
        if key >= end {
            strip[n][2 * r] = f32::NEG_INFINITY;
        }
        if key + 1 >= end {
            strip[n][2 * r + 1] = f32::NEG_INFINITY;
        }
    });
}

/// Sets the scores of keys before `begin` in part `r` of a strip to −∞, likewise.
#[inline(always)]
fn mask_row_before<const N_TILES: usize>(strip: &mut [FragmentC; N_TILES], r: usize, first_key: u32, begin: u32) {
    unrolled!(at most 16; for n in N_TILES => {
        let key = first_key + n as u32 * MMA_N;
        if key < begin {
            strip[n][2 * r] = f32::NEG_INFINITY;
        }
        if key + 1 < begin {
            strip[n][2 * r + 1] = f32::NEG_INFINITY;
        }
    });
}

/// The shift, or 0 if it is −∞: for rows that have attended to nothing, so that their p are 2^(−∞) = 0 and not NaN.
#[inline(always)]
pub fn finite_or_zero(shift: f32) -> f32 {
    if shift == f32::NEG_INFINITY { 0.0 } else { shift }
}

/// Combines a value over the four lanes that share a row.
///
/// # Safety
/// The whole warp calls this together.
#[inline(always)]
pub unsafe fn across_quad(value: f32, combine: impl Fn(f32, f32) -> f32) -> f32 {
    // SAFETY: the caller has the warp together.
    unsafe {
        let value = combine(value, shuffle::exchange::<1>(value));
        combine(value, shuffle::exchange::<2>(value))
    }
}

/// The factor that normalises a row of O with sum l: 1/l, or 0 if the row attended to nothing.
#[inline(always)]
pub fn normaliser(sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { math::reciprocal(sum) }
}

/// LSE = ln Σ exp(scale·s) = ln 2 · (shift + log₂ l) of a row.
#[inline(always)]
pub fn log_sum_exp(shift: f32, sum: f32) -> f32 {
    LN_2 * (shift + math::log2(sum))
}
