//! What is known about an instruction and about a whole entry before it runs.

use super::function::{Call, FrameLayout, Function};
use super::layout::Layout;
use super::operand::{Guard, Initial, Slot};
use super::special::Special;
use crate::counters::Counters;
use crate::race::Semantics;

/// Which lanes have to execute an instruction together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    /// Each lane for itself.
    No,
    /// All 32 (`.aligned`).
    Warp,
    /// All the warp has, at a barrier of the block.
    Barrier,
    /// Those in a mask.
    Mask(Slot),
}

/// How an instruction is counted.
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

/// An instruction, but for what it does.
pub(crate) struct Instruction {
    pub guard: Option<Guard>,
    /// How it is counted.
    pub class: Class,
    /// Which lanes have to execute it together.
    pub collective: Collective,
    /// How its accesses to memory are ordered.
    pub semantics: Semantics,
    /// Whether it gives its thread what others may have written, so that a loop of it may wait for them.
    pub is_strong_read: bool,
    /// Whether it is an `atom.cas`.
    pub is_compare_and_swap: bool,
    /// Whether it reads a texture or a surface.
    pub reads_texels: bool,
    /// Whether it is a `wgmma`.
    pub is_wgmma: bool,
    /// Whether it reaches the shared memory of other blocks of the cluster.
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

/// A decoded entry, but for what its instructions do.
pub(crate) struct Program {
    pub instructions: Vec<Instruction>,
    /// The registers of a warp.
    pub registers: Vec<Initial>,
    /// Names for messages; empty for registers that hold literals.
    pub register_names: Vec<String>,
    pub layout: Layout,
    /// By number; `None` for those that the entry does not reach or the module does not define.
    pub functions: Vec<Option<Function>>,
    pub calls: Vec<Call>,
    /// The local memory of the entry itself.
    pub frame: FrameLayout,
    /// Whether threads have local memory.
    pub uses_stack: bool,
    /// How many blocks a multiprocessor has to hold at a time (`.minnctapersm`).
    pub minimum_blocks: Option<u32>,
    /// The most registers of a thread when it starts (`.maxnreg`).
    pub maximum_registers: Option<u32>,
    /// Whether there is a `wgmma`.
    pub uses_wgmma: bool,
    /// Whether the async proxy accesses shared memory.
    pub uses_async_proxy: bool,
    /// Whether there is a `griddepcontrol.wait`.
    pub waits_for_previous_grid: bool,
}

impl Program {
    /// Whether it asks where the shared memory of CUDA's own headers is.
    pub fn uses_system_shared(&self) -> bool {
        self.registers.iter().any(|initial| matches!(initial, Initial::Special(Special::SystemShared(_))))
    }

    /// Whether it reads where the blocks of a cooperative launch meet.
    pub fn asks_for_grid_workspace(&self) -> bool {
        self.registers.iter().any(|initial| matches!(initial, Initial::Special(Special::Environment(2))))
    }
}
