//! The specialisation of a kernel of this family, and its block.

use core::marker::PhantomData;

use crate::device::copy::Copiers;
use crate::device::kernel::Kernel;
use contract::backward::variants::Tile;

/// The specialisation of a backward kernel.
pub trait Sm80Backward: Kernel {
    /// How its blocks divide the work.
    const TILE: Tile;

    /// Who copies rows of D = `head_dim` columns.
    #[inline(always)]
    fn copiers(head_dim: u32) -> WholeBlock<Self> {
        WholeBlock { head_dim, _kernel: PhantomData }
    }
}

/// All threads of a block of kernel `K`.
#[derive(Clone, Copy)]
pub struct WholeBlock<K> {
    head_dim: u32,
    _kernel: PhantomData<K>,
}

impl<K: Sm80Backward> Copiers for WholeBlock<K> {
    #[inline(always)]
    fn threads(&self) -> u32 {
        const { K::TILE.threads() }
    }

    #[inline(always)]
    fn head_dim(&self) -> u32 {
        self.head_dim
    }
}
