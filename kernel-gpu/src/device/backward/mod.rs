//! The backward pass: dQ, dK and dV of attention.
//!
//! With P = 2^(c·S − LSE₂), c = scale · log₂e, S = Q·Kᵀ and Δ = rowsum(dO ∘ O):
//!
//! ```text
//! dV = Pᵀ·dO      dP = dO·Vᵀ      dS = P ∘ (dP − Δ)      dK = scale · dSᵀ·Q      dQ = scale · dS·K
//! ```

//!
//! Some work items compute dK and dV of some keys, the others dQ of some queries. Both compute S and dP: seven products instead of five, but
//! no item adds to what another one computes. So a launch needs no workspace, and gives the same bits every time. Where dQ is computed from the dS of
//! the keys, in shared memory or in a workspace, five products suffice; then its sum has a fixed order.
//!
//! [`bounds`] says which rows contribute to a tile, [`rows`] has what both need of a query row, [`output`] what they store.

mod bounds;
mod output;
mod rows;
#[cfg(feature = "sm_80")]
pub mod sm80;
#[cfg(feature = "sm_90a")]
pub mod sm90;
