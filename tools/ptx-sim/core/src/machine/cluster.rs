//! What the warps of a cluster share. Nearly every cluster is one block.

use std::collections::HashSet;

use super::barriers::{Barrier, barrier_count, cluster_barrier};
use super::bulk_reads::BulkReads;
use super::bulk_writes::BulkWrites;
use super::grid::Machine;
use super::mbarriers::Mbarriers;
use super::proxies::Proxies;
use super::shared_loads::SharedLoads;
use super::warpgroups::Warpgroups;
use crate::counters::Counters;
use crate::doubt::Doubt;
use crate::finding::Findings;
use crate::lane_accesses::LaneAccesses;
use crate::lanes::{LANES, lanes};
use crate::launch::BoxLoad;
use crate::memory::SharedMemory;
use crate::race::{Races, Shape};
use crate::unknown::Origin;

/// Strong reads in the turn of a warp.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Polls {
    /// Reads in a row that returned what they had returned before.
    pub repeated: u64,
    /// Whether another one returned something new.
    pub saw_news: bool,
}

impl Polls {
    /// Adds a read.
    pub fn add(&mut self, is_repeated: bool) {
        if is_repeated {
            self.repeated += 1;
        } else {
            *self = Polls { repeated: 0, saw_news: true };
        }
    }
}

/// What the warps of a cluster share.
pub(crate) struct ClusterState {
    /// Index in the grid.
    pub number: u64,
    /// How many blocks it has.
    pub blocks: u32,
    /// Threads of a block, rounded up to whole warps.
    pub threads: u32,
    /// Warps of each block that have not ended, by rank.
    pub running: Vec<u32>,
    pub shared: SharedMemory,
    /// The named ones of each block, and that of the cluster.
    pub barriers: Vec<Barrier>,
    pub mbarriers: Mbarriers,
    /// Absent when races are not looked for.
    pub races: Option<Races>,
    pub bulk_reads: BulkReads,
    pub bulk_writes: BulkWrites,
    pub proxies: Proxies,
    pub loads: SharedLoads,
    pub warpgroups: Warpgroups,
    /// Origins of undetermined values that were reported.
    pub reported: HashSet<Origin>,
    /// Writes of the current instruction that race with earlier reads.
    pub doubts: Vec<Doubt>,
    pub polls: Polls,
    /// How often it wrote to global memory.
    pub global_writes: u64,
    pub findings: Findings,
    pub counters: Counters,
    /// What its threads printed.
    pub printed: Vec<u8>,
    /// The boxes that they loaded, if these are listed.
    pub box_loads: Vec<BoxLoad>,
}

impl ClusterState {
    /// A cluster that has not started.
    pub fn new(machine: &Machine<'_>) -> ClusterState {
        let threads: u32 = machine.launch.block.iter().product();
        let (warps, blocks) = (threads.div_ceil(LANES as u32), machine.blocks_of_cluster());
        let shape = || Shape {
            blocks: blocks as usize,
            warps: warps as usize,
            barriers: barrier_count(blocks),
            shared_bytes: machine.shared_end(),
        };
        let may_overtake = machine.races && machine.program.async_proxy_writes;
        let readers = if may_overtake { blocks * warps } else { 0 };
        let watched = if machine.program.uses_async_proxy { machine.shared_end() } else { 0 };
        ClusterState {
            number: 0,
            blocks,
            threads: warps * LANES as u32,
            running: vec![warps; blocks as usize],
            shared: SharedMemory::new(blocks, machine.shared_bytes, machine.program.uses_system_shared()),
            barriers: vec![Barrier::default(); barrier_count(blocks)],
            mbarriers: Mbarriers::default(),
            races: machine.races.then(|| Races::new(shape(), machine.overlaps_previous, machine.strict)),
            bulk_reads: BulkReads::default(),
            bulk_writes: BulkWrites::default(),
            proxies: Proxies::new(blocks as usize, watched),
            loads: SharedLoads::new(readers as usize, machine.program.registers.len()),
            warpgroups: Warpgroups::default(),
            reported: HashSet::new(),
            doubts: Vec::new(),
            polls: Polls::default(),
            global_writes: 0,
            findings: Findings::default(),
            printed: Vec::new(),
            box_loads: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Begins the cluster with that index in the grid.
    pub fn start(&mut self, number: u64) {
        self.number = number;
        self.running.fill(self.threads / LANES as u32);
        self.shared.clear();
        self.barriers.fill(Barrier::default());
        self.mbarriers.clear();
        if let Some(races) = &mut self.races {
            races.start(number);
        }
        self.bulk_reads.clear();
        self.bulk_writes.clear();
        self.proxies.clear();
        self.loads.clear();
        self.warpgroups.clear();
        self.reported.clear();
        self.counters.blocks = u64::from(self.blocks);
    }

    /// The number of the cluster's own barrier.
    pub fn cluster_barrier(&self) -> usize {
        cluster_barrier(self.blocks)
    }

    /// Whether all threads of a block have ended.
    pub fn has_ended(&self, rank: u64) -> bool {
        self.running.get(rank as usize) == Some(&0)
    }

    /// Notes an ordinary write of a warp to shared memory.
    pub fn ordinary_write(&mut self, warp: u32, address: u64, bytes: usize) {
        if self.proxies.is_watching() {
            let epoch = self.epoch();
            self.proxies.write(address, bytes, warp, epoch);
        }
    }

    /// Notes an ordinary write of each lane of a warp to shared memory.
    pub fn ordinary_writes(&mut self, warp: u32, accesses: &LaneAccesses, bytes: usize) {
        if self.proxies.is_watching() {
            let epoch = self.epoch();
            for lane in lanes(accesses.active) {
                self.proxies.write(accesses.addresses[lane], bytes, warp, epoch);
            }
        }
    }

    /// How often warps of it synchronised.
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
