//! Barriers that some threads do not reach, or reach with contradicting counts.

use kernel_gpu::ptx::sync;

use super::{lane, ptx, warp};
use crate::Arguments;

/// One of two warps, at a barrier for a number of threads: one for all threads would be released by the exit of the other warp.
#[inline(always)]
pub unsafe fn skipped_by_a_warp<const PLANTED: bool>(_: Arguments) {
    if !PLANTED || warp() == 0 {
        ptx::barrier::<1, 64>();
    }
}

/// Lanes 16 to 31.
#[inline(always)]
pub unsafe fn skipped_by_half_a_warp<const PLANTED: bool>(_: Arguments) {
    if !PLANTED || lane() < 16 {
        sync::block();
    }
    sync::warp();
}

/// The lanes beyond the tail return before the barrier.
#[inline(always)]
pub unsafe fn after_an_early_return<const PLANTED: bool>(_: Arguments) {
    const LENGTH: u32 = 20;
    if PLANTED && lane() >= LENGTH {
        return;
    }
    sync::block();
}

/// A barrier on each side of a branch that divides a warp.
#[inline(always)]
pub unsafe fn on_both_sides_of_a_branch<const PLANTED: bool>(_: Arguments) {
    if !PLANTED || lane() % 2 == 0 {
        ptx::barrier::<1, 32>();
    } else {
        ptx::barrier::<1, 64>();
    }
    sync::warp();
}

/// As many rounds as the lane's number says, with a barrier in each.
#[inline(always)]
pub unsafe fn in_a_loop_of_unequal_rounds<const PLANTED: bool>(_: Arguments) {
    let rounds = if PLANTED { 1 + lane() / 16 } else { 2 };
    let mut round = 0;
    while round < rounds {
        sync::block();
        round += 1;
    }
}

/// One warp waits for 64 threads, the other for 96.
#[inline(always)]
pub unsafe fn contradicting_counts<const PLANTED: bool>(_: Arguments) {
    let threads = if PLANTED && warp() == 1 { 96 } else { 64 };
    if warp() < 2 {
        ptx::barrier_of(1, threads);
    }
    sync::block();
}

/// A count of two warps where only one takes part.
#[inline(always)]
pub unsafe fn count_of_too_many_threads<const PLANTED: bool>(_: Arguments) {
    let threads = if PLANTED { 64 } else { 32 };
    if warp() == 0 {
        ptx::barrier_of(1, threads);
    }
}
