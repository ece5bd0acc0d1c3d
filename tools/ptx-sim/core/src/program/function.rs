//! Functions and calls, decoded except for the effects of their instructions.

use super::operand::{Destination, Slot};

/// The frame of a function: local memory and call parameters, new in each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameLayout {
    /// Bytes of its `.local` variables, which come first.
    pub locals: u64,
    /// Total size, bytes.
    pub bytes: u64,
    /// Alignment.
    pub alignment: u64,
    /// Whether addresses of the `.param` variables after the locals are taken.
    pub exposes_arguments: bool,
}

impl FrameLayout {
    /// Bytes accessible to loads and stores.
    pub fn reachable(&self) -> u64 {
        if self.exposes_arguments { self.bytes } else { self.locals }
    }
}

/// Location of a value that a call passes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passed {
    /// A `.param` variable, by offset in the frame.
    Bytes { offset: u64, bytes: u64 },
    /// A register or literal of a size in bytes.
    Register { slot: Slot, mask: u64, bytes: u64 },
}

impl Passed {
    /// Size, bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Passed::Bytes { bytes, .. } | Passed::Register { bytes, .. } => bytes,
        }
    }

    /// A register that is written.
    pub fn to(destination: Destination, bytes: u64) -> Passed {
        Passed::Register { slot: destination.slot, mask: destination.mask, bytes }
    }
}

/// A function with a body.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub name: String,
    /// Index of its first instruction.
    pub start: u32,
    pub frame: FrameLayout,
    pub parameters: Vec<Passed>,
    pub returns: Vec<Passed>,
    /// The registers that it declares.
    pub registers: Vec<Slot>,
    /// Registers that hold an address in its frame, with the offset from its start.
    pub addresses: Vec<(Slot, u64)>,
    /// Whether it can be recursive: each call then has its own registers.
    pub is_recursive: bool,
}

/// Target of a call.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// A function, by number.
    Function(usize),
    /// The function whose address is in a register.
    Address(Slot),
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub callee: Callee,
    pub arguments: Vec<Passed>,
    pub results: Vec<Passed>,
}

/// Address of the first function.
const FIRST_FUNCTION: u64 = 0x7c00_0000_0000;
/// Distance of functions.
const FUNCTION_BYTES: u64 = 16;

/// The address of function `number`.
pub(crate) fn function_address(number: usize) -> u64 {
    FIRST_FUNCTION + FUNCTION_BYTES * (number as u64 + 1)
}

/// The number of the function at an address.
pub(crate) fn function_at(address: u64) -> Option<usize> {
    let offset = address.checked_sub(FIRST_FUNCTION + FUNCTION_BYTES)?;
    (offset.is_multiple_of(FUNCTION_BYTES)).then_some((offset / FUNCTION_BYTES) as usize)
}
