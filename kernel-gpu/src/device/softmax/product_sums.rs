//! Softmax whose row sums are products.
//!
//! l is the product of P with eight columns of ones ([`Memory::ones`](crate::device::tma::memory::Memory::ones)). So l is the sum of
//! the same rounded p as O, and needs no additions and no exchange between lanes. Soundness is decided from the largest p: none exceeds
//! the largest element, with a margin.

use core::marker::PhantomData;

use super::strip::{FirstShift, Softmax, StepKind, Watch, under_shift};
use crate::device::kernel::Kernel;
use crate::device::lane::{ROWS_PER_LANE, Scores};
use crate::device::mask::Mask;
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::{FragmentA, FragmentC};
use crate::device::ptx::{math, vote};
use crate::device::softmax::probabilities::{self, Probabilities};
use crate::device::softmax::{Statistics, finite_or_zero, probabilities_of_row, raised_to_row_max};
use crate::device::unrolled;

/// The softmax of a strip. Rescales when a p exceeds what the element type allows.
pub struct ProductSums<K> {
    /// The shift of the rows that this lane holds.
    shift: [f32; ROWS_PER_LANE],
    /// −shift, which the exponents are computed with; stored negated to save a negation per step.
    minus_shift: [f32; ROWS_PER_LANE],
    /// l of each row in each of eight columns.
    sums: [FragmentC; 1],
    _kernel: PhantomData<K>,
}

/// For each row of a lane the largest rounded p, in columns of either parity.
struct Largest<E>([u32; ROWS_PER_LANE], PhantomData<E>);

impl<E: Element> Largest<E> {
    /// Before any p.
    const NOTHING: Self = Self([0; ROWS_PER_LANE], PhantomData);
}

impl<E: Element> Watch for Largest<E> {
    #[inline(always)]
    fn see_rounded(&mut self, [upper_left, lower_left, upper_right, lower_right]: FragmentA) {
        self.0[0] = E::larger(E::larger(self.0[0], upper_left), upper_right);
        self.0[1] = E::larger(E::larger(self.0[1], lower_left), lower_right);
    }
}

impl<K: Kernel> ProductSums<K> {
    /// The shift under which a strip begins. The row max where a row may not attend to the first keys, so that none is guessed.
    const FIRST_SHIFT: FirstShift = if K::GUESSES_SHIFTS {
        FirstShift::Guess
    } else if K::Mask::HAS_BEGIN {
        FirstShift::RowMax
    } else {
        FirstShift::Zero
    };
    const BEGINS_UNDER_ZERO: bool = matches!(Self::FIRST_SHIFT, FirstShift::Zero);
    /// A pair of the largest p.
    const LARGEST: u32 = pair_of_powers::<K::Element>(K::Element::LARGEST_EXPONENT as i32);
    /// A pair of the smallest p that a row must have one above.
    const SMALLEST: u32 = pair_of_powers::<K::Element>(-(K::Element::SMALLEST_EXPONENT as i32));

    /// Whether probabilities are sound of which these are the largest.
    #[inline(always)]
    fn are_sound(&Largest([upper, lower], _): &Largest<K::Element>, first: bool) -> bool {
        let none_is_too_large = K::Element::larger(K::Element::larger(upper, lower), Self::LARGEST) == Self::LARGEST;
        let is_above = |row| K::Element::larger(row, Self::SMALLEST) != Self::SMALLEST;
        none_is_too_large & (!Self::BEGINS_UNDER_ZERO || !first | (is_above(upper) & is_above(lower)))
    }

    /// Turns scores into probabilities under the row maxima.
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
        unrolled!(at most 2; for r in ROWS_PER_LANE => {
            let previous = if step.first { f32::NEG_INFINITY } else { self.shift[r] };
            // SAFETY: warp together.
            self.shift[r] = unsafe { raised_to_row_max(previous, &scores[0], r, scale_log2) };
            let shift = finite_or_zero(self.shift[r]);
            probabilities_of_row(&mut scores[0], r, scale_log2, shift, |_| ());
            if step.rescales(Self::FIRST_SHIFT) {
                let factor = math::exp2(previous - shift);
                rescale(r, factor);
                unrolled!(at most 2; for i in 2 => { self.sums[0][2 * r + i] *= factor });
            }
            self.minus_shift[r] = -self.shift[r];
        });
    }
}

impl<K: Kernel> Softmax<K> for ProductSums<K> {
    #[inline(always)]
    fn new() -> Self {
        let (shift, minus_shift) = ([0.0; ROWS_PER_LANE], [0.0; ROWS_PER_LANE]);
        Self { shift, minus_shift, sums: [[0.0; 4]], _kernel: PhantomData }
    }

    #[inline(always)]
    fn begin_under(&mut self, shift: [f32; ROWS_PER_LANE]) {
        self.shift = shift;
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
            if !step.begins_under_row_max(Self::FIRST_SHIFT) {
                let mut largest = Largest::NOTHING;
                let probabilities =
                    under_shift::<K::Element, N_TILES, K_STEPS>(scores, self.minus_shift, scale_log2, &mut largest);
                if vote::all(Self::are_sound(&largest, step.first)) {
                    return probabilities;
                }
            }
            self.under_row_max(scores, scale_log2, step, rescale);
        }
        probabilities::pack::<K::Element, _, _>(scores)
    }

    #[inline(always)]
    fn product_sums(&mut self) -> Option<&mut [FragmentC; 1]> {
        Some(&mut self.sums)
    }

    #[inline(always)]
    unsafe fn complete(&mut self) -> Statistics<1> {
        let ([upper, _, lower, _], shift) = (self.sums[0], self.shift);
        self.shift = [0.0; ROWS_PER_LANE];
        self.minus_shift = [0.0; ROWS_PER_LANE];
        Statistics { shift: [shift], sum: [[upper, lower]] }
    }
}

/// The bits of a pair of 2 to the power of `exponent`.
const fn pair_of_powers<E: Element>(exponent: i32) -> u32 {
    let of_both = (exponent << E::MANTISSA_BITS) as u32;
    E::ONES.wrapping_add(of_both.wrapping_mul(0x1_0001))
}
