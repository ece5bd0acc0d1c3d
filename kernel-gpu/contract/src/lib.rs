//! Definitions shared by both sides of a launch: the kernels, the build of their PTX, the library that launches them, and
//! the workshop.
//!
//! A [`problem::Problem`] says what to compute. [`selection::choose`] selects its [`variants::Variant`] on a
//! [`gpu::Gpu`], [`plan::Plan::new`] plans the launch, and [`plan::Plan::bind`] binds the addresses of the tensors. Nothing
//! here allocates or calls a driver.
#![no_std]

pub mod architecture;
pub mod args;
pub mod config;
pub mod cost;
pub mod dealing;
pub mod divisor;
pub mod geometry;
pub mod gpu;
pub mod last_round;
pub mod limits;
pub mod longest_first;
pub mod packed;
pub mod parts;
pub mod plan;
pub mod probe;
pub mod problem;
pub mod refusal;
pub mod residency;
pub mod selection;
pub mod shape;
pub mod split_keys;
pub mod tensor;
pub mod tensor_map;
pub mod tile;
pub mod variants;
pub mod view;

#[cfg(feature = "manifest")]
pub mod candidates;
#[cfg(feature = "manifest")]
pub mod manifest;
