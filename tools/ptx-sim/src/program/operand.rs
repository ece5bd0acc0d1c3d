//! What instructions read and write.

use super::special::Special;

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

/// `[base + offset]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub base: Slot,
    pub offset: i64,
}

/// `@p` or `@!p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub slot: Slot,
    pub negated: bool,
}

/// What a register holds when a warp starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Initial {
    /// Nothing: reading it is an error.
    Undefined,
    /// The same value in every lane.
    Constant(u64),
    /// An address of shared memory, or the generic one, as a block has it that is a cluster of its own: that of the warp's
    /// block.
    Shared(u64),
    /// A special register.
    Special(Special),
}
