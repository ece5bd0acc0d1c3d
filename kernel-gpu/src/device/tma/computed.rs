//! The signal to the storer that a strip is computed.

use crate::device::lane::Lane;
use crate::device::ptx::{mbarrier, sync};
use crate::device::tma::kernel::TmaKernel;
use crate::device::tma::memory::Memory;

/// Whether this lane, of the four that hold the same rows, writes their statistics.
#[inline(always)]
pub fn writes_statistics(lane: Lane) -> bool {
    lane.pair_column() == 0
}

/// Signals that the strip at `place` is computed.
///
/// # Safety
/// Warp together, behind a barrier of the warp that follows their accesses to the strip, once for the strip.
#[inline(always)]
pub unsafe fn signal<K: TmaKernel>(memory: Memory<K>, place: u32, lane: Lane) {
    // Every lane that wrote statistics arrives itself: racecheck does not see the order through the warp's barrier.
    if writes_statistics(lane) {
        // SAFETY: an initialised mbarrier, at which each of these lanes arrives once.
        unsafe { mbarrier::arrive(memory.strip_computed(place)) };
    }
}

/// Passes the place of a strip without rows to the storer, which finds nothing there.
///
/// # Safety
/// Warp together, once for the strip.
#[inline(always)]
pub unsafe fn signal_empty<K: TmaKernel>(memory: Memory<K>, place: u32, lane: Lane) {
    // SAFETY: warp together. All lanes have read the strip's description.
    unsafe {
        sync::warp();
        signal(memory, place, lane);
    }
}
