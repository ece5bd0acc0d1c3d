//! Simulated GPUs as a driver sees them.
//!
//! A [`Machine`] has GPUs. A [`Context`] on a GPU has memory, modules, streams and events like those of the CUDA driver
//! API. [`ptx_sim`] executes launches on the CPU, with all its checks. There is no unsafe code: handles are values, and
//! device addresses are looked up.
//!
//! Two ways to launch:
//! - [`Context::run`] returns findings and counters as values, and the context stays usable.
//! - [`Stream::submit`] does what a GPU does: findings are printed like compiler errors and become the error of the
//!   context. The next call that waits returns it, and so does every later call.
//!
//! ```
//! use sim_device::{Config, Launch, Machine};
//!
//! let machine = Machine::new(Config::default());
//! let context = machine.create_context(0, 0)?;
//! let ptx = ".version 8.0
//! .target sm_80
//! .address_size 64
//! .visible .entry store(.param .u64 to) {
//!     .reg .b64 %rd<2>;
//!     ld.param.u64 %rd0, [to];
//!     st.global.u32 [%rd0], 7;
//!     ret;
//! }";
//! let function = context.load(ptx, None)?.function("store")?;
//! let buffer = context.allocate_as("result", 4)?;
//! let launch = |address: u64| Launch {
//!     function: function.clone(),
//!     grid: [1; 3],
//!     block: [1; 3],
//!     dynamic_shared_bytes: 0,
//!     overlaps_previous: false,
//!     cooperative: false,
//!     cluster: None,
//!     parameters: vec![address.to_le_bytes().to_vec()],
//! };
//! assert!(context.run(&launch(buffer), &machine.config().options)?.findings.is_empty());
//! let mut result = [0; 4];
//! context.read(buffer, &mut result)?;
//! assert_eq!(result, [7, 0, 0, 0]);
//! // Four bytes further on there is nothing.
//! assert_eq!(context.run(&launch(buffer + 4), &machine.config().options)?.findings.len(), 1);
//! # Ok::<(), sim_device::Error>(())
//! ```
//!
//! # What is simulated, and what is not
//!
//! - A stream executes each operation at once, on the submitting thread: one of the orders that a GPU could choose.
//!   Unordered use of the same memory by different streams is reported.
//! - The contexts of a process have disjoint addresses, and each only accesses its own memory, as on a GPU. Between
//!   GPUs there are copies but no peer access.
//! - Kernels access page-locked, registered and managed host memory at its host address.
//! - Not simulated: mipmaps, cubemaps, updates of graphs.

#![forbid(unsafe_code)]

mod architecture;
mod array;
mod attributes;
mod capture;
mod code;
mod config;
mod context;
mod declarations;
mod dependents;
mod error;
mod event;
pub mod fat_binary;
mod function;
mod graph;
mod host;
mod host_range;
mod image;
mod launch;
mod library;
mod machine;
mod memory;
mod module;
mod objects;
mod occupancy;
mod operation;
mod order;
mod problem;
mod report;
mod stream;
mod stream_races;
mod sync;
mod texture;
mod undetermined;

pub use architecture::Architecture;
pub use array::{LAYERED, SURFACES};
pub use attributes::device_attribute;
pub use capture::exchange_thread_mode;
pub use code::Code;
pub use config::{AllocateHost, Config, Messages, NEWEST_DRIVER};
pub use error::{Error, Result};
pub use host_range::{HostKind, HostRange};
pub use image::Parameter;
pub use library::{Kernel, Library};
pub use machine::{NAME, is_device_address};
pub use memory::Allocation;
pub use module::Module;
pub use objects::{
    Array, ArrayDescriptor, Call, Capture, Context, Copy, Event, Fill, Function, Gpu, Graph, GraphExec, HostMemory,
    Kind, Launch, Life, Machine, Mode, Node, Operation, Place,
};
pub use problem::{Problem, Severity};
pub use ptx_sim::{HostWords, Options, Report};
pub use stream::{PRIORITIES, Stream, StreamKind};
pub use texture::Resource;
