//! The decision tree: rules in the order in which they are evaluated.
//!
//! First what makes every number meaningless, then what decides where to look, then costs that are never justified,
//! then the limits of the hardware, and last, if no limit is reached, what the warps wait for.

use std::fmt;

use serde::Serialize;

use super::facts::Fact;
use crate::record::{LARGEST_VARIATION, LAUNCH_BOUND_US};

/// A bound on a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Condition {
    /// The number.
    pub fact: Fact,
    /// The bound.
    #[serde(flatten)]
    pub bound: Bound,
}

/// A lower or upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Below this.
    Below(f64),
    /// Above this.
    Above(f64),
}

impl Condition {
    /// Whether it holds of `value`.
    pub fn holds(&self, value: f64) -> bool {
        match self.bound {
            Bound::Below(bound) => value < bound,
            Bound::Above(bound) => value > bound,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (side, bound) = match self.bound {
            Bound::Below(bound) => ("under", bound),
            Bound::Above(bound) => ("over", bound),
        };
        write!(formatter, "{side} {}", self.fact.quantity().show(bound))
    }
}

/// If all conditions hold: the bottleneck, and what to try.
#[derive(Clone, Debug, Serialize)]
pub struct Rule {
    /// A short name.
    pub name: &'static str,
    /// The conditions.
    pub conditions: &'static [Condition],
    /// The bottleneck.
    pub bottleneck: &'static str,
    /// The next experiment.
    pub experiment: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
}

const fn above(fact: Fact, bound: f64) -> Condition {
    Condition { fact, bound: Bound::Above(bound) }
}

const fn below(fact: Fact, bound: f64) -> Condition {
    Condition { fact, bound: Bound::Below(bound) }
}

/// From this utilisation on a unit counts as busy.
const BUSY: f64 = 0.7;

/// The rules, in order.
pub const RULES: &[Rule] = &[
    Rule {
        name: "wrong results",
        conditions: &[above(Fact::WrongElements, 0.0)],
        bottleneck: "the kernel computes something else",
        experiment: "no measurement counts before it is right: `fa512 fuzz` shrinks the failure to one command, `fa512 \
                     sanitize` names the access",
        source: "docs/fuzzing.md, docs/sanitizing.md",
    },
    Rule {
        name: "unreliable samples",
        conditions: &[above(Fact::Variation, LARGEST_VARIATION)],
        bottleneck: "the samples vary too much to decide anything",
        experiment: "find what else uses the GPU, or lock its clocks, and measure again",
        source: "docs/measuring.md",
    },
    Rule {
        name: "launch-bound",
        conditions: &[below(Fact::MedianTime, LAUNCH_BOUND_US)],
        bottleneck: "launching costs about as much as computing",
        experiment: "launch from a CUDA graph, fuse with the neighbouring kernels, or batch more heads into a call; tuning \
                     the kernel itself gains little here",
        source: "CUDA C++ Programming Guide, \"CUDA Graphs\"",
    },
    Rule {
        name: "far behind",
        conditions: &[above(Fact::TimeOverBest, 2.0)],
        bottleneck: "another contender needs less than half the time: the difference is one of structure, not of tuning",
        experiment: "stop tuning and profile both; compare their data flow (which instructions, tiles, what is read how \
                     often) before changing a parameter",
        source: "docs/measuring.md",
    },
    Rule {
        name: "spills",
        conditions: &[above(Fact::LocalAccesses, 0.0)],
        bottleneck: "registers are spilled, or an array is indexed at run time, to local memory",
        experiment: "fewer accumulators per thread (a smaller block_m, or more warps), fewer blocks per multiprocessor in the \
                     launch bounds, or unroll the loop that indexes the array; `cargo xtask ptx` shows spills",
        source: "CUDA C++ Best Practices Guide, \"Local Memory\"",
    },
    Rule {
        name: "bank conflicts",
        conditions: &[above(Fact::BankConflicts, 0.05)],
        bottleneck: "shared memory is accessed several times over for one instruction",
        experiment: "`fa512 run --device sim` counts the conflicts of each kernel exactly: where it counts none, warps \
                     collide by chance; else take addresses from a swizzled `SharedTile`",
        source: "CUDA C++ Best Practices Guide, \"Shared Memory and Memory Banks\"; docs/cookbook/shared-memory.md",
    },
    Rule {
        name: "tensor-bound",
        conditions: &[above(Fact::TensorCores, BUSY)],
        bottleneck: "the tensor cores are busy: the kernel is near what its instructions can reach",
        experiment: "do less work: skip masked tiles, no padded rows or columns; on sm_90 use wgmma, whose peak mma.sync does \
                     not reach",
        source: "Nsight Compute Profiling Guide, \"Compute Workload Analysis\"",
    },
    Rule {
        name: "exponential-bound",
        conditions: &[above(Fact::Exponentials, BUSY)],
        bottleneck: "the special-function pipe computes exponentials all the time",
        experiment: "compute part of them by polynomials on the FMA pipe, and rescale only when the row maximum grows much",
        source: "Shah et al., FlashAttention-3, arXiv 2407.08608, section 3.2",
    },
    Rule {
        name: "memory-bound",
        conditions: &[above(Fact::Dram, BUSY)],
        bottleneck: "device memory is busy",
        experiment: "read everything once: blocks that share K and V next to each other in the grid, so that L2 serves them; \
                     below that the time is that of a copy",
        source: "Williams et al., Roofline, CACM 52(4), 2009",
    },
    Rule {
        name: "L2-bound",
        conditions: &[above(Fact::L2, BUSY)],
        bottleneck: "L2 is busy: K and V are read by too many blocks",
        experiment: "more query rows per block, or a cluster that shares K and V by multicast",
        source: "Nsight Compute Profiling Guide, \"Memory Workload Analysis\"",
    },
    Rule {
        name: "issue-bound",
        conditions: &[above(Fact::IssueSlots, 0.8)],
        bottleneck: "the schedulers issue in nearly every cycle: there are too many instructions",
        experiment: "fewer instructions per element: wider loads, packed conversions, addresses computed once; the simulator \
                     counts them by class",
        source: "Nsight Compute Profiling Guide, \"Scheduler Statistics\"",
    },
    Rule {
        name: "GPU not filled",
        conditions: &[below(Fact::Waves, 0.8)],
        bottleneck: "the launch has fewer blocks than the GPU can hold at once",
        experiment: "smaller query tiles, so that there are more blocks, or more heads in a call; with a block on every \
                     multiprocessor already, more warps per block",
        source: "CUDA C++ Best Practices Guide, \"Thread and Block Heuristics\"",
    },
    Rule {
        name: "partial wave",
        conditions: &[above(Fact::Waves, 1.0), below(Fact::WaveEfficiency, 0.8)],
        bottleneck: "the last wave of blocks leaves multiprocessors idle",
        experiment: "another block_m or number of blocks per multiprocessor, so that the blocks divide evenly, or a \
                     persistent grid; longest blocks first",
        source: "CUDA C++ Best Practices Guide, \"Thread and Block Heuristics\"",
    },
    Rule {
        name: "uneven blocks",
        conditions: &[below(Fact::OccupancyOfAllowed, 0.75)],
        bottleneck: "multiprocessors hold fewer warps than the launch allows: blocks end at different times",
        experiment: "start the longest blocks first (causal: the last query tile), or smaller blocks of work",
        source: "Nsight Compute Profiling Guide, \"Occupancy\"",
    },
    Rule {
        name: "waiting for global memory",
        conditions: &[below(Fact::TensorCores, BUSY), below(Fact::Dram, BUSY), above(Fact::GlobalMemoryStalls, 0.2)],
        bottleneck: "latency of global memory: neither memory nor the tensor cores are busy, and warps wait for data",
        experiment: "start copies earlier: one stage more, or the first tiles before anything else; check that no load is \
                     waited for right behind its issue",
        source: "Nsight Compute Profiling Guide, \"Warp Stall Reasons\" (long scoreboard)",
    },
    Rule {
        name: "waiting at barriers",
        conditions: &[below(Fact::TensorCores, BUSY), above(Fact::BarrierStalls, 0.15)],
        bottleneck: "warps wait for each other",
        experiment: "fewer barriers for each step, mbarriers that only those wait at who need the data, or more blocks per \
                     multiprocessor that run out of step",
        source: "Nsight Compute Profiling Guide, \"Warp Stall Reasons\" (barrier)",
    },
    Rule {
        name: "waiting for shared memory",
        conditions: &[below(Fact::TensorCores, BUSY), above(Fact::SharedMemoryStalls, 0.2)],
        bottleneck: "warps wait for shared memory or for the queue in front of it",
        experiment: "keep more in registers (Q), load fragments of the next product before they are needed, ldmatrix.x4 \
                     instead of smaller ones",
        source: "Nsight Compute Profiling Guide, \"Warp Stall Reasons\" (short scoreboard, MIO throttle)",
    },
    Rule {
        name: "waiting for warpgroup products",
        conditions: &[below(Fact::TensorCores, BUSY), above(Fact::WarpgroupProductStalls, 0.3)],
        bottleneck: "warpgroups wait for their own products while no other warpgroup keeps the tensor cores busy",
        experiment: "issue the next product before the softmax of this one, or let two warpgroups take turns",
        source: "Shah et al., FlashAttention-3, arXiv 2407.08608, section 3.2",
    },
    Rule {
        name: "waiting for a math pipe",
        conditions: &[below(Fact::TensorCores, BUSY), above(Fact::MathPipeStalls, 0.2)],
        bottleneck: "warps want the same pipe at the same time",
        experiment: "let warps run out of step, so that one's softmax overlaps another's products: more blocks per \
                     multiprocessor, or a start with an offset",
        source: "Nsight Compute Profiling Guide, \"Warp Stall Reasons\" (math pipe throttle)",
    },
    Rule {
        name: "waiting for instructions",
        conditions: &[below(Fact::TensorCores, BUSY), above(Fact::FetchStalls, 0.1)],
        bottleneck: "instructions are not there in time: the code is larger than the instruction cache",
        experiment: "unroll less",
        source: "Nsight Compute Profiling Guide, \"Warp Stall Reasons\" (no instruction)",
    },
    Rule {
        name: "too few warps",
        conditions: &[
            below(Fact::TensorCores, BUSY),
            below(Fact::Occupancy, 0.5),
            above(Fact::FixedLatencyStalls, 0.2),
        ],
        bottleneck: "instructions wait for those before them, and there are not enough warps to hide that",
        experiment: "independent work within each warp (two accumulator tiles in turn), or smaller tiles so that more warps \
                     fit; the profile names what limits the blocks",
        source: "CUDA C++ Best Practices Guide, \"Occupancy\"; Volkov, \"Better Performance at Lower Occupancy\", GTC 2010",
    },
    Rule {
        name: "no limit reached",
        conditions: &[below(Fact::AchievedTensorRate, BUSY), below(Fact::AchievedBandwidth, BUSY)],
        bottleneck: "neither the tensor cores nor the memory are used to 70 %",
        experiment: "profile: `fa512 profile` says what the warps wait for",
        source: "Williams et al., Roofline, CACM 52(4), 2009",
    },
];
