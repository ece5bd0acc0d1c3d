//! Bulk copies that read shared memory, and the groups their threads wait for (PTX ISA, "Bulk async-groups").

use std::collections::BTreeMap;

use super::block::Block;
use crate::finding::{FindingClass, LaneAddress};

/// A copy that reads shared memory and was not waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkRead {
    /// The thread that issued it.
    pub thread: (u32, u32),
    /// Number of the group of its thread that it belongs to.
    group: u64,
    /// Index of the instruction.
    pub pc: u32,
    /// Shared address.
    pub address: u64,
    pub bytes: u64,
}

/// The bulk copies of a block that read shared memory.
#[derive(Debug, Default)]
pub(crate) struct BulkReads {
    pending: Vec<BulkRead>,
    /// Groups committed so far, by warp and lane.
    committed: BTreeMap<(u32, u32), u64>,
}

impl BulkReads {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.committed.clear();
    }

    fn committed(&self, thread: (u32, u32)) -> u64 {
        self.committed.get(&thread).copied().unwrap_or(0)
    }

    /// A thread issues a copy.
    pub fn begin(&mut self, thread: (u32, u32), pc: u32, address: u64, bytes: u64) {
        let group = self.committed(thread);
        self.pending.push(BulkRead { thread, group, pc, address, bytes });
    }

    /// A thread ends the group it is filling.
    pub fn commit(&mut self, thread: (u32, u32)) {
        *self.committed.entry(thread).or_insert(0) += 1;
    }

    /// A thread waits for all but its latest `allowed` groups.
    pub fn wait(&mut self, thread: (u32, u32), allowed: u64) {
        let end = self.committed(thread).saturating_sub(allowed);
        self.pending.retain(|read| read.thread != thread || read.group >= end);
    }

    /// A copy that reads some of the bytes.
    pub fn overlapping(&self, address: u64, bytes: usize) -> Option<&BulkRead> {
        let end = address.saturating_add(bytes as u64);
        self.pending.iter().find(|read| read.address < end && address < read.address.saturating_add(read.bytes))
    }
}

impl Block<'_> {
    /// Reports bulk copies that nobody waited for before the block ended.
    pub(super) fn report_forgotten_bulk_reads(&mut self) {
        for read in std::mem::take(&mut self.state.bulk_reads.pending) {
            let (warp, lane) = read.thread;
            self.with_instruction(warp as usize, read.pc, |context| {
                let which = vec![LaneAddress { lane, address: Some(read.address) }];
                context.report(FindingClass::AsyncCopyNotWaited, which, || {
                    "the thread ends without having waited for this copy to read its source in shared memory".to_owned()
                });
            });
        }
    }
}
