//! Lanes of a warp that are at one place.

/// State of a group of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Ready to execute the next instruction.
    Ready,
    /// Waiting for other lanes of the warp at a collective instruction.
    AtCollective,
    /// Arrived at a barrier, in a phase of it.
    AtBarrier { barrier: usize, phase: u64 },
    /// Waiting for the end of a phase of the mbarrier at a shared address.
    AtMbarrier { mbarrier: u64, phase: u64 },
}

/// Lanes at the same instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub pc: u32,
    pub lanes: u32,
    pub progress: Progress,
}
