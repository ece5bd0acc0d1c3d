//! Runs a campaign and shrinks its failures.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::campaign::Campaign;
use super::case::Case;
use super::kernels::Kernels;
use super::repeat::Repeat;
use super::shrink::shrink;
use super::summary::Summary;
use super::trial::{Failure, Trial};
use crate::error::Result;
use crate::executor::Executor;

/// A case that failed.
#[derive(Serialize)]
pub struct FailedCase {
    /// Its number.
    pub index: u64,
    /// The case.
    #[serde(skip)]
    pub case: Case,
    /// The command that reproduces it.
    pub command: String,
    /// Its failures.
    pub failures: Vec<Failure>,
    /// The simplest case with a failure of the same kind; only for the first case of each kind.
    pub simplest: Option<SimplestCase>,
}

/// The result of shrinking.
#[derive(Serialize)]
pub struct SimplestCase {
    /// The command that reproduces it.
    pub command: String,
    /// Number of simpler cases tried.
    pub tried: usize,
    /// Its failures.
    pub failures: Vec<Failure>,
}

/// The results of a campaign.
#[derive(Default)]
pub struct Results {
    /// Summary of all cases.
    pub summary: Summary,
    /// The cases that failed.
    pub failed: Vec<FailedCase>,
    /// Why it ended early, unless it was stopped.
    pub cannot_run: Option<String>,
}

/// Runs campaigns.
pub struct Fuzzer<'a> {
    /// Where cases run.
    pub executor: &'a mut dyn Executor,
    /// The kernels that a campaign draws from.
    pub kernels: Kernels<'a>,
    /// How cases are reproduced.
    pub repeat: Repeat,
    /// Maximum number of simpler cases tried per kind of failure.
    pub shrink_budget: usize,
    /// If set, the campaign ends after the current case.
    pub stop: &'a AtomicBool,
}

impl Fuzzer<'_> {
    /// Runs all cases of `campaign`, or the first `count`, until `time` is over. Calls `finished` after each.
    pub fn run(
        &mut self,
        campaign: &Campaign,
        count: Option<u64>,
        time: Option<Duration>,
        finished: &mut dyn FnMut(),
    ) -> Results {
        let mut results = Results::default();
        results.cannot_run = self.run_cases(campaign, count, time, finished, &mut results);
        results
    }

    /// [`Self::run`]; returns why it ended early, if it did.
    fn run_cases(
        &mut self,
        campaign: &Campaign,
        count: Option<u64>,
        time: Option<Duration>,
        finished: &mut dyn FnMut(),
        results: &mut Results,
    ) -> Option<String> {
        let start = Instant::now();
        let in_time = |_: &u64| time.is_none_or(|time| start.elapsed() < time) && !self.stop.load(Relaxed);
        for index in (0..count.unwrap_or(u64::MAX)).take_while(in_time) {
            let case = campaign.case(index);
            let trial = match self.run_case(&case) {
                Ok(trial) => trial,
                Err(error) => return Some(format!("case {index}: {error}\n  {}", self.repeat.command(&case))),
            };
            results.summary.add(&case, &trial);
            let lost = trial.lost_the_device();
            if !trial.passed() {
                self.keep(index, &case, trial, &mut results.failed);
            }
            if lost {
                return Some("the fault of a kernel has made the GPU unusable for this process".into());
            }
            finished();
        }
        None
    }

    fn run_case(&mut self, case: &Case) -> Result<Trial> {
        let (kernel, module) = self.kernels.get(&case.target);
        Trial::run(self.executor, module, kernel, case)
    }

    /// Records a case that failed. If it is the first of its kind, shrinks it.
    fn keep(&mut self, index: u64, case: &Case, trial: Trial, kept: &mut Vec<FailedCase>) {
        let known = |failed: &FailedCase| failed.case.target == case.target && trial.fails_like(&failed.failures);
        let simplest = (!kept.iter().any(known)).then(|| self.simplest(case, &trial));
        let command = self.repeat.command(case);
        kept.push(FailedCase { index, case: case.clone(), command, failures: trial.failures, simplest });
    }

    fn simplest(&mut self, case: &Case, trial: &Trial) -> SimplestCase {
        let mut failures = trial.failures.clone();
        let shrunk = shrink(case, self.shrink_budget, |simpler| {
            if self.stop.load(Relaxed) {
                return false;
            }
            if trial.lost_the_device() {
                return self.repeat.fails_in_a_process_of_its_own(simpler);
            }
            match self.run_case(simpler) {
                Ok(other) if other.fails_like(&trial.failures) => {
                    failures = other.failures;
                    true
                }
                _ => false,
            }
        });
        SimplestCase { command: self.repeat.command(&shrunk.case), tried: shrunk.tried, failures }
    }
}
