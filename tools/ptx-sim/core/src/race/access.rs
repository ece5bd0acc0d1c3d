//! Memory accesses as input of the race detection.

use super::agent::{Agent, Semantics};
use crate::parse::Space;

/// Effect and origin of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access<'a> {
    pub agent: Agent,
    pub semantics: Semantics,
    /// Index of the instruction.
    pub pc: u32,
    pub space: Space,
    pub address: u64,
    /// The value written or read.
    pub data: &'a [u8],
    pub writes: bool,
    /// Whether a decision depends on the value that it reads.
    pub is_tested: bool,
}
