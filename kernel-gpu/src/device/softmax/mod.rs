//! Online softmax in base 2 (Milakov & Gimelshein, arXiv 1805.02867; Dao, arXiv 2307.08691, algorithm 1).
//!
//! With c = scale · log₂e and m the running row max of the unscaled scores s: p = 2^(c·s − shift), shift = c·m.
//! The rounded shift is stored and used throughout, so its rounding error is a common factor of all p of a row and cancels.

#[cfg(feature = "sm_90a")]
mod added_sums;
#[cfg(feature = "sm_90a")]
pub mod probabilities;
#[cfg(feature = "sm_90a")]
mod product_sums;
#[cfg(feature = "sm_90a")]
mod strip;

#[cfg(feature = "sm_90a")]
pub use added_sums::AddedSums;
#[cfg(feature = "sm_90a")]
pub use product_sums::ProductSums;
#[cfg(feature = "sm_90a")]
pub use strip::{Softmax, StepKind};

use crate::device::kernel::{Kernel, OutputStrip};
use crate::device::lane::{Lane, ROWS_PER_LANE, Scores};
use crate::device::mask::Mask;
#[cfg(feature = "sm_90a")]
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{math, shuffle};
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::config::MMA_N;

/// ln 2, which converts base-2 to natural logarithms.
const LN_2: f32 = core::f32::consts::LN_2;

/// Shift and sum of one warp's rows, for the rows that this lane holds.
pub struct Statistics<const M_TILES: usize> {
    /// The shift, the same in all lanes that share a row.
    pub shift: [[f32; ROWS_PER_LANE]; M_TILES],
    /// l: the sum of p.
    pub sum: [[f32; ROWS_PER_LANE]; M_TILES],
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
/// Warp together.
#[inline(always)]
pub unsafe fn row_maximum_of_quad<const N_TILES: usize>(strip: &[FragmentC; N_TILES], r: usize) -> f32 {
    // SAFETY: warp together.
    unsafe { across_quad(row_maximum(f32::NEG_INFINITY, strip, r), math::max) }
}

/// Shifts that are guessed from a few scores of each row: c times their maximum, with [room](Element::HEADROOM) for larger ones.
///
/// # Safety
/// Warp together.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub unsafe fn guessed_shifts<E: Element>(scores: &[FragmentC; GUESSED_FROM], scale_log2: f32) -> [f32; ROWS_PER_LANE] {
    let mut shifts = [0.0; ROWS_PER_LANE];
    unrolled!(at most 2; for r in ROWS_PER_LANE => {
        // SAFETY: warp together.
        let maximum = unsafe { row_maximum_of_quad(scores, r) };
        shifts[r] = math::fma(maximum, scale_log2, E::HEADROOM);
    });
    shifts
}

/// The shift `previous` of part `r` of a strip, raised to c times the maximum of its scores.
///
/// # Safety
/// Warp together.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub unsafe fn raised_to_row_max<const N_TILES: usize>(
    previous: f32,
    strip: &[FragmentC; N_TILES],
    r: usize,
    scale_log2: f32,
) -> f32 {
    // SAFETY: warp together.
    let maximum = unsafe { row_maximum_of_quad(strip, r) };
    math::max(previous, maximum * scale_log2)
}

/// Turns this lane's scores in part `r` of a strip into probabilities under the finite `shift`, and calls `see` with each in order.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub fn probabilities_of_row<const N_TILES: usize>(
    strip: &mut [FragmentC; N_TILES],
    r: usize,
    scale_log2: f32,
    shift: f32,
    mut see: impl FnMut(f32),
) {
    unrolled!(at most 16; for n in N_TILES => {
        unrolled!(at most 2; for i in 2 => {
            let p = math::exp2(math::fma(strip[n][2 * r + i], scale_log2, -shift));
            strip[n][2 * r + i] = p;
            see(p);
        });
    });
}

/// Multiplies part `r` (row g or g + 8) of a strip of O by `factor`.
#[inline(always)]
pub fn rescale_row<K: Kernel>(strip: &mut OutputStrip<K>, r: usize, factor: f32) {
    unrolled!(at most 32; for n in K::HeadDim::N_TILES => {
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
/// Warp together.
#[inline(always)]
pub unsafe fn across_quad(value: f32, combine: impl Fn(f32, f32) -> f32) -> f32 {
    // SAFETY: warp together.
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
