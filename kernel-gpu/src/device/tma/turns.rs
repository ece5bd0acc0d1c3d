//! Turns on the tensor cores.
//!
//! Warpgroups that start products whenever they are ready share the tensor cores evenly. Then all of them wait long for their
//! products, finish at about the same time, and compute exponentials at the same time, while the tensor cores idle. Taking
//! turns spreads them out: a warpgroup has the tensor cores for its O += P·V and passes the turn on before its Q·Kᵀ, which
//! thus overlaps with another's P·V; of the two, Q·Kᵀ reads twice as much shared memory.

use crate::device::ptx::sync;
use contract::config::{WARP_SIZE, WARPGROUP_WARPS};

/// Threads of two warpgroups: one that waits and one that passes the turn on.
const THREADS: u32 = 2 * WARPGROUP_WARPS * WARP_SIZE;

/// The turns of a warpgroup; they go round in the order of the warpgroups.
#[derive(Clone, Copy)]
pub struct Turns {
    /// Whether turns are taken at all; a compile-time constant.
    taken: bool,
    /// The named barrier at which this warpgroup waits; barrier 0 is the block's.
    own: u32,
    /// The barrier of the next warpgroup.
    next: u32,
}

impl Turns {
    /// The turns of one of several warpgroups.
    #[inline(always)]
    pub fn new(taken: bool, warpgroup: u32, warpgroups: u32) -> Self {
        let next = if warpgroup + 1 == warpgroups { 0 } else { warpgroup + 1 };
        Self { taken, own: 1 + warpgroup, next: 1 + next }
    }

    /// Begins; called once by each warpgroup. All of them then take equally many turns, except those that
    /// [`Self::pass_to_first`] leaves out.
    ///
    /// # Safety
    /// Warpgroup together.
    #[inline(always)]
    pub unsafe fn begin(self) {
        if self.next == 1 {
            // SAFETY: warpgroup together; the first turn follows.
            unsafe { self.pass() };
        }
    }

    /// Waits for the warpgroup's turn.
    ///
    /// # Safety
    /// Warpgroup together, alternately with [`Self::pass`].
    #[inline(always)]
    pub unsafe fn wait(self) {
        if self.taken {
            // SAFETY: the warpgroup's own barrier, at which only its predecessor arrives.
            unsafe { sync::some::<THREADS>(self.own) };
        }
    }

    /// Ends the turn.
    ///
    /// # Safety
    /// Warpgroup together, after its [`Self::wait`].
    #[inline(always)]
    pub unsafe fn pass(self) {
        if self.taken {
            // SAFETY: the barrier of the next warpgroup, which waits there once per call.
            unsafe { sync::arrive::<THREADS>(self.next) };
        }
    }

    /// From now on passes the turn to the first warpgroup, since later ones have taken their last.
    #[inline(always)]
    pub fn pass_to_first(&mut self) {
        self.next = 1;
    }

    /// Takes the first warpgroup's unused turn, so that no barrier is left with pending arrivals.
    ///
    /// # Safety
    /// Warpgroup together, once, after the last [`Self::pass`].
    #[inline(always)]
    pub unsafe fn end(self) {
        if self.own == 1 {
            // SAFETY: warpgroup together, after its last pass.
            unsafe { self.wait() };
        }
    }
}
