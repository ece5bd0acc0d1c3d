//! How far a kernel's outputs may lie from the reference.

use crate::element::{Element, Encoding};
use crate::inputs::Distribution;
use crate::reference::{ElementReference, RowReference};
use contract::problem::Problem;

/// Bounds for Q, K and V of unit scale and scores of a few units, which every kernel must keep.
///
/// They are asked in addition to the bounds from rounding analysis (see [`output_tolerance`] and [`lse_tolerance`]),
/// which hold for all inputs.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct UnitScaleBounds {
    /// |ΔO| may be this much …
    pub output_absolute: f64,
    /// … plus this much of |O|.
    pub output_relative: f64,
    /// ‖ΔO‖ may be this much of ‖O‖ (Frobenius norms).
    pub output_frobenius: f64,
    /// |ΔLSE| may be this much.
    pub lse_absolute: f64,
}

impl UnitScaleBounds {
    /// The bounds that the kernels are accepted by.
    pub const fn acceptance(element: Element) -> Self {
        let coarseness = match element {
            Element::F16 => 1.0,
            // It has 8 significant bits, not 11: roundings of O and of the weights, of whose sum LSE is the logarithm, are eight
            // times as large.
            Element::Bf16 => 8.0,
        };
        Self {
            output_absolute: 2e-3 * coarseness,
            output_relative: 1e-3 * coarseness,
            output_frobenius: 6e-4 * coarseness,
            lse_absolute: 1e-3 * coarseness,
        }
    }

    /// The bounds, when they apply to inputs of `distribution` (`None`: of unknown origin). A larger scale than 1 would
    /// amplify rounding errors of the scores.
    ///
    /// The other distributions are held to the analysed bounds only: relative to ‖O‖ no error is small when V cancels,
    /// and relative to a unit none is when logits are large.
    pub fn applicable(distribution: Option<Distribution>, problem: &Problem) -> Option<Self> {
        let unit_scale = matches!(distribution, Some(Distribution::Normal | Distribution::Uniform));
        (unit_scale && problem.scale() <= 1.0).then(|| Self::acceptance(problem.element()))
    }
}

/// Relative error of one f32 operation of a tensor core, which truncates.
const F32_TRUNCATION: f64 = 1.0 / (1 << 23) as f64;
/// Error of a score in units of Σ|q·k|: 8 truncations, for four `mma` steps and the scaling of score and maximum.
const SCORE_ERROR: f64 = 8.0 * F32_TRUNCATION;
/// Keys that one `mma` adds to an accumulator.
const KEYS_PER_STEP: f64 = 16.0;

/// Beyond this error of a score its weight can be off by more than f32 can express, and nothing can be said of the row.
const LARGEST_SCORE_ERROR: f64 = 44.0;

/// Whether the scores of `row` may be so large (from about 4·10⁷) that f32 does not tell them apart, or something beyond it.
pub fn unresolvable(row: &RowReference) -> bool {
    SCORE_ERROR * row.score_magnitude > LARGEST_SCORE_ERROR || row.beyond_f32
}

/// How far a kernel's O, of elements of type `rounded`, may lie from `element` of a row that attends to `attended` keys.
///
/// With scores off by at most δ, weights are off by the factor exp(±2δ). Each weight p is rounded to the element type
/// before it meets V, which adds p·2⁻¹¹ in fp16, or 2⁻²⁵ where p is subnormal, and p·2⁻⁸ in bf16; products are added in
/// f32, 16 keys at a time. All of that is proportional to Σp|v|/Σp. The sum Σp is off by as much relative to |O|, and O is
/// rounded to the element type once more.
pub fn output_tolerance(rounded: Element, element: &ElementReference, row: &RowReference, attended: u32) -> f64 {
    let keys = f64::from(attended);
    let accumulation = (keys / KEYS_PER_STEP + 4.0) * F32_TRUNCATION;
    let weights = (2.0 * SCORE_ERROR * row.score_magnitude).exp_m1() + accumulation;
    let products = (weights + rounded.rounding()) * f64::from(element.magnitude);
    let quotient = (weights + 2.0 * rounded.rounding()) * element.value.abs();
    products + quotient + rounded.smallest_rounding() * (keys * row.value_magnitude + 1.0)
}

/// How far a kernel's LSE may lie from that of `row`: the error of the largest score, the roundings of LSE itself, and
/// those of the logarithm and of Σp, whose terms may be rounded to the element type.
pub fn lse_tolerance(rounded: Element, row: &RowReference) -> f64 {
    2.0 * rounded.rounding() + SCORE_ERROR * row.score_magnitude + 4.0 * F32_TRUNCATION * row.lse.abs()
}

#[cfg(test)]
mod tests {
    use super::output_tolerance;
    use crate::element::Element;
    use crate::reference::{ElementReference, RowReference, Rule};

    #[test]
    fn large_values_are_judged_by_their_size() {
        let row = RowReference { lse: 3.0, score_magnitude: 10.0, value_magnitude: 1000.0, beyond_f32: false };
        let tolerance = |magnitude, value| {
            output_tolerance(Element::F16, &ElementReference { value, magnitude, rule: Rule::Close }, &row, 512)
        };
        assert!((0.4..0.8).contains(&tolerance(1000.0, 0.0)), "{}", tolerance(1000.0, 0.0));
        assert!((1.4..2.0).contains(&tolerance(1000.0, 1000.0)), "{}", tolerance(1000.0, 1000.0));
        assert!(tolerance(0.0, 0.0) < 0.02, "{}", tolerance(0.0, 0.0));
    }
}
