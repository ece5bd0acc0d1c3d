//! The order in which the items of a head add to the sums of dQ, if all of them attend to all queries.

/// The items of a head that run at once. They begin at different tiles of queries, and go through all of them in a ring: none waits for another's
/// sum in the beginning. A tile's sum gets what the items before them contribute, then, of these, first that of the last one that began at it or
/// before it, then that of the item before, and so on around the ring.
///
/// All blocks have to be on the GPU at once: the items wait for each other.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Items of the head before them.
    before: u32,
    /// Which of them it is.
    index: u32,
    /// Their number.
    count: u32,
}

impl Ring {
    /// There is none.
    pub const NONE: Self = Self { before: 0, index: 0, count: 1 };

    /// That of the item at `place` of the `items` of its head, which block `block` of `blocks` takes.
    #[inline(always)]
    pub fn new((place, items): (u32, u32), (block, blocks): (u32, u32)) -> Self {
        let index = place.min(block);
        let before = place - index;
        let end = items.min(place + blocks - block);
        Self { before, index, count: end - before }
    }

    /// The tile at which the item begins, of `tiles`, whose product with the blocks is below 2³².
    #[inline(always)]
    pub const fn first_tile(self, tiles: u32) -> u32 {
        // The maximum spares a check.
        self.index * tiles / if self.count > 1 { self.count } else { 1 }
    }

    /// How many items contribute to a tile before it. `divide` divides by the number of tiles.
    #[inline(always)]
    pub fn before(self, tile: u32, divide: impl FnOnce(u32) -> u32) -> u32 {
        // The last one that begins at the tile or before it.
        let first = divide((tile + 1) * self.count - 1);
        let around = if first < self.index { self.count } else { 0 };
        self.before + around + first - self.index
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// An item: its head, and its tiles in order, with how many items it waits for.
    type Item = (u32, Vec<(u32, u32)>);

    /// The items of heads that blocks take round by round.
    fn rounds(heads: u32, items: u32, tiles: u32, blocks: u32) -> Vec<Vec<Item>> {
        let of = |number: u32| {
            let ring = Ring::new((number % items, items), (number % blocks, blocks));
            let first = ring.first_tile(tiles);
            let order = (0..tiles).map(|step| (first + step) % tiles);
            (number / items, order.map(|tile| (tile, ring.before(tile, |number| number / tiles))).collect())
        };
        let numbers: Vec<u32> = (0..heads * items).collect();
        numbers.chunks(blocks as usize).map(|round| round.iter().map(|&number| of(number)).collect()).collect()
    }

    /// Lets the items of a round add step by step; returns after how many times all have, each at most once in a time.
    fn times(round: &[Item], added: &mut [Vec<u32>]) -> usize {
        let mut done = vec![0; round.len()];
        let (mut time, steps) = (0, round.first().map_or(0, |(_, order)| order.len()));
        while done.iter().any(|&count| count < steps) {
            let before = done.clone();
            for ((head, order), count) in round.iter().zip(&mut done) {
                let Some(&(tile, waits_for)) = order.get(*count) else { continue };
                let sum = &mut added[*head as usize][tile as usize];
                if *sum == waits_for {
                    *sum += 1;
                    *count += 1;
                }
            }
            assert!(done != before, "items wait for each other: {round:?}");
            time += 1;
        }
        time
    }

    #[test]
    fn every_item_adds_once_to_every_tile_and_none_waits_for_itself() {
        for blocks in [1, 2, 3, 4, 7, 12] {
            for items in 1..15 {
                for tiles in [1, 2, 3, 5, 8, 13, 24] {
                    let heads = 5;
                    let mut added = vec![vec![0; tiles as usize]; heads as usize];
                    for round in rounds(heads, items, tiles, blocks) {
                        times(&round, &mut added);
                    }
                    assert!(added.iter().flatten().all(|&count| count == items), "{blocks} {items} {tiles}: {added:?}");
                }
            }
        }
    }

    #[test]
    fn none_waits_where_a_head_has_as_many_tiles_as_items_at_once() {
        for (heads, items, tiles, blocks) in [(6, 4, 8, 12), (3, 5, 9, 7), (2, 24, 24, 12), (1, 3, 64, 12)] {
            let mut added = vec![vec![0; tiles as usize]; heads as usize];
            for round in rounds(heads, items, tiles, blocks) {
                assert_eq!(times(&round, &mut added), tiles as usize, "{heads} {items} {tiles} {blocks}");
            }
        }
    }
}
