//! The gradient's launch: its kernels, their argument, and the plan that fills it.

pub mod args;
mod bias;
mod items;
pub mod plan;
pub mod ring;
mod sums;
pub mod variants;
