//! The result of a fuzz campaign, as data.

use std::path::PathBuf;

use crate::device::Device;
use crate::fuzz::campaign::Limits;
use crate::fuzz::fuzzer::FailedCase;
use crate::fuzz::summary::DistributionSummary;
use serde::Serialize;

use crate::commands::Verdict;

/// The result of a campaign.
#[derive(Serialize)]
pub struct Record {
    /// The planned campaign.
    #[serde(flatten)]
    pub plan: Plan,
    /// Where it ran.
    pub device: Device,
    /// Why it ran there.
    pub device_reason: String,
    /// Folder of the PTX.
    pub folder: PathBuf,
    /// Commit of its source.
    pub git_commit: Option<String>,
    /// Why variants were left out.
    pub unfit: Vec<String>,
    /// Cases run.
    pub cases: u64,
    /// Cases without a failure.
    pub passed_cases: u64,
    /// Results by distribution of the inputs.
    pub distributions: Vec<DistributionSummary>,
    /// The cases that failed.
    pub failed: Vec<FailedCase>,
    /// Why the campaign ended early.
    pub cannot_run: Option<String>,
    /// Whether it was ended by Ctrl-C.
    pub interrupted: bool,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// A planned campaign.
#[derive(Serialize)]
pub struct Plan {
    /// Seed of the cases.
    pub seed: u64,
    /// Number of cases; `None` for no limit.
    #[serde(rename = "planned_cases")]
    pub cases: Option<u64>,
    /// Limits on the size of problems.
    pub limits: Limits,
}

/// A [`Record`] with its verdict.
#[derive(Serialize)]
pub struct JudgedRecord<'a> {
    /// Whether everything planned was run, and passed.
    passed: bool,
    #[serde(flatten)]
    record: &'a Record,
}

impl Record {
    /// The command's verdict: a failure outweighs cases that could not be run.
    pub fn verdict(&self) -> Verdict {
        if !self.failed.is_empty() {
            Verdict::Fail
        } else if self.interrupted || self.cannot_run.is_some() {
            Verdict::CannotRun
        } else {
            Verdict::Pass
        }
    }

    /// The record as output for programs.
    pub fn with_verdict(&self) -> JudgedRecord<'_> {
        JudgedRecord { passed: self.verdict() == Verdict::Pass, record: self }
    }
}
