//! A decoded entry.

use crate::isa::{Class, Collective, Operation};

/// Index of a register of a warp. Literals, addresses of variables and special registers have registers of their own,
/// filled when the warp starts, so that executing an instruction never asks what kind of operand it has.
pub(crate) type Slot = u32;

/// A register an instruction writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub slot: Slot,
    /// The bits the register has.
    pub mask: u64,
}

/// What a register holds when a warp starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Initial {
    /// Nothing: reading it is an error.
    Undefined,
    /// The same value in every lane.
    Constant(u64),
    /// A special register.
    Special(Special),
}

/// A special register whose value does not change while a thread runs (PTX ISA, "Special Registers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// `%tid`, by dimension.
    ThreadIndex(usize),
    /// `%ntid`, by dimension.
    BlockSize(usize),
    /// `%ctaid`, by dimension.
    BlockIndex(usize),
    /// `%nctaid`, by dimension.
    GridSize(usize),
    /// `%laneid`.
    Lane,
    /// `%warpid`.
    Warp,
    /// `%nwarpid`.
    Warps,
    /// `%lanemask_eq` and its relatives: lanes whose difference from this one has the sign.
    LaneMask {
        /// Includes lanes below.
        less: bool,
        /// Includes the lane.
        equal: bool,
        /// Includes lanes above.
        greater: bool,
    },
    /// `%dynamic_smem_size`.
    DynamicSharedBytes,
    /// `%total_smem_size`.
    TotalSharedBytes,
    /// A register that is the same in every thread of a launch without clusters.
    Fixed(u32),
}

impl Special {
    /// The register called `name`.
    pub fn parse(name: &str) -> Option<Special> {
        let mask = |less, equal, greater| Some(Special::LaneMask { less, equal, greater });
        match name {
            "%laneid" => return Some(Special::Lane),
            "%warpid" => return Some(Special::Warp),
            "%nwarpid" => return Some(Special::Warps),
            "%lanemask_eq" => return mask(false, true, false),
            "%lanemask_lt" => return mask(true, false, false),
            "%lanemask_le" => return mask(true, true, false),
            "%lanemask_gt" => return mask(false, false, true),
            "%lanemask_ge" => return mask(false, true, true),
            "%dynamic_smem_size" => return Some(Special::DynamicSharedBytes),
            "%total_smem_size" => return Some(Special::TotalSharedBytes),
            "%cluster_ctarank" | "%is_explicit_cluster" => return Some(Special::Fixed(0)),
            "%cluster_nctarank" => return Some(Special::Fixed(1)),
            _ => {}
        }
        let (vector, member) = name.split_once('.')?;
        let dimension = ["x", "y", "z"].iter().position(|dimension| *dimension == member)?;
        match vector {
            "%tid" => Some(Special::ThreadIndex(dimension)),
            "%ntid" => Some(Special::BlockSize(dimension)),
            // Each block is a cluster of its own.
            "%ctaid" | "%clusterid" => Some(Special::BlockIndex(dimension)),
            "%nctaid" | "%nclusterid" => Some(Special::GridSize(dimension)),
            "%cluster_ctaid" => Some(Special::Fixed(0)),
            "%cluster_nctaid" => Some(Special::Fixed(1)),
            _ => None,
        }
    }
}

/// `@p` or `@!p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub slot: Slot,
    pub negated: bool,
}

/// A decoded instruction.
pub(crate) struct Instruction {
    pub operation: Operation,
    pub guard: Option<Guard>,
    /// How it is counted.
    pub class: Class,
    /// Which lanes have to execute it together.
    pub collective: Collective,
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

/// A decoded entry.
pub(crate) struct Program {
    pub instructions: Vec<Instruction>,
    /// The registers of a warp.
    pub registers: Vec<Initial>,
    /// Names for messages; empty for registers that hold literals.
    pub register_names: Vec<String>,
    pub layout: super::Layout,
    /// How many blocks a multiprocessor has to hold at a time (`.minnctapersm`).
    pub minimum_blocks: Option<u32>,
    /// The most registers of a thread when it starts (`.maxnreg`).
    pub maximum_registers: Option<u32>,
    /// Whether there is a `wgmma`.
    pub uses_wgmma: bool,
}

impl Program {
    /// Whether the async proxy accesses shared memory.
    pub fn uses_async_proxy(&self) -> bool {
        self.instructions.iter().any(|instruction| instruction.operation.uses_async_proxy())
    }

    /// Whether there is a `griddepcontrol.wait`.
    pub fn waits_for_previous_grid(&self) -> bool {
        self.instructions.iter().any(|instruction| instruction.operation.waits_for_previous_grid())
    }
}
