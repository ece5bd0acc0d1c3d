//! Launch geometry: how many blocks a launch has and which query tile each of them computes.

use core::num::NonZeroU32;

use crate::args::ForwardArgs;

/// Largest number of blocks in the x dimension of a grid (CUDA C++ Programming Guide, "Technical Specifications").
pub const MAXIMUM_BLOCKS: u64 = (1 << 31) - 1;

/// The part of the problem that one thread block computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockWork {
    /// Batch index.
    pub batch: u32,
    /// Head index.
    pub head: u32,
    /// Query tile index within the head.
    pub query_tile: u32,
}

/// Query tiles of one head: `ceil(sequence / block_m)`.
pub const fn query_tiles(sequence: u32, block_m: u32) -> u32 {
    sequence.div_ceil(block_m)
}

/// Blocks of a launch, or `None` when one grid cannot hold them.
pub const fn blocks(batch: u32, heads: u32, query_tiles: u32) -> Option<u32> {
    let Some(heads) = (batch as u64).checked_mul(heads as u64) else { return None };
    match heads.checked_mul(query_tiles as u64) {
        Some(blocks) if blocks <= MAXIMUM_BLOCKS => Some(blocks as u32),
        _ => None,
    }
}

/// The work of block `block`: tiles of one head are neighbours, so that they share its K and V in L2, and the last
/// tile comes first, since under a causal mask it is the longest.
#[inline(always)]
pub fn block_work(block: u32, query_tiles: NonZeroU32, heads: NonZeroU32) -> BlockWork {
    let batch_head = block / query_tiles;
    let tile = block % query_tiles;
    BlockWork { batch: batch_head / heads, head: batch_head % heads, query_tile: query_tiles.get() - 1 - tile }
}

impl ForwardArgs {
    /// [`block_work`] for a launch with these arguments.
    #[inline(always)]
    pub fn block_work(&self, block: u32) -> BlockWork {
        block_work(block, self.query_tiles, self.heads)
    }
}
