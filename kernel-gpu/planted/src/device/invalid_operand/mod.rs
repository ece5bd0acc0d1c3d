//! Operands that the PTX ISA gives no meaning.

mod hopper;

pub use hopper::*;

use super::{lane, ptx};
use crate::Arguments;

/// A barrier counts whole warps.
#[inline(always)]
pub unsafe fn barrier_of_40_threads<const PLANTED: bool>(_: Arguments) {
    let threads = if PLANTED { 40 } else { 64 };
    ptx::barrier_of(1, threads);
}

/// A block has 16 barriers.
#[inline(always)]
pub unsafe fn barrier_16<const PLANTED: bool>(_: Arguments) {
    let barrier = if PLANTED { 16 } else { 15 };
    ptx::barrier_of(barrier, 64);
}

/// Lanes of one warp name different barriers.
#[inline(always)]
pub unsafe fn barrier_that_differs_between_lanes<const PLANTED: bool>(_: Arguments) {
    let barrier = if PLANTED { 1 + lane() / 16 } else { 1 };
    ptx::barrier_of(barrier, 64);
}
