//! The bench record: measurements, and everything needed to reproduce and judge them.
//!
//! [`BenchRecord`] is what `fa512 bench --json FILE` writes and what comparing, diagnosing and reporting read. Times are
//! in µs per call.

mod ceilings;
mod correctness;
mod environment;
mod file;
mod implementation;
mod measurement;
mod remarks;
mod warning;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::inputs::Distribution;
use crate::score_mod::ScoreModForm;
use crate::statistics::{Bootstrap, Interval};
use crate::timing::Protocol;
use contract::config::{Element, Mask};
use contract::problem::{DEFAULT_HEAD_DIM, Problem, Shape};
use contract::view::Layout;

pub use ceilings::{Ceilings, TensorCeiling};
pub use correctness::Correctness;
pub use environment::{Environment, GpuState, Telemetry};
pub use file::{FORMAT, check};
pub use implementation::{Implementation, Kernel, is_one_part, one_part};
pub use measurement::Measurement;
pub use warning::{HIGHEST_TEMPERATURE, LARGEST_VARIATION, LAUNCH_BOUND_US, Warning};

/// One run of the bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchRecord {
    /// The command line that created it, program first.
    pub command: Vec<String>,
    /// Start time, in seconds since 1970-01-01 UTC.
    pub started_at: u64,
    /// The machine.
    pub environment: Environment,
    /// Peak rates of this GPU in the same run.
    pub ceilings: Ceilings,
    /// The measuring protocol.
    pub protocol: RunProtocol,
    /// One row per case and contender.
    pub rows: Vec<Row>,
    /// Contenders compared turn by turn, if requested.
    pub pairs: Vec<Pair>,
}

/// Protocol of all rows of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunProtocol {
    /// How a contender takes one sample.
    pub timing: Protocol,
    /// Samples per contender. In every turn each contender of a case takes one, in random order.
    pub samples: usize,
    /// Seed of the order within turns, and of the bootstrap.
    pub order_seed: u64,
    /// Distribution of Q, K and V.
    pub distribution: Distribution,
    /// Seed of Q, K and V.
    pub input_seed: u64,
}

/// A benchmark case: the problem that is computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// B, H, S and D.
    #[serde(flatten)]
    pub shape: Shape,
    /// Element type of Q, K, V and O; fp16 in records of version 2 and older.
    #[serde(default)]
    pub element: Element,
    /// Which keys a query attends to.
    pub mask: Mask,
    /// Order of the tensors' dimensions.
    pub layout: Layout,
    /// Score modifications.
    #[serde(default, skip_serializing_if = "ScoreModForm::is_none")]
    pub score_mod: ScoreModForm,
    /// Factor on the scores, if it is not 1/√D.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
}

impl std::fmt::Display for Case {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", sizes(self.shape), self.mask.name())?;
        if self.element != Element::default() {
            write!(formatter, " {}", self.element.name())?;
        }
        if self.layout == Layout::Bshd {
            write!(formatter, " {}", self.layout.name())?;
        }
        if !self.score_mod.is_none() {
            write!(formatter, " {}", self.score_mod)?;
        }
        self.scale.map_or(Ok(()), |scale| write!(formatter, " scale {scale}"))
    }
}

/// `shape` as on the command line: BxHxS, and xD unless D is 64. After a slash, H and S are followed by the values of K
/// and V if those differ.
pub fn sizes(Shape { batch, heads, kv_heads, sequence, kv_sequence, head_dim }: Shape) -> String {
    let with_keys = |queries: u32, keys: u32| match queries == keys {
        true => queries.to_string(),
        false => format!("{queries}/{keys}"),
    };
    let sizes = format!("{batch}x{}x{}", with_keys(heads, kv_heads), with_keys(sequence, kv_sequence));
    match head_dim {
        DEFAULT_HEAD_DIM => sizes,
        _ => format!("{sizes}x{head_dim}"),
    }
}

impl Case {
    /// A case without score modifications, at the default scale.
    pub const fn plain(shape: Shape, element: Element, mask: Mask, layout: Layout) -> Self {
        Self { shape, element, mask, layout, score_mod: ScoreModForm::NONE, scale: None }
    }

    /// The problem, over contiguous tensors.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::error::Error::Invalid) when it is not accepted.
    pub fn problem(&self) -> Result<Problem> {
        let problem = Problem::new(self.shape, self.mask, self.layout)?.with_element(self.element);
        let problem = problem.with_score_mod(self.score_mod.of(self.shape))?;
        Ok(self.scale.map_or(Ok(problem), |scale| problem.with_scale(scale))?)
    }
}

/// The result of one contender in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The contender, as on the command line.
    pub contender: String,
    /// The implementation that ran; absent if it could not be prepared.
    pub implementation: Option<Implementation>,
    /// The outcome.
    pub outcome: Outcome,
}

impl Row {
    /// The measurement, if there is one.
    pub fn measurement(&self) -> Option<&Measurement> {
        match &self.outcome {
            Outcome::Measured(measurement) => Some(measurement),
            _ => None,
        }
    }

    /// As [`Measurement::first_other_than_measured`].
    fn first_other_than_measured(&self, ceilings: &Ceilings) -> Option<(&'static str, f64, f64)> {
        self.measurement()?.first_other_than_measured((self.case.shape, self.case.mask), ceilings)
    }
}

/// The outcome of a contender in a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// It was correct and was timed.
    Measured(Box<Measurement>),
    /// It was wrong and therefore not timed.
    Wrong {
        /// In what way.
        correctness: Correctness,
    },
    /// It could not run this case here.
    NotRun {
        /// The reason.
        reason: String,
    },
}

/// Two contenders of one case whose samples were taken in the same turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Name of the first.
    pub first: String,
    /// Name of the second.
    pub second: String,
    /// median(first) / median(second); below 1 when the first is faster.
    pub ratio: f64,
    /// Its 95 % bootstrap interval over turns.
    pub ratio_interval: Interval,
}

impl Pair {
    /// Compares `first` with `second`, rows of the same case and run; `None` unless both were measured.
    pub fn new(first: &Row, second: &Row, bootstrap: &Bootstrap) -> Option<Self> {
        let samples = [first.measurement()?, second.measurement()?].map(|measurement| &measurement.samples_us);
        let [first_us, second_us] = samples;
        Some(Self {
            case: first.case,
            first: first.contender.clone(),
            second: second.contender.clone(),
            ratio: first_us.median() / second_us.median(),
            ratio_interval: bootstrap.paired_ratio_of_medians(first_us, second_us),
        })
    }

    /// The same pair recomputed from `rows`, with an interval from few resamples; `None` if one of the two is missing.
    fn measured_again(&self, rows: &[Row]) -> Option<Self> {
        const RESAMPLES: usize = 1000;
        let row = |contender: &str| {
            let mut of_case = rows.iter().filter(|row| row.case == self.case && row.contender == contender);
            of_case.find(|row| row.measurement().is_some())
        };
        Self::new(row(&self.first)?, row(&self.second)?, &Bootstrap::new(0).with_resamples(RESAMPLES))
    }
}

#[cfg(test)]
pub(crate) mod tests;
