//! How many tiles of a head stay together if K and V of all heads do not fit into L2 ([`WorkOrder::LongestFirstTogether`]).
//!
//! Blocks that compute tiles of a head at the same time read its K and V from memory once. But tiles that stay together are not in the
//! order of their lengths, so blocks are loaded less evenly. What takes the least time by both was measured (docs/results/map.md).
//!
//! [`WorkOrder::LongestFirstTogether`]: super::WorkOrder::LongestFirstTogether

use super::{EVEN_ROUNDS, FEWEST_ROWS, HeadGroups, Heads, gathered, longest_first_item};

/// Time in percent, at the same load, if a read of K and V serves [`FEWEST_ROWS`] rows, twice as many, and so on. No more than the last
/// are kept together.
const PERCENT: [u64; 4] = [100, 99, 96, 93];
/// A block that is so many percent busier than the mean takes as many percent longer than it: while others wait, it has more of L2.
const PERCENT_OF_EXCESS: u64 = 80;
/// Keys that a tile's rows could attend to while an item starts and ends.
const KEYS_OF_A_START: u32 = 96;
/// So many blocks stand for all, in 1 to 2 µs of planning.
const BLOCKS_LOOKED_AT: u32 = 17;

/// Binary logarithm of the number of tiles of a head to keep together in `groups`.
#[inline]
pub(super) const fn tiles_together(all: &Heads, groups: &HeadGroups) -> u32 {
    let (mut best, mut least, mut together) = (0, u64::MAX, 0);
    while together < PERCENT.len() as u32 {
        let expected = percent(all, together) * (WHOLE + excess(all, groups, together) * PERCENT_OF_EXCESS / 100);
        if expected < least {
            (best, least) = (together, expected);
        }
        together += 1;
    }
    best
}

/// [`PERCENT`] for `2^together` tiles of a head.
#[inline]
const fn percent(all: &Heads, together: u32) -> u64 {
    let (heads, blocks) = (all.number.get(), all.blocks.get());
    let at_once = if heads < blocks { blocks / heads } else { 1 };
    let octaves = (all.rows * at_once / FEWEST_ROWS).ilog2() + together;
    let last = PERCENT.len() as u32 - 1;
    PERCENT[if octaves < last { octaves } else { last } as usize]
}

/// The mean load in the unit of [`excess`].
const WHOLE: u64 = 10_000;

/// How much busier the busiest block is than the mean, if it has few rounds of each group.
#[inline]
const fn excess(all: &Heads, groups: &HeadGroups, together: u32) -> u64 {
    let (tiles, blocks) = (all.tiles.get() as u64, all.blocks.get() as u64);
    if groups.last_heads.get().get() as u64 * tiles >= EVEN_ROUNDS as u64 * blocks {
        return 0;
    }
    let of_head = tiles * (tiles + 1) / 2 * all.rows as u64 + tiles * KEYS_OF_A_START as u64;
    let mean = all.number.get() as u64 * of_head / blocks + 1;
    busiest(all, groups, together).saturating_sub(mean) * WHOLE / mean
}

/// Keys that all items of the busiest block attend to, with their starts, of the blocks that stand for all. The same blocks are busy in
/// every group but the last, since these are whole rounds.
#[inline]
const fn busiest(all: &Heads, groups: &HeadGroups, together: u32) -> u64 {
    let blocks = all.blocks.get();
    let step = if blocks > BLOCKS_LOOKED_AT { blocks / BLOCKS_LOOKED_AT } else { 1 };
    let (group, last_group) = (groups.heads.get().get(), groups.last_heads.get().get());
    let (mut most, mut block) = (0, 0);
    while block < blocks {
        let of_group = if groups.last > 0 { load(all, group, block, together) } else { 0 };
        let load = of_group * groups.last as u64 + load(all, last_group, block, together);
        most = if load > most { load } else { most };
        block += step;
    }
    most
}

/// The same of a block in a group of `heads` heads.
#[inline]
const fn load(all: &Heads, heads: u32, block: u32, together: u32) -> u64 {
    let tiles = all.tiles.get();
    let (mut load, mut round) = (0, 0);
    while let Some(item) = longest_first_item(round, block, all.blocks.get(), heads * tiles) {
        let (_, rank) = gathered((item % heads, item / heads), heads, tiles, together);
        load += (tiles - rank) as u64 * all.rows as u64 + KEYS_OF_A_START as u64;
        round += 1;
    }
    load
}
