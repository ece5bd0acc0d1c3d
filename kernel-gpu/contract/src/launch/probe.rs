//! Probes: kernels that only measure the peak rate of a GPU's tensor cores.
//!
//! They are compiled with a family's kernels and shipped in separate PTX files, so that running a probe loads no
//! kernel; `device/probe.rs` holds them.

use crate::spec::config::Family;

/// Argument of every probe.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProbeArgs {
    /// Address of an f32 for every thread of the grid; each thread writes its own.
    pub sink: u64,
    /// How often each warp, or warpgroup, repeats its products.
    pub iterations: u64,
}

/// A kernel that repeats one tensor-core instruction on operands that are already in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Name of the entry.
    pub entry: &'static str,
    /// The instruction, as displayed.
    pub instruction: &'static str,
    /// File name of the PTX.
    pub file: &'static str,
    /// The family of the instruction, with whose kernels the probe is compiled.
    pub family: Family,
    /// Dynamic shared memory of a block, bytes.
    pub dynamic_shared_bytes: u32,
    /// Floating-point operations of a block in one iteration.
    pub operations: u64,
}

/// Threads of a block: four warps, which are one warpgroup.
pub const THREADS: u32 = 128;
/// Resident blocks per multiprocessor: enough that the wait of one is hidden by the products of others.
pub const BLOCKS: u32 = 4;
/// Independent accumulators of a warp in the `mma.sync` probe, enough to hide the latency of each.
pub const MMA_CHAINS: usize = 8;
/// Rows of A in the `wgmma` probe.
pub const WGMMA_M: u32 = 64;
/// Columns of B in the `wgmma` probe.
pub const WGMMA_N: u32 = 128;
/// Depth of both operands in shared memory: 4 steps of 16.
pub const WGMMA_DEPTH: u32 = 64;

/// The probes.
pub const PROBES: [Probe; 2] = [
    Probe {
        entry: "fa512_probe_mma",
        instruction: "mma.sync.m16n8k16 f16",
        file: "probe_sm_80.ptx",
        family: Family::Sm80,
        dynamic_shared_bytes: 0,
        operations: 4 * MMA_CHAINS as u64 * 2 * 16 * 8 * 16,
    },
    Probe {
        entry: "fa512_probe_wgmma",
        instruction: "wgmma.m64n128k16 f16",
        file: "probe_sm_90a.ptx",
        family: Family::Sm90a,
        dynamic_shared_bytes: 2 * (WGMMA_M + WGMMA_N) * WGMMA_DEPTH,
        operations: 2 * (WGMMA_M * WGMMA_N * WGMMA_DEPTH) as u64,
    },
];
