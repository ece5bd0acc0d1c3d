//! Turns on the tensor cores.
//!
//! Warpgroups that start products whenever they are ready share the tensor cores evenly, so that all of them wait long for
//! their products, come back at about the same time, and then compute exponentials at the same time, while the tensor cores
//! rest. Taking turns spreads them out: a warpgroup has the tensor cores for its O += P·V and passes the turn on before
//! its Q·Kᵀ, which thus overlaps with the other's P·V: the one reads twice as much shared memory as the other.

use crate::device::ptx::sync;
use contract::config::{WARP_SIZE, WARPGROUP_WARPS};

/// Those of two warpgroups: one that waits and one that passes the turn on.
const THREADS: u32 = 2 * WARPGROUP_WARPS * WARP_SIZE;

/// The turns of a warpgroup, which come round in the order of the warpgroups.
#[derive(Clone, Copy)]
pub struct Turns {
    /// Whether turns are taken at all; known when the kernel is compiled.
    taken: bool,
    /// The named barrier at which this warpgroup waits; 0 is the block's.
    own: u32,
    /// That of the next one.
    next: u32,
}

impl Turns {
    /// Those of one warpgroup of several.
    #[inline(always)]
    pub fn new(taken: bool, warpgroup: u32, warpgroups: u32) -> Self {
        let next = if warpgroup + 1 == warpgroups { 0 } else { warpgroup + 1 };
        Self { taken, own: 1 + warpgroup, next: 1 + next }
    }

    /// Begins: all of the warpgroups call this once. Every one of them then takes equally many turns, but for those that
    /// [`Self::pass_to_first`] leaves out.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together.
    #[inline(always)]
    pub unsafe fn begin(self) {
        if self.next == 1 {
            // SAFETY: the caller has the warpgroup together; the first turn follows.
            unsafe { self.pass() };
        }
    }

    /// Waits for the warpgroup's turn.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together, alternately with [`Self::pass`].
    #[inline(always)]
    pub unsafe fn wait(self) {
        if self.taken {
            // SAFETY: the warpgroup's own barrier, at which only the one whose turn is before arrives.
            unsafe { sync::some::<THREADS>(self.own) };
        }
    }

    /// Ends the turn.
    ///
    /// # Safety
    /// As for [`Self::wait`].
    #[inline(always)]
    pub unsafe fn pass(self) {
        if self.taken {
            // SAFETY: the barrier of the next warpgroup, which waits there once for each call.
            unsafe { sync::arrive::<THREADS>(self.next) };
        }
    }

    /// From now on the next turn is the first warpgroup's, as those behind this one have taken their last.
    #[inline(always)]
    pub fn pass_to_first(&mut self) {
        self.next = 1;
    }

    /// Takes the first warpgroup's turn that nobody needs, so that no barrier is left half full.
    ///
    /// # Safety
    /// As for [`Self::wait`], once, after the last [`Self::pass`].
    #[inline(always)]
    pub unsafe fn end(self) {
        if self.own == 1 {
            // SAFETY: the caller has the warpgroup together, behind its last pass.
            unsafe { self.wait() };
        }
    }
}
