//! Softmax without a row maximum in the loop.
//!
//! Online softmax needs a shift that keeps p = 2^(c·s − shift) within the range of fp16; that it is the row maximum is
//! only the surest way. Here a strip begins with the shift 0, and every step uses the shift as it is, which saves the
//! maxima, their exchange between lanes and the rescaling of O. Whether that was sound is seen afterwards in the sums,
//! which are needed anyway:
//!
//! * a lane's sum over a step bounds each of its p from above, so that none exceeds the largest fp16;
//! * in the first step of a strip, every lane's sum says that the row has a p that is not small, so that no p that matters
//!   is lost below the smallest fp16.
//!
//! Where a lane of the warp finds otherwise, the step is done again with the row maximum ([`RunningSoftmax::update`]).
//! Inputs whose scores are far apart take that way once or twice in each strip.

use super::{K_STEPS, N_TILES};
use crate::device::attention::softmax::{RunningSoftmax, rescale_row};
use crate::device::attention::{Output, ROWS_PER_LANE, Scores, pack_probabilities};
use crate::device::ptx::wgmma::Registers;
use crate::device::ptx::{math, vote};
use crate::device::sm90::products;
use crate::device::unroll;

/// P of a step, rounded to fp16: a fragment for every 16 keys.
pub type Probabilities = products::Probabilities<K_STEPS>;

/// The largest sum of a lane's p of both its rows that proves that fp16 holds each; it ends at 65504.
const LARGEST_SUM: f32 = 16_384.0;
/// The smallest sum of a lane's p of a row, in the first step, that proves that the row has a p of 2⁻¹⁰ at least; fp16 is
/// exact to 2⁻²⁴.
const SMALLEST_FIRST_SUM: f32 = 1.0 / 64.0;

/// The softmax of a strip.
pub struct StripSoftmax {
    /// Shift and sums so far.
    pub running: RunningSoftmax<1>,
    /// −shift, what the exponents are made with, so that it is not negated in every step.
    minus_shift: [f32; ROWS_PER_LANE],
}

impl StripSoftmax {
    /// That of a strip that has taken in nothing.
    #[inline(always)]
    pub fn begin() -> Self {
        Self {
            running: RunningSoftmax { shift: [[0.0; ROWS_PER_LANE]], sum: [[0.0; ROWS_PER_LANE]] },
            minus_shift: [0.0; ROWS_PER_LANE],
        }
    }

    /// Takes in a step: its probabilities, under the shift that this and `output` have afterwards.
    ///
    /// # Safety
    /// The whole warp calls this together; `first` is the same in all lanes.
    #[inline(always)]
    pub unsafe fn take(
        &mut self,
        scores: &mut Scores<1, N_TILES>,
        output: &mut Output<1>,
        scale_log2: f32,
        first: bool,
    ) -> Probabilities {
        let (probabilities, sums) = under_shift(scores, self.minus_shift, scale_log2);
        // The sum of both is NaN if one is, and no comparison with NaN holds.
        let no_overflow = sums[0] + sums[1] <= LARGEST_SUM;
        let sound = no_overflow & (!first | (math::min(sums[0], sums[1]) >= SMALLEST_FIRST_SUM));
        // SAFETY: the caller has the warp together.
        unsafe {
            if vote::all(sound) {
                unroll!(at most 2; for r in ROWS_PER_LANE => { self.running.sum[0][r] += sums[r] });
                return probabilities;
            }
            if first {
                self.running.shift = [[f32::NEG_INFINITY; ROWS_PER_LANE]];
            }
            self.running.update(scores, scale_log2, |m, r, factor| rescale_row(&mut output[m], r, factor));
        }
        unroll!(at most 2; for r in ROWS_PER_LANE => { self.minus_shift[r] = -self.running.shift[0][r] });
        products::pack(scores)
    }
}

/// The probabilities under the shift −`minus_shift`, and their sums over this lane's columns before they were rounded.
#[inline(always)]
fn under_shift(
    scores: &Scores<1, N_TILES>,
    minus_shift: [f32; ROWS_PER_LANE],
    scale_log2: f32,
) -> (Probabilities, [f32; ROWS_PER_LANE]) {
    let mut probabilities = [[0; 4]; K_STEPS];
    // The neutral element of addition: with +0 the first addition would not be left out.
    let mut sums = [-0.0; ROWS_PER_LANE];
    unroll!(at most 4; for k in K_STEPS => {
        let mut p = [scores[0][2 * k], scores[0][2 * k + 1]];
        unroll!(at most 2; for n in 2 => {
            unroll!(at most 4; for i in 4 => {
                let r = i / 2;
                p[n][i] = math::exp2(math::fma(p[n][i], scale_log2, minus_shift[r]));
                sums[r] += p[n][i];
            });
        });
        probabilities[k] = pack_probabilities(p[0], p[1]);
    });
    // Packed here, between exponentials, and not behind the vote that decides whether they are used.
    probabilities.pin();
    (probabilities, sums)
}
