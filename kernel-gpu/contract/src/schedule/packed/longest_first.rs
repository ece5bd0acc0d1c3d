//! The order of the work items of packed sequences: the longest first, so that the blocks of a launch finish at about the same time
//! (R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).
//!
//! An item is up to `strips` neighbouring strips of query rows of a head. Its cost is the number of key tiles that it attends to.
//! Items come in classes of costs, the costliest first; within a class sequence by sequence, the heads of an item together, so that
//! blocks that compute at the same time share K and V in L2. Where a block has many items, those of a sequence mostly stay together for
//! that reason ([`Key`]), and if it has very many, or all sequences are as long, all costs are one class. The costs only balance the work:
//! whatever they are, every item is in exactly one class.

use crate::schedule::tile::sm90_tma::{SIZES_KEPT, Sm90Tma};
use crate::spec::config::WARPGROUP_ROWS;

/// The longest come first up to this many items per block. More even out by themselves (docs/results/packed.md).
pub const MOST_ITEMS: u32 = 60;

/// The longest come first of up to this many sequences.
const MOST_SEQUENCES: u32 = SIZES_KEPT;

/// So many sequences are looked at together. A warp goes through all of them once per class.
pub const STEP: u32 = 64;

/// Up to this many items per block are few.
const FEW_ITEMS: u32 = 10;

/// Whether the longest of at most `items` items of `sequences` sequences may come first on `blocks` blocks, in items of up to `strips`
/// strips.
#[inline(always)]
pub const fn is_sorted(items: u32, sequences: u32, blocks: u32, strips: u32) -> bool {
    if sequences > MOST_SEQUENCES || items <= blocks || items / MOST_ITEMS >= blocks {
        return false;
    }
    // If there are more sequences, blocks need so many items for each step, or they would wait for those that are found. The items of
    // several strips have more classes.
    let items_per_step = if strips == 1 { 4 } else { 8 };
    sequences <= STEP || items >= sequences * items_per_step / STEP * blocks
}

/// What the items are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The number of key tiles that an item attends to.
    Item,
    /// That of its sequence. Its items stay together, and find its K and V in L2.
    Sequence,
}

impl Key {
    /// The better key for at most `items` items of sequences of up to `most` key tiles; `is_equal` if all of them are in one class. `None`:
    /// the items need not be sorted. `long`: from how many tiles on the items of a sequence differ so much that they should not stay
    /// together.
    #[inline(always)]
    pub const fn of(items: u32, blocks: u32, most: u32, is_equal: bool, long: u32) -> Option<Self> {
        let has_few = items / FEW_ITEMS < blocks;
        if is_equal && !has_few {
            None
        } else if has_few || most >= long {
            Some(Self::Item)
        } else {
            Some(Self::Sequence)
        }
    }
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

    /// Whether a cost, which is not 0, is in the class, which is not that of all.
    #[inline(always)]
    const fn has(self, cost: u32) -> bool {
        self.number == Self::of(cost).number
    }

    /// The least cost of the class, which is not that of all, and the least above it.
    #[inline(always)]
    const fn bounds(self) -> (u32, u32) {
        const fn least(number: u32) -> u32 {
            ((4 + number % 4) << (number / 4)).div_ceil(4)
        }
        (least(self.number), least(self.number + 1))
    }
}

/// The size of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Its strips of queries.
    pub strips: u32,
    /// Its tiles of keys; at least one is read.
    pub tiles: u32,
}

impl Size {
    /// The most strips and tiles of a sequence whose size can be [packed](Self::pack).
    pub const MOST_PACKED: u32 = 0xff;

    /// That of no sequence.
    pub const NOTHING: Self = Self::new(0, 0);

    /// That of a sequence whose elements [do not ascend](super::Sequences::of_ascending): longer than any.
    pub const OUT_OF_ORDER: Self = Self { strips: u32::MAX, tiles: 1 };

    /// That of `rows` queries and `keys` keys.
    #[inline(always)]
    pub const fn new(rows: u32, keys: u32) -> Self {
        let (strips, tiles) = (rows.div_ceil(WARPGROUP_ROWS), keys.div_ceil(Sm90Tma::BLOCK_N));
        Self { strips, tiles: if tiles > 1 { tiles } else { 1 } }
    }

    /// Whether it is [`Self::OUT_OF_ORDER`].
    #[inline(always)]
    pub const fn is_out_of_order(&self) -> bool {
        self.strips == Self::OUT_OF_ORDER.strips
    }

    /// The sizes of two sequences in a word, if each of their numbers fits into a byte.
    #[inline(always)]
    pub const fn pack([first, second]: [Self; 2]) -> u32 {
        first.strips | first.tiles << 8 | second.strips << 16 | second.tiles << 24
    }

    /// What [`Self::pack`] packed.
    #[inline(always)]
    pub const fn unpack(word: u32) -> [Self; 2] {
        [Self { strips: word & 0xff, tiles: word >> 8 & 0xff }, Self { strips: word >> 16 & 0xff, tiles: word >> 24 }]
    }
}

/// What a lane knows of several sequences.
#[derive(Clone, Copy, Debug)]
pub struct Survey {
    /// Their items in each head.
    pub items: u32,
    /// The fewest tiles of one that has items; more than any if none has.
    pub least: u32,
    /// The most tiles of one that has items, at least 1.
    pub most: u32,
    /// The most strips or tiles of any.
    pub longest: u32,
}

impl Survey {
    /// Of no sequence.
    pub const NOTHING: Self = Self { items: 0, least: u32::MAX, most: 1, longest: 0 };

    /// Whether one is [out of order](Size::OUT_OF_ORDER), if the longest of all lanes is `longest`.
    #[inline(always)]
    pub const fn is_out_of_order(longest: u32) -> bool {
        longest == Size::OUT_OF_ORDER.strips
    }

    /// With one more, in items of up to `strips` strips.
    #[inline(always)]
    pub fn and(self, size: Size, strips: u32) -> Self {
        let has_items = size.strips > 0;
        Self {
            items: self.items.wrapping_add(size.strips.div_ceil(strips)),
            least: self.least.min(if has_items { size.tiles } else { u32::MAX }),
            most: self.most.max(if has_items { size.tiles } else { 1 }),
            longest: self.longest.max(size.strips).max(size.tiles),
        }
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
    /// The items of a sequence of the given size, in items of `strips` strips.
    #[inline(always)]
    pub const fn new(size: Size, is_causal: bool, strips: u32) -> Self {
        let full = size.strips / strips;
        Self { full, last_strips: size.strips - full * strips, tiles: size.tiles, is_causal, strips }
    }

    /// How many full items cost less than `cost` under a causal mask, where each costs its number of strips more than the one before.
    #[inline(always)]
    const fn full_below(&self, cost: u32) -> u32 {
        let number = if self.tiles < cost { self.full } else { cost.saturating_sub(1) / self.strips };
        if number < self.full { number } else { self.full }
    }

    /// The items of a class, by the given key.
    #[inline(always)]
    pub const fn of(&self, class: CostClass, key: Key) -> ItemsOfClass {
        // Asked first, since nothing else is asked about the first item of a block that has few.
        if class.number == CostClass::ALL.number {
            return self.all_if(true);
        }
        match key {
            Key::Item => self.by_their_cost(class),
            Key::Sequence => self.all_if(class.has(self.tiles)),
        }
    }

    /// All of them, or none.
    #[inline(always)]
    const fn all_if(&self, condition: bool) -> ItemsOfClass {
        let full = if condition { self.full } else { 0 };
        ItemsOfClass { first: 0, full, has_last: condition && self.last_strips > 0, last: self.full }
    }

    #[inline(always)]
    const fn by_their_cost(&self, class: CostClass) -> ItemsOfClass {
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
        }
        assert_eq!(CostClass::ALL.next(), None);
    }

    #[test]
    fn every_item_is_in_one_class() {
        for rows in [0, 1, 64, 65, 200, 256, 257, 511, 2_000] {
            for keys in [0, 1, 64, 130, 512, 4_000] {
                for (strips, is_causal) in [(1, false), (2, true), (3, false), (4, false), (4, true)] {
                    let items = Items::new(Size::new(rows, keys), is_causal, strips);
                    let most = items.tiles;
                    for (classes, key) in [
                        (classes(most), Key::Item),
                        (classes(most + 3), Key::Item),
                        (classes(most), Key::Sequence),
                        (std::vec![CostClass::ALL], Key::Item),
                    ] {
                        let of = |class| {
                            let of_class = items.of(class, key);
                            (0..of_class.number()).map(move |before| of_class.item(before))
                        };
                        let mut found: Vec<u32> = classes.into_iter().flat_map(of).collect();
                        found.sort_unstable();
                        let expected: Vec<u32> = (0..rows.div_ceil(WARPGROUP_ROWS).div_ceil(strips)).collect();
                        assert_eq!(
                            found, expected,
                            "{rows} rows, {keys} keys, causal {is_causal}, {strips} strips, by {key:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn longer_items_come_first() {
        let of = |rows, is_causal| Items::new(Size::new(rows, rows), is_causal, 4);
        let (long, short, first) = (of(512, false), of(100, false), CostClass::of(8));
        assert_eq!((long.of(first, Key::Item).number(), short.of(first, Key::Item).number()), (2, 0));
        // Under a causal mask the last of a head.
        let causal = of(512, true).of(first, Key::Item);
        assert_eq!((causal.number(), causal.item(0)), (1, 1));
    }

    #[test]
    fn items_of_a_sequence_stay_together_by_its_length() {
        for is_causal in [false, true] {
            let items = Items::new(Size::new(600, 600), is_causal, 4).of(CostClass::of(10), Key::Sequence);
            let found: Vec<u32> = (0..items.number()).map(|before| items.item(before)).collect();
            assert_eq!(found, [0, 1, 2], "causal {is_causal}");
        }
    }

    #[test]
    fn items_are_sorted_where_a_block_has_several_but_not_very_many() {
        let is_sorted_of = |items, sequences| is_sorted(items, sequences, 132, 4);
        assert!(!is_sorted_of(132, 64) && is_sorted_of(133, 64) && is_sorted_of(7_919, 64) && !is_sorted_of(7_920, 64));
        assert!(
            !is_sorted_of(2_000, 128) && is_sorted_of(2_112, 128),
            "a warp goes through many sequences for each class"
        );
        assert!(is_sorted(1_056, 128, 132, 1), "items of one strip have fewer classes");
        assert!(!is_sorted_of(7_919, 257), "there is room for the sizes of 256");
    }

    #[test]
    fn many_items_are_sorted_by_their_sequences_unless_those_are_equal_or_long() {
        let of = |items, most, is_equal| Key::of(items, 132, most, is_equal, 17);
        assert_eq!(of(1_319, 8, false), Some(Key::Item));
        assert_eq!(of(1_319, 8, true), Some(Key::Item), "the last round is long");
        assert_eq!(of(1_320, 8, true), None);
        assert_eq!((of(1_320, 16, false), of(1_320, 17, false)), (Some(Key::Sequence), Some(Key::Item)));
    }

    #[test]
    fn sizes_survive_packing() {
        let sizes = [Size::new(16_320, 1), Size::new(0, 16_320)];
        assert_eq!(Size::unpack(Size::pack(sizes)), sizes);
        assert_eq!(sizes.map(|size| size.strips.max(size.tiles)), [Size::MOST_PACKED; 2]);
        assert_eq!(Size::unpack(Size::pack([Size::NOTHING, sizes[0]])), [Size::NOTHING, sizes[0]]);
    }

    #[test]
    fn a_survey_knows_the_extremes_of_sequences_with_items() {
        let all = [(0, 900), (64, 300), (513, 100)].map(|(rows, keys)| Size::new(rows, keys));
        let survey = all.into_iter().fold(Survey::NOTHING, |survey, size| survey.and(size, 4));
        let Survey { items, least, most, longest } = survey;
        assert_eq!((items, least, most, longest), (1 + 3, 2, 5, 15));
        let nothing = Survey::NOTHING.and(Size::NOTHING, 4);
        assert_eq!((nothing.items, nothing.least, nothing.most), (0, u32::MAX, 1));
    }
}
