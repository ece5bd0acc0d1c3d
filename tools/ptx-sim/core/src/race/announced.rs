//! Clocks announced by strong writes to the threads of their cluster.

use std::sync::Arc;

use super::clock::Clock;

/// Clocks announced by a strong write: to threads of its own block, and to those of other blocks of the cluster.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// Rank of the writing block.
    pub rank: usize,
    pub to_block: Option<Arc<Clock>>,
    pub to_cluster: Option<Arc<Clock>>,
}

impl Announced {
    /// The clock visible to threads of block `rank`.
    pub fn to(&self, rank: usize) -> &Option<Arc<Clock>> {
        if rank == self.rank { &self.to_block } else { &self.to_cluster }
    }
}

/// The join of two optional clocks.
pub(super) fn joined(before: Option<Arc<Clock>>, mine: Option<Arc<Clock>>) -> Option<Arc<Clock>> {
    match (before, mine) {
        (Some(mut before), Some(mine)) => {
            Arc::make_mut(&mut before).join(&mine);
            Some(before)
        }
        (before, mine) => before.or(mine),
    }
}
