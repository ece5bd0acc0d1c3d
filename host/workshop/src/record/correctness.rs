//! What checking a contender's outputs gave, before it was timed.

use serde::{Deserialize, Serialize};

/// The outputs of a contender against the f64 reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correctness {
    /// Heads compared element by element.
    pub heads_checked: u64,
    /// Heads of the problem.
    pub heads: u64,
    /// Elements of O and LSE that are outside their bounds.
    pub wrong_elements: u64,
    /// Elements that were never written, in all heads.
    pub unwritten_elements: u64,
    /// Largest |ΔO|; absent when an element is not a number and should be one.
    pub largest_output_error: Option<f64>,
    /// ‖ΔO‖ / ‖O‖ (Frobenius norms).
    pub output_frobenius: Option<f64>,
    /// Largest |ΔLSE|; absent when the contender gives no LSE, or one is not a number and should be one.
    pub largest_lse_error: Option<f64>,
    /// Other errors, as text: changed inputs, writes behind a buffer, a norm over its bound.
    pub violations: Vec<String>,
}

impl Correctness {
    /// Whether nothing is wrong.
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
