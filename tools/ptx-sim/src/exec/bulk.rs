//! Asynchronous reads of shared memory by bulk copies and `wgmma`, and the groups their threads wait for (PTX ISA, "Bulk
//! async-groups", "wgmma.commit_group").

use std::collections::BTreeMap;

use super::block::Block;
use super::context::Context;
use crate::finding::{FindingClass, LaneAddress};
use crate::race::{Agent, Engine};

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
    fn begin(&mut self, reader: Agent, pc: u32, address: u64, bytes: u64, time: u32) {
        let group = self.committed(reader);
        self.pending.push(BulkRead { reader, group, pc, address, bytes, time });
    }

    /// A reader ends the group it is filling.
    fn commit(&mut self, reader: Agent) {
        *self.committed.entry(reader).or_insert(0) += 1;
    }

    /// A reader's thread waits for all but its latest `allowed` groups; when the last that it waited for began.
    fn wait(&mut self, reader: Agent, allowed: u64) -> u32 {
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
}

impl Context<'_> {
    /// When what `agent` is told to do now begins, for the detection of races.
    pub fn race_time(&self, agent: Agent) -> u32 {
        self.block.races.as_ref().map_or(0, |races| races.time(agent))
    }

    /// A reader of the warp begins to read shared memory.
    pub fn begin_read(&mut self, reader: Agent, address: u64, bytes: u64) {
        let time = self.race_time(reader);
        self.block.bulk_reads.begin(reader, self.pc, address, bytes, time);
    }

    /// A reader of the warp ends the group it is filling.
    pub fn commit_reads(&mut self, reader: Agent) {
        self.block.bulk_reads.commit(reader);
        if let Some(races) = &mut self.block.races {
            races.commit(reader.warp, reader.engine);
        }
    }

    /// The warp waits for all but the latest `allowed` groups of a reader.
    pub fn wait_for_reads(&mut self, reader: Agent, allowed: u64) {
        let last = self.block.bulk_reads.wait(reader, allowed);
        if let Some(races) = &mut self.block.races {
            races.finish(reader, last);
        }
    }
}

impl Block<'_> {
    /// Reports bulk copies that nobody waited for before the block ended.
    pub(super) fn report_forgotten_bulk_reads(&mut self) {
        for read in std::mem::take(&mut self.state.bulk_reads.pending) {
            let Agent { warp, lane, engine: Engine::BulkReads } = read.reader else { continue };
            self.with_instruction(warp as usize, read.pc, |context| {
                let which = vec![LaneAddress { lane, address: Some(read.address) }];
                context.report(FindingClass::AsyncCopyNotWaited, which, || {
                    "the thread ends without having waited for this copy to read its source in shared memory".to_owned()
                });
            });
        }
    }
}
