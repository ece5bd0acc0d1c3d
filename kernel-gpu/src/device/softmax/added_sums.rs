//! Softmax whose row sums are added up.
//!
//! Soundness is decided from the sums, which are needed anyway: a lane's sum over a step is an upper bound of each of its p, so none exceeds
//! the largest element. Where a strip begins with the shift 0, a lane's sum over the first step shows that the row has a p that is not
//! small.

use core::marker::PhantomData;

use super::strip::{FirstShift, Softmax, StepKind, Watch, fragment_under_shift, under_shift};
use crate::device::kernel::Kernel;
use crate::device::lane::{ROWS_PER_LANE, Scores};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{math, vote};
use crate::device::softmax::probabilities::{self, Probabilities};
use crate::device::softmax::{Statistics, across_quad, finite_or_zero, probabilities_of_row, raised_to_row_max};
use crate::device::tile::head_dim::HeadDim;
use crate::device::unrolled;

/// The softmax of a strip. Rescales when the sum of a lane's p in a step exceeds what the element type allows.
pub struct AddedSums<K> {
    /// Shift, and the sums over this lane's columns so far.
    statistics: Statistics<1>,
    /// −shift, which the exponents are computed with; stored negated to save a negation per step.
    minus_shift: [f32; ROWS_PER_LANE],
    _kernel: PhantomData<K>,
}

/// The sums of a step.
#[derive(Clone, Copy)]
struct Sums([f32; ROWS_PER_LANE]);

impl Sums {
    /// The neutral element of addition: with +0.0 the first addition could not be optimised away.
    const NOTHING: Self = Self([-0.0; ROWS_PER_LANE]);
}

impl Watch for Sums {
    #[inline(always)]
    fn see(&mut self, r: usize, p: f32) {
        self.0[r] += p;
    }
}

impl<K: Kernel> AddedSums<K> {
    /// The shift under which a strip begins.
    const FIRST_SHIFT: FirstShift = if K::GUESSES_SHIFTS { FirstShift::Guess } else { FirstShift::Zero };

    /// [`Softmax::probabilities`], unrounded and in place of the scores.
    ///
    /// # Safety
    /// Warp together; the step is uniform.
    #[inline(always)]
    pub unsafe fn probabilities_in_place<const N_TILES: usize>(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        step: StepKind,
        rescale: impl FnMut(usize, f32),
    ) {
        // SAFETY: warp together.
        unsafe {
            if !step.begins_under_row_max(Self::FIRST_SHIFT) {
                let mut probabilities = *scores;
                let mut sums = Sums::NOTHING;
                unrolled!(at most 8; for n in N_TILES => {
                    probabilities[0][n] = fragment_under_shift(scores[0][n], self.minus_shift, scale_log2, &mut sums);
                });
                if Self::are_sound(sums, step.first) {
                    self.add(sums);
                    *scores = probabilities;
                    return;
                }
            }
            self.under_row_max(scores, scale_log2, step, rescale);
        }
    }

    /// Whether the probabilities under the current shift, with these sums, are sound in all lanes.
    ///
    /// # Safety
    /// Warp together; the step is uniform.
    #[inline(always)]
    unsafe fn are_sound(Sums(sums): Sums, first: bool) -> bool {
        let begins_under_zero = const { matches!(Self::FIRST_SHIFT, FirstShift::Zero) };
        // The sum of both is NaN if one is, and comparisons with NaN are false.
        let no_overflow = sums[0] + sums[1] <= K::Element::LARGEST_SUM;
        let not_small = math::min(sums[0], sums[1]) >= K::Element::SMALLEST_FIRST_SUM;
        // SAFETY: warp together.
        unsafe { vote::all(no_overflow & (!begins_under_zero || !first | not_small)) }
    }

    /// Adds the sums of a step under the current shift.
    #[inline(always)]
    fn add(&mut self, Sums(sums): Sums) {
        unrolled!(at most 2; for r in ROWS_PER_LANE => { self.statistics.sum[0][r] += sums[r] });
    }

    /// Adds a step under the row maxima; leaves its probabilities in place of the scores.
    ///
    /// # Safety
    /// Warp together; the step is uniform.
    #[inline(always)]
    unsafe fn under_row_max<const N_TILES: usize>(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        step: StepKind,
        mut rescale: impl FnMut(usize, f32),
    ) {
        let Statistics { shift: [shift], sum: [sum] } = &mut self.statistics;
        if step.first {
            *shift = [f32::NEG_INFINITY; ROWS_PER_LANE];
        }
        unrolled!(at most 2; for r in ROWS_PER_LANE => {
            let previous = shift[r];
            // SAFETY: warp together.
            shift[r] = unsafe { raised_to_row_max(previous, &scores[0], r, scale_log2) };
            let finite = finite_or_zero(shift[r]);
            let rescales = step.rescales(Self::FIRST_SHIFT);
            let factor = if rescales { math::exp2(previous - finite) } else { 1.0 };
            if rescales {
                sum[r] *= factor;
            }
            probabilities_of_row(&mut scores[0], r, scale_log2, finite, |p| sum[r] += p);
            if rescales {
                rescale(r, factor);
            }
        });
        unrolled!(at most 2; for r in ROWS_PER_LANE => { self.minus_shift[r] = -shift[r] });
    }
}

impl<K: Kernel> Softmax<K> for AddedSums<K> {
    #[inline(always)]
    fn new() -> Self {
        let statistics = Statistics { shift: [[0.0; ROWS_PER_LANE]], sum: [[0.0; ROWS_PER_LANE]] };
        Self { statistics, minus_shift: [0.0; ROWS_PER_LANE], _kernel: PhantomData }
    }

    #[inline(always)]
    fn begin_under(&mut self, shift: [f32; ROWS_PER_LANE]) {
        self.statistics.shift = [shift];
        unrolled!(at most 2; for r in ROWS_PER_LANE => { self.minus_shift[r] = -shift[r] });
    }

    #[inline(always)]
    unsafe fn probabilities<const N_TILES: usize, const K_STEPS: usize>(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        step: StepKind,
        rescale: impl FnMut(usize, f32),
    ) -> Probabilities<K_STEPS> {
        // SAFETY: warp together.
        unsafe {
            // The first condition always holds. Without it, LLVM orders the instructions of every kernel that guesses otherwise.
            if K::HeadDim::COLUMNS > 0 && !step.begins_under_row_max(Self::FIRST_SHIFT) {
                let mut sums = Sums::NOTHING;
                let probabilities =
                    under_shift::<K::Element, N_TILES, K_STEPS>(scores, self.minus_shift, scale_log2, &mut sums);
                if Self::are_sound(sums, step.first) {
                    self.add(sums);
                    return probabilities;
                }
            }
            self.under_row_max(scores, scale_log2, step, rescale);
        }
        probabilities::pack::<K::Element, _, _>(scores)
    }

    #[inline(always)]
    fn product_sums(&mut self) -> Option<&mut [FragmentC; 1]> {
        None
    }

    #[inline(always)]
    unsafe fn complete(&mut self) -> Statistics<1> {
        let Statistics { shift, sum: [mut sum] } = core::mem::replace(self, Self::new()).statistics;
        unrolled!(at most 2; for r in ROWS_PER_LANE => {
            // SAFETY: warp together.
            sum[r] = unsafe { across_quad(sum[r], |a, b| a + b) };
        });
        Statistics { shift, sum: [sum] }
    }
}
