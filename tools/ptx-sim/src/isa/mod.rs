//! The instructions. Each family has a file with its typed form, how it is decoded, and how it executes; a new
//! instruction is added to its family's file, a new family to `operation`.

mod async_copy;
mod atomic;
mod barrier;
mod bulk_copy;
mod cache_policy;
mod cluster;
mod compare;
mod control;
mod convert;
mod entry;
mod float;
mod integer;
mod known;
mod lanewise;
mod matrix;
mod mbarrier;
mod memory;
mod moves;
mod operation;
mod propagate;
mod warp;
mod warpgroup;
mod wgmma;

pub(crate) use entry::{Code, decode};
pub use known::{expand_forms, lanewise_forms};
pub(crate) use operation::Operation;
