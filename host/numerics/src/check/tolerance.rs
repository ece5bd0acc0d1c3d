//! Tolerances: how far a kernel's outputs may differ from the reference.

use crate::element::{Element, Encoding};
use crate::inputs::Distribution;
use crate::reference::{ElementReference, RowReference};
use contract::problem::Problem;

/// Bounds for Q, K and V of unit scale and scores of a few units.
///
/// They apply in addition to the bounds from rounding analysis ([`output_tolerance`], [`lse_tolerance`]), which hold
/// for all inputs.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct UnitScaleBounds {
    /// Bound on |ΔO|: this …
    pub output_absolute: f64,
    /// … plus this times |O|.
    pub output_relative: f64,
    /// Bound on ‖ΔO‖ / ‖O‖ (Frobenius norms).
    pub output_frobenius: f64,
    /// Bound on |ΔLSE|.
    pub lse_absolute: f64,
}

impl UnitScaleBounds {
    /// The acceptance bounds of the kernels.
    pub const fn acceptance(element: Element) -> Self {
        let coarseness = match element {
            Element::F16 => 1.0,
            // bf16 has 8 significant bits, not 11: rounding errors of O and of the weights, whose sum enters LSE, are
            // eight times as large.
            Element::Bf16 => 8.0,
        };
        Self {
            output_absolute: 2e-3 * coarseness,
            output_relative: 1e-3 * coarseness,
            output_frobenius: 6e-4 * coarseness,
            lse_absolute: 1e-3 * coarseness,
        }
    }

    /// The bounds that apply to inputs of `distribution` (`None`: unknown origin), if any. A scale above 1 would
    /// amplify rounding errors of the scores.
    ///
    /// Other distributions are held to the analysed bounds only. If V cancels, no error is small relative to ‖O‖; if
    /// logits are large, none is small in absolute terms.
    pub fn applicable(distribution: Option<Distribution>, problem: &Problem) -> Option<Self> {
        let unit_scale = matches!(distribution, Some(Distribution::Normal | Distribution::Uniform));
        (unit_scale && problem.scale() <= 1.0).then(|| Self::acceptance(problem.element()))
    }
}

/// Relative error of one f32 operation of a tensor core, which truncates.
pub const F32_TRUNCATION: f64 = 1.0 / (1 << 23) as f64;
/// Error of a score in units of Σ|q·k|: 8 truncations, for four `mma` steps and the scaling of score and maximum.
pub const SCORE_ERROR: f64 = 8.0 * F32_TRUNCATION;
/// Keys that one `mma` adds to an accumulator.
pub const KEYS_PER_STEP: f64 = 16.0;

/// Above this error of a score, its weight can be off by more than f32 can represent, and the row is not constrained.
const LARGEST_SCORE_ERROR: f64 = 44.0;

/// Whether the scores of `row` may be too large for f32 to resolve (from about 4·10⁷), or its sums may overflow f32.
pub fn unresolvable(row: &RowReference) -> bool {
    SCORE_ERROR * row.score_magnitude > LARGEST_SCORE_ERROR || row.beyond_f32
}

/// Tolerance of a kernel's O, of type `rounded`, against `element` of a row that attends to `attended` keys.
///
/// If scores are off by at most δ, weights are off by a factor of at most exp(±2δ). Each weight p is rounded to the
/// element type before it is multiplied by V, an error of p·2⁻¹¹ in fp16 (2⁻²⁵ if p is subnormal) and p·2⁻⁸ in bf16.
/// Products are accumulated in f32, 16 keys at a time. All of these errors are proportional to Σp|v|/Σp. The sum Σp has
/// the same relative error, which scales |O|, and O is finally rounded to the element type.
pub fn output_tolerance(rounded: Element, element: &ElementReference, row: &RowReference, attended: u32) -> f64 {
    let keys = f64::from(attended);
    let accumulation = (keys / KEYS_PER_STEP + 4.0) * F32_TRUNCATION;
    let weights = (2.0 * SCORE_ERROR * row.score_magnitude).exp_m1() + accumulation;
    let products = (weights + rounded.rounding()) * f64::from(element.magnitude);
    let quotient = (weights + 2.0 * rounded.rounding()) * element.value.abs();
    products + quotient + rounded.smallest_rounding() * (keys * row.value_magnitude + 1.0)
}

/// Tolerance of a kernel's LSE against that of `row`: the error of the largest score, the rounding of LSE itself, and
/// that of the logarithm and of Σp, whose terms may be rounded to the element type.
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
