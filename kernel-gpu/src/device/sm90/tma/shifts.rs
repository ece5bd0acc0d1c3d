//! Softmax with few row maxima, whose row sums are products.
//!
//! As in [`crate::device::sm90::softmax`], a step keeps the current shift, and the row max is computed only if that was not sound. A strip
//! begins with guessed shifts or 0, and under a mask with a begin with its row maxima. But l is the product of P with eight columns of ones
//! ([`Memory::ones`](super::memory::Memory::ones)). So l is the sum of the same rounded p as O, and needs no additions and no exchange
//! between lanes. Whether the shift was sound is decided from the largest p:
//!
//! * none exceeds the largest element, with a margin;
//! * in the first step of a strip that began with 0, every row has a p that is not small, so no p that matters is lost to underflow.

use core::marker::PhantomData;

use super::kernel::{K_STEPS, N_TILES, TmaKernel};
use crate::device::attention::mask::Mask;
use crate::device::attention::softmax::{across_quad, finite_or_zero, probability, row_maximum};
use crate::device::attention::{ROWS_PER_LANE, Scores, pack_probabilities};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::wgmma::Registers;
use crate::device::ptx::{math, vote};
use crate::device::sm90::probabilities::{self, Probabilities};
use crate::device::unrolled;

/// The shifts of a strip, for the rows that this lane holds. Rescales when a p exceeds what the element type allows.
pub struct Shifts<K> {
    /// The shift.
    pub shift: [f32; ROWS_PER_LANE],
    /// −shift, which the exponents are computed with; stored negated to save a negation per step.
    minus_shift: [f32; ROWS_PER_LANE],
    _kernel: PhantomData<K>,
}

impl<K: TmaKernel> Shifts<K> {
    /// A pair of the largest p.
    const LARGEST: u32 = pair_of_powers::<K::Element>(K::Element::LARGEST_EXPONENT as i32);
    /// Whether a strip begins under its row maxima: where a row may not attend to the first keys, so that none are guessed. The p of the
    /// largest score is a power of two then, and LSE of a row with a single key is exact, whose gradient depends on that.
    const BEGINS_UNDER_MAXIMA: bool = K::Mask::HAS_BEGIN;
    /// Whether it begins under the shift 0, and the first step must show that this was sound.
    const BEGINS_UNDER_ZERO: bool = !K::GUESSES_SHIFTS && !Self::BEGINS_UNDER_MAXIMA;
    /// A pair of the smallest p that a row must have one above.
    const SMALLEST: u32 = pair_of_powers::<K::Element>(-(K::Element::SMALLEST_EXPONENT as i32));

    /// The shifts of a strip before any keys.
    #[inline(always)]
    pub fn begin() -> Self {
        Self { shift: [0.0; ROWS_PER_LANE], minus_shift: [0.0; ROWS_PER_LANE], _kernel: PhantomData }
    }

    /// Begins a strip under `shift`, before any keys.
    #[inline(always)]
    pub fn begin_under(&mut self, shift: [f32; ROWS_PER_LANE]) {
        self.shift = shift;
        unrolled!(at most 2; for r in ROWS_PER_LANE => { self.minus_shift[r] = -shift[r] });
    }

    /// The probabilities of a step under the resulting shift. If the shift changes, calls `rescale(r, factor)` for each part `r` of
    /// a strip with the factor by which O and l must be multiplied.
    ///
    /// # Safety
    /// The whole warp calls this together; `first` is uniform.
    #[inline(always)]
    pub unsafe fn take(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        first: bool,
        rescale: impl FnMut(usize, f32),
    ) -> Probabilities<K_STEPS> {
        // SAFETY: the caller has the warp together.
        unsafe {
            if !(Self::BEGINS_UNDER_MAXIMA && first) {
                let (probabilities, largest) = under_shift::<K::Element>(&scores[0], self.minus_shift, scale_log2);
                // All columns of a lane may be masked, but not all of the row.
                if vote::all(Self::are_sound(largest, first))
                    || Self::BEGINS_UNDER_ZERO && vote::all(Self::are_sound(of_rows::<K::Element>(largest), first))
                {
                    return probabilities;
                }
            }
            self.take_under_maxima(scores, scale_log2, first, rescale);
        }
        probabilities::pack::<K::Element, N_TILES, K_STEPS>(scores)
    }

    /// Turns scores into probabilities under the row maxima.
    ///
    /// # Safety
    /// As for [`Self::take`].
    #[inline(always)]
    unsafe fn take_under_maxima(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        first: bool,
        mut rescale: impl FnMut(usize, f32),
    ) {
        unrolled!(at most 2; for r in ROWS_PER_LANE => {
            let previous = if first { f32::NEG_INFINITY } else { self.shift[r] };
            // SAFETY: the caller has the warp together.
            let maximum = unsafe { across_quad(row_maximum(f32::NEG_INFINITY, &scores[0], r), math::max) };
            self.shift[r] = math::max(previous, maximum * scale_log2);
            let shift = finite_or_zero(self.shift[r]);
            unrolled!(at most 8; for n in N_TILES => {
                let [left, right] = [scores[0][n][2 * r], scores[0][n][2 * r + 1]];
                scores[0][n][2 * r] = probability(left, scale_log2, shift);
                scores[0][n][2 * r + 1] = probability(right, scale_log2, shift);
            });
            // Nothing was added before.
            if !(Self::BEGINS_UNDER_MAXIMA && first) {
                rescale(r, math::exp2(previous - shift));
            }
            self.minus_shift[r] = -self.shift[r];
        });
    }

    /// Whether probabilities are sound of which these are the largest in a row, in columns of either parity.
    #[inline(always)]
    fn are_sound([upper, lower]: [u32; ROWS_PER_LANE], first: bool) -> bool {
        let none_is_too_large = K::Element::larger(K::Element::larger(upper, lower), Self::LARGEST) == Self::LARGEST;
        let is_above = |row| K::Element::larger(row, Self::SMALLEST) != Self::SMALLEST;
        none_is_too_large & (!Self::BEGINS_UNDER_ZERO || !first | (is_above(upper) & is_above(lower)))
    }
}

/// The rounded probabilities under the shift −`minus_shift`, and for each row of this lane the largest in columns of
/// either parity.
#[inline(always)]
fn under_shift<E: Element>(
    scores: &[FragmentC; N_TILES],
    minus_shift: [f32; ROWS_PER_LANE],
    scale_log2: f32,
) -> (Probabilities<K_STEPS>, [u32; ROWS_PER_LANE]) {
    let (mut probabilities, mut largest) = ([[0; 4]; K_STEPS], [0; ROWS_PER_LANE]);
    unrolled!(at most 4; for k in K_STEPS => {
        let mut p = [scores[2 * k], scores[2 * k + 1]];
        unrolled!(at most 2; for n in 2 => {
            unrolled!(at most 4; for i in 4 => {
                p[n][i] = math::exp2(math::fma(p[n][i], scale_log2, minus_shift[i / 2]));
            });
        });
        probabilities[k] = pack_probabilities::<E>(p[0], p[1]);
        let [upper_left, lower_left, upper_right, lower_right] = probabilities[k];
        largest[0] = E::larger(E::larger(largest[0], upper_left), upper_right);
        largest[1] = E::larger(E::larger(largest[1], lower_left), lower_right);
    });
    // Packed here, between exponentials, instead of after the vote that decides whether they are used.
    probabilities.pin();
    (probabilities, largest)
}

/// The largest of all lanes that share a row.
///
/// # Safety
/// The whole warp calls this together.
#[inline(always)]
unsafe fn of_rows<E: Element>([upper, lower]: [u32; ROWS_PER_LANE]) -> [u32; ROWS_PER_LANE] {
    let larger = |a: f32, b: f32| f32::from_bits(E::larger(a.to_bits(), b.to_bits()));
    // SAFETY: the caller has the warp together.
    let of_row = |largest| unsafe { across_quad(f32::from_bits(largest), larger).to_bits() };
    [of_row(upper), of_row(lower)]
}

/// The bits of a pair of 2 to the power of `exponent`.
const fn pair_of_powers<E: Element>(exponent: i32) -> u32 {
    let of_both = (exponent << E::MANTISSA_BITS) as u32;
    E::ONES.wrapping_add(of_both.wrapping_mul(0x1_0001))
}
