//! The `wgmma` instructions of a warp that are in flight, and the registers they use (PTX ISA, "Asynchronous wgmma
//! Proxy").

use std::collections::HashMap;

use crate::lanes::LANES;
use crate::program::Slot;

/// The value of a register in every lane.
type Values = [u64; LANES];

/// What a warp's `wgmma` instructions have in flight.
#[derive(Debug, Default)]
pub(crate) struct AsyncMatrix {
    /// Groups committed, which is the number of the group being filled.
    committed: u64,
    /// Accumulators that were computed and not waited for: the last group that writes them, and what.
    results: HashMap<Slot, (u64, Values)>,
    /// Registers with fragments of A, and the last group that reads them.
    fragments: HashMap<Slot, u64>,
    /// `wgmma.fence`s executed.
    fences: u32,
    /// How many fences had been executed when a register was written last, by slot.
    written: HashMap<Slot, u32>,
}

impl AsyncMatrix {
    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = AsyncMatrix::default();
    }

    /// `wgmma.fence`.
    pub fn fence(&mut self) {
        self.fences += 1;
    }

    /// Whether a fence covers the last ordinary write to a register.
    pub fn is_fenced(&self, slot: Slot) -> bool {
        self.fences > self.written.get(&slot).copied().unwrap_or(0)
    }

    /// The value of an accumulator that is in flight.
    pub fn result(&self, slot: Slot) -> Option<&Values> {
        self.results.get(&slot).map(|(_, values)| values)
    }

    /// Notes what the group being filled will write to an accumulator.
    pub fn set_result(&mut self, slot: Slot, values: Values) {
        self.results.insert(slot, (self.committed, values));
    }

    /// Notes that the group being filled reads a fragment.
    pub fn read_fragment(&mut self, slot: Slot) {
        self.fragments.insert(slot, self.committed);
    }

    /// Ends the group being filled; how many there were.
    pub fn commit(&mut self) {
        self.committed += 1;
    }

    /// Completes all but the latest `allowed` groups; their accumulators.
    pub fn wait(&mut self, allowed: u64) -> Vec<(Slot, Values)> {
        let end = self.committed.saturating_sub(allowed);
        self.fragments.retain(|_, group| *group >= end);
        let done = self.results.extract_if(|_, (group, _)| *group < end);
        done.map(|(slot, (_, values))| (slot, values)).collect()
    }

    /// Whether accumulators are in flight.
    pub fn is_busy(&self) -> bool {
        !self.results.is_empty()
    }

    /// Notes an instruction other than `wgmma`: a register in flight that it touches, and what that holds.
    pub fn touch(&mut self, reads: &[Slot], writes: &[Slot]) -> Option<(Slot, &'static str)> {
        for slot in writes {
            self.written.insert(*slot, self.fences);
        }
        if self.results.is_empty() {
            return None;
        }
        let mut touched = reads.iter().chain(writes);
        let accumulator = touched.find(|slot| self.results.contains_key(slot)).map(|slot| (*slot, "accumulator"));
        let fragment = writes.iter().find(|slot| self.fragments.contains_key(slot));
        accumulator.or(fragment.map(|slot| (*slot, "fragment of A")))
    }
}
