//! The instructions. Each family has a file with its typed form, how it is decoded, and how it executes; a new
//! instruction is added to its family's file, a new family to `operation`.

mod arguments;
mod async_copy;
mod async_store;
mod atomic;
mod barrier;
mod bits;
mod bulk_copy;
mod bulk_reduce;
mod cache_policy;
mod call;
mod cluster;
mod compare;
mod control;
mod convert;
mod descriptor;
mod double;
mod entry;
mod float;
mod integer;
mod known;
mod lanewise;
mod matrix;
mod mbarrier;
mod memory;
mod mma;
mod moves;
mod narrow;
mod operation;
mod product;
mod propagate;
mod sparse;
mod system;
mod tensor_map;
mod tile;
mod video;
mod warp;
mod warp_product;
mod warpgroup;
mod wgmma;
mod wide;
mod wmma;

pub(crate) use entry::{Code, decode};
pub use known::{expand_forms, lanewise_forms};
pub(crate) use operation::Operation;
