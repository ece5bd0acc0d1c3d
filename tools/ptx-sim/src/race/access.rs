//! An access to memory, as the race detection is told of it.

use super::agent::{Agent, Semantics};
use crate::parse::Space;

/// What an access does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access<'a> {
    pub agent: Agent,
    pub semantics: Semantics,
    /// Index of the instruction.
    pub pc: u32,
    pub space: Space,
    pub address: u64,
    /// What is written or was read.
    pub data: &'a [u8],
    pub writes: bool,
}
