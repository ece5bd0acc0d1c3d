//! What happened in other clusters (nearly always of one block) before something: what their threads released at the scope of the GPU and somebody acquired
//! (PTX ISA, "Memory Consistency Model", "Scope", "Release and Acquire Patterns").

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::Clock;

/// Up to where other clusters have come before something, by index of the cluster in the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Foreign {
    clusters: BTreeMap<u64, Arc<Clock>>,
    /// Where that was read: the strong accesses there by which it was announced have come before as well.
    places: BTreeSet<u64>,
}

impl Foreign {
    /// What happened in one cluster.
    pub fn of(cluster: u64, clock: Arc<Clock>) -> Foreign {
        Foreign { clusters: BTreeMap::from([(cluster, clock)]), places: BTreeSet::new() }
    }

    /// The same as read at an address.
    pub fn read_at(&self, address: u64) -> Foreign {
        let mut read = self.clone();
        read.places.insert(address);
        read
    }

    /// Whether something that a cluster announced was read at an address.
    pub fn was_read_at(&self, cluster: u64, address: u64) -> bool {
        self.places.contains(&address) && self.clusters.contains_key(&cluster)
    }

    /// What happened in a cluster.
    pub fn clock(&self, cluster: u64) -> Option<&Arc<Clock>> {
        self.clusters.get(&cluster)
    }

    /// Adds what happened before something else too.
    pub fn join(&mut self, other: &Foreign) {
        self.places.extend(&other.places);
        for (cluster, clock) in &other.clusters {
            match self.clusters.get_mut(cluster) {
                None => {
                    self.clusters.insert(*cluster, clock.clone());
                }
                Some(mine) if Arc::ptr_eq(mine, clock) || mine.includes(clock) => {}
                Some(mine) if clock.includes(mine) => *mine = clock.clone(),
                Some(mine) => Arc::make_mut(mine).join(clock),
            }
        }
    }

    /// Whether everything that the other one says is known.
    pub fn includes(&self, other: &Foreign) -> bool {
        let knows = |(cluster, clock): (&u64, &Arc<Clock>)| {
            self.clusters.get(cluster).is_some_and(|mine| Arc::ptr_eq(mine, clock) || mine.includes(clock))
        };
        other.clusters.iter().all(knows) && other.places.is_subset(&self.places)
    }
}

/// Both of two that may be absent.
pub(super) fn join_shared(mine: &mut Option<Arc<Foreign>>, theirs: &Option<Arc<Foreign>>) {
    match (mine.as_mut(), theirs) {
        (_, None) => {}
        (None, Some(theirs)) => *mine = Some(theirs.clone()),
        (Some(known), Some(theirs)) if Arc::ptr_eq(known, theirs) || known.includes(theirs) => {}
        (Some(known), Some(theirs)) if theirs.includes(known) => *known = theirs.clone(),
        (Some(known), Some(theirs)) => Arc::make_mut(known).join(theirs),
    }
}

/// Whether all of what the other one says is known; both may be absent.
pub(super) fn includes_shared(mine: &Option<Arc<Foreign>>, theirs: &Option<Arc<Foreign>>) -> bool {
    match (mine, theirs) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs) || mine.includes(theirs),
    }
}

/// Parts of the table, each with a lock of its own.
const SHARDS: u64 = 64;

/// What strong writes to global memory announced to other clusters, by address.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    shards: Vec<Mutex<Shard>>,
}

/// A part of what was announced, of which nobody else sees anything while it is held.
pub(crate) type Shard = HashMap<u64, Arc<Foreign>>;

impl Announcements {
    /// Nothing was announced.
    pub fn new() -> Announcements {
        Announcements { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// The part that an address belongs to. Whoever holds it while it accesses the address sees what the last write that
    /// it reads from announced.
    pub fn shard(&self, address: u64) -> MutexGuard<'_, Shard> {
        // Words of a vector are announced under the first.
        let index = (address / 32 % SHARDS) as usize;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
