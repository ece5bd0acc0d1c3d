//! The order of the work items of packed sequences: the longest first, so that the blocks of a launch finish at about the same time
//! (R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).
//!
//! An item is up to `strips` neighbouring strips of query rows of a head. What it costs is counted in tiles of keys. Items come class
//! by class of costs, the dearest first; of a class sequence by sequence, and the heads of an item together, so that blocks that
//! compute at the same time share K and V in L2. Where a block has many items, all costs are one class. The costs only balance the work: whatever they say, every item is in one class.

/// Query rows of a strip, and keys of a tile.
const ROWS: u32 = 64;

/// Of so many items a block the longest come first. More even out by themselves; they come in the order of the sequences, since short
/// ones among long ones read memory while those compute (docs/results/packed.md).
const MOST_SORTED: u32 = 10;

/// Whether the longest of at most `items` items come first on `blocks` blocks.
#[inline(always)]
pub const fn is_sorted(items: u32, blocks: u32) -> bool {
    items / MOST_SORTED < blocks
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
}

/// The items of a head of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Items {
    /// Those that have all of their strips.
    full: u32,
    /// Strips of the last, where it does not have all.
    last_strips: u32,
    /// What one costs that has all.
    cost: u32,
    /// Strips of it.
    strips: u32,
}

impl Items {
    /// Those of a sequence of `rows` queries and `keys` keys, in items of `strips` strips.
    #[inline(always)]
    pub const fn new(rows: u32, keys: u32, strips: u32) -> Self {
        let all = rows.div_ceil(ROWS);
        let (full, tiles) = (all / strips, keys.div_ceil(ROWS));
        Self { full, last_strips: all - full * strips, cost: if tiles > 1 { tiles } else { 1 }, strips }
    }

    /// The greatest cost of an item.
    #[inline(always)]
    pub const fn most(&self) -> u32 {
        self.cost
    }

    /// How many of a class have all of their strips.
    #[inline(always)]
    const fn full_of(&self, class: CostClass) -> u32 {
        if class.has(self.cost) { self.full } else { 0 }
    }

    /// How many are of a class.
    #[inline(always)]
    pub const fn number_of(&self, class: CostClass) -> u32 {
        // A tile of keys is computed sooner for fewer strips.
        let cost_of_last = (self.cost * (self.last_strips + 1)).div_ceil(self.strips + 1);
        self.full_of(class) + (self.last_strips > 0 && class.has(cost_of_last)) as u32
    }

    /// Of those of a class the one with `before` before it.
    #[inline(always)]
    pub const fn item_of(&self, class: CostClass, before: u32) -> u32 {
        if before < self.full_of(class) { before } else { self.full }
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
    fn every_cost_is_in_one_class_and_dearer_ones_come_first() {
        for most in 1..200 {
            let classes = classes(most);
            let place = |cost| {
                let having: Vec<_> = (0..classes.len()).filter(|&class| classes[class].has(cost)).collect();
                assert_eq!(having.len(), 1, "classes of {cost} of {most}: {having:?}");
                having[0]
            };
            assert!((1..most).all(|cost| place(cost) >= place(cost + 1)), "up to {most}");
            assert!(CostClass::ALL.has(most));
        }
        assert_eq!(CostClass::ALL.next(), None);
    }

    #[test]
    fn every_item_is_in_one_class() {
        for rows in [0, 1, 64, 65, 200, 256, 257, 511, 2_000] {
            for keys in [0, 1, 64, 130, 512, 4_000] {
                for strips in 1..=4 {
                    let items = Items::new(rows, keys, strips);
                    for classes in [classes(items.most()), classes(items.most() + 3), std::vec![CostClass::ALL]] {
                        let of = |class| (0..items.number_of(class)).map(move |before| items.item_of(class, before));
                        let mut found: Vec<u32> = classes.into_iter().flat_map(of).collect();
                        found.sort_unstable();
                        let expected: Vec<u32> = (0..rows.div_ceil(ROWS).div_ceil(strips)).collect();
                        assert_eq!(found, expected, "{rows} rows, {keys} keys, {strips} strips");
                    }
                }
            }
        }
    }

    #[test]
    fn longer_sequences_come_first() {
        let (long, short) = (Items::new(512, 512, 4), Items::new(100, 100, 4));
        let first = CostClass::of(long.most().max(short.most()));
        assert_eq!((long.number_of(first), short.number_of(first)), (2, 0));
    }
}
