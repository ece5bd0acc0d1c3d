//! The specialisation of a kernel of this family, and its block.

use core::marker::PhantomData;

use crate::device::copy::Copiers;
use crate::device::hidden::not_unrolled;
use crate::device::kernel::Kernel;
use crate::device::lane::Lane;
use crate::device::scores::differentiable::Differentiable;
use crate::device::unrolled;
use contract::backward::variants::Tile;

/// The specialisation of a backward kernel.
pub trait Sm80Backward: Kernel<ScoreMod: Differentiable> {
    /// How its blocks divide the work.
    const TILE: Tile;
    /// Whether it computes dBias: an entry of its own, since the code of it costs the other blocks registers, and up to 5 % of their time.
    const COMPUTES_D_BIAS: bool;

    /// Index in the block of the calling warp, or of its pair.
    #[inline(always)]
    fn team(lane: Lane) -> u32 {
        if const { Self::TILE.is_paired() } { lane.warp % const { Self::TILE.teams() } } else { lane.warp }
    }

    /// Calls `body` with each number below `COUNT`: one after another in pairs of warps, which have no registers for several at once.
    #[inline(always)]
    fn for_each<const COUNT: usize>(mut body: impl FnMut(u32)) {
        if const { Self::TILE.is_paired() } {
            let mut number = 0;
            while number < not_unrolled(COUNT as u32) {
                body(number);
                number += 1;
            }
        } else {
            unrolled!(at most 4; for number in COUNT => { body(number as u32) });
        }
    }

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
