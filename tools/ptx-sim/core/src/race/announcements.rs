//! What the threads of a cluster announce to other clusters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::Foreign;

/// Shards of the table, each with its own lock.
const SHARDS: u64 = 64;

/// Announcements of strong writes to global memory to other clusters, by address.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    shards: Vec<Mutex<Shard>>,
}

/// A locked shard.
pub(crate) type Shard = HashMap<u64, Arc<Foreign>>;

impl Announcements {
    /// A table without announcements.
    pub fn new() -> Announcements {
        Announcements { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Locks the shard of an address. A holder that accesses the address sees the announcement of the last write that
    /// it reads from.
    pub fn shard(&self, address: u64) -> MutexGuard<'_, Shard> {
        // A vector's words are announced at its first address.
        let index = (address / 32 % SHARDS) as usize;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
