//! The result of checking a contender's outputs before timing.

use serde::{Deserialize, Serialize};

/// The outputs of a contender against the f64 reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correctness {
    /// Heads compared element by element.
    pub heads_checked: u64,
    /// Heads of the problem.
    pub heads: u64,
    /// Elements of O and LSE outside their tolerance.
    pub wrong_elements: u64,
    /// Unwritten elements in all heads.
    pub unwritten_elements: u64,
    /// Largest |ΔO|; absent if an element is NaN and should not be.
    pub largest_output_error: Option<f64>,
    /// ‖ΔO‖ / ‖O‖ (Frobenius norms).
    pub output_frobenius: Option<f64>,
    /// Largest |ΔLSE|; absent if the contender returns no LSE, or an element is NaN and should not be.
    pub largest_lse_error: Option<f64>,
    /// Other errors, as messages: changed inputs, writes past a buffer's end, a norm over its bound.
    pub violations: Vec<String>,
}

impl Correctness {
    /// Whether everything passed.
    pub fn passed(&self) -> bool {
        self.wrong_elements == 0 && self.unwritten_elements == 0 && self.violations.is_empty()
    }
}

impl std::fmt::Display for Correctness {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.passed() {
            return write!(formatter, "right in {} of {} heads", self.heads_checked, self.heads);
        }
        let counted = [(self.wrong_elements, "wrong elements"), (self.unwritten_elements, "elements never written")];
        let counted = counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let problems: Vec<_> = counted.chain(self.violations.iter().cloned()).collect();
        write!(formatter, "{} ({} of {} heads checked)", problems.join("; "), self.heads_checked, self.heads)
    }
}
