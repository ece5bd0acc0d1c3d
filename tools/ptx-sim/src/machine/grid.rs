//! What all blocks of a launch share.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::finding::Location;
use crate::launch::{Launch, Options};
use crate::memory::{GlobalMemory, Parameters, SYSTEM_SHARED_BYTES};
use crate::module::Module;
use crate::program::{Instruction, Program};
use crate::race::Announcements;

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
    /// What blocks announced to each other.
    pub announcements: Announcements,
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
            overlaps_previous: options.overlaps_previous.unwrap_or(program.waits_for_previous_grid),
            announcements: Announcements::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// The end of a block's shared memory.
    pub fn shared_end(&self) -> usize {
        SYSTEM_SHARED_BYTES as usize + self.shared_bytes
    }

    /// `%ctaid` of a block.
    pub fn position(&self, index: u64) -> [u32; 3] {
        let [x, y, _] = self.launch.grid.map(u64::from);
        [(index % x) as u32, (index / x % y) as u32, (index / (x * y)) as u32]
    }

    /// An instruction and who executed it.
    pub fn location(&self, instruction: &Instruction, block: [u32; 3], warp: u32, lane: Option<u32>) -> Location {
        let (source, inlined_at) = self.module.source(instruction.location);
        let text = self.module.line(instruction.line).trim().to_owned();
        Location { ptx_line: instruction.line, instruction: text, source, inlined_at, block, warp, lane }
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
