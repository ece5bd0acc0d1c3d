//! Stores of undetermined values to global memory. They are no use of the values yet: who reads them there makes one.

use super::unknown::Use;
use super::view::Context;
use crate::finding::FindingClass;
use crate::memory::{Storing, UndeterminedStore};
use crate::unknown::{Origin, UnknownBytes};

/// What the lanes of a store leave undetermined in global memory.
#[derive(Default)]
pub(crate) struct Left {
    /// Where somebody who is not simulated may see it, and what races.
    seen: Vec<Use>,
    /// Elsewhere, and the bits of each byte.
    uses: Vec<Use>,
    bytes: Vec<(u64, u8)>,
}

impl Context<'_> {
    /// Adds what a lane has just stored at an address. What was reported before counts as known.
    pub(super) fn leave(&self, lane: usize, address: u64, unknown: &UnknownBytes, left: &mut Left) {
        let memory = self.machine.memory;
        for (index, byte) in unknown.iter().filter(|(_, byte)| !self.cluster.reported.contains(&byte.origin)) {
            let address = address + index as u64;
            if matches!(byte.origin, Origin::Race(..)) || memory.is_seen_by_host(address) {
                left.seen.push((lane, byte.origin));
            } else {
                memory.forget_bytes(address, 1);
                left.uses.push((lane, byte.origin));
                left.bytes.push((address, byte.bits as u8));
            }
        }
    }

    /// Reports what somebody may see, and notes the rest.
    pub fn note_left(&mut self, left: Left) {
        let Left { seen, mut uses, bytes } = left;
        if !seen.is_empty() {
            self.report_uses(&seen);
        }
        // Of what one lane stores at once, the first is enough.
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
