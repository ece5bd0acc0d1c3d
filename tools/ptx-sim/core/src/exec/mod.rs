//! Running a decoded entry: blocks in parallel, the warps of a block in turn, the lanes of a warp together.

mod cluster;
mod convergence;
mod doubts;
mod grid;
mod leftovers;
mod patience;
mod resident;
mod schedule;
mod stall;
mod turns;

pub(crate) use grid::run_grid;
