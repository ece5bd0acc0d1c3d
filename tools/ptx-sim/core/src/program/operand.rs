//! Operands of instructions.

use super::special::Special;

/// Index of a register of a warp. Literals, addresses of variables and special registers have registers of their own,
/// filled when the warp starts, so that execution never distinguishes kinds of operands.
pub(crate) type Slot = u32;

/// A destination register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub slot: Slot,
    /// Its width in bits.
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

/// Initial value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Initial {
    /// None: reading it is an error.
    Undefined,
    /// The same value in every lane.
    Constant(u64),
    /// An address of shared memory, or the generic address of one, relative to the first block; a warp adds the offset
    /// of its own block.
    Shared(u64),
    /// A special register.
    Special(Special),
}
