//! A write that races with reads, which is a finding only if something depends on what they returned.

use crate::parse::Space;
use crate::race::{Conflict, EarlierRead};

/// A write of a lane that races with earlier reads by threads of its cluster.
pub(crate) struct Doubt {
    pub lane: usize,
    pub space: Space,
    /// First byte written.
    pub address: u64,
    pub bytes: usize,
    /// Whether it is an atomic operation.
    pub is_atomic: bool,
    /// The first of the reads.
    pub conflict: Conflict,
    pub reads: Vec<EarlierRead>,
}
