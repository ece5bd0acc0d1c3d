//! What the program `fa512` consists of: executors (GPU and simulator) behind one trait, and the commands that run, check and measure the
//! attention kernels. Inputs, the f64 reference and the comparison are in [`numerics`].
//!
//! To check a kernel: choose an entry of a [`ptx_folder::PtxFolder`] with [`variant::choose`], run it with
//! [`forward::Forward`] on an executor from [`executor::open`], and pass the outputs to [`check::check()`].

pub mod backward;
pub mod bench;
pub mod commands;
pub mod compare;
pub mod compute_sanitizer;
pub mod contender;
pub mod device;
pub mod diagnose;
pub mod document;
pub mod error;
pub mod executor;
pub mod files;
pub mod forward;
pub mod fuzz;
pub mod host_memory;
pub mod kernel;
pub mod launch;
pub mod ncu;
pub mod npy;
pub mod program;
pub mod ptx_folder;
pub mod ptx_module;
pub mod record;
pub mod sampled_check;
pub mod score_mod;
pub mod stand_ins;
pub mod statistics;
pub mod telemetry;
pub mod tensors;
pub mod timing;
pub mod variant;

pub use numerics::{check, element, gradients, inputs, reference, rows};

/// Compiles the examples in docs/use, and runs those that need no GPU.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/use/rust.md")]
struct CallingFromRust;
