//! Runs one case and lists what is wrong.

use std::fmt;

use contract::manifest::Entry;
use serde::Serialize;

use super::case::Case;
use crate::check::{self, Comparison, Deviation, Report, Severities, UnitScaleBounds};
use crate::error::{Error, Result};
use crate::executor::{Executor, GuardDamage};
use crate::forward::{Forward, Outcome};
use crate::ptx_module::PtxModule;
use crate::reference::Reference;

/// Something that is wrong with a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Failure {
    /// Elements of O or LSE are not what they may be.
    Wrong {
        /// `O` or `LSE`.
        tensor: &'static str,
        /// How many.
        elements: u64,
        /// The one furthest from what it should be.
        worst: Deviation,
    },
    /// Elements of O or LSE were never written.
    Unwritten {
        /// `O` or `LSE`.
        tensor: &'static str,
        /// How many.
        elements: u64,
    },
    /// ‖ΔO‖/‖O‖ is too large, though no element is wrong.
    Frobenius {
        /// What it is.
        error: f64,
        /// What it may be.
        bound: f64,
    },
    /// Elements before or between the rows of O were written.
    Gaps {
        /// How many.
        elements: u64,
    },
    /// Inputs were changed.
    ChangedInputs {
        /// Which.
        tensors: String,
    },
    /// A guard behind a buffer was written to.
    Guard(GuardDamage),
    /// The simulator found something.
    Finding {
        /// Its class.
        class: ptx_sim::FindingClass,
        /// The finding in one line.
        message: String,
    },
    /// The kernel did not come to its end.
    Fault {
        /// What the driver said.
        message: String,
    },
}

impl Failure {
    /// Whether two failures are of one kind, whatever their extent.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Failure::Wrong { tensor, .. }, Failure::Wrong { tensor: other, .. })
            | (Failure::Unwritten { tensor, .. }, Failure::Unwritten { tensor: other, .. }) => tensor == other,
            (Failure::Finding { class, .. }, Failure::Finding { class: other, .. }) => class == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Wrong { tensor, elements, worst } => write!(
                formatter,
                "{elements} elements of {tensor} are wrong, worst at {:?}: {} instead of {} ± {:.1e}",
                worst.index, worst.actual, worst.expected, worst.tolerance
            ),
            Failure::Unwritten { tensor, elements } => {
                write!(formatter, "{elements} elements of {tensor} were never written")
            }
            Failure::Frobenius { error, bound } => {
                write!(formatter, "‖ΔO‖/‖O‖ is {error:.1e}, it may be {bound:.1e}")
            }
            Failure::Gaps { elements } => {
                write!(formatter, "{elements} elements before or between the rows of O were overwritten")
            }
            Failure::ChangedInputs { tensors } => write!(formatter, "inputs were changed: {tensors}"),
            Failure::Guard(damage) => {
                let GuardDamage { buffer, first, bytes } = damage;
                write!(formatter, "{bytes} bytes were written from {first} bytes behind {buffer}")
            }
            Failure::Finding { message, .. } => write!(formatter, "{message}"),
            Failure::Fault { message } => write!(formatter, "{message}"),
        }
    }
}

/// What one case gave.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What is wrong; empty when all is well.
    pub failures: Vec<Failure>,
    /// Largest error of O and LSE in units of its tolerance; absent when nothing came of the launch.
    pub severity: Option<f64>,
    /// Errors of all elements of O and LSE.
    pub severities: Severities,
}

impl Trial {
    /// Runs `case` on `executor`: outputs filled with poison, guards, inputs compared, everything as `fa512 run` does.
    ///
    /// # Errors
    /// When the case cannot be run, which says nothing of the kernel.
    pub fn run(executor: &mut dyn Executor, module: &PtxModule, entry: &Entry, case: &Case) -> Result<Self> {
        let inputs = case.inputs()?;
        let mut forward = Forward::prepare(executor, module, entry, &inputs, case.lse)?;
        let outcome = match forward.execute() {
            Err(error @ Error::Cuda { .. }) => return Ok(Self::faulted(&error)),
            outcome => outcome?,
        };
        let reference = Reference::compute(&inputs, |_| ());
        let bounds = UnitScaleBounds::applicable(Some(case.distribution), inputs.problem());
        let report = check::check(&inputs, &reference, &outcome.outputs, bounds);
        Ok(Self::judged(&report, outcome))
    }

    /// Whether nothing is wrong.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Whether one of the failures is like one of `failures`.
    pub fn fails_like(&self, failures: &[Failure]) -> bool {
        self.failures.iter().any(|failure| failures.iter().any(|known| known.is_like(failure)))
    }

    /// Whether the GPU cannot be used any more.
    pub fn lost_the_device(&self) -> bool {
        self.failures.iter().any(|failure| matches!(failure, Failure::Fault { .. }))
    }

    fn faulted(error: &Error) -> Self {
        let failures = vec![Failure::Fault { message: error.to_string() }];
        Self { failures, severity: None, severities: Severities::default() }
    }

    fn judged(report: &Report, outcome: Outcome) -> Self {
        let mut failures: Vec<Failure> = outcome
            .execution
            .findings
            .iter()
            .map(|finding| Failure::Finding { class: finding.class, message: finding.to_string() })
            .collect();
        failures.extend(outcome.damaged_guards.into_iter().map(Failure::Guard));
        if !outcome.changed_inputs.is_empty() {
            failures.push(Failure::ChangedInputs { tensors: outcome.changed_inputs.join(", ") });
        }
        if report.overwritten_gaps > 0 {
            failures.push(Failure::Gaps { elements: report.overwritten_gaps });
        }
        let mut severity = 0.0f64;
        let mut severities = Severities::default();
        for (tensor, comparison) in [("O", Some(&report.output)), ("LSE", report.lse.as_ref())] {
            let Some(comparison) = comparison else { continue };
            failures.extend(failures_of(tensor, comparison));
            severity = severity.max(comparison.worst.map_or(0.0, |worst| worst.severity()));
            severities.merge(&comparison.severities);
        }
        if let (Some(bounds), 0) = (report.unit_scale_bounds, report.output.wrong) {
            let (error, bound) = (report.output_frobenius, bounds.output_frobenius);
            if error > bound {
                failures.push(Failure::Frobenius { error, bound });
            }
            severity = severity.max(error / bound);
        }
        debug_assert!(report.passed() || !failures.is_empty(), "a report that did not pass gives a failure");
        Self { failures, severity: Some(severity), severities }
    }
}

fn failures_of(tensor: &'static str, comparison: &Comparison) -> Vec<Failure> {
    let unwritten = comparison.unwritten;
    let wrong = comparison.wrong - unwritten;
    let mut failures = Vec::new();
    if unwritten > 0 {
        failures.push(Failure::Unwritten { tensor, elements: unwritten });
    }
    if let (true, Some(worst)) = (wrong > 0, comparison.worst) {
        failures.push(Failure::Wrong { tensor, elements: wrong, worst });
    }
    failures
}
