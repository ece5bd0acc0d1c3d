//! Places in shared memory that are filled and emptied in turn.

use super::kernel::Sm90Backward;

/// A place, and the phase of its mbarriers.
#[derive(Clone, Copy)]
pub struct Place {
    /// Its index.
    pub index: u32,
    /// Parity of the phase in which it is full.
    pub parity: u32,
}

impl Place {
    const FIRST: Self = Self { index: 0, parity: 0 };

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

/// Where a warp is in the sequences of items and of steps.
#[derive(Clone, Copy)]
pub struct Places {
    /// Of the own rows of the item.
    pub own: Place,
    /// The stage of the step.
    pub stage: Place,
}

impl Places {
    /// Those of the block's first item and step.
    pub const START: Self = Self { own: Place::FIRST, stage: Place::FIRST };

    /// Goes on to the next item.
    #[inline(always)]
    pub fn next_item<K: Sm90Backward>(&mut self) {
        self.own = self.own.next(const { K::TILE.own });
    }

    /// Goes on to the next step.
    #[inline(always)]
    pub fn next_step<K: Sm90Backward>(&mut self) {
        self.stage = self.stage.next(const { K::TILE.stages });
    }
}
