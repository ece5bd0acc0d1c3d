//! The backward pass: dQ, dK and dV of attention.
//!
//! With P = 2^(c·S − LSE₂), c = scale · log₂e, S = Q·Kᵀ and Δ = rowsum(dO ∘ O):
//!
//! ```text
//! dV = Pᵀ·dO      dP = dO·Vᵀ      dS = P ∘ (dP − Δ)      dK = scale · dSᵀ·Q      dQ = scale · dS·K
//! ```

#[cfg(feature = "sm_80")]
pub mod sm80;
