//! The softmax of a warpgroup: online softmax with few row maxima.
//!
//! Online softmax needs a shift that keeps p = 2^(c·s − shift) within the range of the element type. The row max is only the
//! safest choice. Here every step keeps the current shift, which saves the row maxima, their exchange between lanes and the rescale of
//! O. Whether the shift was sound is decided afterwards, from p. If any lane of the warp finds that it was not, the step is repeated under
//! the row maxima. Inputs with widely spread scores do this once or twice per strip.
//!
//! [`Softmax`] has two implementations. They differ in how they sum p and in what they decide soundness from: [`AddedSums`](super::AddedSums), and
//! [`ProductSums`](super::ProductSums), where the sums are products with ones. How a strip begins is its [`FirstShift`].

use crate::device::kernel::Kernel;
use crate::device::lane::{ROWS_PER_LANE, Scores, pack_probabilities};
use crate::device::ptx::element::Element;
use crate::device::ptx::math;
use crate::device::ptx::mma::{FragmentA, FragmentC};
use crate::device::ptx::wgmma::Registers;
use crate::device::softmax::Statistics;
use crate::device::softmax::probabilities::Probabilities;
use crate::device::unrolled;

/// The softmax of a strip of a kernel `K`.
pub trait Softmax<K: Kernel>: Sized {
    /// The state of a strip before any keys.
    fn new() -> Self;

    /// Begins a strip under `shift`, before any keys.
    fn begin_under(&mut self, shift: [f32; ROWS_PER_LANE]);

    /// Adds a step and returns its probabilities under the resulting shift. If the shift changes, calls `rescale(r, factor)` for each part
    /// `r` of the strip with the factor by which O must be multiplied.
    ///
    /// # Safety
    /// Warp together; `step` is uniform.
    unsafe fn probabilities<const N_TILES: usize, const K_STEPS: usize>(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        scale_log2: f32,
        step: StepKind,
        rescale: impl FnMut(usize, f32),
    ) -> Probabilities<K_STEPS>;

    /// The accumulator of the product of P with ones, if row sums are that product.
    fn product_sums(&mut self) -> Option<&mut [FragmentC; 1]>;

    /// Shift and sum of the strip's rows after its last step. Resets the state for the next strip.
    ///
    /// # Safety
    /// Warp together, after the product of P with ones has completed.
    unsafe fn complete(&mut self) -> Statistics<1>;
}

/// What a step is within its strip.
#[derive(Clone, Copy)]
pub struct StepKind {
    /// Whether it is the first.
    pub first: bool,
    /// Whether its scores were masked.
    pub masked: bool,
}

/// The shift under which a strip begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FirstShift {
    /// A guess from its first scores ([`guessed_shifts`](super::guessed_shifts)): one of these has a p that is
    /// not small.
    Guess,
    /// The row max of its first step.
    RowMax,
    /// 0, or the row max if the first step is masked. The first step under 0 is sound only if every row has a p that is not small, so that
    /// no p that matters is lost to underflow.
    Zero,
}

impl StepKind {
    /// Whether this step computes p under the row maxima. So it is where a row may have few keys, all in this step: the p of its largest score
    /// is 1 then. O of a row with a single key is V, and its LSE is exact, on which the gradient of V depends.
    #[inline(always)]
    pub fn begins_under_row_max(self, first_shift: FirstShift) -> bool {
        match first_shift {
            FirstShift::Guess => false,
            FirstShift::RowMax => self.first,
            FirstShift::Zero => self.first & self.masked,
        }
    }

    /// Whether what was added before is rescaled under the row maxima. Before a first step nothing was added. Kernels that guess rarely take
    /// row maxima in a first step, and do without the branch.
    #[inline(always)]
    pub fn rescales(self, first_shift: FirstShift) -> bool {
        matches!(first_shift, FirstShift::Guess) || !self.first
    }
}

/// What looks at probabilities while they are computed.
pub trait Watch {
    /// A probability in part `r` of the lane's rows, before rounding.
    #[inline(always)]
    fn see(&mut self, _r: usize, _p: f32) {}

    /// 16 keys' probabilities, rounded.
    #[inline(always)]
    fn see_rounded(&mut self, _p: FragmentA) {}
}

/// The rounded probabilities under the shift −`minus_shift`.
#[inline(always)]
pub fn under_shift<E: Element, const N_TILES: usize, const K_STEPS: usize>(
    scores: &Scores<1, N_TILES>,
    minus_shift: [f32; ROWS_PER_LANE],
    scale_log2: f32,
    watch: &mut impl Watch,
) -> Probabilities<K_STEPS> {
    const { assert!(2 * K_STEPS == N_TILES) };
    let mut probabilities = [[0; 4]; K_STEPS];
    unrolled!(at most 8; for k in K_STEPS => {
        let left = fragment_under_shift(scores[0][2 * k], minus_shift, scale_log2, watch);
        let right = fragment_under_shift(scores[0][2 * k + 1], minus_shift, scale_log2, watch);
        probabilities[k] = pack_probabilities::<E>(left, right);
        watch.see_rounded(probabilities[k]);
    });
    // Packed here, between exponentials, instead of after the vote that decides whether they are used.
    probabilities.pin();
    probabilities
}

/// The probabilities of 8 keys under the shift −`minus_shift`.
#[inline(always)]
pub fn fragment_under_shift(
    scores: FragmentC,
    minus_shift: [f32; ROWS_PER_LANE],
    scale_log2: f32,
    watch: &mut impl Watch,
) -> FragmentC {
    let mut p = scores;
    unrolled!(at most 4; for i in 4 => {
        p[i] = math::exp2(math::fma(p[i], scale_log2, minus_shift[i / 2]));
        watch.see(i / 2, p[i]);
    });
    p
}
