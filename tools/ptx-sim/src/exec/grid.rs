//! A whole launch: its blocks in parallel.

use rayon::prelude::*;

use super::block::Block;
use super::schedule::Schedule;
use super::turns::{Outcome, run_block};
use crate::counters::Counters;
use crate::finding::{Finding, FindingClass, Findings, LaneAddress, OtherAccess};
use crate::isa::Operation;
use crate::lanes::LANES;
use crate::launch::{LaunchError, Options, Report};
use crate::machine::Machine;
use crate::race::{Agent, BlockAccess, BlockConflict, GridRaces};

/// Runs every block of the grid.
pub(crate) fn run_grid(
    machine: &Machine<'_>,
    operations: &[Operation],
    options: &Options,
) -> Result<Report, LaunchError> {
    let blocks: u64 = machine.launch.grid.into_iter().map(u64::from).product();
    let run = |block: &mut Block<'_>, index: u64| {
        if machine.is_stopped() {
            return (index, Outcome::default());
        }
        (index, run_block(block, index))
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build();
    let pool = pool.map_err(|error| LaunchError::Threads(error.to_string()))?;
    let mut findings = Findings::default();
    let mut counters = Counters::default();
    // Findings are merged in block order, so that a report does not depend on timing.
    const BATCH: u64 = 64;
    let warps = machine.launch.block.into_iter().product::<u32>().div_ceil(LANES as u32);
    let mut races = GridRaces::new(warps as usize);
    for start in (0..blocks).step_by(BATCH as usize) {
        let mut batch: Vec<u64> = (start..blocks.min(start + BATCH)).collect();
        Schedule::new(machine.schedule, u64::MAX - start).order(&mut batch);
        let mut results: Vec<(u64, Outcome)> =
            pool.install(|| batch.into_par_iter().map_init(|| Block::new(machine, operations), run).collect());
        results.sort_unstable_by_key(|(index, ..)| *index);
        for (index, outcome) in results {
            findings.merge(outcome.findings);
            counters += outcome.counters;
            for conflict in races.add(index, outcome.trace) {
                let line = machine.program.instructions[conflict.later.pc as usize].line;
                findings.add(FindingClass::Race, line, 1, || race_of_blocks(machine, &conflict));
            }
        }
    }
    Ok(Report { findings: findings.into_list(options.max_findings), counters })
}

/// A race between two blocks.
fn race_of_blocks(machine: &Machine<'_>, conflict: &BlockConflict) -> Finding {
    let BlockConflict { later, earlier, address, .. } = *conflict;
    let instruction = |access: BlockAccess| &machine.program.instructions[access.pc as usize];
    let ([x, y, z], effect) = (machine.position(earlier.block), |writes: bool| if writes { "write" } else { "read" });
    let message = format!(
        "a {} in global memory, {}, races with the {} in line {} by block ({x}, {y}, {z}), warp {}, lane {}: {}",
        effect(later.writes),
        machine.memory.describe(address, 1),
        effect(earlier.writes),
        instruction(earlier).line,
        earlier.agent.warp,
        earlier.agent.lane,
        match conflict.both_synchronise {
            false => "nothing orders blocks of one launch but atomic operations and fences",
            true => {
                "no atomic operation or flag of one block orders them: the block that comes first has to execute a fence of \
                 the GPU's scope (__threadfence) between its access and the operation or flag by which it tells, and the \
                 other one behind the operation or flag that it reads"
            }
        }
    );
    let location = |access: BlockAccess| {
        let Agent { warp, lane, .. } = access.agent;
        machine.location(instruction(access), machine.position(access.block), warp, Some(lane))
    };
    Finding {
        class: FindingClass::Race,
        message,
        ptx_file: machine.module.file().to_owned(),
        at: location(later),
        address: Some(address),
        lanes: vec![LaneAddress { lane: later.agent.lane, address: Some(address) }],
        other: Some(OtherAccess { writes: earlier.writes, engine: earlier.agent.engine, at: location(earlier) }),
        occurrences: 1,
    }
}
