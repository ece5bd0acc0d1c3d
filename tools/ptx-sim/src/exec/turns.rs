//! The turns that the warps of a block take until all have ended.

use super::block::{Block, Step};
use super::schedule::Schedule;
use super::{leftovers, stall};
use crate::counters::Counters;
use crate::finding::{FindingClass, Findings};
use crate::machine::Warp;
use crate::race::{Races, Trace};

/// What a block did.
#[derive(Default)]
pub(super) struct Outcome {
    pub findings: Findings,
    pub counters: Counters,
    /// In global memory.
    pub trace: Trace,
}

/// Why a warp's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It was long enough, or no lane can go on by itself.
    Over,
    /// The whole grid stops.
    Stop,
}

/// Runs the block with that index in the grid.
pub(super) fn run_block(block: &mut Block<'_>, index: u64) -> Outcome {
    let mut schedule = Schedule::new(block.machine.schedule, index);
    let mut turns: Vec<usize> = (0..block.warps.len()).collect();
    block.start(index);
    loop {
        let before = steps(block);
        schedule.order(&mut turns);
        for index in &turns {
            if turn(block, *index, schedule.turn()) == Turn::Stop || block.machine.is_stopped() {
                block.machine.stop();
                return finish(block);
            }
        }
        if block.warps.iter().all(|warp| warp.groups.is_empty()) {
            leftovers::report(block);
            return finish(block);
        }
        if steps(block) == before && !stall::resolve(block) {
            return finish(block);
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
        trace: state.races.as_mut().map(Races::take_trace).unwrap_or_default(),
    }
}

/// Lets a warp execute so many instructions, if it can.
fn turn(block: &mut Block<'_>, index: usize, instructions: u64) -> Turn {
    let limit = block.machine.instructions_per_warp;
    let end = (block.warps[index].steps + instructions).min(limit);
    while block.warps[index].steps < end {
        let Some(group) = block.warps[index].next_group(&block.state) else { return Turn::Over };
        if block.step(index, group, false) == Step::Stop {
            return Turn::Stop;
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
