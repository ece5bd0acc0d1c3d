//! Carries out a campaign: runs its cases, and looks for the simplest of those that fail.

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

/// A case in which something was wrong.
#[derive(Serialize)]
pub struct FailedCase {
    /// Its number.
    pub index: u64,
    /// The case.
    #[serde(skip)]
    pub case: Case,
    /// What repeats it.
    pub command: String,
    /// What was wrong.
    pub failures: Vec<Failure>,
    /// The simplest case that fails alike, for the first case of each kind.
    pub simplest: Option<SimplestCase>,
}

/// What shrinking came to.
#[derive(Serialize)]
pub struct SimplestCase {
    /// What repeats it.
    pub command: String,
    /// How many simpler cases were tried.
    pub tried: usize,
    /// What was wrong with it.
    pub failures: Vec<Failure>,
}

/// What came of a campaign.
#[derive(Default)]
pub struct Results {
    /// Of all cases.
    pub summary: Summary,
    /// The cases that failed.
    pub failed: Vec<FailedCase>,
    /// Why it ended before its time, unless it was stopped.
    pub cannot_run: Option<String>,
}

/// Runs the cases of campaigns.
pub struct Fuzzer<'a> {
    /// Where.
    pub executor: &'a mut dyn Executor,
    /// The kernels that a campaign draws from.
    pub kernels: Kernels<'a>,
    /// How cases are repeated.
    pub repeat: Repeat,
    /// Simpler cases that are tried for each kind of failure.
    pub shrink_budget: usize,
    /// Ends the campaign after the case that runs.
    pub stop: &'a AtomicBool,
}

impl Fuzzer<'_> {
    /// Runs the cases of `campaign`, all or the first `count`, until `time` is over; tells `finished` of each.
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

    /// As [`Self::run`]. Says why it ended early, if it did.
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
        let (entry, module) = self.kernels.get(&case.target);
        Trial::run(self.executor, module, entry, case)
    }

    /// Keeps a case that failed, with the simplest one that fails alike if it is the first of its kind.
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
