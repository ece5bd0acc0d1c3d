//! The order of work items under a causal mask, where later query tiles attend to more keys.
//!
//! Within a group of heads, the last tile of each head comes first, then the second to last of each, and so on. The shortest
//! items come at the end and even out the load ("longest processing time first"; R. L. Graham, "Bounds on Multiprocessing
//! Timing Anomalies", 1969). A group is all heads if their K and V fit into L2 together. Otherwise groups are smaller, since
//! every block would read other K and V from memory in each round, unless smaller ones would load the blocks too unevenly.

mod together;

use core::num::NonZeroU32;

use crate::schedule::divisor::Divisor;

/// How the heads of a launch are grouped.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadGroups {
    /// Heads of a group except the last, counted over all batch entries.
    heads: Divisor,
    /// Work items of such a group.
    items: Divisor,
    /// Heads of the last group.
    last_heads: Divisor,
    /// Index of the last group.
    last: u32,
    /// Binary logarithm of the number of tiles of a head kept together, in kernels that ask for it.
    together: u32,
}

/// The heads of a launch, and what computes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Their number, over all batch entries.
    pub number: NonZeroU32,
    /// Query tiles of a head; at most 2³¹ of all heads.
    pub tiles: NonZeroU32,
    /// Rows of a tile.
    pub rows: u32,
    /// Concurrent blocks.
    pub blocks: NonZeroU32,
    /// Whether each block's items are known from the start, as in a persistent grid; otherwise a free block gets the next.
    pub is_dealt: bool,
    /// Whether K and V of all heads fit into L2 together.
    pub keys_fit_l2: bool,
    /// Whether the kernel can keep tiles of a head together ([`WorkOrder::LongestFirstTogether`]).
    pub may_stay_together: bool,
}

/// Minimum rows of a tile, and minimum tiles of a head, for which grouping pays if the K and V of all heads do not fit into L2
/// together (docs/results/map.md).
const FEWEST_ROWS: u32 = 128;
const FEWEST_TILES: u32 = 8;

impl HeadGroups {
    /// One group of `heads` heads of `tiles` query tiles each, at most 2³¹ in total.
    // Inlined, so that it is not in the PTX: only the host calls it.
    #[inline]
    pub const fn one(heads: NonZeroU32, tiles: NonZeroU32) -> Self {
        Self::of(heads, heads, tiles)
    }

    /// The groups of the heads of a launch.
    ///
    /// Every group but the last is a whole number of rounds, at least two, so that all blocks finish it at about the same time.
    /// Heads come one by one if tiles or heads are so small that reading K and V would take longer than computing.
    #[inline]
    pub const fn new(all: &Heads) -> Self {
        let &Heads { number: heads, tiles, rows, blocks, .. } = all;
        if all.keys_fit_l2 {
            return Self::one(heads, tiles);
        }
        if rows < FEWEST_ROWS || tiles.get() < FEWEST_TILES {
            let group = if all.is_dealt && is_too_uneven(all) { heads } else { NonZeroU32::MIN };
            return Self::of(heads, group, tiles);
        }
        let of_a_round = blocks.get() / greatest_common_divisor(blocks.get(), tiles.get());
        let items = of_a_round as u64 * tiles.get() as u64;
        let group = (2 * blocks.get() as u64).div_ceil(items) * of_a_round as u64;
        let group = match NonZeroU32::new(group as u32) {
            Some(several) if 2 * group <= heads.get() as u64 => several,
            _ => heads,
        };
        let groups = Self::of(heads, group, tiles);
        let together = if all.may_stay_together { together::tiles_together(all, &groups) } else { 0 };
        Self { together, ..groups }
    }

    /// Binary logarithm of the number of tiles of a head kept together, if the kernel asks for it.
    #[inline(always)]
    pub(crate) const fn together(&self) -> u32 {
        self.together
    }

    #[inline]
    const fn of(heads: NonZeroU32, group: NonZeroU32, tiles: NonZeroU32) -> Self {
        let last = heads.get() / group.get() - 1;
        let last_heads = NonZeroU32::MIN.saturating_add(heads.get() - last * group.get() - 1);
        let items = group.saturating_mul(tiles);
        Self {
            heads: Divisor::new(group),
            items: Divisor::new(items),
            last_heads: Divisor::new(last_heads),
            last,
            together: 0,
        }
    }

    /// The head of work item `item`, counted over all batch entries, and the number of its `tiles` that come before this one, with
    /// `2^together` tiles of a head kept together. `hide` is as for [`Divisor::either`].
    #[inline(always)]
    pub(crate) fn head_and_rank(
        &self,
        item: u32,
        (tiles, together): (u32, u32),
        divide: impl Fn(u32, Divisor) -> (u32, u32) + Copy,
        hide: impl Fn(u32) -> u32,
    ) -> (u32, u32) {
        let (group, _) = divide(item, self.items);
        let heads = Divisor::either(group < self.last, &self.heads, &self.last_heads, hide);
        let group = group.min(self.last);
        let (rank, head) = divide(item - group * self.items.get().get(), heads);
        let (head, rank) = gathered((head, rank), heads.get().get(), tiles, together);
        (group * self.heads.get().get() + head, rank)
    }
}

/// In a group of `heads` heads of `tiles` tiles in order of rank, the head and rank that take the place of (`head`, `rank`) if
/// `2^together` tiles of a head are kept together. The last ranks, if fewer than that, keep their places.
#[inline(always)]
const fn gathered((head, rank): (u32, u32), heads: u32, tiles: u32, together: u32) -> (u32, u32) {
    let within = (1 << together) - 1;
    if rank | within >= tiles {
        return (head, rank);
    }
    let place = (rank & within) * heads + head;
    (place >> together, (rank & !within) | (place & within))
}

/// Rounds from which on heads that come one by one load the blocks evenly.
const EVEN_ROUNDS: u32 = 12;

/// Whether the busiest block would compute so much more than the mean, if heads came one by one, that reading K and V again takes less
/// time. That takes the longer, the fewer rows a read serves. Measured (docs/results/map.md).
#[inline]
const fn is_too_uneven(heads: &Heads) -> bool {
    let percent = match heads.rows {
        256.. => 115,
        192.. => 130,
        FEWEST_ROWS.. => 165,
        _ => return false,
    };
    let (tiles, blocks) = (heads.tiles.get(), heads.blocks.get());
    let items = heads.number.get().saturating_mul(tiles);
    if items >= EVEN_ROUNDS.saturating_mul(blocks) {
        return false;
    }
    let busiest = longest_load(items, tiles, blocks);
    let all = items as u64 * (tiles as u64 + 1) / 2;
    busiest as u64 * blocks as u64 * 100 > all * percent
}

/// Tiles of keys that the items of the busiest block attend to, if heads come one by one; fewer than 2³² in so few rounds.
///
/// The items of blocks `tiles` apart are at the same places of their heads, but blocks on one side of a bound have one item more. So
/// the first `tiles` blocks of each side stand for all.
#[inline]
const fn longest_load(items: u32, tiles: u32, blocks: u32) -> u32 {
    let in_last_round = items % blocks;
    let bound = if items / blocks % 2 == 0 { in_last_round } else { blocks - in_last_round };
    let below = longest_load_from(0, bound, items, tiles, blocks);
    let above = longest_load_from(bound, blocks, items, tiles, blocks);
    if below > above { below } else { above }
}

/// The same of the first `tiles` blocks from `first` to `end`.
#[inline]
const fn longest_load_from(first: u32, end: u32, items: u32, tiles: u32, blocks: u32) -> u32 {
    let (mut longest, mut block) = (0, first);
    while block < end && block - first < tiles {
        let (mut load, mut round) = (0, 0);
        while let Some(item) = longest_first_item(round, block, blocks, items) {
            load += tiles - item % tiles;
            round += 1;
        }
        longest = if load > longest { load } else { longest };
        block += 1;
    }
    longest
}

#[inline]
const fn greatest_common_divisor(mut one: u32, mut other: u32) -> u32 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// The order of work items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOrder {
    /// All tiles of a head, then those of the next head: they share K and V in L2.
    HeadByHead,
    /// Within a group of heads, longest first.
    LongestFirst,
    /// The same, but if K and V do not fit into L2, several tiles of a head are kept together: blocks that compute them at the same
    /// time read the head's K and V from memory once.
    LongestFirstTogether,
}

/// The work item of block `block` of `blocks` in round `round`, counted from 0, with the longest items first; `None` after
/// the block's last item. The block with the longest item of a round gets the shortest of the next.
#[inline(always)]
pub const fn longest_first_item(round: u32, block: u32, blocks: u32, work_items: u32) -> Option<u32> {
    let item = round * blocks + if round % 2 == 0 { block } else { blocks - 1 - block };
    if item < work_items { Some(item) } else { None }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn positive(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).expect("a positive number")
    }

    /// The groups of `heads` heads of `tiles` tiles of `rows` rows, dealt to `blocks` blocks.
    fn groups((heads, tiles, rows): (u32, u32, u32), blocks: u32, keys_fit_l2: bool) -> HeadGroups {
        let [number, tiles, blocks] = [heads, tiles, blocks].map(positive);
        HeadGroups::new(&Heads { number, tiles, rows, blocks, is_dealt: true, keys_fit_l2, may_stay_together: true })
    }

    /// Head and rank of every item, in order.
    fn order(groups: HeadGroups, heads: u32, tiles: u32, together: u32) -> Vec<(u32, u32)> {
        let place = |item| groups.head_and_rank(item, (tiles, together), |n, by| by.divide(n), |n| n);
        (0..heads * tiles).map(place).collect()
    }

    #[test]
    fn every_tile_of_every_head_comes_once_whatever_the_groups() {
        for (heads, tiles, blocks) in
            [(1, 1, 1), (1, 9, 4), (7, 3, 2), (8, 9, 4), (33, 5, 4), (200, 10, 132), (9, 2, 114)]
        {
            for keys_fit_l2 in [true, false] {
                let groups = groups((heads, tiles, 256), blocks, keys_fit_l2);
                let expected: BTreeSet<_> =
                    (0..heads).flat_map(|head| (0..tiles).map(move |rank| (head, rank))).collect();
                for together in 0..4 {
                    let all: BTreeSet<_> = order(groups, heads, tiles, together).into_iter().collect();
                    assert_eq!(
                        all, expected,
                        "{heads} heads of {tiles} tiles on {blocks} blocks, {together}: {groups:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_busiest_block_is_found_among_a_few() {
        for (items, tiles, blocks) in (1..400).flat_map(|items| (1..9).map(move |tiles| (items, tiles, 1 + items % 37)))
        {
            let load = |block| {
                (0..)
                    .map_while(|round| longest_first_item(round, block, blocks, items))
                    .map(|item| tiles - item % tiles)
                    .sum()
            };
            let all: u32 = (0..blocks).map(load).max().expect("a block");
            assert_eq!(
                longest_load(items, tiles, blocks),
                all,
                "{items} items of {tiles} tiles a head on {blocks} blocks"
            );
        }
    }

    /// The number of tiles of its head that come before each item.
    fn ranks((heads, tiles, rows): (u32, u32, u32), blocks: u32, keys_fit_l2: bool) -> Vec<u32> {
        order(groups((heads, tiles, rows), blocks, keys_fit_l2), heads, tiles, 0)
            .into_iter()
            .map(|(_, rank)| rank)
            .collect()
    }

    #[test]
    fn the_longest_tiles_of_a_group_come_first() {
        let one = ranks((6, 3, 256), 2, true);
        assert!(one.is_sorted(), "all heads are one group: {one:?}");
        // A group of 4 heads has 36 tiles, which 4 blocks compute in 9 rounds; the other heads are in the last group.
        let several = ranks((9, 9, 256), 4, false);
        assert!(several[..36].is_sorted() && several[36..].is_sorted() && several[36] == 0, "{several:?}");
    }

    #[test]
    fn tiles_of_a_head_come_together_where_each_would_read_its_keys_from_memory() {
        let of = |heads, tiles, keys_fit_l2| groups((heads, tiles, 128), 132, keys_fit_l2);
        assert_eq!(of(137, 23, true).together(), 0, "all of K and V are in L2");
        assert_eq!(of(137, 23, false).together(), 3, "eight tiles of 128 rows");
        assert_eq!(of(137, 12, false).together(), 2, "the shortest tiles come last");
        assert_eq!(of(16, 23, false).together(), 0, "blocks compute eight tiles of each head at the same time");
        let first: Vec<_> = order(of(137, 23, false), 137, 23, 3).into_iter().take(17).collect();
        let run = |head| (0..8).map(move |rank| (head, rank));
        assert_eq!(first, (0..2).flat_map(run).chain([(2, 0)]).collect::<Vec<_>>());
        let last = order(of(137, 23, false), 137, 23, 3)[137 * 16..].to_vec();
        assert!(last.is_sorted_by_key(|&(_, rank)| rank), "fewer than eight are left of each: {last:?}");
    }

    #[test]
    fn as_many_tiles_come_together_as_takes_about_the_least_time() {
        // µs measured with 1, 2, 4 and 8 tiles of 128 rows together, 132 multiprocessors (docs/results/map.md).
        for ((heads, tiles), measured) in [
            ((83, 22), [299.6, 283.4, 312.8, 333.8]),
            ((55, 13), [78.6, 81.1, 82.1, 72.3]),
            ((71, 15), [133.9, 139.2, 137.8, 130.0]),
            ((84, 8), [47.2, 45.5, 46.0, 48.9]),
            ((56, 37), [592.2, 582.7, 574.0, 566.6]),
            ((57, 16), [115.1, 119.0, 121.7, 120.0]),
            ((365, 11), [376.6, 389.5, 424.2, 414.3]),
            ((206, 9), [150.8, 152.6, 155.2, 160.6]),
            ((642, 22), [2410.1, 2404.6, 2549.4, 2829.1]),
        ] {
            let together = groups((heads, tiles, 128), 132, false).together();
            let (time, least) = (measured[together as usize], measured.into_iter().fold(f64::MAX, f64::min));
            assert!(time < 1.04 * least, "{heads} heads of {tiles} tiles: 2^{together} together take {time} µs");
        }
    }

    #[test]
    fn heads_come_one_by_one_where_tiles_are_small_or_few() {
        for (tiles, rows) in [(9, 64), (7, 256)] {
            let ranks = ranks((9, tiles, rows), 4, false);
            assert!(ranks.chunks(tiles as usize).all(<[u32]>::is_sorted), "{ranks:?}");
        }
    }

    #[test]
    fn heads_do_not_come_one_by_one_where_that_is_more_uneven_than_reading_keys_again_costs() {
        // Measured on 132 multiprocessors: µs with one group, and head by head (docs/results/map.md).
        for ((heads, tiles, rows), [one, by_head]) in [
            ((110, 5, 256), [50.7, 69.0]),
            ((71, 7, 256), [60.1, 77.6]),
            ((84, 6, 256), [54.1, 48.1]),
            ((97, 7, 192), [73.2, 82.5]),
            ((147, 4, 192), [50.2, 43.3]),
            ((76, 7, 128), [43.7, 40.8]),
            ((122, 7, 128), [83.8, 59.6]),
        ] {
            let ranks = ranks((heads, tiles, rows), 132, false);
            assert_eq!(ranks.is_sorted(), one < by_head, "{heads} heads of {tiles} tiles of {rows} rows");
        }
        let free = Heads {
            number: positive(110),
            tiles: positive(5),
            rows: 256,
            blocks: positive(132),
            is_dealt: false,
            keys_fit_l2: false,
            may_stay_together: false,
        };
        assert_eq!(HeadGroups::new(&free).last, 109, "free blocks take the next item");
    }

    #[test]
    fn every_item_is_dealt_once() {
        for blocks in 1..=9 {
            for items in blocks..=4 * blocks {
                let of_block = |block| (0..).map_while(move |round| longest_first_item(round, block, blocks, items));
                let dealt: Vec<u32> = (0..blocks).flat_map(of_block).collect();
                assert_eq!(dealt.len(), items as usize, "{items} items among {blocks} blocks: {dealt:?}");
                let all: BTreeSet<u32> = dealt.into_iter().collect();
                assert_eq!(all, (0..items).collect(), "{items} items among {blocks} blocks");
            }
        }
    }

    /// Keys that the busiest block attends to, over the mean.
    fn unevenness(heads: u32, tiles: u32, blocks: u32, keys_fit_l2: bool) -> f64 {
        let groups = groups((heads, tiles, 256), blocks, keys_fit_l2);
        let load = |block: u32| -> u32 {
            let items = (0..).map_while(|round| longest_first_item(round, block, blocks, heads * tiles));
            items.map(|item| tiles - groups.head_and_rank(item, (tiles, 0), |n, by| by.divide(n), |n| n).1).sum()
        };
        let longest = (0..blocks).map(load).max().unwrap_or(0);
        f64::from(longest * blocks * 2) / f64::from(heads * tiles * (tiles + 1))
    }

    #[test]
    fn blocks_are_loaded_evenly_where_they_have_several_items() {
        // Batch × heads, tiles of 256 rows: formerly the worst of a map (docs/results/map.md).
        for (heads, tiles) in
            [(10, 29), (20, 15), (55, 10), (12, 32), (25, 18), (50, 11), (42, 32), (200, 10), (106, 21)]
        {
            // K and V of 64 columns.
            let keys_fit_l2 = heads * tiles * 64 <= 132 * 208;
            let uneven = unevenness(heads, tiles, 132, keys_fit_l2);
            assert!(uneven < 1.12, "{heads} heads of {tiles} tiles: the busiest block has {uneven:.3} of the mean");
        }
    }
}
