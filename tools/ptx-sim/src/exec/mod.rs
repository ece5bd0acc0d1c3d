//! Running a decoded entry: blocks in parallel, the warps of a block in turn, the lanes of a warp together.

mod access;
mod barriers;
mod block;
mod bulk;
mod context;
mod convergence;
mod grid;
mod mbarriers;
mod proxies;
mod schedule;
mod stall;
mod traffic;
mod warp;
mod warpgroups;
mod wgmma;

pub(crate) use access::Faults;
pub(crate) use barriers::{CLUSTER_BARRIER, NAMED_BARRIERS, Reduction};
pub(crate) use context::{Context, Flow, lane_list, without_addresses};
pub(crate) use grid::{Machine, run_grid};
pub(crate) use mbarriers::{Landing, MBARRIER_BYTES, PhaseState, Wait};
pub(crate) use proxies::OrdinaryWrite;
pub(crate) use traffic::{Direction, Traffic};
pub(crate) use warp::PendingCopy;

/// The indices of the lanes of a mask, in order.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> + Clone {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}
