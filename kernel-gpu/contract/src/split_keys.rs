//! Work items whose keys are split among the blocks of a cluster ([`Grid::SplitKeys`]).
//!
//! Where a problem has fewer query tiles than a GPU has multiprocessors, most of these would have nothing to do. Each block of a
//! cluster attends to a part of an item's keys, and together they add up what they found ("Flash-Decoding", Dao, Haziza, Massa
//! and Sizov, 2023; here through distributed shared memory, without a second launch and without memory of the caller's).

use core::num::NonZeroU32;

use crate::config::WARPGROUP_ROWS;
use crate::tile::Grid;

/// Most blocks of a cluster: what every GPU that has clusters launches.
pub const MOST_BLOCKS: u32 = 8;
/// Fewest steps that are worth a block.
const FEWEST_STEPS: u32 = 2;

/// Blocks of a cluster of a launch of `items` work items of `rows` rows, the longest of which attends to `keys` keys in steps of `step`
/// keys; 1 where `grid` splits no keys.
pub const fn cluster(grid: Grid, (items, rows): (u32, u32), keys: u32, step: u32, multiprocessors: u32) -> u32 {
    match grid {
        Grid::OneShot | Grid::Persistent => 1,
        Grid::SplitKeys => {
            blocks_of_an_item(items, keys.div_ceil(step), places(rows, multiprocessors), multiprocessors)
        }
    }
}

/// Blocks that are on their way at once: of two warpgroups one for a multiprocessor, of one three for two, of which one computes while
/// another waits. More clusters of many blocks do not find places side by side on an H200, and go through in two rounds; clusters of
/// two do (docs/results/map.md).
const fn places(rows: u32, multiprocessors: u32) -> u32 {
    if rows > WARPGROUP_ROWS { multiprocessors } else { multiprocessors.saturating_mul(3) / 2 }
}

/// Blocks among which the keys of each of `items` work items are split, the longest of which has `steps` steps of keys.
const fn blocks_of_an_item(items: u32, steps: u32, places: u32, multiprocessors: u32) -> u32 {
    let room = places / at_least_one(items);
    let room = if room == 1 && places > multiprocessors && items <= multiprocessors { 2 } else { room };
    at_least_one(smaller(smaller(room, steps / FEWEST_STEPS), MOST_BLOCKS))
}

/// Where the part of block `rank` of `blocks` begins in `tiles` tiles of keys; that of rank `blocks` is their end.
#[inline(always)]
pub fn part_begin(tiles: u32, rank: u32, blocks: NonZeroU32) -> u32 {
    // No product wraps: keys are fewer than 2³⁰, and blocks at most 8.
    tiles * rank / blocks
}

const fn at_least_one(number: u32) -> u32 {
    if number == 0 { 1 } else { number }
}

const fn smaller(one: u32, other: u32) -> u32 {
    if one < other { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_items_are_split_until_the_gpu_is_full_or_the_parts_are_short() {
        let blocks = |items, keys, rows| cluster(Grid::SplitKeys, (items, rows), keys, 64, 132);
        assert_eq!(blocks(64, 4096, 64), 3);
        assert_eq!(blocks(32, 2048, 64), 6);
        assert_eq!(blocks(1, 65_536, 64), MOST_BLOCKS);
        assert_eq!(blocks(8, 512, 64), 4, "two steps each");
        assert_eq!(blocks(132, 4096, 64), 2);
        assert_eq!(blocks(133, 4096, 64), 1, "a second block would be of another round");
        assert_eq!(blocks(8, 64, 64), 1);
        assert_eq!(blocks(0, 0, 64), 1);
        assert_eq!(blocks(32, 4096, 128), 4, "one block for a multiprocessor");
        assert_eq!(blocks(67, 4096, 128), 1);
        assert_eq!(cluster(Grid::SplitKeys, (0, 0), 0, 64, 0), 1);
    }

    #[test]
    fn parts_follow_each_other_and_are_equally_long_but_for_a_tile() {
        for tiles in 1..=40 {
            for blocks in 1..=MOST_BLOCKS {
                let begin = |rank| part_begin(tiles, rank, NonZeroU32::new(blocks).unwrap());
                assert_eq!((begin(0), begin(blocks)), (0, tiles));
                for rank in 0..blocks {
                    let part = begin(rank + 1) - begin(rank);
                    let even = tiles / blocks;
                    assert!(part == even || part == even + 1, "{part} of {tiles} tiles for one of {blocks} blocks");
                }
            }
        }
        let most = (1 << 30) / 64;
        assert_eq!(part_begin(most, MOST_BLOCKS, NonZeroU32::new(MOST_BLOCKS).unwrap()), most);
    }
}
