//! FlashAttention forward on NVIDIA GPUs: one call on tensors that are already there.
//!
//! `O = softmax(scale · QKᵀ + mask) · V` for every batch and head, fp16 with a head dimension of 64, any strides with
//! contiguous, 16-byte aligned rows, and optionally `LSE = ln Σ exp(scale · q·k)`.
//!
//! ```no_run
//! use fa512::{Addresses, Layout, Mask, Problem, Shape, Stream};
//!
//! # fn call(q: u64, k: u64, v: u64, o: u64, stream: *mut std::ffi::c_void) -> Result<(), Box<dyn std::error::Error>> {
//! let shape = Shape { batch: 32, heads: 8, sequence: 512 };
//! let problem = Problem::new(shape, Mask::Causal, Layout::Bhsd)?;
//! // Once for each problem, before a stream captures; otherwise the first call does it.
//! fa512::warm_up(&[problem])?;
//! // SAFETY: the addresses are those of tensors that live until the stream has come this far.
//! unsafe { fa512::forward(&problem, Addresses { q, k, v, o, lse: None }, Stream::from_raw(stream)) }?;
//! # Ok(())
//! # }
//! ```
//!
//! The kernels are in the library, as PTX; the driver compiles each when it is first wanted. The driver is opened at run time,
//! so that a program with this library starts everywhere. Without a driver, a GPU or a context, every call says so.
//!
//! What holds of every call: it puts one kernel on the caller's stream. Nothing is allocated, copied or synchronised, nothing
//! of the caller's is freed or kept. All types are `Send + Sync`. The GPU is that of the calling thread's current context, as
//! everywhere in CUDA.
//!
//! For many calls of one problem there is a form in two steps, which also leaves out what the driver is asked about addresses:
//! [`Plan::new`], [`Plan::bind`], [`Launch::launch`].

#[cfg(feature = "cudarc")]
pub mod cudarc;
mod driver;
mod embedded;
mod error;
mod forward;
mod gpu;
mod kernels;
mod memory;
mod plan;
mod select;
mod stream;

pub use contract::args::Strides;
pub use contract::config::Mask;
pub use contract::gpu::Gpu as GpuFacts;
pub use contract::plan::Addresses;
pub use contract::problem::{Problem, Shape};
pub use contract::refusal::{Dimension, Refusal, Tensor};
pub use contract::view::{Layout, View, Views};

pub use driver::Version;
pub use error::{Error, ErrorKind, MemoryProblem};
pub use forward::{Options, Support, forward, forward_with, supports, warm_up};
pub use gpu::Gpu;
pub use plan::{Launch, Plan};
pub use stream::Stream;

/// Names of the kernels in this library; empty where it was built without PTX.
pub fn kernels() -> impl Iterator<Item = &'static str> {
    embedded::KERNELS.iter().map(|kernel| kernel.entry)
}
