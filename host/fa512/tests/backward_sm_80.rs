//! The same gradients by the entries of sm_80 alone.

mod common;
mod gradients;

/// Of the simulated GPUs.
const ARCHITECTURE: &str = "86";
