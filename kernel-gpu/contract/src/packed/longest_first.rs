//! The order of the work items of packed sequences: the longest first, so that the blocks of a launch finish at about the same time
//! (R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).
//!
//! An item is up to `strips` neighbouring strips of query rows of a head. What it costs is counted in tiles of keys. Items come class
//! by class of costs, the dearest first; of a class sequence by sequence, and the heads of an item together, so that blocks that
//! compute at the same time share K and V in L2. Where a block has many items, all costs are one class. The costs only balance the work: whatever they say, every item is in one class.

/// Query rows of a strip, and keys of a tile.
const ROWS: u32 = 64;

/// Of up to so many items a block the longest come first. More even out by themselves; they come in the order of the sequences, since short
/// ones among long ones read memory while those compute (docs/results/packed.md).
const MOST_SORTED: u32 = 10;

/// Whether the longest of at most `items` items come first on `blocks` blocks.
#[inline(always)]
pub const fn is_sorted(items: u32, blocks: u32) -> bool {
    items > blocks && items / MOST_SORTED < blocks
}

/// Costs that differ by less than a fourth, from 4 on; or all costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostClass {
    number: u32,
}

impl CostClass {
    /// The class of all costs.
    pub const ALL: Self = Self { number: u32::MAX };

    /// That of a cost, which is not 0: its binary exponent and two digits more.
    #[inline(always)]
    pub const fn of(cost: u32) -> Self {
        let zeros = cost.leading_zeros();
        Self { number: ((31 - zeros) << 2) + ((cost << zeros << 1) >> 30) }
    }

    /// The one of the next lower costs; `None` behind the last.
    #[inline(always)]
    pub const fn next(self) -> Option<Self> {
        if self.number == 0 || self.number == Self::ALL.number { None } else { Some(Self { number: self.number - 1 }) }
    }

    /// Whether the class has a cost, which is not 0.
    #[inline(always)]
    const fn has(self, cost: u32) -> bool {
        self.number == Self::of(cost).number || self.number == Self::ALL.number
    }

    /// The least cost of the class, and the least that is above it.
    #[inline(always)]
    const fn bounds(self) -> (u32, u32) {
        const fn least(number: u32) -> u32 {
            ((4 + number % 4) << (number / 4)).div_ceil(4)
        }
        if self.number == Self::ALL.number { (0, u32::MAX) } else { (least(self.number), least(self.number + 1)) }
    }
}

/// The items of a head of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Items {
    /// Those that have all of their strips.
    full: u32,
    /// Strips of the last, where it does not have all.
    last_strips: u32,
    /// Tiles of keys.
    tiles: u32,
    /// Whether an item attends to no tile behind its own rows.
    is_causal: bool,
    /// Strips of an item that has all.
    strips: u32,
}

impl Items {
    /// Those of a sequence of `rows` queries and `keys` keys, in items of `strips` strips.
    #[inline(always)]
    pub const fn new(rows: u32, keys: u32, is_causal: bool, strips: u32) -> Self {
        let all = rows.div_ceil(ROWS);
        let (full, tiles) = (all / strips, keys.div_ceil(ROWS));
        Self { full, last_strips: all - full * strips, tiles: if tiles > 1 { tiles } else { 1 }, is_causal, strips }
    }

    /// The greatest cost of an item.
    #[inline(always)]
    pub const fn most(&self) -> u32 {
        self.tiles
    }

    /// How many of those that have all of their strips cost less than `cost`, under a causal mask: each costs as much as the one before
    /// it and its own strips.
    #[inline(always)]
    const fn full_below(&self, cost: u32) -> u32 {
        let number = if self.tiles < cost { self.full } else { cost.saturating_sub(1) / self.strips };
        if number < self.full { number } else { self.full }
    }

    /// Those of a class.
    #[inline(always)]
    pub const fn of(&self, class: CostClass) -> ItemsOfClass {
        let (first, full) = if self.is_causal {
            let (least, above) = class.bounds();
            let first = self.full_below(least);
            (first, self.full_below(above) - first)
        } else {
            (0, if class.has(self.tiles) { self.full } else { 0 })
        };
        // A tile of keys is computed sooner for fewer strips.
        let last = (self.tiles * (self.last_strips + 1)).div_ceil(self.strips + 1);
        ItemsOfClass { first, full, has_last: self.last_strips > 0 && class.has(last), last: self.full }
    }
}

/// The items of a class: neighbours that have all of their strips, and perhaps the last.
#[derive(Clone, Copy, Debug)]
pub struct ItemsOfClass {
    /// The first.
    first: u32,
    /// How many have all of their strips.
    full: u32,
    /// Whether the last is among them, without all of its strips.
    has_last: bool,
    /// The last.
    last: u32,
}

impl ItemsOfClass {
    /// How many they are.
    #[inline(always)]
    pub const fn number(&self) -> u32 {
        self.full + self.has_last as u32
    }

    /// The one with `before` of them before it.
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
    fn every_cost_is_in_its_class_alone_and_dearer_ones_come_first() {
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
                        let expected: Vec<u32> = (0..rows.div_ceil(ROWS).div_ceil(strips)).collect();
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
        assert!(!is_sorted(132, 132) && is_sorted(133, 132) && is_sorted(1319, 132) && !is_sorted(1320, 132));
    }
}
