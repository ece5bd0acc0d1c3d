//! Softmax with few row maxima.
//!
//! Online softmax needs a shift that keeps p = 2^(c·s − shift) within the range of the element type. The row max is only the
//! safest choice. Here every step keeps the current shift, which saves the row maxima, their exchange between lanes and the rescale of
//! O. A strip begins with shifts that are guessed from its first scores ([`guessed_shifts`](crate::device::attention::softmax::guessed_shifts)),
//! so that one of those has a p that is not small; or else with 0. Whether a shift was sound is decided afterwards from the sums, which
//! are needed anyway:
//!
//! * a lane's sum over a step is an upper bound of each of its p, so none exceeds the largest element;
//! * in the first step of a strip that began with 0, a lane's sum shows that the row has a p that is not small, so no p that matters is
//!   lost to underflow.
//!
//! If any lane of the warp finds otherwise, the step is repeated with the row max ([`RunningSoftmax::update`]).
//! Inputs with widely spread scores do this once or twice per strip.

use core::marker::PhantomData;

use super::probabilities::{self, Probabilities};
use crate::device::attention::head_dim::HeadDim;
use crate::device::attention::kernel::Kernel;
use crate::device::attention::mask::Mask;
use crate::device::attention::score_mod::ScoreMod;
use crate::device::attention::softmax::{RunningSoftmax, across_quad};
use crate::device::attention::{ROWS_PER_LANE, Scores, pack_probabilities};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::wgmma::Registers;
use crate::device::ptx::{math, vote};
use crate::device::unrolled;

/// What a step is within its strip.
#[derive(Clone, Copy)]
pub struct StepKind {
    /// Whether it is the first.
    pub first: bool,
    /// Whether its scores were masked.
    pub masked: bool,
}

/// The softmax of a strip. Rescales when the sum of a lane's p in a step exceeds what the element type allows.
pub struct StripSoftmax<K> {
    /// Shift and sums so far.
    pub running: RunningSoftmax<1>,
    /// −shift, which the exponents are computed with; stored negated to save a negation per step.
    minus_shift: [f32; ROWS_PER_LANE],
    _kernel: PhantomData<K>,
}

impl<K: Kernel> StripSoftmax<K> {
    /// The state of a strip before any keys.
    #[inline(always)]
    pub fn begin() -> Self {
        Self {
            running: RunningSoftmax { shift: [[0.0; ROWS_PER_LANE]], sum: [[0.0; ROWS_PER_LANE]] },
            minus_shift: [0.0; ROWS_PER_LANE],
            _kernel: PhantomData,
        }
    }

    /// Begins a strip under `shift`, before any keys.
    #[inline(always)]
    pub fn begin_under(&mut self, shift: [f32; ROWS_PER_LANE]) {
        self.running.shift = [shift];
        unrolled!(at most 2; for r in ROWS_PER_LANE => { self.minus_shift[r] = -shift[r] });
    }

    /// Adds a step and returns its probabilities under the resulting shift. If the shift changes, calls `rescale` like
    /// [`RunningSoftmax::update`].
    ///
    /// # Safety
    /// The whole warp calls this together; `kind` is uniform.
    #[inline(always)]
    pub unsafe fn take<const N_TILES: usize, const K_STEPS: usize>(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        kind: StepKind,
        rescale: impl FnMut(usize, usize, f32),
    ) -> Probabilities<K_STEPS> {
        // SAFETY: the caller has the warp together.
        unsafe {
            // Always so. Without a branch here, LLVM orders the instructions of every kernel that calls this otherwise.
            if K::HeadDim::COLUMNS > 0 {
                let (probabilities, sums) = under_shift::<K::Element, _, _>(scores, self.minus_shift, scale_log2);
                if Self::are_sound(sums, kind) {
                    unrolled!(at most 2; for r in ROWS_PER_LANE => { self.running.sum[0][r] += sums[r] });
                    return probabilities;
                }
            }
            if kind.first {
                self.running.shift = [[f32::NEG_INFINITY; ROWS_PER_LANE]];
            }
            self.running.update(scores, scale_log2, rescale);
        }
        unrolled!(at most 2; for r in ROWS_PER_LANE => { self.minus_shift[r] = -self.running.shift[0][r] });
        probabilities::pack::<K::Element, _, _>(scores)
    }

    /// [`Self::take`] that leaves the probabilities, unrounded, in place of the scores.
    ///
    /// # Safety
    /// As for [`Self::take`].
    // `take` repeats the code of its parts: as function calls, they changed the instruction order of every kernel that uses it.
    #[inline(always)]
    pub unsafe fn take_in_place<const N_TILES: usize>(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        kind: StepKind,
        rescale: impl FnMut(usize, usize, f32),
    ) {
        // SAFETY: the caller has the warp together.
        unsafe {
            let mut probabilities = *scores;
            let mut sums = [-0.0; ROWS_PER_LANE];
            unrolled!(at most 8; for n in N_TILES => {
                probabilities[0][n] = add_probabilities(&mut sums, scores[0][n], self.minus_shift, scale_log2);
            });
            if Self::are_sound(sums, kind) {
                self.add(sums);
                *scores = probabilities;
                return;
            }
            self.take_under_maxima(scores, scale_log2, kind.first, rescale);
        }
    }

    /// Whether the probabilities under the current shift, with sums `sums`, are sound in all lanes.
    ///
    /// # Safety
    /// As for [`Self::take`].
    #[inline(always)]
    unsafe fn are_sound(sums: [f32; ROWS_PER_LANE], StepKind { first, masked }: StepKind) -> bool {
        // The sum of both is NaN if one is, and comparisons with NaN are false.
        let no_overflow = sums[0] + sums[1] <= K::Element::LARGEST_SUM;
        let not_small = |sums: [f32; ROWS_PER_LANE]| math::min(sums[0], sums[1]) >= K::Element::SMALLEST_FIRST_SUM;
        // SAFETY: the caller has the warp together.
        unsafe {
            if vote::all(no_overflow & (K::GUESSES_SHIFTS || !first | not_small(sums))) {
                return true;
            }
            // All columns of a lane may be masked, but not all of the row. Where scores are changed, there are no registers for this.
            let largest = |sum| across_quad(sum, math::max);
            masked
                && !K::GUESSES_SHIFTS
                && !K::Mask::ALL_KEYS
                && !K::ScoreMod::MODIFIES
                && first
                && vote::all(no_overflow & not_small([largest(sums[0]), largest(sums[1])]))
        }
    }

    /// Adds the sums of a step under the current shift.
    #[inline(always)]
    fn add(&mut self, sums: [f32; ROWS_PER_LANE]) {
        unrolled!(at most 2; for r in ROWS_PER_LANE => { self.running.sum[0][r] += sums[r] });
    }

    /// Adds a step under the row maxima; leaves its probabilities in place of the scores.
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

/// The probabilities under the shift −`minus_shift`, and their sums over this lane's columns before rounding.
#[inline(always)]
fn under_shift<E: Element, const N_TILES: usize, const K_STEPS: usize>(
    scores: &Scores<1, N_TILES>,
    minus_shift: [f32; ROWS_PER_LANE],
    scale_log2: f32,
) -> (Probabilities<K_STEPS>, [f32; ROWS_PER_LANE]) {
    const { assert!(2 * K_STEPS == N_TILES) };
    let mut probabilities = [[0; 4]; K_STEPS];
    // The neutral element of addition: with +0.0 the first addition could not be optimised away.
    let mut sums = [-0.0; ROWS_PER_LANE];
    unrolled!(at most 8; for k in K_STEPS => {
        let left = add_probabilities(&mut sums, scores[0][2 * k], minus_shift, scale_log2);
        let right = add_probabilities(&mut sums, scores[0][2 * k + 1], minus_shift, scale_log2);
        probabilities[k] = pack_probabilities::<E>(left, right);
    });
    // Packed here, between exponentials, instead of after the vote that decides whether they are used.
    probabilities.pin();
    (probabilities, sums)
}

/// The probabilities of 8 keys, added to the sums in order.
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
