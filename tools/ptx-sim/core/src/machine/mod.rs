//! State of a running kernel: the launch, its blocks and warps, and operations in flight. Nothing here knows
//! instructions or reports findings.

mod async_matrix;
mod barriers;
mod bulk_reads;
mod bulk_writes;
mod calls;
mod cluster;
mod grid;
mod group;
mod mbarriers;
mod paths;
mod proxies;
mod recent;
mod registers;
mod shared_loads;
mod stack;
mod strong_reads;
mod warp;
mod warpgroups;

pub(crate) use barriers::{Barrier, NAMED_BARRIERS, Reduction, block_barrier};
pub(crate) use cluster::{ClusterState, Polls};
pub(crate) use grid::{Machine, Place};
pub(crate) use group::{Group, Progress};
pub(crate) use mbarriers::{Landing, MBARRIER_BYTES, Mbarrier, PhaseState, Wait};
pub(crate) use proxies::OrdinaryWrite;
pub(crate) use recent::Executed;
pub(crate) use registers::Registers;
pub(crate) use shared_loads::SharedLoad;
pub(crate) use stack::Caller;
pub(crate) use warp::{PendingCopy, Warp};
pub(crate) use warpgroups::{WarpName, Warpgroups};
