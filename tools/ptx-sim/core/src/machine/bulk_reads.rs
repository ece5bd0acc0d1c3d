//! Asynchronous reads of shared memory by bulk copies and `wgmma`, and the groups their threads wait for (PTX ISA, "Bulk
//! async-groups", "wgmma.commit_group").

use std::collections::BTreeMap;

use crate::race::Agent;

/// A read of shared memory that was not waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkRead {
    pub reader: Agent,
    /// Number of the group of its reader that it belongs to.
    group: u64,
    /// Index of the instruction.
    pub pc: u32,
    /// Shared address.
    pub address: u64,
    pub bytes: u64,
    /// When it began, for the detection of races.
    time: u32,
}

/// The asynchronous reads of a block's shared memory.
#[derive(Debug, Default)]
pub(crate) struct BulkReads {
    pending: Vec<BulkRead>,
    /// Groups committed so far, by reader.
    committed: BTreeMap<Agent, u64>,
}

impl BulkReads {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.committed.clear();
    }

    fn committed(&self, reader: Agent) -> u64 {
        self.committed.get(&reader).copied().unwrap_or(0)
    }

    /// A reader begins.
    pub fn begin(&mut self, reader: Agent, pc: u32, address: u64, bytes: u64, time: u32) {
        let group = self.committed(reader);
        self.pending.push(BulkRead { reader, group, pc, address, bytes, time });
    }

    /// A reader ends the group it is filling.
    pub fn commit(&mut self, reader: Agent) {
        *self.committed.entry(reader).or_insert(0) += 1;
    }

    /// A reader's thread waits for all but its latest `allowed` groups; when the last that it waited for began.
    pub fn wait(&mut self, reader: Agent, allowed: u64) -> u32 {
        let end = self.committed(reader).saturating_sub(allowed);
        let mut last = 0;
        self.pending.retain(|read| {
            let is_over = read.reader == reader && read.group < end;
            last = last.max(if is_over { read.time } else { 0 });
            !is_over
        });
        last
    }

    /// A read of some of the bytes.
    pub fn overlapping(&self, address: u64, bytes: usize) -> Option<&BulkRead> {
        let end = address.saturating_add(bytes as u64);
        self.pending.iter().find(|read| read.address < end && address < read.address.saturating_add(read.bytes))
    }

    /// Forgets the reads that nobody waited for; what they were.
    pub fn take_pending(&mut self) -> Vec<BulkRead> {
        std::mem::take(&mut self.pending)
    }
}
