//! Races between clusters (nearly always of one block), which nothing orders but strong accesses to global memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::accesses::Touched;
use super::agent::{Agent, Strength};
use super::foreign::Foreign;
use super::shadow::{CELL_BYTES, PAGE_CELLS, Record};

/// What a cluster did in global memory.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// By cell, in order.
    pub accesses: Vec<(u64, Record)>,
    /// What its threads knew of other clusters, as the records number it from 1.
    pub foreign: Vec<Arc<Foreign>>,
    /// It made strong accesses, by which it may have synchronised with others.
    pub may_synchronise: bool,
    /// It let the next grid begin, or ended, and had not waited for the grid in front of this one.
    pub ends_before_previous: bool,
}

/// One of two accesses of different clusters that race.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterAccess {
    /// Index of the cluster in the grid.
    pub cluster: u64,
    pub agent: Agent,
    /// Index of the instruction.
    pub pc: u32,
    pub writes: bool,
}

/// Two accesses of different clusters that race.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterConflict {
    pub later: ClusterAccess,
    pub earlier: ClusterAccess,
    /// First byte of the word both access.
    pub address: u64,
    /// Whether both clusters made strong accesses, by which they may have meant to be ordered.
    pub both_synchronise: bool,
}

/// What one cluster did to a cell.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cluster: u64,
    may_synchronise: bool,
    record: Record,
}

type Entries = SmallVec<[Entry; 2]>;

/// What the clusters so far did in global memory.
#[derive(Debug)]
pub(crate) struct GridRaces {
    /// Warps of a cluster.
    warps: usize,
    pages: HashMap<u64, Vec<Entries>>,
    /// What the threads of each cluster knew of others; absent for clusters that knew nothing.
    foreign: HashMap<u64, Vec<Arc<Foreign>>>,
}

impl GridRaces {
    /// Nothing so far, by clusters of that many warps.
    pub fn new(warps: usize) -> GridRaces {
        GridRaces { warps, pages: HashMap::new(), foreign: HashMap::new() }
    }

    /// Adds what another cluster did; the accesses by which it races with earlier ones, one for each instruction and lane.
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
            let races = |other: &&Entry| {
                other.races_with(&entry, self.warps) && !are_ordered(&self.foreign, other, &entry, cell * CELL_BYTES)
            };
            let other = entries.iter().find(races);
            if let Some(other) = other
                && reported.insert((record.pc, record.group, record.lanes))
            {
                conflicts.push(ClusterConflict {
                    later: entry.access(self.warps),
                    earlier: other.access(self.warps),
                    address: cell * CELL_BYTES,
                    both_synchronise: entry.may_synchronise && other.may_synchronise,
                });
            }
            remember(entries, entry);
        }
        conflicts
    }

    /// What all clusters did.
    pub fn touched(&self) -> Vec<Touched> {
        let cells = self.pages.iter().flat_map(|(page, cells)| cells.iter().zip(page * PAGE_CELLS..));
        let records = cells.flat_map(|(entries, cell)| entries.iter().map(move |entry| (cell, &entry.record)));
        Touched::merged(records.flat_map(|(cell, record)| Touched::of(cell, record)).collect())
    }
}

impl Entry {
    fn races_with(&self, new: &Entry, warps: usize) -> bool {
        let is_copy = [self, new].iter().any(|entry| entry.agent(warps).engine.is_asynchronous());
        self.cluster != new.cluster && self.record.conflicts(&new.record, is_copy, Strength::reaches_other_clusters)
    }

    /// Whether what races with `new` races with this one too, as far as clusters are concerned.
    fn is_like(&self, new: &Entry) -> bool {
        let same_kind = self.record.writes == new.record.writes && self.record.strength == new.record.strength;
        same_kind
            && self.record.bytes & new.record.bytes == new.record.bytes
            && (new.may_synchronise || !self.may_synchronise)
    }

    fn access(&self, warps: usize) -> ClusterAccess {
        let Record { pc, writes, .. } = self.record;
        ClusterAccess { cluster: self.cluster, agent: self.agent(warps), pc, writes }
    }

    /// The first of those who made it.
    fn agent(&self, warps: usize) -> Agent {
        Agent::of_group(self.record.group.into(), self.record.lanes.trailing_zeros(), warps)
    }
}

/// Whether one of two accesses to a word by different clusters happened before the other.
fn are_ordered(foreign: &HashMap<u64, Vec<Arc<Foreign>>>, one: &Entry, other: &Entry, address: u64) -> bool {
    let knows = |this: &Entry, that: &Entry| {
        let index = usize::from(this.record.foreign).checked_sub(1)?;
        let known = foreign.get(&this.cluster)?.get(index)?;
        let announced = that.record.strength.reaches_other_clusters() && known.was_read_at(that.cluster, address);
        let Record { group, lanes, time, .. } = that.record;
        Some(announced || known.clock(that.cluster)?.covers(group.into(), lanes, time))
    };
    knows(one, other) == Some(true) || knows(other, one) == Some(true)
}

/// Clusters that do the same to a cell and may be ordered with others: as many are remembered.
const LIKE: usize = 8;

/// Adds an entry. Two clusters that do the same are enough where they are not ordered: one of them is not the one that comes
/// next.
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
