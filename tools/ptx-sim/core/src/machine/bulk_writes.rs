//! Groups of bulk copies and reductions whose writes to global memory their threads have not waited for (PTX ISA,
//! "cp.async.bulk.wait_group").

use std::collections::{BTreeMap, VecDeque};

use crate::race::Agent;

/// The bulk groups of a cluster's threads.
#[derive(Debug, Default)]
pub(crate) struct BulkWrites {
    /// When each group was committed, oldest first, for the detection of races.
    committed: BTreeMap<Agent, VecDeque<u32>>,
}

impl BulkWrites {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.committed.clear();
    }

    /// A writer ends the group it is filling.
    pub fn commit(&mut self, writer: Agent, time: u32) {
        self.committed.entry(writer).or_default().push_back(time);
    }

    /// A writer's thread waits for all but its latest `allowed` groups; when the last that it waited for was committed.
    pub fn wait(&mut self, writer: Agent, allowed: u64) -> Option<u32> {
        let groups = self.committed.get_mut(&writer)?;
        let over = groups.len().saturating_sub(usize::try_from(allowed).unwrap_or(usize::MAX));
        groups.drain(..over).next_back()
    }
}
