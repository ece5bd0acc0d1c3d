//! The sm_80 family: `cp.async`, `ldmatrix`, `mma.sync`. One thread block computes `BLOCK_M` query rows of one head;
//! each warp owns `M_TILES` strips of 16 of them. K and V pass through shared memory in `STAGES` stages of `BLOCK_N` keys.

mod forward;
mod products;

pub use forward::forward;
