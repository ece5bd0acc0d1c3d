//! Functions and calls of them, decoded but for what their instructions do.

use super::operand::{Destination, Slot};

/// A function's local memory and what calls give to it and take from it, in each call anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameLayout {
    /// Bytes of its `.local` variables, which lie first.
    pub locals: u64,
    /// Bytes of all of it.
    pub bytes: u64,
    /// What its address is a multiple of.
    pub alignment: u64,
    /// Whether addresses of the `.param` variables behind the locals are taken.
    pub exposes_arguments: bool,
}

impl FrameLayout {
    /// Bytes that loads and stores may reach.
    pub fn reachable(&self) -> u64 {
        if self.exposes_arguments { self.bytes } else { self.locals }
    }
}

/// Where one value that a call passes lies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passed {
    /// A `.param` variable, that far in the frame.
    Bytes { offset: u64, bytes: u64 },
    /// A register, or a literal, of that many bytes.
    Register { slot: Slot, mask: u64, bytes: u64 },
}

impl Passed {
    /// Its size.
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

/// A function of which there is a body.
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
    /// Registers that hold the address of a place in its frame, that far from the first byte.
    pub addresses: Vec<(Slot, u64)>,
    /// Whether it can be called while it runs: each call then has registers of its own.
    pub is_recursive: bool,
}

/// Whom a call calls.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// The function with that number.
    Function(usize),
    /// The function whose address is in the register.
    Address(Slot),
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub callee: Callee,
    pub arguments: Vec<Passed>,
    pub results: Vec<Passed>,
}

/// The first address of functions.
const FIRST_FUNCTION: u64 = 0x7c00_0000_0000;
/// Distance of functions.
const FUNCTION_BYTES: u64 = 16;

/// The address of the function with that number.
pub(crate) fn function_address(number: usize) -> u64 {
    FIRST_FUNCTION + FUNCTION_BYTES * (number as u64 + 1)
}

/// The number of the function at an address.
pub(crate) fn function_at(address: u64) -> Option<usize> {
    let offset = address.checked_sub(FIRST_FUNCTION + FUNCTION_BYTES)?;
    (offset.is_multiple_of(FUNCTION_BYTES)).then_some((offset / FUNCTION_BYTES) as usize)
}
