//! A launch: its parameters, options, report, and reasons for refusal.

use std::sync::Arc;

use crate::counters::Counters;
use crate::finding::Finding;
use crate::race::{GlobalAccess, Unfinished};

/// One kernel launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Name of the `.entry`.
    pub entry: &'a str,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub dynamic_shared_bytes: u32,
    /// The bytes of each `.param`, in order.
    pub params: &'a [&'a [u8]],
    /// The architecture to simulate, such as 80 for `sm_80`.
    pub architecture: u32,
}

/// Options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Maximum number of findings reported.
    pub max_findings: usize,
    /// Number of host threads that run blocks; 0 for all cores.
    pub threads: usize,
    /// Maximum number of instructions of a warp; beyond it the warp counts as being in an endless loop.
    pub instructions_per_warp: u64,
    /// Whether to check for data races.
    pub races: bool,
    /// Whether the detection of races follows the PTX memory model without the liberties that CUDA's own examples take: neither an
    /// atomic operation nor a barrier behind a strong read counts as the fence with which a thread acquires what it observes.
    pub strict: bool,
    /// The order in which warps and blocks take turns: 0 for the order of their indices; any other number is the seed of a
    /// shuffled order.
    pub schedule: u64,
    /// Whether the grid may begin before the previous one has ended (programmatic stream serialisation); `None` if unknown: an entry
    /// with a `griddepcontrol.wait` is then assumed to be launched that way.
    pub overlaps_previous: Option<bool>,
    /// The accesses of grids that may still be running then; `None` if unknown: every access without a preceding
    /// `griddepcontrol.wait` is then assumed to conflict with them.
    pub unfinished: Option<Arc<Unfinished>>,
    /// Blocks of a cluster in x, y and z, which divide the grid; `None` for the size that the entry requires
    /// (`.reqnctapercluster`), if any.
    pub cluster: Option<[u32; 3]>,
    /// Whether all blocks are resident together, so that they may wait for each other (a cooperative launch).
    pub cooperative: bool,
    /// Whether the report lists the accesses to global memory; with [`Options::races`] it always does.
    pub accesses: bool,
    /// Whether the report lists the boxes of tensors that are loaded to shared memory.
    pub box_loads: bool,
    /// Whether undetermined values that the launch leaves in global memory are not findings of this launch, since a later launch may
    /// or may not read them. The owner of the memory asks for them when they leave it
    /// ([`GlobalMemory::take_undetermined`](crate::GlobalMemory::take_undetermined)).
    pub keeps_undetermined: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_findings: 100,
            threads: 0,
            instructions_per_warp: 100_000_000,
            races: true,
            strict: false,
            schedule: 0,
            overlaps_previous: None,
            unfinished: None,
            cluster: None,
            cooperative: false,
            accesses: false,
            box_loads: false,
            keeps_undetermined: false,
        }
    }
}

/// The result of a launch.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What is wrong with the kernel; empty if nothing was found.
    pub findings: Vec<Finding>,
    /// What the hardware would have done.
    pub counters: Counters,
    /// Output of `printf`, block by block.
    pub printed: Vec<u8>,
    /// The accessed global memory, if [`Options::accesses`] is set. A read of data that the same thread has written or later writes
    /// may be missing.
    pub accesses: Vec<GlobalAccess>,
    /// The boxes that were loaded to shared memory, if [`Options::box_loads`] is set: block by block, and those of a warp in order.
    pub box_loads: Vec<BoxLoad>,
    /// Whether the next grid may begin before the grids before this one have ended: some block allowed it, or ended, without
    /// having waited for them (`griddepcontrol`).
    pub ends_before_previous: bool,
}

/// A box of a tensor that a thread loaded to shared memory (`cp.async.bulk.tensor`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoxLoad {
    /// The block.
    pub block: [u32; 3],
    /// The warp of the block.
    pub warp: u32,
    /// Address of the tensor in its map.
    pub tensor: u64,
    /// Coordinates of the first element of the box.
    pub origin: Vec<i64>,
}

/// Why a launch was refused. Nothing was executed. Never says that the kernel is wrong, only that it cannot be launched like
/// this, or not by this simulator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// There is no such `.entry`.
    #[error("no entry `{entry}` in {file}; it has {}", list(.available))]
    UnknownEntry {
        /// The name asked for.
        entry: String,
        /// The PTX file.
        file: String,
        /// The existing entries.
        available: Vec<String>,
    },
    /// The number of parameters is not that of the entry.
    #[error("entry `{entry}` takes {expected} parameters, the launch gives {given}")]
    ParameterCount {
        /// The entry.
        entry: String,
        /// Number of `.param`s of the entry.
        expected: usize,
        /// Number of parameters given.
        given: usize,
    },
    /// A parameter does not have the declared size.
    #[error("parameter {index} of entry `{entry}` has {expected} bytes, the launch gives {given}")]
    ParameterSize {
        /// The entry.
        entry: String,
        /// Index of the `.param`.
        index: usize,
        /// Declared size in bytes.
        expected: u64,
        /// Size given in bytes.
        given: u64,
    },
    /// The parameters of the entry are larger than PTX allows.
    #[error("the parameters of entry `{entry}` take {bytes} bytes; at most {limit} are possible")]
    ParameterSpace {
        /// The entry.
        entry: String,
        /// Their total size in bytes, with alignment.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The simulator does not support an instruction, modifier or directive. Found before execution begins.
    #[error("{file}:{line}:{column}: unsupported: {what}")]
    Unsupported {
        /// The PTX file.
        file: String,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// Name of what is not supported.
        what: String,
    },
    /// The PTX has an error that shows when an entry is prepared, such as an undeclared register or a missing operand.
    #[error("{file}:{line}:{column}: {what}")]
    Invalid {
        /// The PTX file.
        file: String,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// The error.
        what: String,
    },
    /// The grid, block or cluster is empty or larger than any GPU accepts, or contradicts what the entry requires.
    #[error("{0}")]
    Geometry(String),
    /// The blocks of a cooperative launch do not fit on the GPU together.
    #[error(
        "a cooperative launch of {blocks} blocks: at most {limit} of them are on the largest GPU of sm_{architecture} together"
    )]
    Cooperative {
        /// Blocks of the grid.
        blocks: u64,
        /// Number of blocks that fit.
        limit: u64,
        /// The architecture of the launch.
        architecture: u32,
    },
    /// The architecture is not known to the simulator.
    #[error("architecture sm_{architecture} is not known; known are {}", list(.known))]
    UnknownArchitecture {
        /// The architecture asked for.
        architecture: u32,
        /// The known architectures.
        known: Vec<u32>,
    },
    /// The module was compiled for a newer architecture, or for another specific one.
    #[error(
        "{file} is compiled for {target} and does not run on sm_{architecture}{}",
        crate::architecture::instead(target)
    )]
    Target {
        /// The PTX file.
        file: String,
        /// Its `.target`.
        target: String,
        /// The architecture of the launch.
        architecture: u32,
    },
    /// A block needs more shared memory than the architecture provides.
    #[error(
        "{total} bytes of shared memory ({fixed} static, {dynamic} dynamic) exceed the {limit} a block can have on sm_{architecture}"
    )]
    SharedMemory {
        /// Total of static and dynamic bytes.
        total: u64,
        /// Static bytes, with alignment.
        fixed: u64,
        /// Dynamic bytes.
        dynamic: u64,
        /// The limit in bytes.
        limit: u64,
        /// The architecture of the launch.
        architecture: u32,
    },
    /// A thread needs more local memory than any architecture provides.
    #[error("{bytes} bytes of local memory exceed the {limit} a thread can have")]
    LocalMemory {
        /// Bytes that the entry declares.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Memory for the module's global variables could not be allocated.
    #[error(transparent)]
    Memory(#[from] crate::memory::MemoryError),
    /// The worker threads could not be started.
    #[error("worker threads: {0}")]
    Threads(String),
}

fn list<T: ToString>(items: &[T]) -> String {
    match items {
        [] => "none".to_owned(),
        _ => items.iter().map(T::to_string).collect::<Vec<_>>().join(", "),
    }
}
