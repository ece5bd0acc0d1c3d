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

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_tile_of_every_head_is_computed_once() {
        let (batch, heads, tiles) = (3, 5, 7);
        let count = blocks(batch, heads, tiles).expect("a small grid");
        let work: BTreeSet<_> = (0..count)
            .map(|block| block_work(block, NonZeroU32::new(tiles).unwrap(), NonZeroU32::new(heads).unwrap()))
            .map(|work| (work.batch, work.head, work.query_tile))
            .collect();
        let expected: BTreeSet<_> =
            (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..tiles).map(move |t| (b, h, t)))).collect();
        assert_eq!(work, expected);
    }

    #[test]
    fn a_grid_holds_just_under_two_to_the_31_blocks() {
        assert_eq!(blocks(1, (1 << 31) - 1, 1), Some((1 << 31) - 1));
        assert_eq!(blocks(2, 1 << 30, 1), None, "2^31 blocks are one too many");
        assert_eq!(blocks(u32::MAX, u32::MAX, u32::MAX), None, "and the product must not wrap");
    }

    #[test]
    fn a_partial_tile_counts() {
        assert_eq!(query_tiles(1, 64), 1);
        assert_eq!(query_tiles(64, 64), 1);
        assert_eq!(query_tiles(65, 64), 2);
    }
}
