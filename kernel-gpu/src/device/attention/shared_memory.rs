//! Where the tiles of a block lie in shared memory.

use core::marker::PhantomData;

use super::Tile;
use crate::device::codegen::shared;
use crate::shared_tile::Element;

/// The block's dynamic shared memory: the Q tile, which later holds O, then K and V of each stage.
pub struct SharedMemory<E, const BLOCK_M: u32, const BLOCK_N: u32> {
    base: u32,
    _element: PhantomData<E>,
}

impl<E: Element, const BLOCK_M: u32, const BLOCK_N: u32> SharedMemory<E, BLOCK_M, BLOCK_N> {
    const STAGE_BYTES: u32 = 2 * Tile::<E, BLOCK_N>::BYTES;

    /// Every tile begins at a multiple of its alignment.
    const TILES_ARE_ALIGNED: () = assert!(
        Tile::<E, BLOCK_M>::BYTES.is_multiple_of(Tile::<E, BLOCK_N>::ALIGNMENT)
            && Tile::<E, BLOCK_N>::BYTES.is_multiple_of(Tile::<E, BLOCK_N>::ALIGNMENT)
    );

    /// That of the calling thread's block.
    #[inline(always)]
    pub fn new() -> Self {
        const { Self::TILES_ARE_ALIGNED };
        Self { base: shared::dynamic_shared_mem(), _element: PhantomData }
    }

    /// Q, later O.
    #[inline(always)]
    pub fn queries(&self) -> Tile<E, BLOCK_M> {
        Tile::at(self.base)
    }

    /// K of a stage.
    #[inline(always)]
    pub fn keys(&self, stage: u32) -> Tile<E, BLOCK_N> {
        Tile::at(self.base + Tile::<E, BLOCK_M>::BYTES + stage * Self::STAGE_BYTES)
    }

    /// V of a stage.
    #[inline(always)]
    pub fn values(&self, stage: u32) -> Tile<E, BLOCK_N> {
        Tile::at(self.base + Tile::<E, BLOCK_M>::BYTES + stage * Self::STAGE_BYTES + Tile::<E, BLOCK_N>::BYTES)
    }
}
