//! A whole launch: its blocks in parallel.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rayon::prelude::*;

use super::block::Block;
use super::schedule::Schedule;
use crate::counters::Counters;
use crate::decode::Program;
use crate::finding::Findings;
use crate::launch::{Launch, LaunchError, Options, Report};
use crate::memory::GlobalMemory;
use crate::module::Module;

/// What all blocks of a launch share.
pub(crate) struct Machine<'a> {
    pub module: &'a Module,
    pub program: &'a Program,
    pub launch: Launch<'a>,
    pub memory: &'a GlobalMemory,
    /// The parameter space.
    pub parameters: Vec<u8>,
    /// Shared memory of a block.
    pub shared_bytes: usize,
    pub instructions_per_warp: u64,
    /// Whether data races are looked for.
    pub races: bool,
    /// [`Options::schedule`].
    pub schedule: u64,
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
        let mut parameters = vec![0; layout.parameter_bytes as usize];
        for (parameter, bytes) in layout.parameters.iter().zip(launch.params) {
            let start = parameter.offset as usize;
            parameters[start..start + bytes.len()].copy_from_slice(bytes);
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
            stopped: AtomicBool::new(false),
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
    let [x, y, z] = machine.launch.grid.map(u64::from);
    let blocks = x * y * z;
    let run = |block: &mut Block<'_>, index: u64| {
        if machine.is_stopped() {
            return (index, Findings::default(), Counters::default());
        }
        let position = [(index % x) as u32, (index / x % y) as u32, (index / (x * y)) as u32];
        let (findings, counters) = block.run(index, position);
        (index, findings, counters)
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build();
    let pool = pool.map_err(|error| LaunchError::Threads(error.to_string()))?;
    let mut findings = Findings::default();
    let mut counters = Counters::default();
    // Findings are merged in block order, so that a report does not depend on timing.
    const BATCH: u64 = 4096;
    for start in (0..blocks).step_by(BATCH as usize) {
        let mut batch: Vec<u64> = (start..blocks.min(start + BATCH)).collect();
        Schedule::new(machine.schedule, u64::MAX - start).order(&mut batch);
        let mut results: Vec<(u64, Findings, Counters)> =
            pool.install(|| batch.into_par_iter().map_init(|| Block::new(machine), run).collect());
        results.sort_unstable_by_key(|(index, ..)| *index);
        for (_, block_findings, block_counters) in results {
            findings.merge(block_findings);
            counters += block_counters;
        }
    }
    Ok(Report { findings: findings.into_list(options.max_findings), counters })
}
