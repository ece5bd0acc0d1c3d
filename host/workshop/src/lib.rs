//! The workshop around the kernel-gpu attention kernels: problems and inputs, an f64 reference, executors (GPU and
//! simulator) behind one trait, and the checks that compare them.
//!
//! ```
//! use workshop::inputs::{Distribution, Inputs};
//! use contract::problem::{Problem, Shape};
//! use contract::view::Layout;
//! use workshop::reference::Reference;
//! use contract::config::Mask;
//!
//! let problem = Problem::new(Shape::new(1, 2, 512), Mask::Causal, Layout::Bhsd)?;
//! let inputs = Inputs::generate(problem, Distribution::Constant, 0)?;
//! let reference = Reference::compute(&inputs, |_rows| ());
//! assert!((reference.elements[300][7].value - 0.75).abs() < 1e-12);
//! # Ok::<(), workshop::error::Error>(())
//! ```
//!
//! To compare a kernel with it: choose an entry of a [`ptx_folder::PtxFolder`] with [`variant::choose`], run it with
//! [`forward::Forward`] on an executor from [`executor::open`], and give the outputs to [`check::check()`].

pub mod bench;
pub mod check;
pub mod compare;
pub mod compute_sanitizer;
pub mod contender;
pub mod device;
pub mod diagnose;
pub mod document;
pub mod element;
pub mod error;
pub mod executor;
pub mod files;
pub mod forward;
pub mod fuzz;
pub mod host_memory;
pub mod inputs;
pub mod journal;
pub mod launch;
pub mod map;

pub mod ncu;
pub mod npy;
pub mod ptx_folder;
pub mod record;
pub mod reference;
pub mod report;
pub mod rows;
pub mod sampled_check;
pub mod score_mod;
pub mod statistics;
pub mod telemetry;
pub mod timing;
pub mod tune;
pub mod variant;

/// What docs/use shows is compiled, and run where it needs no GPU.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/use/rust.md")]
struct CallingFromRust;
