//! A whole launch: its blocks in parallel.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rayon::prelude::*;

use super::block::{Block, Outcome};
use super::schedule::Schedule;
use crate::counters::Counters;
use crate::decode::{Instruction, Program};
use crate::finding::{Finding, FindingClass, Findings, LaneAddress, Location, OtherAccess};
use crate::launch::{Launch, LaunchError, Options, Report};
use crate::memory::{GlobalMemory, Parameters, SYSTEM_SHARED_BYTES};
use crate::module::Module;
use crate::race::{Agent, BlockAccess, BlockConflict, GridRaces};

/// What all blocks of a launch share.
pub(crate) struct Machine<'a> {
    pub module: &'a Module,
    pub program: &'a Program,
    pub launch: Launch<'a>,
    pub memory: &'a GlobalMemory,
    /// The param space.
    pub parameters: Parameters,
    /// Size of a block's shared memory.
    pub shared_bytes: usize,
    pub instructions_per_warp: u64,
    /// Whether data races are looked for.
    pub races: bool,
    /// [`Options::schedule`].
    pub schedule: u64,
    /// Whether the grid may begin before the one in front of it has ended.
    pub overlaps_previous: bool,
    stopped: AtomicBool,
}

impl<'a> Machine<'a> {
    /// The machine for one launch.
    pub fn new(
        module: &'a Module,
        program: &'a Program,
        launch: &Launch<'a>,
        memory: &'a GlobalMemory,
        options: &Options,
    ) -> Machine<'a> {
        let layout = &program.layout;
        let mut parameters = Parameters::default();
        for (parameter, bytes) in layout.parameters.iter().zip(launch.params) {
            parameters.add(&parameter.name, parameter.address, bytes);
        }
        Machine {
            module,
            program,
            launch: *launch,
            memory,
            parameters,
            shared_bytes: layout.static_shared_bytes as usize + launch.dynamic_shared_bytes as usize,
            instructions_per_warp: options.instructions_per_warp,
            races: options.races,
            schedule: options.schedule,
            overlaps_previous: options.overlaps_previous.unwrap_or_else(|| program.waits_for_previous_grid()),
            stopped: AtomicBool::new(false),
        }
    }

    /// The end of a block's shared memory.
    pub fn shared_end(&self) -> usize {
        SYSTEM_SHARED_BYTES as usize + self.shared_bytes
    }

    /// `%ctaid` of a block.
    fn position(&self, index: u64) -> [u32; 3] {
        let [x, y, _] = self.launch.grid.map(u64::from);
        [(index % x) as u32, (index / x % y) as u32, (index / (x * y)) as u32]
    }

    /// An instruction and who executed it.
    pub fn location(&self, instruction: &Instruction, block: [u32; 3], warp: u32, lane: Option<u32>) -> Location {
        let (source, inlined_at) = self.module.source(instruction.location);
        let text = self.module.line(instruction.line).trim().to_owned();
        Location { ptx_line: instruction.line, instruction: text, source, inlined_at, block, warp, lane }
    }

    fn race_of_blocks(&self, conflict: &BlockConflict) -> Finding {
        let BlockConflict { later, earlier, address } = *conflict;
        let instruction = |access: BlockAccess| &self.program.instructions[access.pc as usize];
        let ([x, y, z], effect) = (self.position(earlier.block), |writes: bool| if writes { "write" } else { "read" });
        let message = format!(
            "a {} in global memory, {}, races with the {} in line {} by block ({x}, {y}, {z}), warp {}, lane {}: nothing \
             orders blocks of one launch but atomic operations and fences",
            effect(later.writes),
            self.memory.describe(address, 1),
            effect(earlier.writes),
            instruction(earlier).line,
            earlier.agent.warp,
            earlier.agent.lane
        );
        let location = |access: BlockAccess| {
            let Agent { warp, lane, .. } = access.agent;
            self.location(instruction(access), self.position(access.block), warp, Some(lane))
        };
        Finding {
            class: FindingClass::Race,
            message,
            ptx_file: self.module.file().to_owned(),
            at: location(later),
            address: Some(address),
            lanes: vec![LaneAddress { lane: later.agent.lane, address: Some(address) }],
            other: Some(OtherAccess { writes: earlier.writes, engine: earlier.agent.engine, at: location(earlier) }),
            occurrences: 1,
        }
    }

    /// Asks all blocks to stop.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Whether a block asked all to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }
}

/// Runs every block of the grid.
pub(crate) fn run_grid(machine: &Machine<'_>, options: &Options) -> Result<Report, LaunchError> {
    let blocks: u64 = machine.launch.grid.into_iter().map(u64::from).product();
    let run = |block: &mut Block<'_>, index: u64| {
        if machine.is_stopped() {
            return (index, Outcome::default());
        }
        (index, block.run(index, machine.position(index)))
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build();
    let pool = pool.map_err(|error| LaunchError::Threads(error.to_string()))?;
    let mut findings = Findings::default();
    let mut counters = Counters::default();
    // Findings are merged in block order, so that a report does not depend on timing.
    const BATCH: u64 = 64;
    let warps = machine.launch.block.into_iter().product::<u32>().div_ceil(32);
    let mut races = GridRaces::new(warps as usize);
    for start in (0..blocks).step_by(BATCH as usize) {
        let mut batch: Vec<u64> = (start..blocks.min(start + BATCH)).collect();
        Schedule::new(machine.schedule, u64::MAX - start).order(&mut batch);
        let mut results: Vec<(u64, Outcome)> =
            pool.install(|| batch.into_par_iter().map_init(|| Block::new(machine), run).collect());
        results.sort_unstable_by_key(|(index, ..)| *index);
        for (index, outcome) in results {
            findings.merge(outcome.findings);
            counters += outcome.counters;
            for conflict in races.add(index, &outcome.trace) {
                let line = machine.program.instructions[conflict.later.pc as usize].line;
                findings.add(FindingClass::Race, line, 1, || machine.race_of_blocks(&conflict));
            }
        }
    }
    Ok(Report { findings: findings.into_list(options.max_findings), counters })
}
