//! What strong writes announced to the threads of their cluster.

use std::sync::Arc;

use super::clock::Clock;

/// What a strong write announced: to threads of the block that made it, and to those of other blocks of its cluster.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// The rank of the block.
    pub rank: usize,
    pub to_block: Option<Arc<Clock>>,
    pub to_cluster: Option<Arc<Clock>>,
}

impl Announced {
    /// What a thread of the block of a rank sees.
    pub fn to(&self, rank: usize) -> &Option<Arc<Clock>> {
        if rank == self.rank { &self.to_block } else { &self.to_cluster }
    }
}

/// Both of two clocks that may be absent.
pub(super) fn joined(before: Option<Arc<Clock>>, mine: Option<Arc<Clock>>) -> Option<Arc<Clock>> {
    match (before, mine) {
        (Some(mut before), Some(mine)) => {
            Arc::make_mut(&mut before).join(&mine);
            Some(before)
        }
        (before, mine) => before.or(mine),
    }
}
