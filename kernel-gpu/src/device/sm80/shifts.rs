//! Softmax under shifts that are chosen before the first probability is computed.
//!
//! O and LSE are the same under any shift: in p = 2^(c·s − shift) with c = scale · log₂e, all p of a row share the factor
//! 2^(−shift). A shift must only be at most c times the row max, so that the largest p do not vanish, and not so much smaller
//! that a p overflows fp16. The maximum of a few scores is nearly always such a shift; if it is not, an infinite sum reveals
//! it.

use super::kernel::Sm80Kernel;
use crate::device::attention::softmax::{across_quad, row_maximum};
use crate::device::attention::{ROWS_PER_LANE, Scores, pack_probabilities};
use crate::device::ptx::math;
use crate::device::ptx::mma::{FragmentA, FragmentC};
use crate::device::unrolled;
use contract::tile::sm80::EXPONENTIALS;

/// 8-key tiles of scores that become one fragment of P.
const N_TILES: usize = 2;

/// Row maxima of one warp over the scores so far, for the rows and columns that this lane holds.
pub struct RowMaxima<const M_TILES: usize>([[f32; ROWS_PER_LANE]; M_TILES]);

impl<const M_TILES: usize> RowMaxima<M_TILES> {
    /// The initial state, −∞.
    #[inline(always)]
    pub fn new() -> Self {
        Self([[f32::NEG_INFINITY; ROWS_PER_LANE]; M_TILES])
    }

    /// Updates the maxima with the scores of 16 keys.
    #[inline(always)]
    pub fn take_in(&mut self, scores: &Scores<M_TILES, N_TILES>) {
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                self.0[m][r] = row_maximum(self.0[m][r], &scores[m], r);
            });
        });
    }

    /// c times the maxima of the whole rows. If that is −∞, p will be +∞ or NaN, and the sum not finite.
    ///
    /// # Safety
    /// The whole warp calls this together.
    #[inline(always)]
    pub unsafe fn shifts(self, scale_log2: f32) -> Shifts<M_TILES> {
        let mut shifts = self.0;
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                // SAFETY: the caller has the warp together.
                shifts[m][r] = unsafe { across_quad(shifts[m][r], math::max) } * scale_log2;
            });
        });
        Shifts(shifts)
    }
}

/// Shifts of one warp's rows that this lane holds.
pub struct Shifts<const M_TILES: usize>(pub [[f32; ROWS_PER_LANE]; M_TILES]);

impl<const M_TILES: usize> Shifts<M_TILES> {
    /// Replaces −∞ by 0: rows that attend to nothing then have p = 2^(−∞) = 0 and not NaN.
    #[inline(always)]
    pub fn or_zero(mut self) -> Self {
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                if self.0[m][r] == f32::NEG_INFINITY {
                    self.0[m][r] = 0.0;
                }
            });
        });
        self
    }

    /// The shifts plus `headroom`.
    #[inline(always)]
    pub fn above(mut self, headroom: f32) -> Self {
        // An addition of 0 would stay, since it changes −0.
        if headroom == 0.0 {
            return self;
        }
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => { self.0[m][r] += headroom });
        });
        self
    }

    /// P of 16 keys, one fragment per strip. Some of every [`EXPONENTIALS`], evenly spread, are computed on the FMA pipe.
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
            let by_fma = const { (n as u32 * 4 + element as u32) * K::BY_FMA % EXPONENTIALS < K::BY_FMA };
            p[n][element] = if by_fma { math::exp2_polynomial(exponent) } else { math::exp2(exponent) };
        });
    });
    pack_probabilities::<K::Element>(p[0], p[1])
}
