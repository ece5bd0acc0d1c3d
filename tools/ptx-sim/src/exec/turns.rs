//! The turns that the warps of a block take until all have ended.

use super::block::{Block, Step};
use super::schedule::Schedule;
use super::{leftovers, stall};
use crate::counters::Counters;
use crate::finding::{FindingClass, Findings};
use crate::machine::{Progress, Warp};
use crate::race::{Races, Trace};

/// What a block did.
#[derive(Default)]
pub(super) struct Outcome {
    pub findings: Findings,
    pub counters: Counters,
    /// What its threads printed.
    pub printed: Vec<u8>,
    /// In global memory.
    pub trace: Trace,
}

/// What a turn of a block came to.
pub(super) enum Slice {
    /// The end of the block.
    Ended(Box<Outcome>),
    /// All of its warps wait, and some of them for global memory; whether it changed that since its turn began.
    Waits { changed: bool },
}

/// Why a warp's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It was long enough.
    Over,
    /// No lane can go on by itself.
    Waits,
    /// It reads the same of global memory again and again.
    Polls,
    /// The whole grid stops.
    Stop,
}

/// How often a warp reads the same of global memory in a turn before that ends.
const PATIENCE: u64 = 64;

/// A block that has begun.
pub(super) struct Running<'a> {
    pub block: Block<'a>,
    /// Index in the grid.
    pub number: u64,
    schedule: Schedule,
    /// The warps, in the order of their last turns.
    turns: Vec<usize>,
}

impl<'a> Running<'a> {
    /// Begins the block with that index in the grid.
    pub fn start(mut block: Block<'a>, number: u64) -> Running<'a> {
        block.start(number);
        let schedule = Schedule::new(block.machine.schedule, number);
        let turns = (0..block.warps.len()).collect();
        Running { block, number, schedule, turns }
    }

    /// Runs it until it ends or waits for other blocks.
    pub fn run(&mut self) -> Slice {
        let writes = self.block.state.global_writes;
        loop {
            let block = &mut self.block;
            let before = steps(block);
            self.schedule.order(&mut self.turns);
            let (mut polls, mut works) = (false, false);
            for index in &self.turns {
                let turn = turn(block, *index, self.schedule.turn());
                if turn == Turn::Stop || block.machine.is_stopped() {
                    block.machine.stop();
                    return Slice::Ended(Box::new(finish(block)));
                }
                polls |= turn == Turn::Polls;
                works |= turn == Turn::Over;
            }
            if block.warps.iter().all(|warp| warp.groups.is_empty()) {
                leftovers::report(block);
                return Slice::Ended(Box::new(finish(block)));
            }
            if polls && !works {
                return Slice::Waits { changed: block.state.global_writes != writes };
            }
            if steps(block) == before && !stall::resolve(block) {
                return Slice::Ended(Box::new(finish(block)));
            }
        }
    }

    /// Ends it where it is.
    pub fn stop(&mut self) -> Outcome {
        finish(&mut self.block)
    }

    /// Reports a deadlock at the first warp that has not ended.
    pub fn report_waiting(&mut self, message: impl FnOnce() -> String) {
        if let Some(index) = self.block.warps.iter().position(|warp| !warp.groups.is_empty()) {
            let groups = &self.block.warps[index].groups;
            let group = groups.iter().position(|group| group.progress == Progress::Ready).unwrap_or(0);
            self.block.with_group(index, group, |context| context.report(FindingClass::Deadlock, Vec::new(), message));
        }
    }
}

/// Instructions that the warps of a block executed.
fn steps(block: &Block<'_>) -> u64 {
    block.warps.iter().map(|warp: &Warp| warp.steps).sum()
}

fn finish(block: &mut Block<'_>) -> Outcome {
    let state = &mut block.state;
    Outcome {
        findings: std::mem::take(&mut state.findings),
        counters: std::mem::take(&mut state.counters),
        printed: std::mem::take(&mut state.printed),
        trace: state.races.as_mut().map(Races::take_trace).unwrap_or_default(),
    }
}

/// Lets a warp execute so many instructions, if it can.
fn turn(block: &mut Block<'_>, index: usize, instructions: u64) -> Turn {
    let limit = block.machine.instructions_per_warp;
    let end = (block.warps[index].steps + instructions).min(limit);
    let (start, polls) = (block.warps[index].steps, block.state.polls);
    while block.warps[index].steps < end {
        let Some(group) = block.warps[index].next_group(&block.state) else {
            return if block.warps[index].steps == start { Turn::Waits } else { Turn::Over };
        };
        if block.step(index, group, false) == Step::Stop {
            return Turn::Stop;
        }
        if block.state.polls >= polls + PATIENCE {
            return Turn::Polls;
        }
    }
    if block.warps[index].steps < limit || block.warps[index].groups.is_empty() {
        return Turn::Over;
    }
    report_limit(block, index);
    Turn::Stop
}

fn report_limit(block: &mut Block<'_>, index: usize) {
    let limit = block.machine.instructions_per_warp;
    block.with_group(index, 0, |context| {
        context.report(FindingClass::InstructionLimit, Vec::new(), || {
            format!("the warp has executed {limit} instructions; it was stopped here, probably inside an endless loop")
        });
    });
}
