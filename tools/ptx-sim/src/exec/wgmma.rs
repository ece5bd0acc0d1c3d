//! The `wgmma` instructions of a warp that are in flight, and the registers they use (PTX ISA, "Asynchronous wgmma
//! Proxy").

use std::collections::HashMap;

use super::context::Context;
use super::warp::LANES;
use crate::decode::{Destination, Slot};
use crate::finding::FindingClass;

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
}

impl Context<'_> {
    /// Checks the registers of an instruction other than `wgmma` against those in flight, and notes what it writes.
    pub(super) fn check_async_matrix(&mut self) {
        let instruction = self.instruction;
        for slot in &instruction.writes {
            self.warp.matrix.written.insert(*slot, self.warp.matrix.fences);
        }
        if self.warp.matrix.results.is_empty() {
            return;
        }
        let matrix = &self.warp.matrix;
        let mut touched = instruction.reads.iter().chain(&instruction.writes);
        let accumulator = touched.find(|slot| matrix.results.contains_key(slot)).map(|slot| (*slot, "accumulator"));
        let fragment = instruction.writes.iter().find(|slot| matrix.fragments.contains_key(slot));
        let found = accumulator.or(fragment.map(|slot| (*slot, "fragment of A")));
        if let Some((slot, what)) = found {
            let name = &self.machine.program.register_names[slot as usize];
            self.report(FindingClass::WgmmaNotWaited, Vec::new(), || {
                format!("`{name}` is the {what} of a wgmma.mma_async that was not waited for (wgmma.wait_group)")
            });
        }
    }

    /// Reports accumulators that a warp never waited for.
    pub(super) fn check_matrix_finished(&mut self) {
        if self.warp.matrix.is_busy() {
            self.report(FindingClass::WgmmaNotWaited, Vec::new(), || {
                "the warp ends without having waited for its wgmma.mma_async".to_owned()
            });
        }
    }

    /// Writes the accumulators of completed groups.
    pub fn land_results(&mut self, allowed: u64) {
        for (slot, values) in self.warp.matrix.wait(allowed) {
            for (lane, value) in values.into_iter().enumerate() {
                self.set(Destination { slot, mask: u64::from(u32::MAX) }, lane, value);
            }
        }
    }
}
