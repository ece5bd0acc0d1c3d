//! Where the tiles of a block lie in shared memory.

use super::Tile;
use crate::device::codegen::shared;

/// The block's dynamic shared memory: the Q tile, which later holds O, then K and V of each stage.
pub struct SharedMemory<const BLOCK_M: u32, const BLOCK_N: u32> {
    base: u32,
}

impl<const BLOCK_M: u32, const BLOCK_N: u32> SharedMemory<BLOCK_M, BLOCK_N> {
    const STAGE_BYTES: u32 = 2 * Tile::<BLOCK_N>::BYTES;

    /// Every tile begins at a multiple of its alignment.
    const TILES_ARE_ALIGNED: () = assert!(
        Tile::<BLOCK_M>::BYTES.is_multiple_of(Tile::<BLOCK_N>::ALIGNMENT)
            && Tile::<BLOCK_N>::BYTES.is_multiple_of(Tile::<BLOCK_N>::ALIGNMENT)
    );

    /// That of the calling thread's block.
    #[inline(always)]
    pub fn new() -> Self {
        const { Self::TILES_ARE_ALIGNED };
        Self { base: shared::dynamic_shared_mem() }
    }

    /// Q, later O.
    #[inline(always)]
    pub fn queries(&self) -> Tile<BLOCK_M> {
        Tile::at(self.base)
    }

    /// K of a stage.
    #[inline(always)]
    pub fn keys(&self, stage: u32) -> Tile<BLOCK_N> {
        Tile::at(self.base + Tile::<BLOCK_M>::BYTES + stage * Self::STAGE_BYTES)
    }

    /// V of a stage.
    #[inline(always)]
    pub fn values(&self, stage: u32) -> Tile<BLOCK_N> {
        Tile::at(self.base + Tile::<BLOCK_M>::BYTES + stage * Self::STAGE_BYTES + Tile::<BLOCK_N>::BYTES)
    }
}
