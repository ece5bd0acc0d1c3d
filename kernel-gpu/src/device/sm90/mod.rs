//! The sm_90a family: `cp.async`, `wgmma`. One thread block computes `BLOCK_M` query rows of one head, each of its
//! warpgroups 64 of them; all share K and V, which pass through shared memory in `STAGES` stages of `BLOCK_N` keys.
//!
//! [`products`] says what a warpgroup multiplies, [`pipeline`] how tiles get to shared memory and when they may be read,
//! [`forward()`] in which order a warpgroup does its work.

mod forward;
mod pipeline;
mod products;
mod softmax;
pub mod tma;

pub use forward::forward;
