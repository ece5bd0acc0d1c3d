//! Stores of undetermined values to global memory. A store does not count as a use of the value; a later read may.

use super::unknown::Use;
use super::view::Context;
use crate::finding::FindingClass;
use crate::memory::{Storing, UndeterminedStore};
use crate::unknown::UnknownBytes;

/// The undetermined values that the lanes of a store leave in global memory.
#[derive(Default)]
pub(crate) struct Left {
    /// Stores that are visible outside of the simulation, and racing ones.
    seen: Vec<Use>,
    /// Other stores, with the undetermined bits of each byte.
    uses: Vec<Use>,
    bytes: Vec<(u64, u8)>,
}

impl Context<'_> {
    /// Adds a lane's store at an address. Values that were reported before count as determined.
    pub(super) fn leave(&self, lane: usize, address: u64, unknown: &UnknownBytes, left: &mut Left) {
        let memory = self.machine.memory;
        for (index, byte) in unknown.iter().filter(|(_, byte)| !self.cluster.reported.contains(&byte.origin)) {
            let address = address + index as u64;
            if byte.origin.is_of_others() || memory.is_seen_by_host(address) {
                left.seen.push((lane, byte.origin));
            } else {
                memory.forget_bytes(address, 1);
                left.uses.push((lane, byte.origin));
                left.bytes.push((address, byte.bits as u8));
            }
        }
    }

    /// Reports the visible ones, and records the others.
    pub fn note_left(&mut self, left: Left) {
        let Left { seen, mut uses, bytes } = left;
        if !seen.is_empty() {
            self.report_uses(&seen);
        }
        // Of the values in one lane's store, the first is enough.
        uses.dedup_by_key(|(lane, _)| *lane);
        let Some((_, first)) = uses.first().copied() else { return };
        let (which, other, message) = self.describe_uses(first, &uses);
        let machine = self.machine;
        let by = Storing {
            launch: machine.memory.launch(),
            file: machine.module.file(),
            line: self.instruction.line,
            cluster: self.cluster.number,
        };
        machine.memory.leave_undetermined(by, &bytes, uses.len() as u64, || UndeterminedStore {
            entry: machine.launch.entry.to_owned(),
            finding: self.finding(
                (self.instruction, self.warp.index),
                FindingClass::Uninitialised,
                which,
                other,
                message,
            ),
        });
    }
}
