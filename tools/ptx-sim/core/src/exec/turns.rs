//! The turns that the warps of a cluster take until all have ended.

use std::hash::{DefaultHasher, Hasher};

use super::cluster::{Cluster, Step};
use super::patience::Patience;
use super::schedule::Schedule;
use super::{leftovers, stall};
use crate::counters::Counters;
use crate::finding::{FindingClass, Findings};
use crate::launch::BoxLoad;
use crate::machine::{Polls, Progress, Warp};
use crate::race::{Races, Trace};

/// What a cluster did.
#[derive(Default)]
pub(super) struct Outcome {
    pub findings: Findings,
    pub counters: Counters,
    /// What its threads printed.
    pub printed: Vec<u8>,
    /// The boxes that they loaded, if these are listed.
    pub box_loads: Vec<BoxLoad>,
    /// In global memory.
    pub trace: Trace,
}

/// What a turn of a cluster came to.
pub(super) enum Slice {
    /// The end of the cluster.
    Ended(Box<Outcome>),
    /// None of its warps gets on by itself, and some wait for memory; whether it changed global memory since its turn began.
    Waits { changed: bool },
}

/// Why a warp's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It was long enough.
    Over,
    /// No lane can go on by itself.
    Waits,
    /// It reads the same from memory again and again.
    Polls,
    /// The whole grid stops.
    Stop,
}

/// How often a warp reads the same from memory in a turn before that ends, if none of its other paths can go on.
const PATIENCE: u64 = 64;

/// A cluster that has begun.
pub(super) struct Running<'a> {
    pub cluster: Cluster<'a>,
    /// Index in the grid.
    pub number: u64,
    schedule: Schedule,
    /// The warps, in the order of their last turns.
    turns: Vec<usize>,
    pub patience: Patience,
}

impl<'a> Running<'a> {
    /// Begins the cluster with that index in the grid.
    pub fn start(mut cluster: Cluster<'a>, number: u64) -> Running<'a> {
        cluster.start(number);
        let schedule = Schedule::new(cluster.machine.schedule, number);
        let turns = (0..cluster.warps.len()).collect();
        Running { cluster, number, schedule, turns, patience: Patience::default() }
    }

    /// Runs it until it ends or waits for other clusters.
    pub fn run(&mut self) -> Slice {
        let writes = self.cluster.state.global_writes;
        loop {
            let cluster = &mut self.cluster;
            let before = steps(cluster);
            self.schedule.order(&mut self.turns);
            let (mut polls, mut works) = (false, false);
            for index in &self.turns {
                let turn = turn(cluster, *index, self.schedule.turn());
                if turn == Turn::Stop || cluster.machine.is_stopped() {
                    cluster.machine.stop();
                    return Slice::Ended(Box::new(finish(cluster)));
                }
                polls |= turn == Turn::Polls;
                works |= turn == Turn::Over;
            }
            if cluster.warps.iter().all(|warp| warp.groups.is_empty()) {
                leftovers::report(cluster);
                return Slice::Ended(Box::new(finish(cluster)));
            }
            if polls && !works {
                return Slice::Waits { changed: cluster.state.global_writes != writes };
            }
            if steps(cluster) == before && !stall::resolve(cluster) {
                return Slice::Ended(Box::new(finish(cluster)));
            }
        }
    }

    /// A number for the state of its warps, as in [`Warp::fingerprint`].
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.cluster.warps.iter().for_each(|warp| hasher.write_u64(warp.fingerprint()));
        hasher.finish()
    }

    /// Ends it where it is.
    pub fn stop(&mut self) -> Outcome {
        finish(&mut self.cluster)
    }

    /// Reports a deadlock at the first warp that has not ended.
    pub fn report_waiting(&mut self, message: impl FnOnce() -> String) {
        if let Some(index) = self.cluster.warps.iter().position(|warp| !warp.groups.is_empty()) {
            let groups = &self.cluster.warps[index].groups;
            let group = groups.iter().position(|group| group.progress == Progress::Ready).unwrap_or(0);
            self.cluster
                .with_group(index, group, |context| context.report(FindingClass::Deadlock, Vec::new(), message));
        }
    }
}

/// Instructions that the warps of a cluster executed.
fn steps(cluster: &Cluster<'_>) -> u64 {
    cluster.warps.iter().map(|warp: &Warp| warp.steps).sum()
}

fn finish(cluster: &mut Cluster<'_>) -> Outcome {
    let state = &mut cluster.state;
    Outcome {
        findings: std::mem::take(&mut state.findings),
        counters: std::mem::take(&mut state.counters),
        printed: std::mem::take(&mut state.printed),
        box_loads: std::mem::take(&mut state.box_loads),
        trace: state.races.as_mut().map(Races::take_trace).unwrap_or_default(),
    }
}

/// Lets a warp execute so many instructions, if it can.
fn turn(cluster: &mut Cluster<'_>, index: usize, instructions: u64) -> Turn {
    let limit = cluster.machine.instructions_per_warp;
    let end = (cluster.warps[index].steps + instructions).min(limit);
    let start = cluster.warps[index].steps;
    let effects = |cluster: &Cluster<'_>| (cluster.state.global_writes, cluster.state.epoch());
    let before = effects(cluster);
    cluster.state.polls = Polls::default();
    while cluster.warps[index].steps < end {
        let Some(group) = cluster.warps[index].next_group(&cluster.state) else {
            return if cluster.warps[index].steps == start { Turn::Waits } else { Turn::Over };
        };
        if cluster.step(index, group, false) == Step::Stop {
            return Turn::Stop;
        }
        if cluster.state.polls.repeated >= PATIENCE && !cluster.warps[index].has_paths() {
            return Turn::Polls;
        }
    }
    let Polls { repeated, saw_news } = cluster.state.polls;
    if cluster.warps[index].steps < limit && repeated > 0 && !saw_news && effects(cluster) == before {
        return Turn::Polls;
    }
    if cluster.warps[index].steps < limit || cluster.warps[index].groups.is_empty() {
        return Turn::Over;
    }
    report_limit(cluster, index);
    Turn::Stop
}

fn report_limit(cluster: &mut Cluster<'_>, index: usize) {
    let limit = cluster.machine.instructions_per_warp;
    cluster.with_group(index, 0, |context| {
        context.report(FindingClass::InstructionLimit, Vec::new(), || {
            format!("the warp has executed {limit} instructions; it was stopped here, probably inside an endless loop")
        });
    });
}
