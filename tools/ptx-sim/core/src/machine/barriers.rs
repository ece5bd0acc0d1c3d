//! The barriers of a cluster: those of each of its blocks, and its own.

/// Named barriers of a block (`bar`, `barrier.cta`).
pub(crate) const NAMED_BARRIERS: usize = 16;

/// What `bar.red` computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reduction {
    /// Threads that took part.
    pub threads: u32,
    /// Those whose predicate was true.
    pub true_threads: u32,
}

/// A barrier.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Barrier {
    /// Times it completed.
    pub phase: u64,
    /// Threads that arrived in this phase.
    pub arrived: u32,
    /// Threads this phase waits for; set by the first to arrive.
    pub expected: u32,
    /// Whether it waits for all threads of the block because nobody gave a number: those that exit then no longer count.
    pub is_for_all: bool,
    /// What the phase reduces so far.
    pub reduction: Reduction,
    /// Results of the previous even and odd phase.
    pub results: [Reduction; 2],
}

impl Barrier {
    /// Begins the next phase.
    pub fn complete(&mut self) {
        self.results[(self.phase % 2) as usize] = self.reduction;
        self.reduction = Reduction::default();
        self.phase += 1;
        self.arrived = 0;
        self.expected = 0;
    }
}

/// The number of a named barrier of the block of a rank, among all of the cluster.
pub(crate) fn block_barrier(rank: u32, number: usize) -> usize {
    rank as usize * NAMED_BARRIERS + number
}

/// The number of the barrier of a cluster of so many blocks.
pub(crate) fn cluster_barrier(blocks: u32) -> usize {
    blocks as usize * NAMED_BARRIERS
}

/// How many barriers a cluster of so many blocks has.
pub(crate) fn barrier_count(blocks: u32) -> usize {
    cluster_barrier(blocks) + 1
}
