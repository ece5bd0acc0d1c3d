//! The order of work items under a causal mask, where the later a query tile, the more keys it attends to.
//!
//! Of a group of heads the last tile of each comes first, then the one before it of each, and so on: the shortest are left for
//! the end, which fill what the longer ones left uneven ("longest processing time first"; R. L. Graham, "Bounds on
//! Multiprocessing Timing Anomalies", 1969). A group is all heads, as long as their K and V fit into L2, or every block has one
//! of its own to read from memory in each round.

use core::num::NonZeroU32;

use crate::divisor::Divisor;

/// Bytes of K and V that blocks share in L2, for each multiprocessor: of an H100, 33 of its 50 MB.
const SHARED_BYTES: u64 = 256 << 10;

/// Which heads of a launch make a group.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadGroups {
    /// Heads of a group but the last, of all batch entries.
    heads: Divisor,
    /// Their work items.
    items: Divisor,
    /// Heads of the last group.
    last_heads: Divisor,
    /// The last group.
    last: u32,
    /// Binary logarithm of how many tiles of a head come together, in kernels that ask for it.
    together: u32,
}

/// Of heads whose K and V are not in L2 together, the fewest rows of a tile and the fewest tiles with which it pays to leave the
/// order of heads (docs/results/map.md).
const FEWEST_ROWS: u32 = 128;
const FEWEST_TILES: u32 = 8;
/// Of such heads, how many rows each read of K and V from memory should serve: as many are the floating-point operations for each
/// byte read. Measured (docs/results/map.md).
const ROWS_OF_A_READ: u32 = 1024;

impl HeadGroups {
    /// One group of `heads` heads of `tiles` query tiles, which are at most 2³¹ together.
    // Without a body of its own in PTX, as only the host calls it.
    #[inline]
    pub const fn one(heads: NonZeroU32, tiles: NonZeroU32) -> Self {
        Self::of(heads, heads, tiles)
    }

    /// Those of `heads` heads of `tiles` query tiles of `rows` rows, which are at most 2³¹ tiles together, on `blocks` blocks that
    /// compute side by side, with so many bytes of K and V for each multiprocessor.
    ///
    /// A group but the last is whole rounds of the blocks, at least two, so that all of them leave it at about the same time. Heads
    /// come one by one where the tiles or their heads are so small that reading K and V would take longer than computing.
    #[inline]
    pub const fn new(heads: NonZeroU32, tiles: NonZeroU32, rows: u32, blocks: NonZeroU32, key_bytes: u64) -> Self {
        if key_bytes <= SHARED_BYTES {
            return Self::one(heads, tiles);
        }
        if rows < FEWEST_ROWS || tiles.get() < FEWEST_TILES {
            return Self::of(heads, NonZeroU32::MIN, tiles);
        }
        let together = tiles_together(heads.get(), tiles.get(), rows, blocks.get());
        let of_a_round = blocks.get() / greatest_common_divisor(blocks.get(), tiles.get());
        let items = of_a_round as u64 * tiles.get() as u64;
        let group = (2 * blocks.get() as u64).div_ceil(items) * of_a_round as u64;
        match NonZeroU32::new(group as u32) {
            Some(several) if 2 * group <= heads.get() as u64 => Self { together, ..Self::of(heads, several, tiles) },
            _ => Self { together, ..Self::one(heads, tiles) },
        }
    }

    /// Binary logarithm of how many tiles of a head come together where the kernel asks for it.
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

    /// The head, of all batch entries, and how many of its `tiles` come before this one, of work item `item`, where `2^together` tiles
    /// of a head come together. What [`Divisor::either`] asks of `hide` is asked of it here.
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

/// Of `heads` heads of `tiles` tiles, which come rank by rank, the one at the place of (`head`, `rank`) where `2^together` tiles of a head
/// come together. The last ranks, where these are fewer, come as they did.
#[inline(always)]
const fn gathered((head, rank): (u32, u32), heads: u32, tiles: u32, together: u32) -> (u32, u32) {
    let within = (1 << together) - 1;
    if rank | within >= tiles {
        return (head, rank);
    }
    let place = (rank & within) * heads + head;
    (place >> together, (rank & !within) | (place & within))
}

/// Binary logarithm of how many tiles of a head should come together, so that each read of K and V serves [`ROWS_OF_A_READ`] rows. It
/// serves the tiles of a head that blocks compute at the same time.
#[inline]
const fn tiles_together(heads: u32, tiles: u32, rows: u32, blocks: u32) -> u32 {
    let of_a_head = if heads < blocks { blocks / heads } else { 1 };
    let mut together = 0;
    // At least two runs of them, or the shortest tiles would not come last.
    while (rows * of_a_head) << together < ROWS_OF_A_READ && tiles >> together >= 4 {
        together += 1;
    }
    together
}

#[inline]
const fn greatest_common_divisor(mut one: u32, mut other: u32) -> u32 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// In which order work items come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOrder {
    /// All tiles of a head, then those of the next: they share K and V in L2.
    HeadByHead,
    /// The longest of a group of heads first.
    LongestFirst,
    /// The same, but where K and V do not fit into L2, several tiles of a head together: blocks that compute them at the same time read
    /// the head's K and V from memory once.
    LongestFirstTogether,
}

/// The work item of block `block` of `blocks` in its `round`, counted from 0, where the longest come first; `None` when it has
/// done all of its own. Who had the longest item of a round gets the shortest of the next.
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

    /// Heads and ranks of all items, in order.
    fn order(groups: HeadGroups, heads: u32, tiles: u32, together: u32) -> Vec<(u32, u32)> {
        let place = |item| groups.head_and_rank(item, (tiles, together), |n, by| by.divide(n), |n| n);
        (0..heads * tiles).map(place).collect()
    }

    #[test]
    fn every_tile_of_every_head_comes_once_whatever_the_groups() {
        for (heads, tiles, blocks) in
            [(1, 1, 1), (1, 9, 4), (7, 3, 2), (8, 9, 4), (33, 5, 4), (200, 10, 132), (9, 2, 114)]
        {
            for key_bytes in [0, u64::MAX] {
                let groups = HeadGroups::new(positive(heads), positive(tiles), 256, positive(blocks), key_bytes);
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

    /// How many tiles of its head come before each item.
    fn ranks(heads: u32, tiles: u32, rows: u32, blocks: u32, key_bytes: u64) -> Vec<u32> {
        let groups = HeadGroups::new(positive(heads), positive(tiles), rows, positive(blocks), key_bytes);
        order(groups, heads, tiles, 0).into_iter().map(|(_, rank)| rank).collect()
    }

    #[test]
    fn the_longest_tiles_of_a_group_come_first() {
        let one = ranks(6, 3, 256, 2, 0);
        assert!(one.is_sorted(), "all heads are one group: {one:?}");
        // A group of 4 heads, as 4 blocks compute its 36 tiles in 9 rounds; the rest is of the last one.
        let several = ranks(9, 9, 256, 4, u64::MAX);
        assert!(several[..36].is_sorted() && several[36..].is_sorted() && several[36] == 0, "{several:?}");
    }

    #[test]
    fn tiles_of_a_head_come_together_where_each_would_read_its_keys_from_memory() {
        let groups = |heads, tiles, rows, key_bytes| {
            HeadGroups::new(positive(heads), positive(tiles), rows, positive(132), key_bytes)
        };
        assert_eq!(groups(137, 23, 128, 0).together(), 0, "all of K and V are in L2");
        assert_eq!(groups(137, 23, 128, u64::MAX).together(), 3, "eight tiles of 128 rows");
        assert_eq!(groups(137, 12, 128, u64::MAX).together(), 2, "the shortest tiles come last");
        assert_eq!(
            groups(16, 23, 128, u64::MAX).together(),
            0,
            "blocks compute eight tiles of each head at the same time"
        );
        let first: Vec<_> = order(groups(137, 23, 128, u64::MAX), 137, 23, 3).into_iter().take(17).collect();
        let run = |head| (0..8).map(move |rank| (head, rank));
        assert_eq!(first, (0..2).flat_map(run).chain([(2, 0)]).collect::<Vec<_>>());
        let last = order(groups(137, 23, 128, u64::MAX), 137, 23, 3)[137 * 16..].to_vec();
        assert!(last.is_sorted_by_key(|&(_, rank)| rank), "fewer than eight are left of each: {last:?}");
    }

    #[test]
    fn heads_come_one_by_one_where_tiles_are_small_or_few() {
        for (tiles, rows) in [(9, 64), (7, 256)] {
            let ranks = ranks(9, tiles, rows, 4, u64::MAX);
            assert!(ranks.chunks(tiles as usize).all(<[u32]>::is_sorted), "{ranks:?}");
        }
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

    /// Keys that the busiest block attends to over the mean, in tiles.
    fn unevenness(heads: u32, tiles: u32, blocks: u32, key_bytes: u64) -> f64 {
        let groups = HeadGroups::new(positive(heads), positive(tiles), 256, positive(blocks), key_bytes);
        let load = |block: u32| -> u32 {
            let items = (0..).map_while(|round| longest_first_item(round, block, blocks, heads * tiles));
            items.map(|item| tiles - groups.head_and_rank(item, (tiles, 0), |n, by| by.divide(n), |n| n).1).sum()
        };
        let longest = (0..blocks).map(load).max().unwrap_or(0);
        f64::from(longest * blocks * 2) / f64::from(heads * tiles * (tiles + 1))
    }

    #[test]
    fn blocks_are_loaded_evenly_where_they_have_several_items() {
        // Batch × heads, tiles of 256 rows, and K and V of 64 columns, which were the worst of a map before (docs/results/map.md).
        let head_bytes = |tiles: u32| u64::from(tiles) * 256 * 256;
        for (heads, tiles) in
            [(10, 29), (20, 15), (55, 10), (12, 32), (25, 18), (50, 11), (42, 32), (200, 10), (106, 21)]
        {
            let uneven = unevenness(heads, tiles, 132, u64::from(heads) * head_bytes(tiles) / 132);
            assert!(uneven < 1.12, "{heads} heads of {tiles} tiles: the busiest block has {uneven:.3} of the mean");
        }
    }
}
