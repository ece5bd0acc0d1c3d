//! What is remembered of the accesses to a piece of memory.

use smallvec::SmallVec;

use super::agent::{Agent, Strength};
use super::clock::Clocks;

/// Bytes of memory that one [`Cell`] stands for.
pub(crate) const CELL_BYTES: u64 = 4;
/// Cells of a page of global memory.
pub(super) const PAGE_CELLS: u64 = 1024;

/// How two accesses meet that nothing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// As a race.
    Race,
    /// As a volatile read of what another lane of the warp wrote by a volatile store, which is no race, but has an order only
    /// where lanes run in lockstep.
    Lockstep,
}

/// Accesses that lanes of one warp made by one instruction at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The group of agents, as [`Clocks::group`] numbers them.
    pub group: u16,
    /// The bytes of the cell, one bit each.
    pub bytes: u8,
    pub writes: bool,
    pub strength: Strength,
    pub lanes: u32,
    pub time: u32,
    /// Index of the instruction.
    pub pc: u32,
    /// The number of what its thread knew of other blocks; 0 for nothing.
    pub foreign: u16,
    /// What was written, in place.
    pub value: u32,
}

impl Record {
    /// Whether the two accesses are a race unless one happened before the other, where `is_strong` says which accesses do not
    /// race with each other.
    pub fn conflicts(&self, new: &Record, is_copy: bool, is_strong: impl Fn(Strength) -> bool) -> bool {
        let both_strong = is_strong(self.strength) && is_strong(new.strength);
        let bytes = self.bytes & new.bytes;
        bytes != 0 && (self.writes || new.writes) && !both_strong && (is_copy || !self.writes_the_same(new, bytes))
    }

    /// How the two accesses of a cluster meet that nothing orders.
    pub(super) fn meets(&self, clocks: &Clocks, new: &Record, is_copy: bool) -> Option<Meeting> {
        let is_volatile = |record: &Record| record.strength == Strength::Volatile;
        let is_strong = match clocks.are_of_one_block(self.group, new.group) {
            true => Strength::is_strong,
            false => Strength::reaches_cluster,
        };
        if self.conflicts(new, is_copy, is_strong) {
            Some(Meeting::Race)
        } else if self.writes && !new.writes && is_volatile(self) && is_volatile(new) && self.group == new.group {
            Some(Meeting::Lockstep)
        } else {
            None
        }
    }

    /// Whether both store the same value: whichever is last, the memory holds the same.
    fn writes_the_same(&self, new: &Record, bytes: u8) -> bool {
        let mask = (0..4).filter(|byte| bytes >> byte & 1 != 0).fold(0_u32, |mask, byte| mask | 0xff << (8 * byte));
        self.writes && new.writes && self.strength == new.strength && (self.value ^ new.value) & mask == 0
    }

    /// Whether it leaves nothing of earlier accesses to remember.
    pub fn is_last_word(&self) -> bool {
        self.writes && self.strength == Strength::Weak
    }

    /// Whether the two are the same but for the lanes.
    pub fn is_like(&self, new: &Record) -> bool {
        Record { lanes: new.lanes, ..*self } == *new
    }

    /// Leaves of this record what `new`, an access by `agent`, does not stand for from now on; whether that is anything. While
    /// `is_open`, `meets` gets this record if it may meet the other and nothing orders the two, with the first of its lanes
    /// and whether one of the two is a copy.
    #[inline]
    pub(super) fn make_way(
        &mut self,
        clocks: &Clocks,
        agent: Agent,
        new: &Record,
        is_open: bool,
        meets: impl FnOnce(&Record, u32, bool),
    ) -> bool {
        let overlap = self.bytes & new.bytes;
        if overlap == 0 {
            return true;
        }
        let covered = self.is_covered_by(new);
        // Two reads neither race nor meet.
        let may_meet = is_open && (self.writes || new.writes);
        let mut concurrent = 0;
        if may_meet || covered && !new.is_last_word() {
            concurrent = clocks.concurrent(agent, self.group as usize, self.lanes, self.time);
        }
        if concurrent != 0 && may_meet {
            let is_copy = agent.engine.is_asynchronous() || !clocks.is_of_threads(self.group as usize);
            meets(self, concurrent.trailing_zeros(), is_copy);
        }
        if new.is_last_word() || covered && concurrent == 0 {
            self.bytes &= !overlap;
        } else if covered && overlap == self.bytes {
            self.lanes &= if self.group == new.group { !new.lanes } else { u32::MAX };
        }
        self.bytes != 0 && self.lanes != 0
    }

    /// Whether whatever comes later and races with this record also races with `new`, which comes after it.
    fn is_covered_by(&self, new: &Record) -> bool {
        let weaker = new.strength == Strength::Weak || self.strength.is_strong();
        weaker && (new.writes || !self.writes)
    }
}

/// An earlier access that another one meets without order: one of its lanes, and how.
pub(super) type Met = (Record, u32, Meeting);

/// The accesses to four bytes that a later access may race with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    records: SmallVec<[Record; 2]>,
}

impl Cell {
    /// With these records.
    pub fn new(records: SmallVec<[Record; 2]>) -> Cell {
        Cell { records }
    }

    /// What is remembered.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Whether an access by `agent` meets something without order.
    pub fn meets_any(&self, clocks: &Clocks, agent: Agent, new: &Record) -> bool {
        let mut met = false;
        for old in &self.records {
            let meets = |old: &Record, _, is_copy| met |= old.meets(clocks, new, is_copy).is_some();
            { *old }.make_way(clocks, agent, new, true, meets);
        }
        met
    }

    /// Adds an access by `agent`; what it meets without order.
    pub fn access(&mut self, clocks: &Clocks, agent: Agent, new: Record) -> Option<Met> {
        let mut met = None;
        self.records.retain(|old| {
            old.make_way(clocks, agent, &new, met.is_none(), |old, lane, is_copy| {
                met = old.meets(clocks, &new, is_copy).map(|meeting| (*old, lane, meeting));
            })
        });
        match self.records.iter_mut().find(|old| old.is_like(&new)) {
            Some(old) => old.lanes |= new.lanes,
            None => self.records.push(new),
        }
        met
    }
}
