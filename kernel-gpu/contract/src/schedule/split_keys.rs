//! Split keys: the keys of a work item are split among the blocks of a cluster ([`Grid::SplitKeys`]).
//!
//! If a problem has fewer query tiles than a GPU has multiprocessors, most of them would idle. So each block of a cluster
//! attends to a part of an item's keys, and together they combine their results ("Flash-Decoding", Dao, Haziza, Massa
//! and Sizov, 2023; here through distributed shared memory, without a second launch and without a workspace).

use core::num::NonZeroU32;

use crate::schedule::tile::{Configuration, Grid};
use crate::spec::config::{HEAD_DIM, Mask, WARPGROUP_ROWS};

/// Maximum blocks of a cluster, as many as every GPU with clusters can run.
pub const MOST_BLOCKS: u32 = 8;
/// Maximum blocks of a cluster where clusters fill the GPU: larger ones do not find room side by side (docs/results/map.md).
pub const MOST_OF_A_FULL_GPU: u32 = 4;
/// Minimum steps per block for which splitting pays.
const FEWEST_STEPS: u32 = 2;
/// Minimum steps per block for which a large cluster pays on half of the multiprocessors, and on three fourths of them.
const FEWEST_STEPS_OF_LARGE: [u32; 2] = [4, 8];

/// The properties of a kernel that decide among how many blocks it splits keys.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// The grid.
    pub grid: Grid,
    /// Query rows of a work item.
    pub rows: u32,
    /// Columns of its tiles.
    pub columns: u32,
    /// Keys per step.
    pub step: u32,
    /// The mask.
    pub mask: Mask,
}

impl Split {
    /// The properties of kernels of `config` under a mask.
    pub const fn new(config: Configuration, mask: Mask) -> Self {
        let (rows, columns, step) = (config.block_m(), config.columns(), config.block_n());
        Self { grid: config.grid(), rows, columns, step, mask }
    }

    /// Blocks per cluster in a launch of `items` work items, the longest of which attends to `keys` keys; 1 if the grid splits no keys.
    pub const fn cluster(self, items: u32, keys: u32, multiprocessors: u32) -> u32 {
        match self.grid {
            Grid::OneShot | Grid::Persistent => 1,
            Grid::SplitKeys => self.blocks_of_an_item(items, keys.div_ceil(self.step), multiprocessors),
        }
    }

    const fn blocks_of_an_item(self, items: u32, steps: u32, multiprocessors: u32) -> u32 {
        let room = self.places(multiprocessors) / at_least_one(items);
        let room = if room < 2 && self.pairs_find_places(items, multiprocessors) { 2 } else { room };
        let of_full = smaller(smaller(room, steps / FEWEST_STEPS), MOST_OF_A_FULL_GPU);
        at_least_one(larger(of_full, Self::large_cluster(items, steps, multiprocessors)))
    }

    /// Blocks of a cluster of few items, which leave much of the GPU to larger clusters. Measured (docs/results/map.md).
    const fn large_cluster(items: u32, steps: u32, multiprocessors: u32) -> u32 {
        let items = at_least_one(items);
        let on_half = smaller(multiprocessors / 2 / items, steps / FEWEST_STEPS_OF_LARGE[0]);
        let on_more = smaller(multiprocessors / 4 * 3 / items, steps / FEWEST_STEPS_OF_LARGE[1]);
        smaller(larger(on_half, on_more), MOST_BLOCKS)
    }

    /// Whether clusters of two blocks find room side by side: as many blocks on each multiprocessor as may share it.
    const fn pairs_find_places(self, items: u32, multiprocessors: u32) -> bool {
        items <= if self.shares_multiprocessors() { multiprocessors } else { multiprocessors / 2 }
    }

    /// Blocks that a launch may have. Clusters of more than two blocks do not fill a GPU, since all blocks of one run in the same
    /// graphics processing cluster.
    ///
    /// * Two warpgroups: one block on each of four fifths of the multiprocessors.
    /// * One warpgroup, wide rows: one block on each of 31 of 32. At 44 items, clusters of two take 0.81 to 0.98 of the time of those of
    ///   three (docs/results/map.md).
    /// * One warpgroup otherwise: three blocks per two multiprocessors, since one computes while another waits. Under a causal mask
    ///   twice as many: half of them finish early, and others take their places.
    const fn places(self, multiprocessors: u32) -> u32 {
        match self.mask {
            _ if self.rows > WARPGROUP_ROWS => multiprocessors.saturating_mul(4) / 5,
            _ if !self.shares_multiprocessors() => multiprocessors - multiprocessors / 32,
            Mask::Causal => multiprocessors.saturating_mul(3),
            _ => multiprocessors.saturating_mul(3) / 2,
        }
    }

    /// Whether two of its blocks are faster on one multiprocessor at once than one after the other.
    const fn shares_multiprocessors(self) -> bool {
        self.rows <= WARPGROUP_ROWS && self.columns <= HEAD_DIM
    }
}

/// First tile of the part of block `rank` of `blocks`, of `tiles` tiles of keys; for rank `blocks` it is the end.
#[inline(always)]
pub fn part_begin(tiles: u32, rank: u32, blocks: NonZeroU32) -> u32 {
    // No product wraps: there are fewer than 2³⁰ keys and few blocks.
    tiles * rank / blocks
}

const fn at_least_one(number: u32) -> u32 {
    if number == 0 { 1 } else { number }
}

const fn larger(one: u32, other: u32) -> u32 {
    if one > other { one } else { other }
}

const fn smaller(one: u32, other: u32) -> u32 {
    if one < other { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_items_are_split_until_the_gpu_is_full_or_the_parts_are_short() {
        let split = |rows, columns, mask| Split { grid: Grid::SplitKeys, rows, columns, step: 64, mask };
        let full = |items, keys| split(64, 64, Mask::Full).cluster(items, keys, 132);
        assert_eq!(full(64, 4096), 3);
        assert_eq!(full(40, 4096), MOST_OF_A_FULL_GPU);
        assert_eq!(full(8, 320), 2, "two steps each");
        assert_eq!(full(132, 4096), 2);
        assert_eq!(full(133, 4096), 1, "a second block would be of another round");
        assert_eq!(full(8, 64), 1);
        assert_eq!(full(0, 0), 1);
        assert_eq!(split(64, 64, Mask::Causal).cluster(82, 5200, 132), 4, "short items leave their places to others");
        let wide = |rows, items| split(rows, 128, Mask::Full).cluster(items, 4096, 132);
        assert_eq!(
            [wide(64, 32), wide(64, 42), wide(64, 43), wide(64, 66), wide(64, 67)],
            [4, 3, 2, 2, 1],
            "nearly a block for each multiprocessor"
        );
        assert_eq!(
            [wide(128, 26), wide(128, 35), wide(128, 66), wide(128, 67)],
            [4, 3, 2, 1],
            "as many as find places in clusters"
        );
        assert_eq!(wide(128, u32::MAX), 1);
        assert_eq!(split(0, 0, Mask::Full).cluster(0, 0, 0), 1);
    }

    #[test]
    fn fewer_items_have_larger_clusters_if_their_parts_are_long() {
        let split = Split { grid: Grid::SplitKeys, rows: 64, columns: 64, step: 64, mask: Mask::Full };
        let cluster = |items, steps: u32| split.cluster(items, steps * 64, 132);
        assert_eq!([1, 8, 12, 16].map(|items| cluster(items, 256)), [8, 8, 8, 6]);
        assert_eq!(
            [32, 24, 16, 15].map(|steps| cluster(1, steps)),
            [8, 6, 4, 4],
            "four steps each, or two in small clusters"
        );
        assert_eq!(
            [32, 48, 64].map(|steps| cluster(12, steps)),
            [5, 6, 8],
            "on three fourths of the GPU eight steps each"
        );
        assert_eq!(cluster(25, 256), MOST_OF_A_FULL_GPU);
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
