//! Measures candidates on a GPU, a group at a time, in the same turns as the incumbent. Disturbances of the GPU, and
//! differences between machines of one model, cancel in the ratio.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::record::{Challenge, Journal, Outcome, Trial};
use super::search::Lab;
use cli::bench::{Bench, Observer, PreparedCase};
use cli::compare::{Change, Evidence, Thresholds};
use cli::contender::Contender;
use cli::error::{Error, Result};
use cli::record::{self, Case, Pair, Row};
use cli::statistics::Bootstrap;

/// Number of candidates measured in the same turns.
pub const GROUP: usize = 8;

/// Bootstrap resamples of a trial; its intervals are not used, only the median.
const TRIAL_RESAMPLES: usize = 1;

/// Opens a contender by name.
pub type Open<'a> = dyn Fn(&str) -> Result<Box<dyn Contender>> + 'a;

/// Observes an experiment.
pub trait Listener: Observer {
    /// A case begins, with this many candidates.
    fn case(&mut self, case: &Case, incumbent: &str, candidates: usize);
    /// These are about to be prepared, checked and timed beside the incumbent; empty if none is new.
    fn begins(&mut self, case: &Case, samples: usize, candidates: &[&str]);
    /// These are done.
    fn ends(&mut self, candidates: &[&str]);
}

/// The candidates of one case on a GPU.
pub struct Experiment<'a> {
    /// The bench.
    pub bench: &'a Bench<'a>,
    /// The case.
    pub prepared: &'a PreparedCase,
    /// Names of the candidates; a candidate's index is its position here.
    pub names: &'a [String],
    /// The incumbent, which all candidates are compared with.
    pub incumbent: &'a str,
    /// Opens contenders.
    pub open: &'a Open<'a>,
    /// All measurements, also from earlier runs; they are not repeated.
    pub journal: &'a mut Journal,
    /// Number of candidates measured in the same turns.
    pub group: usize,
    /// When to stop.
    pub deadline: Option<Instant>,
    /// Observes the experiment.
    pub listener: &'a mut dyn Listener,
    /// Set if a candidate has made the GPU unusable for this process.
    pub lost_device: bool,
}

impl Experiment<'_> {
    fn case(&self) -> Case {
        *self.prepared.case()
    }

    /// Whether to stop measuring.
    fn is_over(&self) -> bool {
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        late || self.lost_device || self.bench.stop.load(Relaxed)
    }

    /// Checks that the incumbent runs and is correct, so that later failures are not its fault.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it fails.
    pub fn check_incumbent(&mut self) -> Result<()> {
        let incumbent = self.incumbent;
        let rows = self.rows(&[incumbent], &[], 1)?;
        let refuse = |reason: String| Err(Error::Invalid(format!("the incumbent {incumbent}: {reason}")));
        match &rows[0].outcome {
            record::Outcome::Measured(_) => Ok(()),
            record::Outcome::Wrong { correctness } => refuse(correctness.to_string()),
            record::Outcome::NotRun { reason } => refuse(reason.clone()),
        }
    }

    /// Compares the fastest candidate with the incumbent by the full protocol; `None` if the run was stopped before the
    /// end.
    ///
    /// # Errors
    /// When one of the two fails now.
    pub fn challenge(
        &mut self,
        candidate: usize,
        samples: usize,
        thresholds: &Thresholds,
    ) -> Result<Option<Challenge>> {
        let name = self.names[candidate].as_str();
        let rows = match self.rows(&[name, self.incumbent], &[], samples) {
            Ok(rows) => rows,
            Err(_) if self.bench.stop.load(Relaxed) => return Ok(None),
            Err(error) => return Err(error),
        };
        let [first, second] = [&rows[0], &rows[1]].map(Row::measurement);
        let bootstrap = Bootstrap::new(self.bench.protocol.order_seed);
        let (Some(first), Some(second), Some(pair)) = (first, second, Pair::new(&rows[0], &rows[1], &bootstrap)) else {
            let failed = rows.iter().find(|row| row.measurement().is_none()).map(|row| row.contender.as_str());
            return Err(Error::Unavailable(format!("{} failed in the final comparison", failed.unwrap_or_default())));
        };
        let evidence = Evidence::new(&first.samples_us, &second.samples_us, &bootstrap);
        let improved = evidence.change(thresholds) == Change::Improved;
        Ok(Some(Challenge { candidate: name.into(), improved, pair, rows }))
    }

    /// Measures `contenders`, of which `candidates` are new.
    fn rows(&mut self, contenders: &[&str], candidates: &[&str], samples: usize) -> Result<Vec<Row>> {
        let mut contenders = contenders.iter().map(|name| (self.open)(name)).collect::<Result<Vec<_>>>()?;
        let mut protocol = self.bench.protocol.clone();
        protocol.samples = samples;
        let resamples = if candidates.is_empty() { self.bench.resamples } else { TRIAL_RESAMPLES };
        let bench = Bench { protocol, resamples, ..*self.bench };
        self.listener.begins(self.prepared.case(), samples, candidates);
        let rows = bench.measure(self.prepared, &mut contenders, self.listener);
        self.listener.ends(candidates);
        rows
    }

    /// Measures `group` and records it, unless the GPU was lost and there are several suspects.
    fn measure_group(&mut self, group: &[usize], samples: usize) -> Result<()> {
        let names: Vec<&str> = group.iter().map(|&index| self.names[index].as_str()).collect();
        let with_incumbent: Vec<&str> = std::iter::once(self.incumbent).chain(names.iter().copied()).collect();
        let rows = self.rows(&with_incumbent, &names, samples)?;
        let incumbent_us = rows[0].measurement().map(|measurement| measurement.summary_us.median);
        self.lost_device = incumbent_us.is_none();
        if self.lost_device && group.len() > 1 {
            return Ok(());
        }
        for (name, row) in names.iter().zip(&rows[1..]) {
            let outcome = outcome(row, incumbent_us);
            self.journal.add_trial(Trial { case: row.case, candidate: (*name).to_owned(), samples, outcome })?;
        }
        Ok(())
    }

    /// The known ratios at this number of samples, by name.
    fn known(&self, samples: usize) -> BTreeMap<&str, Option<f64>> {
        let case = self.case();
        let trials = self.journal.record().trials.iter();
        let known = trials.filter(|trial| trial.case == case && trial.samples == samples);
        known.map(|trial| (trial.candidate.as_str(), trial.outcome.ratio())).collect()
    }
}

/// The outcome of a row beside an incumbent. Without the incumbent's time, a candidate measured alone with it is to
/// blame.
fn outcome(row: &Row, incumbent_us: Option<f64>) -> Outcome {
    match (&row.outcome, incumbent_us) {
        (record::Outcome::Measured(measurement), Some(incumbent_us)) => {
            Outcome::Measured { median_us: measurement.summary_us.median, incumbent_us }
        }
        (record::Outcome::Measured(_), None) => Outcome::NotRun { reason: "the GPU was lost after it had run".into() },
        (record::Outcome::Wrong { correctness }, _) => Outcome::Wrong { reason: correctness.to_string() },
        (record::Outcome::NotRun { reason }, _) => Outcome::NotRun { reason: reason.clone() },
    }
}

impl Lab for Experiment<'_> {
    fn measure(&mut self, candidates: &[usize], samples: usize) -> Result<Vec<Option<f64>>> {
        let known = self.known(samples);
        let is_missing =
            |&index: &usize| self.names[index] != self.incumbent && !known.contains_key(self.names[index].as_str());
        let missing: Vec<usize> = candidates.iter().copied().filter(is_missing).collect();
        for group in missing.chunks(self.group.max(1)) {
            if self.is_over() {
                break;
            }
            match self.measure_group(group, samples) {
                Err(_) if self.bench.stop.load(Relaxed) => break,
                other => other?,
            }
        }
        let known = self.known(samples);
        let ratio = |&index: &usize| match self.names[index] == self.incumbent {
            true => Some(Some(1.0)),
            false => known.get(self.names[index].as_str()).copied(),
        };
        Ok(candidates.iter().map_while(ratio).collect())
    }
}
