//! Access history of a piece of memory.

use smallvec::SmallVec;

use super::agent::{Agent, Strength};
use super::clocks::Clocks;

/// Bytes of memory per [`Cell`].
pub(crate) const CELL_BYTES: u64 = 4;
/// Cells per page of global memory.
pub(super) const PAGE_CELLS: u64 = 1024;

/// Kind of race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// An access is plain, or the scope of one does not include the other thread.
    Plain,
    /// Both accesses are strong, one is a volatile store, and no test of the value excuses it.
    Volatile,
}

/// Kind of conflict of two unordered accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// A race.
    Race(Kind),
    /// A volatile read of what another lane of the warp wrote with a volatile store: not a race, but ordered only if
    /// lanes run in lockstep.
    Lockstep,
}

/// Accesses by lanes of one warp with one instruction at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The group of agents ([`Clocks::group`]).
    pub group: u16,
    /// Bytes of the cell, one bit each.
    pub bytes: u8,
    pub writes: bool,
    /// Whether a decision depends on the value that it reads.
    pub is_tested: bool,
    pub strength: Strength,
    pub lanes: u32,
    pub time: u32,
    /// Index of the instruction.
    pub pc: u32,
    /// Number of its thread's knowledge of other clusters; 0 for none.
    pub foreign: u16,
    /// The written value, at its bytes.
    pub value: u32,
}

impl Record {
    /// The kind of race of the two accesses unless they are ordered; `is_strong` says which strengths include the thread
    /// of the other access.
    pub fn conflict(&self, new: &Record, is_copy: bool, is_strong: impl Fn(Strength) -> bool) -> Option<Kind> {
        let bytes = self.bytes & new.bytes;
        if bytes == 0 || !(self.writes || new.writes) || !is_copy && self.writes_the_same(new, bytes) {
            None
        } else if !is_strong(self.strength) || !is_strong(new.strength) {
            Some(Kind::Plain)
        } else {
            let stores = |record: &Record| record.writes && record.strength == Strength::Volatile;
            ((stores(self) || stores(new)) && !self.is_flag_of(new)).then_some(Kind::Volatile)
        }
    }

    fn is_volatile(&self) -> bool {
        self.strength == Strength::Volatile
    }

    /// Whether the thread that reads, or one that reads and writes, tests the value before it goes on: it waits for a flag
    /// or takes a lock.
    fn is_flag_of(&self, new: &Record) -> bool {
        match (self.writes, new.writes) {
            (true, true) => self.is_tested || new.is_tested,
            (true, false) => new.is_tested,
            (false, _) => self.is_tested,
        }
    }

    /// Kind of conflict of two unordered accesses of a cluster.
    pub(super) fn meets(&self, clocks: &Clocks, new: &Record, is_copy: bool) -> Option<Meeting> {
        let is_strong = match clocks.are_of_one_block(self.group, new.group) {
            true => Strength::is_strong,
            false => Strength::reaches_cluster,
        };
        match self.conflict(new, is_copy, is_strong) {
            Some(Kind::Volatile) if self.group == new.group => None,
            Some(kind) => Some(Meeting::Race(kind)),
            None => None,
        }
        .or_else(|| self.is_lockstep(new).then_some(Meeting::Lockstep))
    }

    /// Whether one lane of a warp reads what another one wrote, both by volatile accesses.
    fn is_lockstep(&self, new: &Record) -> bool {
        self.group == new.group && self.writes && !new.writes && self.is_volatile() && new.is_volatile()
    }

    /// Whether both store the same value, so that their order does not matter.
    fn writes_the_same(&self, new: &Record, bytes: u8) -> bool {
        let mask = (0..4).filter(|byte| bytes >> byte & 1 != 0).fold(0_u32, |mask, byte| mask | 0xff << (8 * byte));
        self.writes && new.writes && self.strength == new.strength && (self.value ^ new.value) & mask == 0
    }

    /// Whether no earlier access needs to be remembered after it.
    pub fn is_last_word(&self) -> bool {
        self.writes && self.strength == Strength::Weak
    }

    /// Whether the two are the same except for the lanes.
    pub fn is_like(&self, new: &Record) -> bool {
        Record { lanes: new.lanes, ..*self } == *new
    }

    /// Removes from this record what `new`, an access by `agent`, stands for from now on; returns whether anything
    /// remains. Calls `meets` if this record conflicts with `new` without order, with the conflicting lanes and whether
    /// one of the two is a copy.
    #[inline]
    pub(super) fn make_way(
        &mut self,
        clocks: &Clocks,
        agent: Agent,
        new: &Record,
        meets: impl FnOnce(&Record, u32, bool),
    ) -> bool {
        let overlap = self.bytes & new.bytes;
        if overlap == 0 {
            return true;
        }
        let covered = self.is_covered_by(new);
        // Two reads never conflict.
        let may_meet = self.writes || new.writes;
        let mut concurrent = 0;
        if may_meet || covered && !new.is_last_word() {
            concurrent = clocks.concurrent(agent, self.group as usize, self.lanes, self.time);
        }
        if concurrent != 0 && may_meet {
            let is_copy = agent.engine.writes_unseen() || clocks.writes_unseen(self.group as usize);
            meets(self, concurrent, is_copy);
        }
        if new.is_last_word() || covered && concurrent == 0 {
            self.bytes &= !overlap;
        } else if covered && overlap == self.bytes {
            self.lanes &= if self.group == new.group { !new.lanes } else { u32::MAX };
        }
        self.bytes != 0 && self.lanes != 0
    }

    /// Whether every later access that races with this record also races with `new`, which is ordered after it.
    fn is_covered_by(&self, new: &Record) -> bool {
        let weaker = match new.strength {
            Strength::Weak => true,
            Strength::Volatile => self.strength.is_strong(),
            _ => self.strength.is_strong() && !self.is_volatile(),
        };
        weaker && (new.writes || !self.writes) && (self.is_tested || !new.is_tested)
    }
}

/// An earlier unordered access in conflict with another one: those of its lanes, and the kind.
pub(super) type Met = (Record, u32, Meeting);

/// The accesses to four bytes with which a later access may race.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    records: SmallVec<[Record; 2]>,
}

impl Cell {
    /// A cell with these records.
    pub fn new(records: SmallVec<[Record; 2]>) -> Cell {
        Cell { records }
    }

    /// Its records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Whether an access by `agent` has an unordered conflict.
    pub fn meets_any(&self, clocks: &Clocks, agent: Agent, new: &Record) -> bool {
        let mut met = false;
        for old in &self.records {
            let meets = |old: &Record, _, is_copy| met |= old.meets(clocks, new, is_copy).is_some();
            { *old }.make_way(clocks, agent, new, meets);
        }
        met
    }

    /// Adds an access by `agent`; calls `meets` with its unordered conflicts.
    pub fn access(&mut self, clocks: &Clocks, agent: Agent, new: Record, mut meets: impl FnMut(Met)) {
        self.records.retain(|old| {
            old.make_way(clocks, agent, &new, |old, lanes, is_copy| {
                old.meets(clocks, &new, is_copy).into_iter().for_each(|meeting| meets((*old, lanes, meeting)));
            })
        });
        match self.records.iter_mut().find(|old| old.is_like(&new)) {
            Some(old) => old.lanes |= new.lanes,
            None => self.records.push(new),
        }
    }
}
