#![doc = include_str!("../README.md")]
//!
//! ## In this crate
//!
//! [`forward()`] does everything in one call. [`Plan::new`], [`Plan::bind`] and [`Launch::launch`] are its steps.
//! [`warm_up`] loads kernels in advance, [`supports`] tells which kernel computes a problem, [`Error`] says what is
//! wrong and how to fix it.
//!
//! Programs with PTX of their own (other code generators, tuners) load it as a [`Module`] and plan with [`contract`].
//! Its kernels are launched by the same code as those of this library.

mod backward;
mod context;
#[cfg(feature = "cudarc")]
pub mod cudarc;
mod driver;
mod embedded;
mod error;
mod forward;
mod gpu;
mod kernels;
mod library;
mod memory;
mod merged;
mod module;
mod plan;
mod recent;
mod select;
mod stream;
mod submit;
mod version;

#[doc(no_inline)]
pub use contract;

pub use contract::args::Strides;
pub use contract::backward::plan::BackwardAddresses;
pub use contract::config::{Element, Mask};
pub use contract::gpu::Gpu as GpuFacts;
pub use contract::gradient::{Gradient, GradientViews};
pub use contract::packing::{Lengths, Packing};
pub use contract::plan::Addresses;
pub use contract::problem::{Alignment, Problem, ScoreMod, Shape, Slopes, Window};
pub use contract::refusal::{Dimension, Refusal, Tensor};
pub use contract::view::{Layout, View, Views};

pub use backward::{backward, backward_with, backward_workspace_bytes, supports_backward, warm_up_backward};
#[doc(hidden)]
pub use backward::{backward_by_sums, backward_by_sums_workspace_bytes};
pub use context::Entered;
pub use error::{Error, ErrorKind, MemoryProblem};
pub use forward::{Options, Support, forward, forward_with, forward_without_keys, supports, warm_up};
pub use gpu::Gpu;
pub use module::{Module, ModuleKernel};
pub use plan::{Launch, Plan};
pub use stream::Stream;
pub use submit::encode_tensor_maps;
pub use version::Version;

/// The CUDA version that this machine's driver supports.
///
/// # Errors
/// When there is no driver, it is too old, `cuInit` fails, or it shows no GPU.
pub fn driver_version() -> Result<Version, Error> {
    driver::Driver::get().map(|driver| driver.version)
}

/// Names of the kernels in this library; empty if it was built without PTX.
pub fn kernels() -> impl Iterator<Item = &'static str> {
    embedded::KERNELS.iter().map(|kernel| kernel.entry)
}
