//! What the warps of a block share.

use std::collections::HashSet;

use super::barriers::{BARRIERS, Barrier};
use super::bulk_reads::BulkReads;
use super::grid::Machine;
use super::mbarriers::Mbarriers;
use super::proxies::Proxies;
use super::warpgroups::Warpgroups;
use crate::counters::Counters;
use crate::finding::Findings;
use crate::lanes::LANES;
use crate::memory::{Bytes, SYSTEM_SHARED_BYTES};
use crate::race::Races;
use crate::unknown::Origin;

/// What the warps of a block share.
pub(crate) struct BlockState {
    /// `%ctaid`.
    pub position: [u32; 3],
    /// Threads of the block, rounded up to whole warps.
    pub threads: u32,
    pub shared: Bytes,
    pub barriers: [Barrier; BARRIERS],
    pub mbarriers: Mbarriers,
    /// Absent when races are not looked for.
    pub races: Option<Races>,
    pub bulk_reads: BulkReads,
    pub proxies: Proxies,
    pub warpgroups: Warpgroups,
    /// Origins of undetermined values that were reported.
    pub reported: HashSet<Origin>,
    /// How often warps read of global memory what they had read there before.
    pub polls: u64,
    /// How often the block wrote to global memory.
    pub global_writes: u64,
    pub findings: Findings,
    pub counters: Counters,
    /// What its threads printed.
    pub printed: Vec<u8>,
}

impl BlockState {
    /// A block that has not started.
    pub fn new(machine: &Machine<'_>) -> BlockState {
        let threads: u32 = machine.launch.block.iter().product();
        let warps = threads.div_ceil(LANES as u32);
        let races = || Races::new(warps as usize, BARRIERS, machine.shared_end(), machine.overlaps_previous);
        let watched = if machine.program.uses_async_proxy { machine.shared_end() } else { 0 };
        BlockState {
            position: [0; 3],
            threads: warps * LANES as u32,
            shared: Bytes::new(SYSTEM_SHARED_BYTES, machine.shared_bytes),
            barriers: [Barrier::default(); BARRIERS],
            mbarriers: Mbarriers::default(),
            races: machine.races.then(races),
            bulk_reads: BulkReads::default(),
            proxies: Proxies::new(watched),
            warpgroups: Warpgroups::default(),
            reported: HashSet::new(),
            polls: 0,
            global_writes: 0,
            findings: Findings::default(),
            printed: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Begins the block with that index in the grid, at `position`.
    pub fn start(&mut self, index: u64, position: [u32; 3]) {
        self.position = position;
        self.shared.clear();
        self.barriers = [Barrier::default(); BARRIERS];
        self.mbarriers.clear();
        if let Some(races) = &mut self.races {
            races.start(index);
        }
        self.bulk_reads.clear();
        self.proxies.clear();
        self.warpgroups.clear();
        self.reported.clear();
        self.counters.blocks = 1;
    }

    /// Notes an ordinary write of a warp to shared memory.
    pub fn ordinary_write(&mut self, warp: u32, address: u64, bytes: usize) {
        if self.proxies.is_watching() {
            let epoch = self.epoch();
            self.proxies.write(address, bytes, warp, epoch);
        }
    }

    /// How often warps of the block synchronised.
    pub fn epoch(&self) -> u64 {
        self.mbarriers.completed + self.barriers.iter().map(|barrier| barrier.phase).sum::<u64>()
    }

    /// Makes what the copies of completed phases of an mbarrier wrote visible.
    pub fn land(&mut self, mbarrier: u64) {
        for landing in self.mbarriers.take_landings(mbarrier) {
            if self.mbarriers.lands(landing.tracked) {
                self.shared.finish_copy(landing.address, &landing.data, &landing.unknown);
            }
        }
    }
}
