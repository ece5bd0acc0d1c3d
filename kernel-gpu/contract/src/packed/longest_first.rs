//! The order of the work items of packed sequences: the longest first, so that the blocks of a launch finish at about the same time
//! (R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).
//!
//! An item is up to `strips` neighbouring strips of query rows of a head. Its cost is the number of key tiles that it attends to.
//! Items come in classes of costs, the costliest first; within a class sequence by sequence, the heads of an item together, so that
//! blocks that compute at the same time share K and V in L2. Where a block has many items, all costs are one class. The costs only
//! balance the work: whatever they are, every item is in exactly one class.

use crate::config::WARPGROUP_ROWS;
use crate::tile::Sm90Tma;

/// The longest come first up to this many items per block. More even out by themselves, and then the order of the sequences is better:
/// short ones read memory while long ones compute (docs/results/packed.md).
const MOST_ITEMS: u32 = 10;

/// The longest come first of up to this many sequences: a warp goes through all of them once per class, 32 at a time.
const MOST_SEQUENCES: u32 = 64;

/// Whether the longest of at most `items` items of `sequences` sequences come first on `blocks` blocks.
#[inline(always)]
pub const fn is_sorted(items: u32, sequences: u32, blocks: u32) -> bool {
    items > blocks && items / MOST_ITEMS < blocks && sequences <= MOST_SEQUENCES
}

/// Costs that differ by less than a fourth, from 4 on; or all costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostClass {
    number: u32,
}

impl CostClass {
    /// The class of all costs.
    pub const ALL: Self = Self { number: u32::MAX };

    /// The class of a cost, which is not 0: its binary exponent and the next two binary digits.
    #[inline(always)]
    pub const fn of(cost: u32) -> Self {
        let zeros = cost.leading_zeros();
        Self { number: ((31 - zeros) << 2) + ((cost << zeros << 1) >> 30) }
    }

    /// The class of the next lower costs; `None` after the last.
    #[inline(always)]
    pub const fn next(self) -> Option<Self> {
        if self.number == 0 || self.number == Self::ALL.number { None } else { Some(Self { number: self.number - 1 }) }
    }

    /// Whether a cost, which is not 0, is in the class.
    #[inline(always)]
    const fn has(self, cost: u32) -> bool {
        self.number == Self::of(cost).number || self.number == Self::ALL.number
    }

    /// The least cost of the class, and the least above it.
    #[inline(always)]
    const fn bounds(self) -> (u32, u32) {
        const fn least(number: u32) -> u32 {
            ((4 + number % 4) << (number / 4)).div_ceil(4)
        }
        if self.number == Self::ALL.number { (0, u32::MAX) } else { (least(self.number), least(self.number + 1)) }
    }
}

/// The items of one head of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Items {
    /// How many have all of their strips.
    full: u32,
    /// Strips of the last item, if it has fewer; else 0.
    last_strips: u32,
    /// Tiles of keys.
    tiles: u32,
    /// Whether an item attends to no key after its own rows.
    is_causal: bool,
    /// Strips of a full item.
    strips: u32,
}

impl Items {
    /// The items of a sequence of `rows` queries and `keys` keys, in items of `strips` strips.
    #[inline(always)]
    pub const fn new(rows: u32, keys: u32, is_causal: bool, strips: u32) -> Self {
        let all = rows.div_ceil(WARPGROUP_ROWS);
        let (full, tiles) = (all / strips, keys.div_ceil(Sm90Tma::BLOCK_N));
        Self { full, last_strips: all - full * strips, tiles: if tiles > 1 { tiles } else { 1 }, is_causal, strips }
    }

    /// The greatest cost of an item.
    #[inline(always)]
    pub const fn most(&self) -> u32 {
        self.tiles
    }

    /// How many full items cost less than `cost` under a causal mask, where each costs its number of strips more than the one before.
    #[inline(always)]
    const fn full_below(&self, cost: u32) -> u32 {
        let number = if self.tiles < cost { self.full } else { cost.saturating_sub(1) / self.strips };
        if number < self.full { number } else { self.full }
    }

    /// The items of a class.
    #[inline(always)]
    pub const fn of(&self, class: CostClass) -> ItemsOfClass {
        let (first, full) = if self.is_causal {
            let (least, above) = class.bounds();
            let first = self.full_below(least);
            (first, self.full_below(above) - first)
        } else {
            (0, if class.has(self.tiles) { self.full } else { 0 })
        };
        // A tile of keys takes less time with fewer strips.
        let last = (self.tiles * (self.last_strips + 1)).div_ceil(self.strips + 1);
        ItemsOfClass { first, full, has_last: self.last_strips > 0 && class.has(last), last: self.full }
    }
}

/// The items of a class: consecutive full ones, and perhaps the last one.
#[derive(Clone, Copy, Debug)]
pub struct ItemsOfClass {
    /// The first full one.
    first: u32,
    /// How many full ones.
    full: u32,
    /// Whether the last one, with fewer strips, is among them.
    has_last: bool,
    /// Index of the last one.
    last: u32,
}

impl ItemsOfClass {
    /// Their number.
    #[inline(always)]
    pub const fn number(&self) -> u32 {
        self.full + self.has_last as u32
    }

    /// The item that `before` of them precede.
    #[inline(always)]
    pub const fn item(&self, before: u32) -> u32 {
        if before < self.full { self.first + before } else { self.last }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    fn classes(most: u32) -> Vec<CostClass> {
        core::iter::successors(Some(CostClass::of(most)), |class| class.next()).collect()
    }

    #[test]
    fn every_cost_is_in_its_class_alone_and_costlier_ones_come_first() {
        for most in 1..200 {
            let classes = classes(most);
            let has = |class: CostClass, cost| {
                let is_between = (class.bounds().0..class.bounds().1).contains(&cost);
                assert_eq!(class.has(cost), is_between, "{class:?} {cost}");
                is_between
            };
            for cost in 1..=most {
                let having: Vec<_> = classes.iter().filter(|&&class| has(class, cost)).collect();
                assert_eq!(having, [&CostClass::of(cost)], "{cost} of {most}");
            }
            assert!(classes.windows(2).all(|pair| pair[0].bounds().0 >= pair[1].bounds().1), "up to {most}");
            assert!(has(CostClass::ALL, most));
        }
        assert_eq!(CostClass::ALL.next(), None);
    }

    #[test]
    fn every_item_is_in_one_class() {
        for rows in [0, 1, 64, 65, 200, 256, 257, 511, 2_000] {
            for keys in [0, 1, 64, 130, 512, 4_000] {
                for (strips, is_causal) in [(1, false), (2, true), (3, false), (4, false), (4, true)] {
                    let items = Items::new(rows, keys, is_causal, strips);
                    for classes in [classes(items.most()), classes(items.most() + 3), std::vec![CostClass::ALL]] {
                        let of = |class| (0..items.of(class).number()).map(move |before| items.of(class).item(before));
                        let mut found: Vec<u32> = classes.into_iter().flat_map(of).collect();
                        found.sort_unstable();
                        let expected: Vec<u32> = (0..rows.div_ceil(WARPGROUP_ROWS).div_ceil(strips)).collect();
                        assert_eq!(found, expected, "{rows} rows, {keys} keys, causal {is_causal}, {strips} strips");
                    }
                }
            }
        }
    }

    #[test]
    fn longer_items_come_first() {
        let (long, short) = (Items::new(512, 512, false, 4), Items::new(100, 100, false, 4));
        let first = CostClass::of(long.most().max(short.most()));
        assert_eq!((long.of(first).number(), short.of(first).number()), (2, 0));
        // Under a causal mask the last of a head.
        let causal = Items::new(512, 512, true, 4).of(first);
        assert_eq!((causal.number(), causal.item(0)), (1, 1));
    }

    #[test]
    fn items_are_sorted_where_a_block_has_several_but_not_many() {
        let is_sorted_of = |items| is_sorted(items, 64, 132);
        assert!(!is_sorted_of(132) && is_sorted_of(133) && is_sorted_of(1319) && !is_sorted_of(1320));
        assert!(!is_sorted(133, 65, 132), "a warp would go through many sequences for each class");
    }
}
