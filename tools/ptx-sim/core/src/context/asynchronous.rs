//! Asynchronous copies to, and reads of, shared memory: their start, what is forbidden until they are waited for, and
//! their completion.

use super::faults::Faults;
use super::place::Place;
use super::races::Effect;
use super::view::Context;
use crate::finding::FindingClass;
use crate::machine::Mbarrier;
use crate::memory::OutOfBounds;
use crate::parse::Space;
use crate::race::{Agent, Arrival, Engine};

impl Context<'_> {
    /// Starts an asynchronous copy of `bytes` bytes to a place in shared memory; false if it is faulty.
    pub fn begin_copy(&mut self, faults: &mut Faults, place: Place, bytes: usize, what: impl Fn() -> String) -> bool {
        if !self.check_place(faults, place, bytes, &what) {
            return false;
        }
        let Place { lane, address, .. } = place;
        self.check_bulk_reads(faults, lane, address, bytes, &what);
        match self.cluster.shared.begin_copy(address, bytes) {
            Ok(false) => {
                // The data is not known yet; the exception for writes of equal values does not apply to copies.
                self.check_races(faults, place, &vec![0; bytes], Effect::Write, None);
                true
            }
            Ok(true) => {
                let cause = || format!("{} overlaps that of another copy not yet waited for", what());
                faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
                true
            }
            Err(OutOfBounds(location)) => {
                let variable = self.variable(Space::Shared, address);
                let cause = || format!("{} in shared memory is out of bounds, {location}{variable}", what());
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                false
            }
        }
    }

    /// Counts the bytes of a lane's copy at an mbarrier: waiting for its phase orders after the copy.
    pub fn complete_copy(&mut self, faults: &mut Faults, lane: usize, mbarrier: u64, bytes: u64) {
        let agent = Agent::new(self.warp.index, lane, Engine::Thread);
        if let (Some(races), Some(state)) = (&mut self.cluster.races, self.cluster.mbarriers.get(mbarrier)) {
            races.arrive_at_mbarrier(mbarrier, state.phase, agent, Arrival::WithCopies);
        }
        // A faulty copy counts too, so that no wait hangs.
        if let Err(misuse) = self.cluster.mbarriers.complete_bytes(mbarrier, bytes) {
            self.misuse(faults, lane, mbarrier, &misuse);
        }
    }

    /// Logical time at which an operation issued now by `agent` begins, for race detection.
    pub fn race_time(&self, agent: Agent) -> u32 {
        self.cluster.races.as_ref().map_or(0, |races| races.time(agent))
    }

    /// An asynchronous reader of the warp begins to read shared memory.
    pub fn begin_read(&mut self, reader: Agent, address: u64, bytes: u64) {
        let time = self.race_time(reader);
        self.cluster.bulk_reads.begin(reader, self.pc, address, bytes, time);
    }

    /// Commits the current group of an asynchronous reader of the warp.
    pub fn commit_reads(&mut self, reader: Agent) {
        self.cluster.bulk_reads.commit(reader);
        if let Some(races) = &mut self.cluster.races {
            races.commit(reader.warp, reader.engine);
        }
    }

    /// The warp waits for all but the latest `allowed` groups of an asynchronous reader.
    pub fn wait_for_reads(&mut self, reader: Agent, allowed: u64) {
        let last = self.cluster.bulk_reads.wait(reader, allowed);
        if let Some(races) = &mut self.cluster.races {
            races.finish(reader, last);
        }
    }

    /// A lane commits its current group of bulk copies from shared memory.
    pub fn commit_bulk_group(&mut self, lane: usize) {
        let [reads, writes] = self.bulk_agents(lane);
        self.commit_reads(reads);
        if let Some(races) = &mut self.cluster.races {
            self.cluster.bulk_writes.commit(writes, races.time(writes));
            races.commit(writes.warp, writes.engine);
        }
    }

    /// A lane waits for all but its latest `allowed` groups of bulk copies, or only for their reads.
    pub fn wait_for_bulk_groups(&mut self, lane: usize, allowed: u64, reads_only: bool) {
        let [reads, writes] = self.bulk_agents(lane);
        self.wait_for_reads(reads, allowed);
        if reads_only {
            return;
        }
        let last = self.cluster.bulk_writes.wait(writes, allowed);
        if let (Some(last), Some(races)) = (last, &mut self.cluster.races) {
            races.finish(writes, last);
        }
    }

    /// What reads and what writes for a lane's bulk copies from shared memory.
    fn bulk_agents(&self, lane: usize) -> [Agent; 2] {
        [Engine::BulkReads, Engine::BulkWrites].map(|engine| Agent::new(self.warp.index, lane, engine))
    }

    /// Adds a fault if a write changes the source of a bulk copy that was not waited for.
    pub(super) fn check_bulk_reads(
        &self,
        faults: &mut Faults,
        lane: usize,
        address: u64,
        bytes: usize,
        what: impl Fn() -> String,
    ) {
        if let Some(read) = self.cluster.bulk_reads.overlapping(address, bytes) {
            let line = self.machine.line(&self.machine.program.instructions[read.pc as usize]);
            let cause = || {
                format!(
                    "{} changes what the {} has not waited for",
                    what(),
                    match read.reader {
                        Agent { warp, engine: Engine::Matrix, .. } =>
                            format!("wgmma in {line} reads, which {}", self.name_of(self.warp.index, warp)),
                        Agent { warp, lane, .. } => {
                            let reader = self.name_of(self.warp.index, warp);
                            format!("bulk copy in {line} reads, which {reader} lane {lane}")
                        }
                    }
                )
            };
            faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
        }
    }

    /// Adds a fault if the async proxy reads or overwrites data of an ordinary write without a proxy fence; `does` says
    /// which.
    pub fn check_proxy(&mut self, faults: &mut Faults, lane: usize, address: u64, bytes: usize, does: &str) {
        if let Some(warp) = self.cluster.proxies.unfenced(address, bytes) {
            let cause = || {
                let variable = self.variable(Space::Shared, address);
                let warp = self.name_of(self.warp.index, warp);
                format!(
                    "shared memory that ordinary instructions of {warp} wrote is {does} by the async proxy without a \
                     fence.proxy.async in between{variable}"
                )
            };
            faults.add(FindingClass::MissingProxyFence, lane, address, cause);
        }
    }

    /// Adds a fault if the async proxy overwrites what ordinary instructions wrote, or still may read, for all it knows.
    pub fn check_overwritten(&mut self, faults: &mut Faults, lane: usize, address: u64, bytes: usize) {
        self.check_proxy(faults, lane, address, bytes, "overwritten");
        self.check_loads(lane, address, bytes);
    }

    /// Adds a fault if the async proxy signals an mbarrier whose initialisation it may not see.
    pub fn check_mbarrier_proxy(&self, faults: &mut Faults, lane: usize, mbarrier: u64) {
        if let Some(warp) = self.cluster.mbarriers.get(mbarrier).and_then(Mbarrier::unfenced) {
            let cause = || {
                let variable = self.variable(Space::Shared, mbarrier);
                let warp = self.name_of(self.warp.index, warp);
                format!(
                    "the async proxy counts bytes at the mbarrier{variable}, which {warp} initialised, without a \
                     fence.mbarrier_init or fence.proxy.async in between"
                )
            };
            faults.add(FindingClass::MissingProxyFence, lane, mbarrier, cause);
        }
    }
}
