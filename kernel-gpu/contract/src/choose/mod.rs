//! Which kernel: the one with the shortest predicted time, and the candidates that a tuning run measures.

#[cfg(feature = "manifest")]
pub mod candidates;
pub mod cost;
pub mod selection;
mod workspace;
