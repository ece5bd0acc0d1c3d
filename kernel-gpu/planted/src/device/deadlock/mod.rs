//! Warps that wait for each other.

mod hopper;

pub use hopper::*;

use super::{ptx, warp};
use crate::Arguments;

/// Each warp waits for the other at a barrier of its own.
#[inline(always)]
pub unsafe fn different_barriers<const PLANTED: bool>(_: Arguments) {
    let barrier = if PLANTED { 1 + warp() } else { 1 };
    ptx::barrier_of(barrier, 64);
}

/// Two barriers, taken in opposite order.
#[inline(always)]
pub unsafe fn opposite_order<const PLANTED: bool>(_: Arguments) {
    let first = if PLANTED { 1 + warp() } else { 1 };
    ptx::barrier_of(first, 64);
    ptx::barrier_of(3 - first, 64);
}

/// The producer signals "full" only after the consumer's "empty", which comes after "full".
#[inline(always)]
pub unsafe fn producer_and_consumer<const PLANTED: bool>(_: Arguments) {
    const FULL: u32 = 1;
    const EMPTY: u32 = 2;
    if warp() == 0 {
        if PLANTED {
            ptx::barrier::<EMPTY, 64>();
        }
        ptx::arrive::<FULL, 64>();
        if !PLANTED {
            ptx::barrier::<EMPTY, 64>();
        }
    } else {
        ptx::barrier::<FULL, 64>();
        ptx::arrive::<EMPTY, 64>();
    }
}
