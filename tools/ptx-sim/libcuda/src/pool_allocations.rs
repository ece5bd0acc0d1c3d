//! Which memory came from which pool.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::types::DevicePointer;

/// Settings and usage of a pool.
#[derive(Default)]
pub struct Pool {
    /// The GPU.
    pub gpu: u32,
    /// Its attributes.
    pub state: Mutex<Counts>,
}

/// Attributes of a pool, and the bytes allocated from it.
#[derive(Default)]
pub struct Counts {
    /// Attributes 1 to 4.
    pub set: HashMap<u32, u64>,
    /// Bytes now.
    pub used: u64,
    /// The most bytes so far.
    pub most_used: u64,
}

/// Pool and size of stream-ordered allocations, by address.
type Allocations = HashMap<u64, (Arc<Pool>, u64)>;

fn allocations<T>(action: impl FnOnce(&mut Allocations) -> T) -> T {
    static ALL: Mutex<Option<Allocations>> = Mutex::new(None);
    action(ALL.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Accounts for `bytes` bytes at `address`, allocated from `pool`.
pub fn remember(address: DevicePointer, pool: &Arc<Pool>, bytes: u64) {
    let mut counts = pool.state.lock().unwrap_or_else(PoisonError::into_inner);
    counts.used += bytes;
    counts.most_used = counts.most_used.max(counts.used);
    allocations(|all| all.insert(address, (pool.clone(), bytes)));
}

/// Accounts for freed memory that may have come from a pool.
pub fn forget(address: DevicePointer) {
    if let Some((pool, bytes)) = allocations(|all| all.remove(&address)) {
        let mut counts = pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        counts.used = counts.used.saturating_sub(bytes);
    }
}
