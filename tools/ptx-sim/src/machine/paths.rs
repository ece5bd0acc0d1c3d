//! Paths of diverged lanes that take turns.
//!
//! Since `sm_70` every thread makes progress (PTX ISA, "Set of SIMT Multiprocessors"): lanes that wait in a loop for what
//! lanes of their own warp do on another path, as for a lock that one of them holds, wait for a finite time. Diverged lanes
//! nevertheless run lowest instruction first, so that they meet again as soon as they can, until they have asked memory so
//! often that they may be waiting.

use std::cmp::Reverse;

use super::warp::Group;
use crate::lanes::{LANES, lanes};

/// How often diverged lanes read what others may change before another path has a turn. More than a compare-and-swap loop
/// in which one of 32 lanes succeeds each time.
const PATIENCE: u32 = 64;
/// Most instructions of the turn of a path.
const TURN: u64 = 4096;

/// Which of a warp's paths has its turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    /// Strong reads of diverged lanes since another path had its turn.
    reads: u32,
    /// The lanes that have a turn out of order, and the instruction count at which it ends.
    turn: Option<(u32, u64)>,
    /// When each lane had its last turn out of order.
    last: [u64; LANES],
}

impl Paths {
    /// All lanes are together.
    pub fn join(&mut self) {
        (self.reads, self.turn) = (0, None);
    }

    /// Begins a warp.
    pub fn clear(&mut self) {
        *self = Paths::default();
    }

    /// A diverged path accesses memory such that others see it, and reads it if `reads`. What it did may be what other
    /// paths wait for.
    pub fn access(&mut self, reads: bool) {
        match self.turn.take() {
            Some(_) => self.reads = 0,
            None => self.reads += u32::from(reads),
        }
    }

    /// Which of the groups that can go on, in no order, goes on after that many instructions. `depth` is how many calls
    /// deep a group is: functions return before those who did not call them go on.
    pub fn choose<'a>(
        &mut self,
        ready: impl Iterator<Item = (usize, &'a Group)> + Clone,
        steps: u64,
        depth: impl Fn(&Group) -> usize,
    ) -> Option<usize> {
        let order = |(_, group): &(usize, &Group)| (Reverse(depth(group)), group.pc);
        let lowest = |groups: &mut dyn Iterator<Item = (usize, &'a Group)>| groups.min_by_key(order);
        if let Some((among, end)) = self.turn {
            // Lanes that met others have done enough.
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
