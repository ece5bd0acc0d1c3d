//! Definitions shared by both sides of a launch: the kernels, the build of their PTX, the library that launches them, and
//! the programs that check and measure them.
//!
//! A [`problem::Problem`] says what to compute. [`selection::choose`] selects its [`variants::Variant`] on a
//! [`gpu::Gpu`], [`plan::Plan::new`] plans the launch, and [`plan::Plan::bind`] binds the addresses of the tensors. Nothing
//! here allocates or calls a driver.
//!
//! Four folders, each above the one before it: `spec`, `schedule`, `launch`, `choose`. Outside of this crate their modules have no
//! folder in their names.
#![no_std]

mod choose;
mod launch;
mod schedule;
mod spec;

pub use choose::*;
pub use launch::*;
pub use schedule::*;
pub use spec::*;
