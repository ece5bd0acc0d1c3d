//! The probes: kernels that compute nothing but show what a GPU's tensor cores reach at most.
//!
//! They are compiled into PTX files of their own beside that of the kernels; `device/probe.rs` holds them.

/// What every probe is given.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProbeArgs {
    /// Address of an f32 for every thread of the grid; each thread writes its own.
    pub sink: u64,
    /// How often every warp, or warpgroup, repeats its products.
    pub iterations: u64,
}

/// A kernel that repeats one tensor-core instruction on operands that are already where it wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Name of the entry.
    pub entry: &'static str,
    /// The instruction, for people.
    pub instruction: &'static str,
    /// File name of the PTX.
    pub file: &'static str,
    /// Cargo feature of this crate that compiles it.
    pub cargo_feature: &'static str,
    /// What it is compiled for, as in `sm_80`.
    pub target: &'static str,
    /// The only architecture that runs it, or `None` for every later one too.
    pub only_architecture: Option<u32>,
    /// Dynamic shared memory of a block, bytes.
    pub dynamic_shared_bytes: u32,
    /// Floating-point operations of a block in one iteration.
    pub operations: u64,
}

/// Threads of a block: four warps, which are one warpgroup.
pub const THREADS: u32 = 128;
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
        cargo_feature: "probe_sm_80",
        target: "sm_80",
        only_architecture: None,
        dynamic_shared_bytes: 0,
        operations: 4 * MMA_CHAINS as u64 * 2 * 16 * 8 * 16,
    },
    Probe {
        entry: "fa512_probe_wgmma",
        instruction: "wgmma.m64n128k16 f16",
        file: "probe_sm_90a.ptx",
        cargo_feature: "probe_sm_90a",
        target: "sm_90a",
        only_architecture: Some(90),
        dynamic_shared_bytes: 2 * (WGMMA_M + WGMMA_N) * WGMMA_DEPTH,
        operations: 2 * (WGMMA_M * WGMMA_N * WGMMA_DEPTH) as u64,
    },
];
