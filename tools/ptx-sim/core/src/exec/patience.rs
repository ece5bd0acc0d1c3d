//! When a cluster that waits is taken to wait for ever: it has come back to states in which it was before, and no cluster has
//! changed global memory since. That does not depend on how many clusters run at the same time.

use std::collections::HashSet;

/// How often a cluster waits before its state is compared.
const FREE: u32 = 8;
/// How often it comes back to a state in which it was before, until it waits for ever.
const ROUNDS: u32 = 64;

/// How long a cluster has waited since global memory changed.
#[derive(Default)]
pub(super) struct Patience {
    /// The change of global memory since which it counts.
    since: u64,
    waits: u32,
    repeats: u32,
    states: HashSet<u64>,
}

impl Patience {
    /// The cluster waits again, after as many changes of global memory; `state` is a number for its state.
    pub fn wait(&mut self, changes: u64, state: impl FnOnce() -> u64) {
        if self.since != changes {
            *self = Patience { since: changes, ..Patience::default() };
        }
        self.waits += 1;
        if self.waits > FREE && !self.is_over(changes) {
            match self.states.insert(state()) {
                true => self.repeats = 0,
                false => self.repeats += 1,
            }
        }
    }

    /// Whether the cluster has waited in vain since the last change.
    pub fn is_over(&self, changes: u64) -> bool {
        self.since == changes && self.repeats >= ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_repeated_states_without_changes_count() {
        let mut patience = Patience::default();
        (0..1000).for_each(|state| patience.wait(0, || state));
        assert!(!patience.is_over(0), "a loop that counts");
        (0..70).for_each(|_| patience.wait(0, || 5));
        assert!(patience.is_over(0) && !patience.is_over(1));
        patience.wait(1, || 5);
        assert!(!patience.is_over(1), "memory has changed");
    }
}
