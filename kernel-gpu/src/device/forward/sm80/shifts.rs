//! Softmax under shifts that are chosen before the first probability is computed, or that follow the row maxima.
//!
//! O and LSE are the same under any shift: in p = 2^(c·s − shift) with c = scale · log₂e, all p of a row share the factor
//! 2^(−shift). A shift must only be not so much larger than c times the row max that the largest p lose digits, and not so much
//! smaller that a p overflows fp16. The maximum of a few scores is nearly always such a shift; if it is not, an infinite sum reveals
//! it. Where the scores are far apart, the shifts follow the row maxima.

use super::kernel::Sm80Kernel;
use crate::device::lane::{ROWS_PER_LANE, Scores, pack_probabilities};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::{FragmentA, FragmentC};
use crate::device::ptx::{math, vote};
use crate::device::softmax::{GUESSED_FROM, across_quad, row_maximum, row_maximum_of_quad};
use crate::device::unrolled;

/// 8-key tiles of scores that become one fragment of P.
const N_TILES: usize = 2;

/// Number of lanes of a warp with scores [far apart](Element::FAR_APART) from which on its shifts are not guessed: half of them. With
/// fewer, some warps would hold up the others where guesses mostly work.
const FAR_LANES: u32 = 16;
/// How large probabilities may grow, as a power of two, before shifts follow the row maxima.
const LARGEST_EXPONENT: f32 = 8.0;

/// Shifts of one warp's rows that this lane holds.
pub struct Shifts<const M_TILES: usize>(pub [[f32; ROWS_PER_LANE]; M_TILES]);

/// Shifts that are guessed from a few keys.
pub struct Guess<const M_TILES: usize> {
    /// c times the maxima of those keys' scores, with [room](Element::HEADROOM) for larger ones. Where that is −∞, p will be +∞
    /// or NaN, and the sum not finite.
    pub shifts: Shifts<M_TILES>,
    /// Whether the scores are so far apart that later ones are likely to be too large for these shifts; the same in all lanes.
    pub is_far_apart: bool,
}

impl<const M_TILES: usize> Guess<M_TILES> {
    /// The guess from the scores of 16 keys: `all`, and those that rows attend to, the others being −∞.
    ///
    /// # Safety
    /// Warp together.
    #[inline(always)]
    pub unsafe fn of<E: Element>(
        all: &Scores<M_TILES, GUESSED_FROM>,
        attended: &Scores<M_TILES, GUESSED_FROM>,
        scale_log2: f32,
    ) -> Self {
        let mut shifts = [[0.0; ROWS_PER_LANE]; M_TILES];
        let mut distance = 0.0;
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                // SAFETY: warp together.
                let maximum = unsafe { row_maximum_of_quad(&attended[m], r) } * scale_log2;
                distance = math::max(distance, math::fma(row_minimum(&all[m], r), -scale_log2, maximum));
                shifts[m][r] = with_headroom::<E>(maximum);
            });
        });
        // SAFETY: likewise.
        let is_far_apart = unsafe { vote::count(distance > E::FAR_APART) } >= FAR_LANES;
        Self { shifts: Shifts(shifts), is_far_apart }
    }
}

impl<const M_TILES: usize> Shifts<M_TILES> {
    /// Shifts that any finite score raises. Finite, so that masked scores have p = 2^(−∞) = 0 and not NaN.
    // Not a constant: the compiler might copy it from memory.
    #[inline(always)]
    pub fn lowest() -> Self {
        Self([[f32::MIN; ROWS_PER_LANE]; M_TILES])
    }

    /// Raises the shifts if the `sums` of p so far show that a row has scores much larger than those that its shift was guessed from: a row
    /// max is at most c times a score plus the logarithm of its sum. Calls `rescale` like [`Self::follow`].
    ///
    /// # Safety
    /// Warp together.
    #[inline(always)]
    pub unsafe fn raise<E: Element>(
        &mut self,
        sums: &[[f32; ROWS_PER_LANE]; M_TILES],
        mut rescale: impl FnMut(usize, usize, f32),
    ) {
        let mut largest = 0.0;
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => { largest = math::max(largest, sums[m][r]) });
        });
        let is_large = largest > E::RAISED_FROM;
        // SAFETY: warp together.
        if unsafe { vote::all(!is_large) } {
            return;
        }
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                // Of an infinite sum everything becomes NaN, so that it remains unsound.
                let raise = math::max(math::log2(sums[m][r]) - E::RAISED_TO, 0.0);
                self.0[m][r] += raise;
                rescale(m, r, math::exp2(-raise));
            });
        });
    }

    /// Raises the shifts to c times the row maxima if one of the warp's `scores` would have a p above 2^[`LARGEST_EXPONENT`]. Calls
    /// `rescale(m, r, factor)` for each strip `m` and part `r` with the factor on everything that was added so far.
    ///
    /// # Safety
    /// Warp together.
    #[inline(always)]
    pub unsafe fn follow<const PARTS: usize>(
        &mut self,
        scores: &[Scores<M_TILES, N_TILES>; PARTS],
        scale_log2: f32,
        mut rescale: impl FnMut(usize, usize, f32),
    ) {
        let mut maxima = [[f32::NEG_INFINITY; ROWS_PER_LANE]; M_TILES];
        let mut largest = f32::NEG_INFINITY;
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                unrolled!(at most 4; for k in PARTS => { maxima[m][r] = row_maximum(maxima[m][r], &scores[k][m], r) });
                largest = math::max(largest, math::fma(maxima[m][r], scale_log2, -self.0[m][r]));
            });
        });
        let exceeds = largest > LARGEST_EXPONENT;
        // SAFETY: warp together.
        if unsafe { vote::all(!exceeds) } {
            return;
        }
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                let previous = self.0[m][r];
                // SAFETY: warp together.
                let maximum = unsafe { across_quad(maxima[m][r], math::max) };
                self.0[m][r] = math::max(previous, maximum * scale_log2);
                rescale(m, r, math::exp2(previous - self.0[m][r]));
            });
        });
    }

    /// P of 16 keys, one fragment per strip.
    #[inline(always)]
    pub fn probabilities<K: Sm80Kernel>(
        &self,
        scores: &Scores<M_TILES, N_TILES>,
        scale_log2: f32,
    ) -> [FragmentA; M_TILES] {
        let mut probabilities = [[0; 4]; M_TILES];
        unrolled!(at most 4; for m in M_TILES => {
            probabilities[m] = strip_probabilities::<K>(&scores[m], &self.0[m], scale_log2);
        });
        probabilities
    }
}

/// The smallest of this lane's scores in part `r` of a strip.
#[inline(always)]
fn row_minimum([left, right]: &[FragmentC; GUESSED_FROM], r: usize) -> f32 {
    math::min(math::min(left[2 * r], left[2 * r + 1]), math::min(right[2 * r], right[2 * r + 1]))
}

/// `shift` plus the headroom of the element type.
#[inline(always)]
fn with_headroom<E: Element>(shift: f32) -> f32 {
    // An addition of 0 would stay, since it changes −0.
    if E::HEADROOM == 0.0 { shift } else { shift + E::HEADROOM }
}

/// P of one strip for 16 keys.
#[inline(always)]
fn strip_probabilities<K: Sm80Kernel>(
    scores: &[FragmentC; N_TILES],
    shifts: &[f32; ROWS_PER_LANE],
    scale_log2: f32,
) -> FragmentA {
    let mut p = *scores;
    unrolled!(at most 2; for n in N_TILES => {
        unrolled!(at most 4; for element in 4 => {
            let exponent = math::fma(p[n][element], scale_log2, -shifts[element / 2]);

            p[n][element] = math::exp2(exponent);
        });
    });
    pack_probabilities::<K::Element>(p[0], p[1])
}
