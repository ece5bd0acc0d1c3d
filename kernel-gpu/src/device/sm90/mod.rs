//! The sm_90a family: `cp.async`, `wgmma`. A thread block computes `BLOCK_M` query rows of one head, 64 per warpgroup. All
//! warpgroups share K and V, which pass through shared memory in `STAGES` stages of `BLOCK_N` keys.
//!
//! [`products`] has the matrix products of a warpgroup, [`pipeline`] the copies of tiles to shared memory and their
//! synchronisation, [`forward()`] the main loop of a warpgroup.

mod forward;
mod pipeline;
mod products;
mod softmax;
pub mod tma;

pub use forward::forward;
