//! Compares one output with the reference, element by element.

use crate::check::Severities;
use crate::reference::Rule;

/// An element, its expected and its actual value.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Deviation {
    /// `[batch, head, row, column]`, or `[batch, head, row]` with a column of 0 for LSE.
    pub index: [u32; 4],
    /// The reference value.
    pub expected: f64,
    /// The kernel's value.
    pub actual: f64,
    /// The bound on their difference; 0 if a NaN or infinity is expected.
    pub tolerance: f64,
}

impl Deviation {
    /// |actual − expected|; ∞ if exactly one of them is a number.
    pub fn error(&self) -> f64 {
        let error = (self.actual - self.expected).abs();
        if error.is_nan() { f64::INFINITY } else { error }
    }

    /// The error in units of the tolerance; ∞ if exactly one of the values is a number.
    pub fn severity(&self) -> f64 {
        let severity = self.error() / self.tolerance;
        if severity.is_nan() { f64::INFINITY } else { severity }
    }
}

/// Summary of an output's comparison with the reference.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Comparison {
    /// Number of elements compared.
    pub elements: u64,
    /// Number of wrong elements.
    pub wrong: u64,
    /// Number of elements that still hold the fill value; they also count as wrong.
    pub unwritten: u64,
    /// Largest |Δ| among the constrained elements; ∞ if exactly one of the two values is a number.
    pub largest_error: f64,
    /// The element with the largest error in units of its tolerance, or one where exactly one value is a number.
    pub worst: Option<Deviation>,
    /// Histogram of the constrained elements' errors in units of their tolerances.
    pub severities: Severities,
    /// Σ Δ² over the constrained elements.
    squared_error: f64,
    /// Σ of the squared reference over the same elements.
    squared_reference: f64,
}

impl Comparison {
    /// ‖Δ‖ / ‖reference‖ (Frobenius norms); 0 when both are 0.
    pub fn relative_frobenius(&self) -> f64 {
        if self.squared_error == 0.0 { 0.0 } else { (self.squared_error / self.squared_reference).sqrt() }
    }

    /// Adds one element, of a type whose numbers overflow to infinity from `largest` on. `tolerance` is called only if
    /// the value is constrained.
    pub(super) fn add(
        &mut self,
        index: [u32; 4],
        largest: f64,
        rule: Rule,
        (expected, actual): (f64, f64),
        tolerance: impl FnOnce() -> f64,
    ) {
        self.elements += 1;
        let tolerance = match rule {
            Rule::Close => tolerance(),
            Rule::CloseOrNan if !actual.is_nan() => tolerance(),
            Rule::CloseOrNan | Rule::Anything => return,
            Rule::Nan if actual.is_nan() => return,
            Rule::Nan => return self.reject(Deviation { index, expected, actual, tolerance: 0.0 }),
        };
        let deviation = Deviation { index, expected, actual, tolerance };
        let overflow = actual.is_infinite() && expected.is_finite();
        if actual == expected || (overflow && actual.signum() * expected + tolerance >= largest) {
            self.squared_reference += if expected.is_finite() { expected * expected } else { 0.0 };
            self.severities.add(0.0);
            return;
        }
        let error = deviation.error();
        self.severities.add(deviation.severity());
        self.squared_error += error * error;
        self.squared_reference += expected * expected;
        self.largest_error = self.largest_error.max(error);
        self.keep_worst(deviation);
        self.wrong += u64::from(deviation.severity() > 1.0);
    }

    /// Adds an element that still holds the fill value.
    pub(crate) fn add_unwritten(&mut self, deviation: Deviation) {
        self.unwritten += 1;
        self.elements += 1;
        self.reject(deviation);
    }

    /// Adds an element that has to be within `tolerance` of a finite value; anything, if the tolerance is infinite.
    pub(crate) fn add_finite(&mut self, index: [u32; 4], largest: f64, pair: (f64, f64), tolerance: f64) {
        let rule = if tolerance.is_finite() { Rule::Close } else { Rule::Anything };
        self.add(index, largest, rule, pair, || tolerance);
    }

    fn reject(&mut self, deviation: Deviation) {
        self.wrong += 1;
        self.severities.add(f64::INFINITY);
        self.largest_error = f64::INFINITY;
        self.keep_worst(deviation);
    }

    fn keep_worst(&mut self, deviation: Deviation) {
        if self.worst.is_none_or(|worst| worst.severity() < deviation.severity()) {
            self.worst = Some(deviation);
        }
    }

    pub(super) fn merge(mut self, later: Self) -> Self {
        self.elements += later.elements;
        self.wrong += later.wrong;
        self.unwritten += later.unwritten;
        self.largest_error = self.largest_error.max(later.largest_error);
        self.squared_error += later.squared_error;
        self.squared_reference += later.squared_reference;
        self.severities.merge(&later.severities);
        if let Some(worst) = later.worst {
            self.keep_worst(worst);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::Comparison;
    use crate::check::output_tolerance;
    use crate::element::{Element, Encoding};
    use crate::reference::{ElementReference, RowReference, Rule};

    #[test]
    fn an_infinity_is_right_only_where_it_belongs() {
        let compare = |rule, actual| {
            let mut comparison = Comparison::default();
            comparison.add([0; 4], 65_520.0, rule, (f64::INFINITY, actual), || f64::INFINITY);
            comparison.wrong
        };
        assert_eq!(compare(Rule::Close, f64::INFINITY), 0);
        for wrong in [f64::NEG_INFINITY, 65_504.0, f64::NAN] {
            assert_eq!(compare(Rule::Close, wrong), 1, "{wrong}");
        }
        assert_eq!(compare(Rule::CloseOrNan, f64::NAN), 0);
        assert_eq!(compare(Rule::CloseOrNan, f64::NEG_INFINITY), 1);
    }

    #[test]
    fn a_value_that_rounds_beyond_fp16_may_become_infinite() {
        let element = ElementReference { value: 65_500.0, magnitude: 65_500.0, rule: Rule::Close };
        let row = RowReference { lse: 0.0, score_magnitude: 1.0, value_magnitude: 65_504.0, beyond_f32: false };
        let compare = |actual| {
            let mut comparison = Comparison::default();
            comparison.add([0; 4], Element::F16.overflow(), Rule::Close, (element.value, actual), || {
                output_tolerance(Element::F16, &element, &row, 16)
            });
            comparison.wrong
        };
        assert_eq!(compare(f64::INFINITY), 0);
        assert_eq!(compare(f64::NEG_INFINITY), 1);
    }
}
