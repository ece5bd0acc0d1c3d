//! Agents that access memory, and memory order of accesses.

use crate::lanes::LANES;

/// The kind of agent that accesses memory for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Engine {
    /// The thread itself.
    Thread,
    /// Its asynchronous copies to shared memory.
    Copies,
    /// Its bulk copies from shared memory, which read it until they are waited for.
    BulkReads,
    /// The `wgmma` instructions of its warp, which read shared memory until they are waited for.
    Matrix,
    /// Its bulk copies and reductions to global memory, which write it until they are waited for, other than with
    /// `wait_group.read`.
    BulkWrites,
}

impl Engine {
    /// All kinds, in the order in which agents are numbered.
    pub(super) const ALL: [Engine; 5] =
        [Engine::Thread, Engine::Copies, Engine::BulkReads, Engine::Matrix, Engine::BulkWrites];

    /// Suffix for the name of an access in messages; empty for the thread itself.
    pub fn by(self) -> &'static str {
        match self {
            Engine::Thread => "",
            Engine::Copies => " by an asynchronous copy",
            Engine::BulkReads | Engine::BulkWrites => " by a bulk copy",
            Engine::Matrix => " by wgmma",
        }
    }

    /// Whether it reads shared memory until its thread waits for it.
    pub(crate) fn reads_shared(self) -> bool {
        matches!(self, Engine::BulkReads | Engine::Matrix)
    }

    /// Whether it accesses memory until its thread waits for it.
    pub(crate) fn is_asynchronous(self) -> bool {
        self != Engine::Thread
    }

    /// Whether it writes data that the check for races does not know.
    pub(super) fn writes_unseen(self) -> bool {
        self == Engine::Copies
    }
}

/// An agent: a thread, or an engine that works for it asynchronously.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Agent {
    pub warp: u32,
    pub lane: u32,
    pub engine: Engine,
}

impl Agent {
    /// The agent of a kind for lane `lane` of a warp.
    pub fn new(warp: u32, lane: usize, engine: Engine) -> Agent {
        Agent { warp, lane: lane as u32, engine }
    }

    /// The matrix engine of a warp, represented by lane 0.
    pub fn matrix(warp: u32) -> Agent {
        Agent::new(warp, 0, Engine::Matrix)
    }

    /// The agent at lane `lane` of a group, in a cluster of `warps` warps.
    pub(super) fn of_group(group: usize, lane: u32, warps: usize) -> Agent {
        Agent { warp: (group % warps) as u32, lane, engine: Engine::ALL[group / warps] }
    }

    /// The number of its group of 32 agents: engine by engine, and warp by warp within each.
    pub(super) fn group(self, warps: usize) -> usize {
        self.engine as usize * warps + self.warp as usize
    }

    /// Index of the thread in its cluster.
    pub(super) fn thread(self) -> usize {
        self.warp as usize * LANES + self.lane as usize
    }
}

/// Strength and scope of an access. Strong accesses do not race with each other (PTX ISA, "Morally strong operations").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// A plain access.
    Weak,
    /// A volatile access.
    Volatile,
    /// A relaxed or stronger access, or an atomic one, at block scope.
    Block,
    /// The same at cluster scope.
    Cluster,
    /// The same at GPU scope.
    Gpu,
}

/// Scope of a fence (PTX ISA, "Scope").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// The threads of its block.
    Block,
    /// Those of its cluster.
    Cluster,
    /// All threads.
    Gpu,
}

impl Strength {
    /// Whether it does not race with strong accesses of the same block.
    pub fn is_strong(self) -> bool {
        self != Strength::Weak
    }

    /// Whether it does not race with strong accesses of other blocks of its cluster either. Volatile accesses count as
    /// relaxed accesses of the widest scope.
    pub fn reaches_cluster(self) -> bool {
        matches!(self, Strength::Volatile | Strength::Cluster | Strength::Gpu)
    }

    /// Whether it does not race with strong accesses of other clusters either.
    pub fn reaches_other_clusters(self) -> bool {
        matches!(self, Strength::Volatile | Strength::Gpu)
    }
}

/// Memory order of an access (PTX ISA, "Memory Consistency Model").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Semantics {
    pub strength: Strength,
    pub acquires: bool,
    pub releases: bool,
    /// The engine that makes it for the thread.
    pub engine: Engine,
}

impl Semantics {
    /// A plain access.
    pub const WEAK: Semantics =
        Semantics { strength: Strength::Weak, acquires: false, releases: false, engine: Engine::Thread };
    /// An atomic access without ordering.
    pub const STRONG: Semantics = Semantics { strength: Strength::Gpu, ..Semantics::WEAK };
    /// An access of an asynchronous copy.
    pub const COPY: Semantics = Semantics { engine: Engine::Copies, ..Semantics::WEAK };
    /// An access of a bulk copy from shared memory.
    pub const BULK_STORE: Semantics = Semantics { engine: Engine::BulkReads, ..Semantics::WEAK };
    /// An access of `wgmma`.
    pub const MATRIX: Semantics = Semantics { engine: Engine::Matrix, ..Semantics::WEAK };
}
