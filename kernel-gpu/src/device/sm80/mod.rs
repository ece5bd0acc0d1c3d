//! The sm_80 family: `cp.async`, `ldmatrix`, `mma.sync`. One thread block computes `BLOCK_M` query rows of one head;
//! each warp owns `M_TILES` strips of 16 of them, or shares them with warps that attend to other keys of a step. K and V pass through
//! shared memory in `STAGES` stages of `BLOCK_N` keys.
//!
//! [`products`] says what a warp multiplies, [`pipeline`] how tiles get to shared memory and when they may be read,
//! [`forward()`] in which order a warp does its work, [`key_groups`] what becomes of the rows of several groups.

mod forward;
mod kernel;
mod key_groups;
mod pipeline;
mod products;
mod shifts;

pub use forward::forward;
pub use kernel::Sm80Kernel;
