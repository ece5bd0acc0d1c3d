//! Runs one case and lists its failures.

use std::fmt;

use contract::backward::variants::BackwardVariant;
use contract::manifest::Entry;
use serde::Serialize;

use super::case::Case;
use crate::backward::Backward;
use crate::check::{self, Comparison, Deviation, Severities, UnitScaleBounds};
use crate::error::{Error, Result};
use crate::executor::{Executor, GuardDamage, Outcome};
use crate::forward::Forward;
use crate::gradients::{GRADIENTS, GradientInputs};
use crate::kernel::Kernel;
use crate::ptx_module::PtxModule;
use crate::reference::Reference;

/// A failure of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Failure {
    /// Elements of an output are wrong.
    Wrong {
        /// Its name.
        tensor: &'static str,
        /// Number of elements.
        elements: u64,
        /// The element with the largest error.
        worst: Deviation,
    },
    /// Elements of an output were never written.
    Unwritten {
        /// Its name.
        tensor: &'static str,
        /// Number of elements.
        elements: u64,
    },
    /// ‖ΔO‖/‖O‖ is too large, though no element is wrong.
    Frobenius {
        /// The error.
        error: f64,
        /// Its bound.
        bound: f64,
    },
    /// Elements before or between the rows of the outputs were written.
    Gaps {
        /// Number of elements.
        elements: u64,
    },
    /// The kernel changed inputs.
    ChangedInputs {
        /// Names of the inputs.
        tensors: String,
    },
    /// The kernel wrote to a guard after a buffer.
    Guard(GuardDamage),
    /// The simulator has a finding.
    Finding {
        /// Its class.
        class: ptx_sim::FindingClass,
        /// Its one-line message.
        message: String,
    },
    /// The kernel faulted.
    Fault {
        /// The driver's message.
        message: String,
    },
}

impl Failure {
    /// Whether two failures are of the same kind, regardless of extent.
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
                write!(formatter, "{elements} elements before or between the rows of the outputs were overwritten")
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

/// The result of one case.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The failures; empty if it passed.
    pub failures: Vec<Failure>,
    /// Largest error of the outputs in units of its tolerance; absent if the launch produced no output.
    pub severity: Option<f64>,
    /// Histogram of the errors of the outputs.
    pub severities: Severities,
}

impl Trial {
    /// Runs `case` on `executor` with all checks of `fa512 run`: poisoned outputs, guards, unchanged inputs.
    ///
    /// # Errors
    /// When the case cannot be run, which says nothing about the kernel.
    pub fn run(executor: &mut dyn Executor, module: &PtxModule, kernel: Kernel<'_>, case: &Case) -> Result<Self> {
        match kernel {
            Kernel::Forward(entry) => Self::run_forward(executor, module, entry, case),
            Kernel::Backward(variant) => Self::run_backward(executor, module, variant, case),
        }
    }

    fn run_forward(executor: &mut dyn Executor, module: &PtxModule, entry: &Entry, case: &Case) -> Result<Self> {
        let inputs = case.inputs()?;
        let mut forward = Forward::prepare(executor, module, entry, &inputs, case.lse)?;
        let outcome = match forward.execute() {
            Err(error @ Error::Cuda { .. }) => return Ok(Self::faulted(&error)),
            outcome => outcome?,
        };
        let reference = Reference::compute(&inputs, |_| ());
        let bounds = UnitScaleBounds::applicable(Some(case.distribution), inputs.problem());
        let report = check::check(&inputs, &reference, &outcome.outputs, bounds);
        let outputs = [("O", Some(&report.output)), ("LSE", report.lse.as_ref())];
        let mut trial = Self::judged(
            &outcome,
            report.overwritten_gaps,
            outputs.into_iter().filter_map(|(name, one)| Some((name, one?))),
        );
        if let (Some(bounds), 0) = (report.unit_scale_bounds, report.output.wrong) {
            let (error, bound) = (report.output_frobenius, bounds.output_frobenius);
            if error > bound {
                trial.failures.push(Failure::Frobenius { error, bound });
            }
            trial.severity = trial.severity.map(|severity| severity.max(error / bound));
        }
        debug_assert!(report.passed() || !trial.passed(), "a report that did not pass gives a failure");
        Ok(trial)
    }

    fn run_backward(
        executor: &mut dyn Executor,
        module: &PtxModule,
        variant: &'static BackwardVariant,
        case: &Case,
    ) -> Result<Self> {
        let inputs =
            GradientInputs::generate(case.inputs()?, case.distribution, case.seed, variant.computes_d_bias, |_| ())?;
        let mut backward = Backward::prepare(executor, module, variant, &inputs)?;
        let outcome = match backward.execute() {
            Err(error @ Error::Cuda { .. }) => return Ok(Self::faulted(&error)),
            outcome => outcome?,
        };
        let report = inputs.check(&outcome.outputs, |_| ());
        let names = GRADIENTS.iter().map(|tensor| tensor.name());
        Ok(Self::judged(&outcome, report.overwritten_gaps, names.zip(&report.comparisons)))
    }

    /// Whether there are no failures.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Whether one of its failures is of the same kind as one of `failures`.
    pub fn fails_like(&self, failures: &[Failure]) -> bool {
        self.failures.iter().any(|failure| failures.iter().any(|known| known.is_like(failure)))
    }

    /// Whether the GPU has become unusable.
    pub fn lost_the_device(&self) -> bool {
        self.failures.iter().any(|failure| matches!(failure, Failure::Fault { .. }))
    }

    fn faulted(error: &Error) -> Self {
        let failures = vec![Failure::Fault { message: error.to_string() }];
        Self { failures, severity: None, severities: Severities::default() }
    }

    fn judged<'a, T>(
        outcome: &Outcome<T>,
        gaps: u64,
        outputs: impl Iterator<Item = (&'static str, &'a Comparison)>,
    ) -> Self {
        let finding = |one: &ptx_sim::Finding| Failure::Finding { class: one.class, message: one.to_string() };
        let mut failures: Vec<Failure> = outcome.execution.findings.iter().map(finding).collect();
        failures.extend(outcome.damaged_guards.iter().cloned().map(Failure::Guard));
        if !outcome.changed_inputs.is_empty() {
            failures.push(Failure::ChangedInputs { tensors: outcome.changed_inputs.join(", ") });
        }
        if gaps > 0 {
            failures.push(Failure::Gaps { elements: gaps });
        }
        let mut severity = 0.0f64;
        let mut severities = Severities::default();
        for (tensor, comparison) in outputs {
            failures.extend(failures_of(tensor, comparison));
            severity = severity.max(comparison.worst.map_or(0.0, |worst| worst.severity()));
            severities.merge(&comparison.severities);
        }
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
