//! Layout of a block's tiles in shared memory.

use core::marker::PhantomData;

use crate::device::codegen::shared;
use crate::device::kernel::{Kernel, Tile};

/// The block's dynamic shared memory: the Q tile, later reused for O, then K and V of each stage.
#[derive(Clone, Copy)]
pub struct SharedMemory<K, const BLOCK_M: u32, const BLOCK_N: u32> {
    base: u32,
    _kernel: PhantomData<K>,
}

impl<K: Kernel, const BLOCK_M: u32, const BLOCK_N: u32> SharedMemory<K, BLOCK_M, BLOCK_N> {
    const STAGE_BYTES: u32 = 2 * Tile::<K, BLOCK_N>::BYTES;

    /// Checks that every tile is aligned.
    const TILES_ARE_ALIGNED: () = assert!(
        Tile::<K, BLOCK_M>::BYTES.is_multiple_of(Tile::<K, BLOCK_N>::ALIGNMENT)
            && Tile::<K, BLOCK_N>::BYTES.is_multiple_of(Tile::<K, BLOCK_N>::ALIGNMENT)
    );

    /// The shared memory of the calling thread's block.
    #[inline(always)]
    pub fn new() -> Self {
        const { Self::TILES_ARE_ALIGNED };
        Self { base: shared::dynamic_shared_mem(), _kernel: PhantomData }
    }

    /// Q, later O.
    #[inline(always)]
    pub fn queries(&self) -> Tile<K, BLOCK_M> {
        Tile::<K, BLOCK_M>::at(self.base)
    }

    /// Address of the first stage, which the others follow.
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    pub fn stages(&self) -> u32 {
        self.base + Tile::<K, BLOCK_M>::BYTES
    }

    /// K of a stage.
    #[inline(always)]
    pub fn keys(&self, stage: u32) -> Tile<K, BLOCK_N> {
        Tile::<K, BLOCK_N>::at(self.base + Tile::<K, BLOCK_M>::BYTES + stage * Self::STAGE_BYTES)
    }

    /// V of a stage.
    #[inline(always)]
    pub fn values(&self, stage: u32) -> Tile<K, BLOCK_N> {
        Tile::<K, BLOCK_N>::at(
            self.base + Tile::<K, BLOCK_M>::BYTES + stage * Self::STAGE_BYTES + Tile::<K, BLOCK_N>::BYTES,
        )
    }
}
