//! The gradient's launch: its kernels, their argument, and the plan that fills it.

pub mod args;
pub mod plan;
pub mod variants;
