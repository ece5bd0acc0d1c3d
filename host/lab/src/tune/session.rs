//! A tuning run: searches every case, then compares its fastest candidate with the incumbent.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use contract::tile::Configuration;

use super::features::Features;
use super::lab::{Experiment, Listener, Open};
use super::record::{Decision, Journal};
use super::search::{Ranked, Strategy, search};
use super::task::Task;
use cli::bench::Bench;
use cli::compare::Thresholds;
use cli::error::Result;

/// The settings of a run.
pub struct Session<'a> {
    /// The bench; its number of samples is that of the final comparison.
    pub bench: &'a Bench<'a>,
    /// Opens contenders.
    pub open: &'a Open<'a>,
    /// The search strategy.
    pub strategy: Strategy,
    /// Maximum number of candidates measured per case, if the strategy does not measure all. Default: a third of them,
    /// with a minimum.
    pub trials: Option<usize>,
    /// Seed of the strategy.
    pub seed: u64,
    /// Number of candidates measured in the same turns.
    pub group: usize,
    /// The time limit.
    pub time: Option<Duration>,
    /// Thresholds for a challenger; `None` for a shard, which makes no final comparison.
    pub thresholds: Option<Thresholds>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything was searched, or time was up.
    Done,
    /// It was interrupted.
    Interrupted,
    /// A candidate has made the GPU unusable for this process. It is recorded, unless there were several suspects.
    LostDevice,
}

impl Session<'_> {
    /// A third of the candidates, but enough to learn from.
    fn usual_trials(candidates: usize) -> usize {
        const FEWEST: usize = 24;
        (candidates / 3).max(FEWEST)
    }

    /// Searches every task, and writes trials and decisions to `journal`. Each task gets its share of the remaining
    /// time.
    ///
    /// # Errors
    /// When an incumbent is wrong or does not run, or the record cannot be written.
    pub fn run(&self, tasks: &[Task], journal: &mut Journal, listener: &mut dyn Listener) -> Result<End> {
        let end = self.time.map(|time| Instant::now() + time);
        for (index, task) in tasks.iter().enumerate() {
            let left = (tasks.len() - index) as u32;
            let now = Instant::now();
            let deadline = end.map(|end| now + end.saturating_duration_since(now) / left);
            match self.run_task(task, journal, deadline, listener)? {
                End::Done => {}
                early => return Ok(early),
            }
        }
        Ok(End::Done)
    }

    fn run_task(
        &self,
        task: &Task,
        journal: &mut Journal,
        deadline: Option<Instant>,
        listener: &mut dyn Listener,
    ) -> Result<End> {
        let names: Vec<String> = task.participants.iter().map(|participant| participant.name.clone()).collect();
        let configs: Vec<Configuration> = task.participants.iter().map(|participant| participant.config).collect();
        listener.case(&task.case, &task.incumbent, names.len());
        let prepared = self.bench.prepare(&task.case)?;
        let mut experiment = Experiment {
            bench: self.bench,
            prepared: &prepared,
            names: &names,
            incumbent: &task.incumbent,
            open: self.open,
            journal,
            group: self.group,
            deadline,
            listener,
            lost_device: false,
        };
        experiment.check_incumbent()?;
        let trials = self.trials.unwrap_or_else(|| Self::usual_trials(names.len()));
        let ranked = search(self.strategy, &Features::new(&configs), trials, self.seed, &mut experiment)?;
        if experiment.lost_device {
            return Ok(End::LostDevice);
        }
        if !self.bench.stop.load(Relaxed)
            && let Some(thresholds) = &self.thresholds
        {
            self.decide(task, &ranked, thresholds, &mut experiment)?;
        }
        Ok(if self.bench.stop.load(Relaxed) { End::Interrupted } else { End::Done })
    }

    /// Compares the fastest candidate with the incumbent, unless already recorded.
    fn decide(
        &self,
        task: &Task,
        ranked: &[Ranked],
        thresholds: &Thresholds,
        experiment: &mut Experiment<'_>,
    ) -> Result<()> {
        // Time was up before the first trials.
        if ranked.len() < 2 && experiment.names.len() > 1 {
            return Ok(());
        }
        let fastest = ranked.first().map(|ranked| ranked.candidate);
        let challenger = fastest.filter(|&candidate| experiment.names[candidate] != task.incumbent);
        let name = challenger.map(|candidate| experiment.names[candidate].as_str());
        let known = experiment.journal.record().last_decisions().into_iter().any(|decision| {
            let challenged = decision.challenge.as_ref().map(|challenge| challenge.candidate.as_str());
            decision.case == task.case && decision.incumbent == task.incumbent && challenged == name
        });
        if known {
            return Ok(());
        }
        let challenge = match challenger {
            None => None,
            Some(candidate) => {
                let samples = self.bench.protocol.samples;
                let Some(challenge) = experiment.challenge(candidate, samples, thresholds)? else { return Ok(()) };
                Some(challenge)
            }
        };
        let decision = Decision { case: task.case, incumbent: task.incumbent.clone(), challenge };
        experiment.journal.add_decision(decision)
    }
}
