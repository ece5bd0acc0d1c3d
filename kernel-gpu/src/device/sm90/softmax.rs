//! Softmax with few row maxima.
//!
//! Online softmax needs a shift that keeps p = 2^(c·s − shift) within the range of the elements; that it is the row maximum is
//! only the surest way. Here a strip begins with the shift 0, and every step uses the shift as it is, which saves the
//! maxima, their exchange between lanes and the rescaling of O. Whether that was sound is seen afterwards in the sums,
//! which are needed anyway:
//!
//! * a lane's sum over a step bounds each of its p from above, so that none exceeds the largest element;
//! * in the first step of a strip, every lane's sum says that the row has a p that is not small, so that no p that matters
//!   is lost below the smallest.
//!
//! Where a lane of the warp finds otherwise, the step is done again with the row maximum ([`RunningSoftmax::update`]).
//! Inputs whose scores are far apart take that way once or twice in each strip.
//!
//! The bound of the sums is a threshold; with the threshold 0 it is classic online softmax, with a row maximum in every step.

use core::marker::PhantomData;

use super::products::{self, Probabilities};
use crate::device::attention::kernel::Kernel;
use crate::device::attention::softmax::RunningSoftmax;
use crate::device::attention::{ROWS_PER_LANE, Scores, pack_probabilities};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::wgmma::Registers;
use crate::device::ptx::{math, vote};
use crate::device::unrolled;
use contract::tile::RESCALE_ON_OVERFLOW;

/// The softmax of a strip, rescaled where a lane's p of a step add up to more than 2 to the power of
/// [`Kernel::RESCALE_THRESHOLD`]; where that is [`RESCALE_ON_OVERFLOW`], to more than the elements allow.
pub struct StripSoftmax<K> {
    /// Shift and sums so far.
    pub running: RunningSoftmax<1>,
    /// −shift, what the exponents are made with, so that it is not negated in every step.
    minus_shift: [f32; ROWS_PER_LANE],
    _kernel: PhantomData<K>,
}

impl<K: Kernel> StripSoftmax<K> {
    /// The largest sum of a lane's p of both its rows: it bounds each.
    const LARGEST_SUM: f32 = match K::RESCALE_THRESHOLD {
        RESCALE_ON_OVERFLOW => K::Element::LARGEST_SUM,
        threshold => (1u32 << threshold) as f32,
    };

    /// That of a strip that has taken in nothing.
    #[inline(always)]
    pub fn begin() -> Self {
        Self {
            running: RunningSoftmax { shift: [[0.0; ROWS_PER_LANE]], sum: [[0.0; ROWS_PER_LANE]] },
            minus_shift: [0.0; ROWS_PER_LANE],
            _kernel: PhantomData,
        }
    }

    /// Takes in a step: its probabilities, under the shift that this has afterwards. Where it changes, `rescale` is told as by
    /// [`RunningSoftmax::update`].
    ///
    /// # Safety
    /// The whole warp calls this together; `first` is the same in all lanes.
    #[inline(always)]
    pub unsafe fn take<const N_TILES: usize, const K_STEPS: usize>(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        first: bool,
        rescale: impl FnMut(usize, usize, f32),
    ) -> Probabilities<K_STEPS> {
        // SAFETY: the caller has the warp together.
        unsafe {
            if K::RESCALE_THRESHOLD > 0 {
                let (probabilities, sums) = under_shift::<K::Element, _, _>(scores, self.minus_shift, scale_log2);
                // The sum of both is NaN if one is, and no comparison with NaN holds.
                let no_overflow = sums[0] + sums[1] <= Self::LARGEST_SUM;
                let sound = no_overflow & (!first | (math::min(sums[0], sums[1]) >= K::Element::SMALLEST_FIRST_SUM));
                if vote::all(sound) {
                    unrolled!(at most 2; for r in ROWS_PER_LANE => { self.running.sum[0][r] += sums[r] });
                    return probabilities;
                }
            }
            if first {
                self.running.shift = [[f32::NEG_INFINITY; ROWS_PER_LANE]];
            }
            self.running.update(scores, scale_log2, rescale);
        }
        unrolled!(at most 2; for r in ROWS_PER_LANE => { self.minus_shift[r] = -self.running.shift[0][r] });
        products::pack::<K::Element, _, _>(scores)
    }

    /// [`Self::take`] that leaves the probabilities in place of the scores, not rounded yet.
    ///
    /// # Safety
    /// As for that.
    // That has the pieces of this written out: as calls they moved instructions of every kernel that it is part of.
    #[inline(always)]
    pub unsafe fn take_in_place<const N_TILES: usize>(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        first: bool,
        rescale: impl FnMut(usize, usize, f32),
    ) {
        // SAFETY: the caller has the warp together.
        unsafe {
            if K::RESCALE_THRESHOLD > 0 {
                let mut probabilities = *scores;
                let mut sums = [-0.0; ROWS_PER_LANE];
                unrolled!(at most 8; for n in N_TILES => {
                    probabilities[0][n] = add_probabilities(&mut sums, scores[0][n], self.minus_shift, scale_log2);
                });
                if Self::are_sound(sums, first) {
                    self.add(sums);
                    *scores = probabilities;
                    return;
                }
            }
            self.take_under_maxima(scores, scale_log2, first, rescale);
        }
    }

    /// Whether probabilities under the present shift that add up to `sums` are sound in all lanes.
    ///
    /// # Safety
    /// As for [`Self::take`].
    #[inline(always)]
    unsafe fn are_sound(sums: [f32; ROWS_PER_LANE], first: bool) -> bool {
        // The sum of both is NaN if one is, and no comparison with NaN holds.
        let no_overflow = sums[0] + sums[1] <= Self::LARGEST_SUM;
        let sound = no_overflow & (!first | (math::min(sums[0], sums[1]) >= K::Element::SMALLEST_FIRST_SUM));
        // SAFETY: the caller has the warp together.
        unsafe { vote::all(sound) }
    }

    /// Adds the sums of a step under the present shift.
    #[inline(always)]
    fn add(&mut self, sums: [f32; ROWS_PER_LANE]) {
        unrolled!(at most 2; for r in ROWS_PER_LANE => { self.running.sum[0][r] += sums[r] });
    }

    /// Takes in a step under the row maxima, which leaves its probabilities in place of the scores.
    ///
    /// # Safety
    /// As for [`Self::take`].
    #[inline(always)]
    unsafe fn take_under_maxima<const N_TILES: usize>(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        first: bool,
        rescale: impl FnMut(usize, usize, f32),
    ) {
        if first {
            self.running.shift = [[f32::NEG_INFINITY; ROWS_PER_LANE]];
        }
        // SAFETY: the caller has the warp together.
        unsafe { self.running.update(scores, scale_log2, rescale) };
        unrolled!(at most 2; for r in ROWS_PER_LANE => { self.minus_shift[r] = -self.running.shift[0][r] });
    }
}

/// The probabilities under the shift −`minus_shift`, and their sums over this lane's columns before they were rounded.
#[inline(always)]
fn under_shift<E: Element, const N_TILES: usize, const K_STEPS: usize>(
    scores: &Scores<1, N_TILES>,
    minus_shift: [f32; ROWS_PER_LANE],
    scale_log2: f32,
) -> (Probabilities<K_STEPS>, [f32; ROWS_PER_LANE]) {
    const { assert!(2 * K_STEPS == N_TILES) };
    let mut probabilities = [[0; 4]; K_STEPS];
    // The neutral element of addition: with +0 the first addition would not be left out.
    let mut sums = [-0.0; ROWS_PER_LANE];
    unrolled!(at most 8; for k in K_STEPS => {
        let left = add_probabilities(&mut sums, scores[0][2 * k], minus_shift, scale_log2);
        let right = add_probabilities(&mut sums, scores[0][2 * k + 1], minus_shift, scale_log2);
        probabilities[k] = pack_probabilities::<E>(left, right);
    });
    // Packed here, between exponentials, and not behind the vote that decides whether they are used.
    probabilities.pin();
    (probabilities, sums)
}

/// The probabilities of 8 keys, which are added to the sums one after the other.
#[inline(always)]
fn add_probabilities(
    sums: &mut [f32; ROWS_PER_LANE],
    scores: FragmentC,
    minus_shift: [f32; ROWS_PER_LANE],
    scale_log2: f32,
) -> FragmentC {
    let mut p = scores;
    unrolled!(at most 4; for i in 4 => {
        let r = i / 2;
        p[i] = math::exp2(math::fma(p[i], scale_log2, minus_shift[r]));
        sums[r] += p[i];
    });
    p
}
