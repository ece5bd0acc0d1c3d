//! What the threads of a warp know of what happened before them.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::clock::Clock;

/// What each thread of a warp knows. Nearly always all of them know the same.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Lanes that know the same; each lane is in one of the parts.
    parts: SmallVec<[(u32, Arc<Clock>); 1]>,
}

impl Known {
    /// All lanes know the same.
    pub fn new(clock: Arc<Clock>) -> Known {
        Known { parts: smallvec![(u32::MAX, clock)] }
    }

    /// What a lane knows.
    pub fn of(&self, lane: u32) -> &Arc<Clock> {
        let mine = self.parts.iter().find(|(lanes, _)| lanes >> lane & 1 == 1);
        &mine.unwrap_or(&self.parts[0]).1
    }

    /// What lanes of a mask know, each clock once.
    pub fn of_any(&self, among: u32) -> impl Iterator<Item = &Arc<Clock>> {
        self.parts.iter().filter(move |(lanes, _)| lanes & among != 0).map(|(_, clock)| clock)
    }

    /// Makes what lanes do from now on come after `clock`.
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

    /// What happened before either; what a part knows where it is that.
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
        // One lane after the other, of which the clock does not say all that they know.
        (0..32).for_each(|lane| known.acquire(1 << lane, &after_phase(2)));
        assert_eq!(known.of_any(u32::MAX).count(), 1);
        assert!(known.of(31).includes(&all) && known.of(31).includes(&after_phase(2)));
    }
}
