//! What both sides of a launch agree on: the kernels, the build of their PTX, the library that launches them, and the
//! workshop around it.
#![no_std]

pub mod args;
pub mod config;
pub mod divisor;
pub mod geometry;
pub mod last_round;
pub mod probe;
pub mod variants;

#[cfg(feature = "manifest")]
pub mod candidates;
#[cfg(feature = "manifest")]
pub mod manifest;
