//! Knowledge of events in other clusters (usually single blocks): what their threads released at GPU scope and a thread
//! acquired (PTX ISA, "Memory Consistency Model", "Scope", "Release and Acquire Patterns").

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::Clock;

/// Progress of other clusters that happened before some point, by index of the cluster in the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Foreign {
    clusters: BTreeMap<u64, Arc<Clock>>,
    /// Address of the announcement that was read: the strong accesses there that announced it have happened before as
    /// well.
    places: BTreeSet<u64>,
}

impl Foreign {
    /// Events of one cluster.
    pub fn of(cluster: u64, clock: Arc<Clock>) -> Foreign {
        Foreign { clusters: BTreeMap::from([(cluster, clock)]), places: BTreeSet::new() }
    }

    /// The same, as read at an address.
    pub fn read_at(&self, address: u64) -> Foreign {
        let mut read = self.clone();
        read.places.insert(address);
        read
    }

    /// Whether an announcement of a cluster was read at an address.
    pub fn was_read_at(&self, cluster: u64, address: u64) -> bool {
        self.places.contains(&address) && self.clusters.contains_key(&cluster)
    }

    /// Events of a cluster.
    pub fn clock(&self, cluster: u64) -> Option<&Arc<Clock>> {
        self.clusters.get(&cluster)
    }

    /// Joins `other`.
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

    /// Whether everything in `other` is known.
    pub fn includes(&self, other: &Foreign) -> bool {
        let knows = |(cluster, clock): (&u64, &Arc<Clock>)| {
            self.clusters.get(cluster).is_some_and(|mine| Arc::ptr_eq(mine, clock) || mine.includes(clock))
        };
        other.clusters.iter().all(knows) && other.places.is_subset(&self.places)
    }
}

/// What a thread knows about other clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    pub acquired: Option<Arc<Foreign>>,
    /// What it has observed, but not acquired, because no liberties are taken.
    pub observed: Option<Arc<Foreign>>,
}

impl Knowledge {
    /// Whether it is none.
    pub fn is_none(&self) -> bool {
        self.acquired.is_none() && self.observed.is_none()
    }

    /// Whether the two share their parts.
    pub fn is(&self, other: &Knowledge) -> bool {
        let part = |known: &Option<Arc<Foreign>>| known.as_ref().map(Arc::as_ptr);
        part(&self.acquired) == part(&other.acquired) && part(&self.observed) == part(&other.observed)
    }
}

/// The join of two optional values.
pub(super) fn join_shared(mine: &mut Option<Arc<Foreign>>, theirs: &Option<Arc<Foreign>>) {
    match (mine.as_mut(), theirs) {
        (_, None) => {}
        (None, Some(theirs)) => *mine = Some(theirs.clone()),
        (Some(known), Some(theirs)) if Arc::ptr_eq(known, theirs) || known.includes(theirs) => {}
        (Some(known), Some(theirs)) if theirs.includes(known) => *known = theirs.clone(),
        (Some(known), Some(theirs)) => Arc::make_mut(known).join(theirs),
    }
}

/// Whether everything in the other optional value is known.
pub(super) fn includes_shared(mine: &Option<Arc<Foreign>>, theirs: &Option<Arc<Foreign>>) -> bool {
    match (mine, theirs) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs) || mine.includes(theirs),
    }
}

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
