//! Gradients through the simulated driver: right for every shape, the same bits every time, and wrong inputs named in errors.

mod common;
mod gradients;

/// Of the simulated GPUs: for most gradients of batches, entries of sm_90a.
const ARCHITECTURE: &str = "90";
