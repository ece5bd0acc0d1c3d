//! Scheduling of diverged paths within a warp.
//!
//! Since `sm_70` every thread makes progress (PTX ISA, "Set of SIMT Multiprocessors"): lanes that spin on something
//! that other lanes of their warp do on another path, such as the release of a lock, wait for a finite time. Diverged
//! lanes run lowest instruction first, so that they reconverge early, until they have accessed memory so often that
//! they may be spinning.

use std::cmp::Reverse;

use super::group::Group;
use crate::lanes::{LANES, lanes};

/// Number of reads of shared state by diverged lanes before another path gets a turn. More than a compare-and-swap loop
/// needs in which one of 32 lanes succeeds per iteration.
const PATIENCE: u32 = 64;
/// Maximum instructions of a path's turn.
const TURN: u64 = 4096;

/// Which path of a warp runs next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    /// Strong reads of diverged lanes since the last out-of-order turn.
    reads: u32,
    /// The lanes with an out-of-order turn, and the instruction count at which it ends.
    turn: Option<(u32, u64)>,
    /// Time of the last out-of-order turn of each lane.
    last: [u64; LANES],
}

impl Paths {
    /// All lanes have reconverged.
    pub fn join(&mut self) {
        (self.reads, self.turn) = (0, None);
    }

    /// Starts a warp.
    pub fn clear(&mut self) {
        *self = Paths::default();
    }

    /// A diverged path accesses memory visibly to others, and reads it if `reads`. Other paths may be waiting for this
    /// access.
    pub fn access(&mut self, reads: bool) {
        match self.turn.take() {
            Some(_) => self.reads = 0,
            None => self.reads += u32::from(reads),
        }
    }

    /// The runnable group (in any order) that runs next, at this instruction count. `depth` is the call depth of a
    /// group: functions return before groups outside the call continue.
    pub fn choose<'a>(
        &mut self,
        ready: impl Iterator<Item = (usize, &'a Group)> + Clone,
        steps: u64,
        depth: impl Fn(&Group) -> usize,
    ) -> Option<usize> {
        let order = |(_, group): &(usize, &Group)| (Reverse(depth(group)), group.pc);
        let lowest = |groups: &mut dyn Iterator<Item = (usize, &'a Group)>| groups.min_by_key(order);
        if let Some((among, end)) = self.turn {
            // A turn ends when its lanes reconverge with others.
            let mut mine = ready.clone().filter(|(_, group)| group.lanes & !among == 0);
            if let Some((index, _)) = lowest(&mut mine).filter(|_| steps < end) {
                return Some(index);
            }
            (self.reads, self.turn) = (0, None);
        }
        let (first, _) = lowest(&mut ready.clone())?;
        if self.reads < PATIENCE {
            return Some(first);
        }
        let oldest = |group: &Group| lanes(group.lanes).map(|lane| self.last[lane]).min();
        let others = ready.filter(|(index, _)| *index != first);
        let Some((index, group)) = others.min_by_key(|(_, group)| (oldest(group), group.pc)) else {
            return Some(first);
        };
        self.turn = Some((group.lanes, steps + TURN));
        lanes(group.lanes).for_each(|lane| self.last[lane] = steps);
        Some(index)
    }
}
