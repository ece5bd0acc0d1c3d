//! What a page is made of: the parts that it reads of other commands' JSON.

use std::path::Path;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

use crate::compare::Comparison;
use crate::device::Device;
use crate::document;
use crate::error::Result;
use crate::inputs::Distribution;
use crate::map::record::Map;
use crate::ncu::Profile;
use crate::record::{BenchRecord, Case};

/// What a page is made of; each part may be empty.
#[derive(Debug, Default)]
pub struct Report {
    /// Measurements.
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

/// Something with the name that it has on the page.
#[derive(Clone, Debug)]
pub struct Named<T> {
    /// The name, as of its file.
    pub name: String,
    /// The thing.
    pub content: T,
}

/// What `fa512 run --device sim --json` prints.
#[derive(Clone, Debug, Deserialize)]
pub struct Simulation {
    /// Whether nothing was wrong.
    pub passed: bool,
    /// Name of the entry.
    pub variant: String,
    /// Where it came from.
    pub ptx: Ptx,
    /// What it computed.
    pub problem: Case,
    /// What the simulator counted.
    #[serde(deserialize_with = "counted")]
    pub counters: ptx_sim::Counters,
    /// What it found.
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

/// What `fa512 fuzz --json` prints.
#[derive(Clone, Debug, Deserialize)]
pub struct Campaign {
    /// Whether everything that was planned was run, and passed.
    pub passed: bool,
    /// Seed of the cases.
    pub seed: u64,
    /// Where it ran.
    pub device: Device,
    /// Commit of the kernels' source.
    pub git_commit: Option<String>,
    /// Cases run.
    pub cases: u64,
    /// Cases in which nothing was wrong.
    pub passed_cases: u64,
    /// Results by distribution of the inputs.
    pub distributions: Vec<CampaignRow>,
    /// The cases that failed.
    pub failed: Vec<CampaignFailure>,
}

/// The cases of one distribution.
#[derive(Clone, Debug, Deserialize)]
pub struct CampaignRow {
    /// How the inputs were filled.
    pub distribution: Distribution,
    /// Cases run.
    pub cases: u64,
    /// Cases in which nothing was wrong.
    pub passed: u64,
    /// The largest errors; absent when no case wrote outputs.
    pub worst: Option<CampaignWorst>,
}

/// Quantiles over cases of the largest error of a case, in units of its tolerance.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct CampaignWorst {
    /// Half of the cases.
    pub median: Option<f64>,
    /// 95 of 100 cases.
    pub p95: Option<f64>,
    /// All cases; absent when infinite.
    pub maximum: Option<f64>,
}

/// A case that failed.
#[derive(Clone, Debug, Deserialize)]
pub struct CampaignFailure {
    /// What repeats it.
    pub command: String,
}

impl Simulation {
    /// Reads what `fa512 run --device sim --json` printed.
    ///
    /// # Errors
    /// As [`document::Format::load`], and when it was not the simulator that ran.
    pub fn load(path: &Path) -> Result<Self> {
        document::RUN.load(path)
    }
}

impl Campaign {
    /// Reads what `fa512 fuzz --json` printed.
    ///
    /// # Errors
    /// As [`document::Format::load`].
    pub fn load(path: &Path) -> Result<Self> {
        document::FUZZ.load(path)
    }
}

/// Counters, which a run on a GPU does not have.
fn counted<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<ptx_sim::Counters, D::Error> {
    Option::deserialize(deserializer)?
        .ok_or_else(|| D::Error::custom("nothing was counted; expected what `fa512 run --device sim --json` prints"))
}
