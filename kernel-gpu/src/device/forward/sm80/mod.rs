//! The sm_80 family: `cp.async`, `ldmatrix`, `mma.sync`. A thread block computes `BLOCK_M` query rows of one head. Each
//! warp owns `M_TILES` strips of 16 rows, or shares them with warps that attend to other keys of a step. K and V pass through
//! shared memory in `STAGES` stages of `BLOCK_N` keys.
//!
//! [`products`](super::super::products) has the matrix products of a warp, [`pipeline`] the copies of tiles to shared memory and their
//! synchronisation, [`warp`] the loops of a warp, [`shifts`] its softmax, [`forward()`] the choice between them, [`key_groups`]
//! several warp groups that share keys, [`parts`] several blocks that do, [`combination`] what both combine their results by, [`epilogue`]
//! the stores of O and LSE.

mod block;
mod combination;
mod epilogue;
mod forward;
mod kernel;
mod key_groups;
mod parts;
mod pipeline;
mod shared_memory;
mod shifts;
mod warp;

pub use forward::forward;
pub use kernel::Sm80Kernel;
