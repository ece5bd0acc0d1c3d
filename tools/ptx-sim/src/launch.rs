//! A launch: what is run, with which limits, and why it may be refused.

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
    /// The architecture to stand for, as in 80 for `sm_80`.
    pub architecture: u32,
}

/// How to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Findings reported at most.
    pub max_findings: usize,
    /// Threads that run blocks; 0 for all cores.
    pub threads: usize,
    /// Instructions one warp may execute before it is taken to be in an endless loop.
    pub instructions_per_warp: u64,
    /// Whether data races are looked for.
    pub races: bool,
    /// The order in which warps and blocks take turns: 0 for that of their indices, every other number for a shuffled one
    /// that is the same for the same number.
    pub schedule: u64,
    /// Whether the grid may begin before the one in front of it has ended (CUDA's programmatic stream serialisation); `None` where
    /// that is not known: an entry with a `griddepcontrol.wait` is then taken to be launched so.
    pub overlaps_previous: Option<bool>,
    /// What the grids that may still run then have accessed; `None` where that is not known: all that comes behind no
    /// `griddepcontrol.wait` is taken to meet them.
    pub unfinished: Option<Arc<Unfinished>>,
    /// Blocks of a cluster in x, y and z, which divide the grid; `None` for what the entry demands (`.reqnctapercluster`), or else
    /// none.
    pub cluster: Option<[u32; 3]>,
    /// Whether all blocks are on the GPU together, so that they may wait for each other (a cooperative launch).
    pub cooperative: bool,
    /// Whether the report says what global memory was accessed; it does while data races are looked for.
    pub accesses: bool,
    /// Whether undetermined values that the launch leaves in global memory are no findings of its own, as later launches may read
    /// them or not: who owns the memory asks for them when they leave it
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
            schedule: 0,
            overlaps_previous: None,
            unfinished: None,
            cluster: None,
            cooperative: false,
            accesses: false,
            keeps_undetermined: false,
        }
    }
}

/// What a launch did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What is wrong with the kernel; empty when nothing was found.
    pub findings: Vec<Finding>,
    /// What the hardware would have done.
    pub counters: Counters,
    /// What threads printed (`printf`), block after block.
    pub printed: Vec<u8>,
    /// The global memory that was accessed, where [`Options::accesses`] asks for it. A read of what the same thread wrote or
    /// writes later may be left out.
    pub accesses: Vec<GlobalAccess>,
    /// Whether the next grid may begin before those in front of this one have ended: some block let it, or ended, and had not
    /// waited for them (`griddepcontrol`).
    pub ends_before_previous: bool,
}

/// Why a launch was refused; nothing was executed. Never a statement that the kernel is wrong, only that it cannot be
/// run like this or not by this simulator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// There is no such `.entry`.
    #[error("no entry `{entry}` in {file}; it has {}", list(.available))]
    UnknownEntry {
        /// The name asked for.
        entry: String,
        /// The PTX file.
        file: String,
        /// The entries there are.
        available: Vec<String>,
    },
    /// The number of parameters is not that of the entry.
    #[error("entry `{entry}` takes {expected} parameters, the launch gives {given}")]
    ParameterCount {
        /// The entry.
        entry: String,
        /// Number of `.param`s.
        expected: usize,
        /// Number given.
        given: usize,
    },
    /// A parameter has another size than declared.
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
        /// Bytes they take, with alignment.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The simulator does not know an instruction, modifier or directive. Found before execution begins.
    #[error("{file}:{line}:{column}: unsupported: {what}")]
    Unsupported {
        /// The PTX file.
        file: String,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What is not supported, by name.
        what: String,
    },
    /// The PTX is wrong in a way that shows when an entry is prepared: an undeclared register, a missing operand.
    #[error("{file}:{line}:{column}: {what}")]
    Invalid {
        /// The PTX file.
        file: String,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What is wrong.
        what: String,
    },
    /// The grid, block or cluster is empty or larger than any GPU takes, or contradicts what the entry demands.
    #[error("{0}")]
    Geometry(String),
    /// The blocks of a cooperative launch do not fit the GPU together.
    #[error(
        "a cooperative launch of {blocks} blocks: at most {limit} of them are on the largest GPU of sm_{architecture} together"
    )]
    Cooperative {
        /// Blocks of the grid.
        blocks: u64,
        /// Blocks that fit.
        limit: u64,
        /// The architecture of the launch.
        architecture: u32,
    },
    /// The architecture is not known to the simulator.
    #[error("architecture sm_{architecture} is not known; known are {}", list(.known))]
    UnknownArchitecture {
        /// The architecture asked for.
        architecture: u32,
        /// Those there are.
        known: Vec<u32>,
    },
    /// The module was compiled for a newer architecture, or for exactly another one.
    #[error("{file} is compiled for {target} and does not run on sm_{architecture}")]
    Target {
        /// The PTX file.
        file: String,
        /// Its `.target`.
        target: String,
        /// The architecture of the launch.
        architecture: u32,
    },
    /// A block would use more shared memory than the architecture has for one.
    #[error(
        "{total} bytes of shared memory ({fixed} static, {dynamic} dynamic) exceed the {limit} a block can have on sm_{architecture}"
    )]
    SharedMemory {
        /// Static and dynamic bytes together.
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
    /// A thread would use more local memory than any architecture has for one.
    #[error("{bytes} bytes of local memory exceed the {limit} a thread can have")]
    LocalMemory {
        /// Bytes the entry declares.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Memory for the module's global variables could not be had.
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
