//! Small kernels with one planted bug each, grouped by class, as a test of the simulator's checks.
//!
//! Every kernel is generic over `PLANTED`: with `true` it has the bug, with `false` it is its clean twin, and the places
//! where `PLANTED` is read are the whole difference. What the simulator says about the first is stored beside the
//! source, as `<class>/<kernel>.report`; about the second it says nothing. Which kernels there are, and how each is
//! launched, is listed in [`crate::CASES`]. Kernels that need Hopper are in the file `hopper` of their class, or alone in
//! theirs.
#![allow(unsafe_op_in_unsafe_fn, reason = "an unsafe block around every body would show nothing")]
#![allow(dead_code, unused_imports, reason = "the kernels of one architecture at a time have entries")]

pub mod async_copy;
pub mod barrier;
pub mod cluster;
pub mod collective;
pub mod deadlock;
pub mod invalid_operand;
mod matrices;
pub mod mbarrier;
pub mod misaligned;
pub mod out_of_bounds;
pub mod proxy_fence;
mod ptx;
pub mod race_global;
pub mod race_shared;
mod stages;
pub mod termination;
pub mod uninitialised;
pub mod wgmma;
pub mod wrong_result;

use contract::config::WARP_SIZE;
use kernel_gpu::codegen::thread::thread_idx_x;

/// Lane of the calling thread in its warp.
#[inline(always)]
fn lane() -> u32 {
    thread_idx_x() % WARP_SIZE
}

/// Warp of the calling thread in its block.
#[inline(always)]
fn warp() -> u32 {
    thread_idx_x() / WARP_SIZE
}

/// Address of element `index` of an array of elements of `bytes` bytes at `base`.
#[inline(always)]
fn element(base: u64, index: u32, bytes: u32) -> u64 {
    base + index as u64 * bytes as u64
}
