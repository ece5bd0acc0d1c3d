//! Places in shared memory that are filled and emptied in turn.

use super::kernel::Sm90Backward;
use crate::device::hidden;
use crate::device::ptx::{mbarrier, sync};

/// A place, and the phase of its mbarriers.
#[derive(Clone, Copy)]
pub struct Place {
    /// Its index.
    pub index: u32,
    /// Parity of the phase in which it is full.
    pub parity: u32,
}

impl Place {
    /// The first, when it is filled for the first time.
    pub const FIRST: Self = Self { index: 0, parity: 0 };

    /// The place after this one, of `count`.
    #[inline(always)]
    const fn next(self, count: u32) -> Self {
        if self.index + 1 == count {
            Self { index: 0, parity: self.parity ^ 1 }
        } else {
            Self { index: self.index + 1, ..self }
        }
    }
}

/// A place of two that are filled and emptied in turn, in one register.
#[derive(Clone, Copy)]
pub struct OfTwo(u32);

impl OfTwo {
    /// How many there are.
    pub const COUNT: u32 = 2;

    /// The place.
    #[inline(always)]
    pub fn place(self) -> Place {
        let passed = hidden::recompute(self.0);
        Place { index: passed % Self::COUNT, parity: passed / Self::COUNT % 2 }
    }

    /// The place after this one.
    #[inline(always)]
    pub const fn next(self) -> Self {
        self.after(1)
    }

    /// The place so many after this one.
    #[inline(always)]
    pub const fn after(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }
}

/// Where a warp is in the sequences of items and of steps.
#[derive(Clone, Copy)]
pub struct Places {
    /// Of the own rows of the item.
    pub own: Place,
    /// The stage of the step.
    pub stage: Place,
    /// Of the dS of the step.
    pub d_s: OfTwo,
    /// Of the panel of dQ.
    pub panel: OfTwo,
    /// Parity of the phase in which tiles of dQ hold O of the head.
    pub head_parity: u32,
}

impl Places {
    /// Those of the block's first item and step.
    pub const START: Self =
        Self { own: Place::FIRST, stage: Place::FIRST, d_s: OfTwo(0), panel: OfTwo(0), head_parity: 0 };

    /// Goes on to the next item.
    #[inline(always)]
    pub fn next_item<K: Sm90Backward>(&mut self) {
        self.own = self.own.next(const { K::TILE.own });
    }

    /// Ends an item of keys, the last of its head or not.
    #[inline(always)]
    pub fn end_of_keys<K: Sm90Backward>(&mut self, is_last: bool) {
        if K::KEEPS_DQ && is_last {
            self.head_parity ^= 1;
        }
    }

    /// Goes on to the next stage, which may belong to no step.
    #[inline(always)]
    pub fn next_stage<K: Sm90Backward>(&mut self) {
        self.stage = self.stage.next(const { K::TILE.stages });
    }

    /// Goes on to the next step.
    #[inline(always)]
    pub fn next_step<K: Sm90Backward>(&mut self) {
        self.next_stage::<K>();
        self.next_d_s::<K>();
    }

    /// Goes on to the next tile of dS, or of gradients of keys.
    #[inline(always)]
    pub fn next_d_s<K: Sm90Backward>(&mut self) {
        if K::HANDS_OVER {
            self.d_s = self.d_s.next();
        }
    }
}

/// One arrival of the warp, after all of its accesses.
///
/// # Safety
/// Warp together; as for [`mbarrier::arrive`].
#[inline(always)]
pub unsafe fn arrive_together(barrier: u32, lane_index: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        sync::warp();
        // Recomputed: with a lane known from outside of the surrounding loop, the compiler would duplicate the loop for the arriving lane.
        if hidden::recompute(lane_index) == 0 {
            mbarrier::arrive(barrier);
        }
    }
}
