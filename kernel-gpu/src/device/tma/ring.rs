//! The ring of stages, through which the tiles of K and V pass.

use core::marker::PhantomData;

use crate::device::hidden;
use crate::device::ptx::mbarrier;
use crate::device::tma::kernel::TmaKernel;
use crate::device::tma::memory::Memory;
use crate::device::tma::turns::Turns;

/// A tile of keys and its position in the ring.
// With the tile, since LLVM moves a structure of 8 bytes as one number.
#[derive(Clone, Copy)]
pub struct Ring<K> {
    /// Index of the tile in its item.
    pub tile: u32,
    /// The stage of the tile in shared memory.
    pub stage: u32,
    /// Parity of the phase in which the stage is full.
    pub parity: u32,
    _kernel: PhantomData<K>,
}

impl<K: TmaKernel> Ring<K> {
    /// The position of the block's first tile.
    pub const START: Self = Self::at(0, 0, 0);

    /// Tile `tile` in stage `stage`, in the phase of parity `parity`.
    #[inline(always)]
    pub const fn at(tile: u32, stage: u32, parity: u32) -> Self {
        Self { tile, stage, parity, _kernel: PhantomData }
    }

    /// The same position with tile `tile`.
    #[inline(always)]
    pub const fn of_tile(self, tile: u32) -> Self {
        Self { tile, ..self }
    }

    /// The tile `tiles` tiles later, at most once around.
    #[inline(always)]
    pub fn advance(self, tiles: u32) -> Self {
        let (tile, stage) = (self.tile + tiles, self.stage + tiles);
        if stage >= K::STAGES {
            Self::at(tile, stage - K::STAGES, self.parity ^ 1)
        } else {
            Self::at(tile, stage, self.parity)
        }
    }

    /// The next tile of a strip. A head that stays in shared memory begins at stage 0.
    #[inline(always)]
    pub fn next(self) -> Self {
        if K::HOLDS_HEADS { Self { tile: self.tile + 1, stage: self.stage + 1, ..self } } else { self.advance(1) }
    }

    /// Waits until the tile has arrived.
    ///
    /// # Safety
    /// Warp together, for the tiles in order.
    #[inline(always)]
    pub unsafe fn wait(self, memory: Memory<K>) {
        // SAFETY: an initialised mbarrier.
        unsafe { mbarrier::wait(memory.stage_full(self.stage), self.parity) };
    }

    /// Waits until the stage is empty, before its tile is loaded.
    ///
    /// # Safety
    /// The thread that loads calls this, for the tiles in order.
    #[inline(always)]
    pub unsafe fn wait_until_empty(self, memory: Memory<K>) {
        // SAFETY: an initialised mbarrier. Before its first phase it is as if a phase of the other parity had ended.
        unsafe { mbarrier::wait(memory.stage_empty(self.stage), self.parity ^ 1) };
    }

    /// Releases the stage for the warp, which does not read the tile again.
    ///
    /// # Safety
    /// Warp together after the products with the tile have completed, once per tile, in order.
    #[inline(always)]
    pub unsafe fn release(self, memory: Memory<K>, lane_index: u32) {
        if lane_index == 0 {
            // SAFETY: the warp's one arrival for the stage.
            unsafe { mbarrier::arrive(memory.stage_empty(self.stage)) };
        }
    }

    /// Releases the stage of a tile that the warp does not read, when the tile has arrived: until then the mbarrier may still count
    /// arrivals for the tile before. Takes a turn, since those of the other warpgroups pass through this one.
    ///
    /// # Safety
    /// Warpgroup together, once per tile, in order.
    #[inline(always)]
    pub unsafe fn pass_over(self, memory: Memory<K>, turns: Turns, lane_index: u32) {
        // SAFETY: warpgroup together.
        unsafe {
            self.wait(memory);
            turns.wait();
            turns.pass();
            // Recomputed: with a lane known from outside of the surrounding loop, the compiler would duplicate the loop for the
            // arriving lane and the others, and each would wait alone at the barriers in it.
            self.release(memory, hidden::recompute(lane_index));
        }
    }
}
