//! Knowledge of a warp's threads about earlier events.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::clock::Clock;

/// Knowledge of each thread of a warp; usually the same for all.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Partition of the lanes by equal knowledge.
    parts: SmallVec<[(u32, Arc<Clock>); 1]>,
}

impl Known {
    /// The same knowledge for all lanes.
    pub fn new(clock: Arc<Clock>) -> Known {
        Known { parts: smallvec![(u32::MAX, clock)] }
    }

    /// Knowledge of a lane.
    pub fn of(&self, lane: u32) -> &Arc<Clock> {
        let mine = self.parts.iter().find(|(lanes, _)| lanes >> lane & 1 == 1);
        &mine.unwrap_or(&self.parts[0]).1
    }

    /// Knowledge of the lanes of a mask, each clock once.
    pub fn of_any(&self, among: u32) -> impl Iterator<Item = &Arc<Clock>> {
        self.parts.iter().filter(move |(lanes, _)| lanes & among != 0).map(|(_, clock)| clock)
    }

    /// Orders later actions of lanes after `clock`.
    pub fn acquire(&mut self, among: u32, clock: &Arc<Clock>) {
        for index in (0..self.parts.len()).rev() {
            let (lanes, known) = &self.parts[index];
            let (inside, outside) = (lanes & among, lanes & !among);
            if inside == 0 {
                continue;
            }
            let after = if clock.includes(known) { clock.clone() } else { self.joined(known, clock) };
            match outside {
                0 => drop(self.parts.swap_remove(index)),
                _ => self.parts[index].0 = outside,
            }
            match self.parts.iter_mut().find(|(_, known)| Arc::ptr_eq(known, &after)) {
                Some((mine, _)) => *mine |= inside,
                None => self.parts.push((inside, after)),
            }
        }
    }

    /// The join of two clocks; shares the clock of a part if that is equal.
    fn joined(&self, known: &Clock, clock: &Clock) -> Arc<Clock> {
        let mut joined = known.clone();
        joined.join(clock);
        let same = self.parts.iter().find(|(_, part)| **part == joined);
        same.map_or_else(|| Arc::new(joined), |(_, part)| part.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_phase(mbarrier: usize) -> Arc<Clock> {
        let mut clock = Clock::default();
        clock.end_phases(mbarrier, 1);
        Arc::new(clock)
    }

    #[test]
    fn lanes_part_and_meet_again() {
        let (start, one, other) = (Arc::new(Clock::default()), after_phase(0), after_phase(1));
        let mut known = Known::new(start.clone());
        known.acquire(0b11, &one);
        assert!(Arc::ptr_eq(known.of(1), &one) && Arc::ptr_eq(known.of(2), &start));
        known.acquire(u32::MAX, &other);
        assert!(Arc::ptr_eq(known.of(2), &other) && known.of(0).includes(&one) && known.of(0).includes(&other));
        assert_eq!((known.of_any(u32::MAX).count(), known.of_any(0b11).count()), (2, 1));
        let all = known.of(0).clone();
        known.acquire(u32::MAX, &all);
        assert_eq!(known.of_any(u32::MAX).count(), 1);
        // One lane at a time, since the clock does not cover all that they know.
        (0..32).for_each(|lane| known.acquire(1 << lane, &after_phase(2)));
        assert_eq!(known.of_any(u32::MAX).count(), 1);
        assert!(known.of(31).includes(&all) && known.of(31).includes(&after_phase(2)));
    }
}
