//! A warp: registers, local memory, and positions of its lanes.

use std::collections::VecDeque;
use std::hash::Hasher;

use super::async_matrix::AsyncMatrix;
use super::grid::{Machine, Place};
use super::group::{Group, Progress};
use super::paths::Paths;
use super::recent::Recent;
use super::registers::Registers;
use super::stack::Stack;
use super::strong_reads::{Mixed, StrongReads};
use super::warpgroups::WarpName;
use crate::cluster_addresses::shared_base;
use crate::lanes::{LANES, lanes};
use crate::program::{Guard, Initial, Program, Slot, Special};
use crate::unknown::UnknownBytes;

/// A copy issued by `cp.async`, with its data.
#[derive(Clone, Debug)]
pub(crate) struct PendingCopy {
    /// Number of the commit group it belongs to.
    pub group: u32,
    /// When it was issued, for the detection of races.
    pub time: u32,
    /// Index of the instruction.
    pub pc: u32,
    /// Shared address.
    pub address: u64,
    pub bytes: u8,
    pub data: [u8; 16],
    /// The undetermined bits of the data.
    pub unknown: UnknownBytes,
    /// Its identifier if an mbarrier waits for it as well.
    pub tracked: Option<u64>,
}

/// The asynchronous copies of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct AsyncCopies {
    pub pending: VecDeque<PendingCopy>,
    /// Number of committed groups, which is the number of the open group.
    pub committed: u32,
}

/// One warp.
pub(crate) struct Warp {
    /// Index in the cluster, block after block.
    pub index: u32,
    /// Index in its block.
    pub in_block: u32,
    /// The rank of its block in the cluster.
    pub rank: u32,
    /// Lanes that have a thread.
    pub existing: u32,
    /// Lanes that have exited.
    pub exited: u32,
    /// Groups in any order; empty when all lanes have exited.
    pub groups: Vec<Group>,
    /// Which group runs next.
    pub paths: Paths,
    pub registers: Registers,
    /// Local memory of each lane; empty if the entry uses none and calls nothing.
    pub local: Vec<Stack>,
    pub copies: Vec<AsyncCopies>,
    /// Phase of the cluster barrier in which it last arrived.
    pub cluster_phase: Option<u64>,
    /// Lanes that arrived at the cluster barrier and have not waited since.
    pub cluster_arrived: u32,
    pub matrix: AsyncMatrix,
    /// Whether a wait for an mbarrier returns false now instead of blocking.
    pub impatient: bool,
    /// Instructions executed.
    pub steps: u64,
    pub strong_reads: StrongReads,
    /// What it executed last, if races are looked for.
    pub recent: Recent,
}

impl Warp {
    /// A warp before its start.
    pub fn new(program: &Program) -> Warp {
        let count = program.registers.len();
        let stacks = if program.uses_stack { LANES } else { 0 };
        Warp {
            index: 0,
            in_block: 0,
            rank: 0,
            existing: 0,
            exited: 0,
            groups: Vec::new(),
            paths: Paths::default(),
            registers: Registers::new(count),
            local: vec![Stack::default(); stacks],
            copies: vec![AsyncCopies::default(); LANES],
            cluster_phase: None,
            cluster_arrived: 0,
            matrix: AsyncMatrix::default(),
            impatient: false,
            steps: 0,
            strong_reads: StrongReads::default(),
            recent: Recent::default(),
        }
    }

    /// Starts warp `index` of the cluster with that number in the grid.
    pub fn start(&mut self, machine: &Machine<'_>, cluster: u64, index: u32) {
        let program = machine.program;
        let (place, in_block) = machine.warp_place(cluster, index);
        let threads: u32 = machine.launch.block.iter().product();
        let mine = (threads - in_block * LANES as u32).min(LANES as u32);
        (self.index, self.in_block, self.rank) = (index, in_block, place.rank);
        self.existing = u32::MAX >> (32 - mine);
        self.exited = 0;
        self.cluster_phase = None;
        self.cluster_arrived = 0;
        self.matrix.clear();
        self.steps = 0;
        self.strong_reads.clear();
        self.recent.clear();
        self.groups.clear();
        self.paths.clear();
        self.groups.push(Group { pc: 0, lanes: self.existing, progress: Progress::Ready });
        self.local.iter_mut().for_each(|stack| stack.start(program.frame));
        for copies in &mut self.copies {
            copies.pending.clear();
            copies.committed = 0;
        }
        self.registers.clear(index);
        for (slot, initial) in program.registers.iter().enumerate() {
            self.registers.initialised[slot] = if *initial == Initial::Undefined { 0 } else { u32::MAX };
            match initial {
                // Values of an earlier block must not remain.
                Initial::Undefined => self.registers.values[slot] = [0; LANES],
                Initial::Constant(value) => self.registers.values[slot] = [*value; LANES],
                Initial::Shared(address) => {
                    self.registers.values[slot] = [address.wrapping_add(shared_base(place.rank.into())); LANES];
                }
                Initial::Special(special) => {
                    for lane in 0..LANES as u32 {
                        let value = special_value(*special, machine, in_block, lane, place);
                        self.registers.values[slot][lane as usize] = u64::from(value);
                    }
                }
            }
        }
    }

    /// The rank of its block and its index there.
    pub fn name(&self) -> WarpName {
        WarpName { rank: self.rank, in_block: self.in_block }
    }

    /// Lanes whose thread exists and has not exited.
    pub fn live(&self) -> u32 {
        self.existing & !self.exited
    }

    /// For each given lane, the first copy for which only its thread can wait and has not.
    pub fn forgotten_copies(&self, among: u32) -> Vec<(u32, PendingCopy)> {
        let first_of = |lane: usize| {
            let forgotten = self.copies[lane].pending.iter().find(|copy| copy.tracked.is_none());
            forgotten.map(|copy| (lane as u32, copy.clone()))
        };
        lanes(among).filter_map(first_of).collect()
    }

    /// The value of a register in a lane.
    pub fn value(&self, slot: Slot, lane: usize) -> u64 {
        self.registers.values[slot as usize][lane]
    }

    /// Whether several of its paths can go on, so that one may wait for another.
    pub fn has_paths(&self) -> bool {
        self.groups.iter().filter(|group| group.progress == Progress::Ready).count() > 1
    }

    /// A number that differs, but for collisions, when its lanes are elsewhere or a register differs. A warp that is twice in
    /// the same state, in memory that does not change, does the same for ever.
    pub fn fingerprint(&self) -> u64 {
        let mut mixed = Mixed::default();
        let groups = self.groups.iter().map(|group| u64::from(group.pc) << 32 | u64::from(group.lanes));
        groups.chain(self.registers.values.iter().flatten().copied()).for_each(|value| mixed.write_u64(value));
        mixed.finish()
    }

    /// The lanes in which a guard is true.
    pub fn guarded(&self, guard: Guard, among: u32) -> u32 {
        let holds = self.registers.nonzero(guard.slot);
        among & if guard.negated { !holds } else { holds }
    }
}

fn special_value(special: Special, machine: &Machine<'_>, warp: u32, lane: u32, place: Place) -> u32 {
    let (launch, program) = (&machine.launch, machine.program);
    let thread = warp * LANES as u32 + lane;
    let [x, y, _] = launch.block;
    match special {
        Special::ThreadIndex(dimension) => [thread % x, thread / x % y, thread / (x * y)][dimension],
        Special::BlockSize(dimension) => launch.block[dimension],
        Special::BlockIndex(dimension) => place.block[dimension],
        Special::GridSize(dimension) => launch.grid[dimension],
        Special::ClusterIndex(dimension) => place.cluster[dimension],
        Special::Clusters(dimension) => machine.clusters()[dimension],
        Special::IndexInCluster(dimension) => place.in_cluster[dimension],
        Special::ClusterSize(dimension) => machine.cluster[dimension],
        Special::RankInCluster => place.rank,
        Special::BlocksOfCluster => machine.blocks_of_cluster(),
        Special::IsExplicitCluster => machine.is_explicit_cluster.into(),
        Special::Lane => lane,
        Special::Warp => warp,
        Special::Warps => machine.warps_of_block(),
        Special::LaneMask { less, equal, greater } => {
            let mine = 1_u32 << lane;
            let below = mine - 1;
            let pick = |condition: bool, mask: u32| if condition { mask } else { 0 };
            pick(less, below) | pick(equal, mine) | pick(greater, !(below | mine))
        }
        Special::Fixed(value) | Special::SystemShared(value) => value,
        // Halves of an address (driver_abi.h of cooperative groups); the driver sets no other register.
        Special::Environment(1) => (machine.grid_workspace.unwrap_or(0) >> 32) as u32,
        Special::Environment(2) => machine.grid_workspace.unwrap_or(0) as u32,
        Special::Environment(_) => 0,
        Special::DynamicSharedBytes => launch.dynamic_shared_bytes,
        Special::TotalSharedBytes => launch.dynamic_shared_bytes + program.layout.static_shared_bytes as u32,
    }
}
