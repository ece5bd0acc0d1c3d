//! Races between clusters (usually single blocks), which are ordered only by strong accesses to global memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::accesses::Touched;
use super::agent::{Agent, Strength};
use super::clock::{Foreign, Knowledge};
use super::shadow::{CELL_BYTES, Kind, PAGE_CELLS, Record};

/// Global memory accesses of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// By cell, in order.
    pub accesses: Vec<(u64, Record)>,
    /// Its threads' knowledge of other clusters, numbered from 1 as in the records.
    pub foreign: Vec<Knowledge>,
    /// Whether it made strong accesses, by which it may have synchronised with others.
    pub may_synchronise: bool,
    /// Whether it let the next grid begin, or ended, without having waited for the previous grid.
    pub ends_before_previous: bool,
}

/// One of two racing accesses of different clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterAccess {
    /// Index of the cluster in the grid.
    pub cluster: u64,
    pub agent: Agent,
    /// Index of the instruction.
    pub pc: u32,
    pub writes: bool,
}

/// Two racing accesses of different clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterConflict {
    pub later: ClusterAccess,
    pub earlier: ClusterAccess,
    /// First byte of the word that both access.
    pub address: u64,
    pub kind: Kind,
    /// Whether one has observed the other, but acquired nothing only because no liberties are taken.
    pub is_excused: bool,
    /// Whether both clusters made strong accesses, which may have been meant to order them.
    pub both_synchronise: bool,
}

/// Access of one cluster to a cell.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cluster: u64,
    may_synchronise: bool,
    record: Record,
}

type Entries = SmallVec<[Entry; 2]>;

/// Global memory accesses of all clusters so far.
#[derive(Debug)]
pub(crate) struct GridRaces {
    /// Warps per cluster.
    warps: usize,
    pages: HashMap<u64, Vec<Entries>>,
    /// Each cluster's knowledge of others; `None` for clusters without any.
    foreign: HashMap<u64, Vec<Knowledge>>,
}

impl GridRaces {
    /// No accesses yet, for clusters of a number of warps.
    pub fn new(warps: usize) -> GridRaces {
        GridRaces { warps, pages: HashMap::new(), foreign: HashMap::new() }
    }

    /// Adds a cluster; returns its races with earlier ones, one for each instruction and lane.
    pub fn add(&mut self, cluster: u64, trace: Trace) -> Vec<ClusterConflict> {
        if !trace.foreign.is_empty() {
            self.foreign.insert(cluster, trace.foreign);
        }
        let mut conflicts = Vec::new();
        let mut reported = HashSet::new();
        for (cell, record) in &trace.accesses {
            let entry = Entry { cluster, may_synchronise: trace.may_synchronise, record: *record };
            let page = self.pages.entry(cell / PAGE_CELLS);
            let page = page.or_insert_with(|| vec![Entries::new(); PAGE_CELLS as usize]);
            let entries = &mut page[(cell % PAGE_CELLS) as usize];
            let race = |other: &Entry| {
                let kind = other.conflict(&entry, self.warps)?;
                let order = order(&self.foreign, other, &entry, cell * CELL_BYTES);
                (order != Order::Acquired).then_some((*other, kind, order == Order::Observed))
            };
            if let Some((other, kind, is_excused)) = entries.iter().find_map(race)
                && reported.insert((record.pc, record.group, record.lanes))
            {
                conflicts.push(ClusterConflict {
                    later: entry.access(self.warps),
                    earlier: other.access(self.warps),
                    address: cell * CELL_BYTES,
                    kind,
                    is_excused,
                    both_synchronise: entry.may_synchronise && other.may_synchronise,
                });
            }
            remember(entries, entry);
        }
        conflicts
    }

    /// The accesses of all clusters.
    pub fn touched(&self) -> Vec<Touched> {
        let cells = self.pages.iter().flat_map(|(page, cells)| cells.iter().zip(page * PAGE_CELLS..));
        let records = cells.flat_map(|(entries, cell)| entries.iter().map(move |entry| (cell, &entry.record)));
        Touched::merged(records.flat_map(|(cell, record)| Touched::of(cell, record)).collect())
    }
}

impl Entry {
    /// The kind of race with an access of another cluster, unless they are ordered.
    fn conflict(&self, new: &Entry, warps: usize) -> Option<Kind> {
        let is_copy = [self, new].iter().any(|entry| entry.agent(warps).engine.writes_unseen());
        let kind = self.record.conflict(&new.record, is_copy, Strength::reaches_other_clusters);
        kind.filter(|_| self.cluster != new.cluster)
    }

    /// Whether everything that races with `new` also races with this one, as far as the order of clusters goes.
    fn is_like(&self, new: &Entry) -> bool {
        let kind = |entry: &Entry| (entry.record.writes, entry.record.is_tested, entry.record.strength);
        let same_kind = kind(self) == kind(new);
        same_kind
            && self.record.bytes & new.record.bytes == new.record.bytes
            && (new.may_synchronise || !self.may_synchronise)
    }

    fn access(&self, warps: usize) -> ClusterAccess {
        let Record { pc, writes, .. } = self.record;
        ClusterAccess { cluster: self.cluster, agent: self.agent(warps), pc, writes }
    }

    /// The first lane that made it.
    fn agent(&self, warps: usize) -> Agent {
        Agent::of_group(self.record.group.into(), self.record.lanes.trailing_zeros(), warps)
    }
}

/// The order of two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    None,
    /// One thread has observed what the other one released after its access, but has not acquired it.
    Observed,
    Acquired,
}

/// The order of accesses to a word by two different clusters.
fn order(foreign: &HashMap<u64, Vec<Knowledge>>, one: &Entry, other: &Entry, address: u64) -> Order {
    let knows = |known: &Foreign, that: &Entry| {
        let announced = that.record.strength.reaches_other_clusters() && known.was_read_at(that.cluster, address);
        let Record { group, lanes, time, .. } = that.record;
        announced || known.clock(that.cluster).is_some_and(|clock| clock.covers(group.into(), lanes, time))
    };
    let order = |this: &Entry, that: &Entry| {
        let index = usize::from(this.record.foreign).checked_sub(1);
        let known = index.and_then(|index| foreign.get(&this.cluster)?.get(index));
        let is_in = |part: fn(&Knowledge) -> &Option<Arc<Foreign>>| {
            known.and_then(|known| part(known).as_ref()).is_some_and(|known| knows(known, that))
        };
        match () {
            () if is_in(|known| &known.acquired) => Order::Acquired,
            () if is_in(|known| &known.observed) => Order::Observed,
            () => Order::None,
        }
    };
    order(one, other).max(order(other, one))
}

/// Maximum number of ordered clusters with equal accesses to a cell that are remembered.
const LIKE: usize = 8;

/// Adds an entry. Of unordered clusters with equal accesses two are enough: at least one of them differs from any later
/// cluster.
fn remember(entries: &mut Entries, new: Entry) {
    let mut like = entries.iter().filter(|entry| entry.is_like(&new)).map(|entry| entry.cluster);
    let is_known = match like.next() {
        None => false,
        Some(first) if first == new.cluster => true,
        Some(_) if new.may_synchronise => like.count() + 1 >= LIKE,
        Some(first) => like.any(|cluster| cluster != first),
    };
    if !is_known {
        entries.push(new);
    }
}
