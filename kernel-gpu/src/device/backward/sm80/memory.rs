//! Layout of a block's dynamic shared memory: tiles of its own rows, the tiles of each stage, and the statistics of query rows. Pairs of warps
//! have their own rows in registers when the first stage is copied over them.

use core::marker::PhantomData;

use super::kernel::Sm80Backward;
use crate::device::codegen::shared;
use crate::device::kernel::Tile;
use contract::backward::variants::STATISTICS_BYTES;

/// `OWN` tiles of `ROWS` rows, then `STAGES` times `STAGED` tiles of `STEP` rows, then statistics.
#[derive(Clone, Copy)]
pub struct SharedMemory<K, const OWN: u32, const ROWS: u32, const STAGED: u32, const STEP: u32> {
    base: u32,
    _kernel: PhantomData<K>,
}

impl<K: Sm80Backward, const OWN: u32, const ROWS: u32, const STAGED: u32, const STEP: u32>
    SharedMemory<K, OWN, ROWS, STAGED, STEP>
{
    /// The shared memory of the calling thread's block.
    #[inline(always)]
    pub fn new() -> Self {
        Self { base: shared::dynamic_shared_mem(), _kernel: PhantomData }
    }

    /// Tile `index` of the block's own rows.
    #[inline(always)]
    pub fn own(&self, index: u32) -> Tile<K, ROWS> {
        Tile::<K, ROWS>::at(self.base + index * Tile::<K, ROWS>::BYTES)
    }

    /// Tile `index` of a stage.
    #[inline(always)]
    pub fn staged(&self, stage: u32, index: u32) -> Tile<K, STEP> {
        let first = self.base + const { if K::TILE.is_paired() { 0 } else { OWN * Tile::<K, ROWS>::BYTES } };
        Tile::<K, STEP>::at(first + (stage * STAGED + index) * Tile::<K, STEP>::BYTES)
    }

    /// Address of the statistics of `rows` rows in stage `stage`.
    #[inline(always)]
    pub fn statistics(&self, stage: u32, rows: u32) -> u32 {
        self.base + const { K::TILE.tile_bytes(OWN, STAGED) } + stage * rows * STATISTICS_BYTES
    }
}
