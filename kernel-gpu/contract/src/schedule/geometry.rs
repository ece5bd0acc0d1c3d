//! Launch geometry: the number of blocks and the query tiles that each computes.

use crate::schedule::divisor::Divisor;
use crate::schedule::tile::Grid;
use crate::spec::limits::MAXIMUM_WORK_ITEMS;

/// A work item: what a thread block computes at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockWork {
    /// Batch index.
    pub batch: u32,
    /// Head index, of Q and O.
    pub head: u32,
    /// Query tile index within the head; for packed sequences the slot of a tile ([`crate::schedule::packed`]).
    pub query_tile: u32,
}

/// Query tiles of one head: `ceil(sequence / block_m)`.
pub const fn query_tiles(sequence: u32, block_m: u32) -> u32 {
    sequence.div_ceil(block_m)
}

/// Number of work items of a launch; `None` if one launch cannot have so many.
pub const fn work_items(batch: u32, heads: u32, query_tiles: u32) -> Option<u32> {
    let Some(heads) = (batch as u64).checked_mul(heads as u64) else { return None };
    match heads.checked_mul(query_tiles as u64) {
        Some(items) if items <= MAXIMUM_WORK_ITEMS => Some(items as u32),
        _ => None,
    }
}

/// Blocks of a launch on a device of `multiprocessors`, each of which holds `resident` of them; clusters instead of blocks if keys
/// are split.
pub const fn blocks(grid: Grid, work_items: u32, multiprocessors: u32, resident: u32) -> u32 {
    let room = multiprocessors.saturating_mul(resident);
    match grid {
        Grid::Persistent if room > 0 && room < work_items => room,
        _ => work_items,
    }
}

/// The work item of block `block` of `blocks` in round `round`, counted from 0; `None` after the block's last item.
///
/// Every other round is dealt out backwards. Under a causal mask, where the length of an item depends on its tile, a
/// block that has the longest tile of a head in one round gets the shortest in the next. If the tiles of a head divide
/// twice the number of blocks, all blocks then take equally long over two rounds.
#[inline(always)]
pub const fn work_item(round: u32, block: u32, blocks: u32, work_items: u32) -> Option<u32> {
    let begin = round * blocks;
    if begin + block >= work_items {
        return None;
    }
    if round % 2 == 0 {
        return Some(begin + block);
    }
    let end = if work_items - begin < blocks { work_items } else { begin + blocks };
    Some(end - 1 - block)
}

/// Work item `item`. Tiles of one head are neighbours, so that they share its K and V in L2. The last tile comes first,
/// since under a causal mask it is the longest.
#[inline(always)]
pub fn block_work(item: u32, query_tiles: Divisor, heads: Divisor) -> BlockWork {
    block_work_by(item, query_tiles, heads, |number, divisor| divisor.divide(number))
}

/// [`block_work`] with a given division, which returns quotient and remainder.
#[inline(always)]
pub(crate) fn block_work_by(
    item: u32,
    query_tiles: Divisor,
    heads: Divisor,
    divide: impl Fn(u32, Divisor) -> (u32, u32),
) -> BlockWork {
    let (batch_head, tile) = divide(item, query_tiles);
    let (batch, head) = divide(batch_head, heads);
    BlockWork { batch, head, query_tile: query_tiles.get().get() - 1 - tile }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use core::num::NonZeroU32;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn every_tile_of_every_head_is_computed_once() {
        let (batch, heads, tiles) = (3, 5, 7);
        let divisor = |value| Divisor::new(NonZeroU32::new(value).expect("a divisor"));
        let count = work_items(batch, heads, tiles).expect("a small grid");
        let work: BTreeSet<_> = (0..count)
            .map(|item| block_work(item, divisor(tiles), divisor(heads)))
            .map(|work| (work.batch, work.head, work.query_tile))
            .collect();
        let expected: BTreeSet<_> =
            (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..tiles).map(move |t| (b, h, t)))).collect();
        assert_eq!(work, expected);
    }

    #[test]
    fn a_launch_has_just_under_two_to_the_31_work_items() {
        assert_eq!(work_items(1, (1 << 31) - 1, 1), Some((1 << 31) - 1));
        assert_eq!(work_items(2, 1 << 30, 1), None, "2^31 are one too many");
        assert_eq!(work_items(u32::MAX, u32::MAX, u32::MAX), None, "and the product must not wrap");
    }

    #[test]
    fn a_persistent_grid_fills_the_device_and_has_no_idle_block() {
        assert_eq!(blocks(Grid::OneShot, 1000, 132, 2), 1000);
        assert_eq!(blocks(Grid::Persistent, 1000, 132, 2), 264);
        assert_eq!(blocks(Grid::Persistent, 100, 132, 1), 100);
    }

    /// The items of every block, in order.
    fn dealt(blocks: u32, items: u32) -> Vec<Vec<u32>> {
        let of_block = |block| (0..).map_while(move |round| work_item(round, block, blocks, items)).collect();
        (0..blocks).map(of_block).collect()
    }

    #[test]
    fn every_item_is_dealt_once_whatever_the_grid() {
        for blocks in 1..=9 {
            for items in blocks..=4 * blocks {
                let dealt = dealt(blocks, items);
                let all: BTreeSet<u32> = dealt.iter().flatten().copied().collect();
                assert_eq!(all, (0..items).collect(), "{items} items among {blocks} blocks: {dealt:?}");
                assert_eq!(dealt.iter().map(Vec::len).sum::<usize>(), items as usize, "{dealt:?}");
            }
        }
        let last = work_item(1, 0, (1 << 31) - 2, (1 << 31) - 1);
        assert_eq!(last, Some((1 << 31) - 2), "the largest launch must not wrap");
        assert_eq!(work_item(1, (1 << 31) - 3, (1 << 31) - 2, (1 << 31) - 1), None);
    }

    #[test]
    fn causal_tiles_of_different_length_are_dealt_out_evenly() {
        // Keys of a tile in units of block_m: one for the first tile of a head, the number of tiles for the last.
        let length = |item: u32, tiles: u32| tiles - item % tiles;
        for (blocks, tiles, heads) in
            [(132, 4, 66), (132, 2, 256), (132, 4, 264), (132, 8, 33), (114, 4, 57), (4, 4, 6)]
        {
            let items = heads * tiles;
            let loads: Vec<u32> =
                dealt(blocks, items).iter().map(|own| own.iter().map(|&item| length(item, tiles)).sum()).collect();
            let longest = *loads.iter().max().unwrap();
            let even = (items * (tiles + 1)).div_ceil(2 * blocks);
            assert!(longest < even + tiles, "{heads} heads of {tiles} tiles on {blocks} blocks: {longest} of {even}");
            if items.is_multiple_of(2 * blocks) {
                assert!(loads.iter().all(|&load| load == even), "{heads} heads of {tiles} tiles: {loads:?}");
            }
        }
    }

    #[test]
    fn a_partial_tile_counts() {
        assert_eq!(query_tiles(1, 64), 1);
        assert_eq!(query_tiles(64, 64), 1);
        assert_eq!(query_tiles(65, 64), 2);
    }
}
