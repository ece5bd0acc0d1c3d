//! The sources of a page: the parts of other commands' JSON that it reads.

use std::path::Path;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

use crate::map::record::Map;
use cli::compare::Comparison;
use cli::device::Device;
use cli::document;
use cli::error::Result;
use cli::inputs::Distribution;
use cli::ncu::Profile;
use cli::record::{BenchRecord, Case};

/// The sources of a page; each may be empty.
#[derive(Debug, Default)]
pub struct Report {
    /// Bench records.
    pub records: Vec<Named<BenchRecord>>,
    /// Maps.
    pub maps: Vec<Named<Map>>,
    /// Comparisons of two records.
    pub comparisons: Vec<Named<Comparison>>,
    /// Launches under ncu.
    pub profiles: Vec<Named<Profile>>,
    /// Launches in the simulator.
    pub simulations: Vec<Named<Simulation>>,
    /// Fuzzing campaigns.
    pub campaigns: Vec<Named<Campaign>>,
}

/// Content with its name on the page.
#[derive(Clone, Debug)]
pub struct Named<T> {
    /// The name, from its file.
    pub name: String,
    /// The thing.
    pub content: T,
}

/// Output of `fa512 run --device sim --json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Simulation {
    /// Whether it passed.
    pub passed: bool,
    /// Name of the entry.
    pub variant: String,
    /// The PTX that it came from.
    pub ptx: Ptx,
    /// The problem that it computed.
    pub problem: Case,
    /// The simulator's counters.
    #[serde(deserialize_with = "counted")]
    pub counters: ptx_sim::Counters,
    /// The simulator's findings.
    pub findings: Vec<IgnoredAny>,
}

/// A PTX file.
#[derive(Clone, Debug, Deserialize)]
pub struct Ptx {
    /// Its name.
    pub file: String,
    /// Its SHA-256.
    pub sha256: String,
    /// Commit of its source.
    pub git_commit: Option<String>,
}

/// Output of `fa512 fuzz --json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Campaign {
    /// Whether everything planned was run, and passed.
    pub passed: bool,
    /// Seed of the cases.
    pub seed: u64,
    /// Where it ran.
    pub device: Device,
    /// Commit of the kernels' source.
    pub git_commit: Option<String>,
    /// Cases run.
    pub cases: u64,
    /// Cases without failures.
    pub passed_cases: u64,
    /// Results by distribution of the inputs.
    pub distributions: Vec<CampaignRow>,
    /// The cases that failed.
    pub failed: Vec<CampaignFailure>,
}

/// The cases of one distribution.
#[derive(Clone, Debug, Deserialize)]
pub struct CampaignRow {
    /// Distribution of the inputs.
    pub distribution: Distribution,
    /// Cases run.
    pub cases: u64,
    /// Cases without failures.
    pub passed: u64,
    /// Quantiles of the largest errors; absent if no case wrote outputs.
    pub worst: Option<CampaignWorst>,
}

/// Quantiles over cases of the largest error of a case, in units of its tolerance.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct CampaignWorst {
    /// The median.
    pub median: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The maximum; absent if infinite.
    pub maximum: Option<f64>,
}

/// A case that failed.
#[derive(Clone, Debug, Deserialize)]
pub struct CampaignFailure {
    /// The command that reproduces it.
    pub command: String,
}

impl Simulation {
    /// Reads the output of `fa512 run --device sim --json`.
    ///
    /// # Errors
    /// As for [`document::Format::load`], and when the run was not in the simulator.
    pub fn load(path: &Path) -> Result<Self> {
        document::RUN.load(path)
    }
}

impl Campaign {
    /// Reads the output of `fa512 fuzz --json`.
    ///
    /// # Errors
    /// As [`document::Format::load`].
    pub fn load(path: &Path) -> Result<Self> {
        document::FUZZ.load(path)
    }
}

/// Counters, which a run on a GPU lacks.
fn counted<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<ptx_sim::Counters, D::Error> {
    Option::deserialize(deserializer)?
        .ok_or_else(|| D::Error::custom("nothing was counted; expected what `fa512 run --device sim --json` prints"))
}
