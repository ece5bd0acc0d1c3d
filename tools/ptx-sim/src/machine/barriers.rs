//! The barriers of a block.

/// Named barriers of a block (`bar`, `barrier.cta`).
pub(crate) const NAMED_BARRIERS: usize = 16;
/// The barrier of the cluster (`barrier.cluster`), which is that of its only block.
pub(crate) const CLUSTER_BARRIER: usize = NAMED_BARRIERS;
/// All barriers of a block.
pub(crate) const BARRIERS: usize = NAMED_BARRIERS + 1;

/// A barrier's name, for messages.
pub(crate) fn barrier_name(barrier: usize) -> String {
    if barrier == CLUSTER_BARRIER { "the cluster's barrier".to_owned() } else { format!("barrier {barrier}") }
}

/// What `bar.red` computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reduction {
    /// Threads that took part.
    pub threads: u32,
    /// Those whose predicate was true.
    pub true_threads: u32,
}

/// A barrier of a block.
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
