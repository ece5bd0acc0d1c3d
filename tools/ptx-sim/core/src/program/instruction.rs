//! Static properties of instructions and of a whole entry.

use super::function::{Call, FrameLayout, Function};
use super::layout::Layout;
use super::operand::{Guard, Initial, Slot};
use super::special::Special;
use crate::counters::Counters;
use crate::race::Semantics;

/// Which lanes must execute an instruction together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    /// Each lane alone.
    No,
    /// All 32 (`.aligned`).
    Warp,
    /// All live lanes of the warp, at a barrier of the block.
    Barrier,
    /// The lanes of a mask.
    Mask(Slot),
}

/// Counter category of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Integer,
    Float,
    Convert,
    Compare,
    Move,
    Memory,
    AsyncCopy,
    Matrix,
    Warp,
    Barrier,
    Control,
}

impl Class {
    /// Counts one instruction.
    pub fn count(self, counters: &mut Counters) {
        *match self {
            Class::Integer => &mut counters.integer_instructions,
            Class::Float => &mut counters.float_instructions,
            Class::Convert => &mut counters.convert_instructions,
            Class::Compare => &mut counters.compare_instructions,
            Class::Move => &mut counters.move_instructions,
            Class::Memory => &mut counters.memory_instructions,
            Class::AsyncCopy => &mut counters.async_copy_instructions,
            Class::Matrix => &mut counters.matrix_instructions,
            Class::Warp => &mut counters.warp_instructions,
            Class::Barrier => &mut counters.barrier_instructions,
            Class::Control => &mut counters.control_instructions,
        } += 1;
    }
}

/// An instruction, except for its effect.
pub(crate) struct Instruction {
    pub guard: Option<Guard>,
    /// Counter category.
    pub class: Class,
    /// Which lanes must execute it together.
    pub collective: Collective,
    /// Memory order of its accesses.
    pub semantics: Semantics,
    /// Whether it returns data that others may have written, so that a loop may wait with it.
    pub is_strong_read: bool,
    /// Whether that data decides something; only in programs with volatile accesses.
    pub is_tested: bool,
    /// Whether it is an `atom.cas`.
    pub is_compare_and_swap: bool,
    /// Whether it reads a texture or a surface.
    pub reads_texels: bool,
    /// Whether it is a `wgmma`.
    pub is_wgmma: bool,
    /// Whether it accesses the shared memory of other blocks of the cluster.
    pub reaches_cluster: bool,
    pub line: u32,
    /// Index into the module's locations.
    pub location: Option<u32>,
    /// Opcode and modifiers.
    pub name: String,
    /// Registers it reads.
    pub reads: Vec<Slot>,
    /// Registers it writes.
    pub writes: Vec<Slot>,
}

/// A decoded entry, except for the effects of its instructions.
pub(crate) struct Program {
    pub instructions: Vec<Instruction>,
    /// Initial values of the registers of a warp.
    pub registers: Vec<Initial>,
    /// Names for messages; empty for registers that hold literals.
    pub register_names: Vec<String>,
    pub layout: Layout,
    /// By number; `None` for functions that the entry does not reach or the module does not define.
    pub functions: Vec<Option<Function>>,
    pub calls: Vec<Call>,
    /// The local memory of the entry itself.
    pub frame: FrameLayout,
    /// Whether threads have local memory.
    pub uses_stack: bool,
    /// Minimum resident blocks per multiprocessor (`.minnctapersm`).
    pub minimum_blocks: Option<u32>,
    /// Maximum registers per thread at the start (`.maxnreg`).
    pub maximum_registers: Option<u32>,
    /// Whether it contains a `wgmma`.
    pub uses_wgmma: bool,
    /// Whether the async proxy accesses shared memory.
    pub uses_async_proxy: bool,
    /// Whether it writes shared memory.
    pub async_proxy_writes: bool,
    /// Whether it contains a `griddepcontrol.wait`.
    pub waits_for_previous_grid: bool,
}

impl Program {
    /// Whether it reads the bounds of the shared memory of CUDA's own headers.
    pub fn uses_system_shared(&self) -> bool {
        self.registers.iter().any(|initial| matches!(initial, Initial::Special(Special::SystemShared(_))))
    }

    /// Whether it reads the address of the workspace of cooperative launches.
    pub fn asks_for_grid_workspace(&self) -> bool {
        self.registers.iter().any(|initial| matches!(initial, Initial::Special(Special::Environment(2))))
    }
}
