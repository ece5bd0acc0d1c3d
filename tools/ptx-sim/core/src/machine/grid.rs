//! What all blocks of a launch share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::finding::Location;
use crate::lanes::LANES;
use crate::launch::{Launch, Options};
use crate::memory::{GlobalMemory, Parameters, SYSTEM_SHARED_BYTES};
use crate::module::Module;
use crate::program::{Instruction, Program};
use crate::race::{Announcements, Unfinished};

/// The multiprocessors of the largest GPU of an architecture, and what one of them holds (CUDA C++ Programming Guide, "Compute
/// Capabilities").
struct Multiprocessors {
    architecture: u32,
    count: u32,
    threads: u32,
    blocks: u32,
    shared_kib: u32,
}

/// By architecture, ascending; those between two are like the lower one.
const MULTIPROCESSORS: [Multiprocessors; 8] = [
    Multiprocessors { architecture: 70, count: 80, threads: 2048, blocks: 32, shared_kib: 96 },
    Multiprocessors { architecture: 75, count: 72, threads: 1024, blocks: 16, shared_kib: 64 },
    Multiprocessors { architecture: 80, count: 108, threads: 2048, blocks: 32, shared_kib: 164 },
    Multiprocessors { architecture: 86, count: 84, threads: 1536, blocks: 16, shared_kib: 100 },
    Multiprocessors { architecture: 89, count: 142, threads: 1536, blocks: 24, shared_kib: 100 },
    Multiprocessors { architecture: 90, count: 132, threads: 2048, blocks: 32, shared_kib: 228 },
    Multiprocessors { architecture: 100, count: 148, threads: 2048, blocks: 32, shared_kib: 228 },
    Multiprocessors { architecture: 120, count: 188, threads: 1536, blocks: 24, shared_kib: 100 },
];

/// Where a block is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// `%ctaid`.
    pub block: [u32; 3],
    /// `%clusterid`.
    pub cluster: [u32; 3],
    /// `%cluster_ctaid`.
    pub in_cluster: [u32; 3],
    /// `%cluster_ctarank`.
    pub rank: u32,
}

/// What is the `index`-th of an array of that extent, the first dimension running fastest.
fn coordinates(index: u64, extent: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = extent.map(u64::from);
    [(index % x) as u32, (index / x % y) as u32, (index / (x * y)) as u32]
}

/// What all blocks of a launch share.
pub(crate) struct Machine<'a> {
    pub module: &'a Module,
    pub program: &'a Program,
    pub launch: Launch<'a>,
    pub memory: &'a GlobalMemory,
    /// The param space.
    pub parameters: Parameters,
    /// Blocks of a cluster in each dimension.
    pub cluster: [u32; 3],
    /// Whether the launch or the entry asked for clusters.
    pub is_explicit_cluster: bool,
    /// Size of a block's shared memory.
    pub shared_bytes: usize,
    pub instructions_per_warp: u64,
    /// Whether data races are looked for.
    pub races: bool,
    /// [`Options::strict`].
    pub strict: bool,
    /// Whether loads of boxes are listed.
    pub box_loads: bool,
    /// [`Options::schedule`].
    pub schedule: u64,
    /// Whether the grid may begin before the one in front of it has ended.
    pub overlaps_previous: bool,
    /// What the grids that may still run have accessed, where that is known.
    pub unfinished: Option<Arc<Unfinished>>,
    /// What `%envreg1` and `%envreg2` hold: where the blocks of a cooperative launch meet.
    pub grid_workspace: Option<u64>,
    /// What blocks announced to each other.
    pub announcements: Announcements,
    stopped: AtomicBool,
}

impl<'a> Machine<'a> {
    /// The machine for one launch, whose blocks form clusters of that size.
    pub fn new(
        module: &'a Module,
        program: &'a Program,
        launch: &Launch<'a>,
        memory: &'a GlobalMemory,
        cluster: Option<[u32; 3]>,
        grid_workspace: Option<u64>,
        options: &Options,
    ) -> Machine<'a> {
        let layout = &program.layout;
        let mut parameters = Parameters::default();
        for (parameter, bytes) in layout.parameters.iter().zip(launch.params) {
            parameters.add(&parameter.name, parameter.address, bytes);
        }
        Machine {
            module,
            program,
            launch: *launch,
            memory,
            parameters,
            cluster: cluster.unwrap_or([1; 3]),
            is_explicit_cluster: cluster.is_some(),
            shared_bytes: layout.static_shared_bytes as usize + launch.dynamic_shared_bytes as usize,
            instructions_per_warp: options.instructions_per_warp,
            races: options.races,
            strict: options.strict,
            box_loads: options.box_loads,
            schedule: options.schedule,
            overlaps_previous: options.overlaps_previous.unwrap_or(program.waits_for_previous_grid),
            unfinished: options.unfinished.clone(),
            grid_workspace,
            announcements: Announcements::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// How many clusters the GPU holds at a time, as far as their threads and their shared memory are concerned: how many
    /// registers they take is not known.
    pub fn resident_clusters(&self) -> usize {
        let gpu = MULTIPROCESSORS.iter().rev().find(|gpu| gpu.architecture <= self.launch.architecture);
        let gpu = gpu.unwrap_or(&MULTIPROCESSORS[0]);
        let threads: u32 = self.launch.block.iter().product::<u32>().next_multiple_of(LANES as u32);
        // Each block takes 1 KiB beside its own.
        let by_shared = (gpu.shared_kib << 10) / (self.shared_bytes as u32 + 1024);
        let of_one = (gpu.threads / threads).min(gpu.blocks).min(by_shared).max(1);
        (of_one * gpu.count / self.blocks_of_cluster()).max(1) as usize
    }

    /// The end of a block's shared memory.
    pub fn shared_end(&self) -> usize {
        SYSTEM_SHARED_BYTES as usize + self.shared_bytes
    }

    /// How many blocks a cluster has.
    pub fn blocks_of_cluster(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// How many clusters there are in each dimension.
    pub fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|dimension| self.launch.grid[dimension] / self.cluster[dimension])
    }

    /// Warps of a block.
    pub fn warps_of_block(&self) -> u32 {
        self.launch.block.iter().product::<u32>().div_ceil(LANES as u32)
    }

    /// The block of a rank in the cluster with that index in the grid.
    pub fn place(&self, cluster: u64, rank: u32) -> Place {
        let cluster = coordinates(cluster, self.clusters());
        let in_cluster = coordinates(rank.into(), self.cluster);
        let block = std::array::from_fn(|axis| cluster[axis] * self.cluster[axis] + in_cluster[axis]);
        Place { block, cluster, in_cluster, rank }
    }

    /// The block that a warp of a cluster belongs to, and the index of the warp there.
    pub fn warp_place(&self, cluster: u64, warp: u32) -> (Place, u32) {
        let of_block = self.warps_of_block();
        (self.place(cluster, warp / of_block), warp % of_block)
    }

    /// Where an instruction is, for a message.
    pub fn line(&self, instruction: &Instruction) -> String {
        let source = self.module.source(instruction.location).0;
        let source = source.map_or_else(String::new, |source| format!(" ({source})"));
        format!("line {} of the PTX{source}", instruction.line)
    }

    /// An instruction and who executed it: a lane of a warp of a cluster.
    pub fn location(&self, instruction: &Instruction, cluster: u64, warp: u32, lane: Option<u32>) -> Location {
        let (Place { block, .. }, warp) = self.warp_place(cluster, warp);
        let (source, inlined_at) = self.module.source(instruction.location);
        let text = self.module.line(instruction.line).trim().to_owned();
        Location {
            ptx_line: instruction.line,
            instruction: text,
            source,
            inlined_at,
            called_from: Vec::new(),
            block,
            warp,
            lane,
        }
    }

    /// Asks all blocks to stop.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Whether a block asked all to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }
}
