//! How the items of all heads are dealt out among blocks that take several, one after another.
//!
//! A block takes every B-th item, if there are B blocks. Under a mask the items of a head have different costs, so each head begins some items
//! later than the one before ([`BackwardArgs::turn`](super::args::BackwardArgs::turn)): otherwise a block might get an item of the same cost of
//! every head. On an H200, 2 × 16 causal heads of 2096 rows took twice as long for it.

/// The items of a head of K and V: its key tiles, then the query tiles of the heads of Q that share it.
#[derive(Clone, Copy)]
pub(super) struct HeadItems {
    pub(super) key_tiles: u32,
    pub(super) query_tiles: u32,
    pub(super) group: u32,
    pub(super) is_causal: bool,
}

/// Turns that are compared. Among them one is within 4 % of the best of all in the mean.
const TURNS: [u32; 6] = [1, 0, 2, 3, 4, 5];
/// Every so many blocks, one is looked at.
const BLOCKS_BETWEEN: usize = 5;
/// Items of a block that are looked at.
const ROUNDS: u32 = 16;

impl HeadItems {
    /// Their number.
    pub(super) const fn count(self) -> u32 {
        self.key_tiles + self.group * self.query_tiles
    }

    /// Products of tiles that item `place` computes: four for dK and dV, three for dQ.
    fn cost(self, place: u32) -> u64 {
        let Self { key_tiles, query_tiles, group, is_causal } = self;
        let tiles = if place < key_tiles {
            let before = if is_causal { place } else { 0 };
            return 4 * u64::from(group) * u64::from(query_tiles.saturating_sub(before));
        } else if is_causal {
            key_tiles.min((place - key_tiles) % query_tiles.max(1) + 1)
        } else {
            key_tiles
        };
        3 * u64::from(tiles)
    }

    /// The turn with which the block that computes most of all computes least, for `blocks` blocks that deal out `items` items of all heads.
    pub(super) fn best_turn(self, items: u32, blocks: u32) -> u32 {
        let most =
            |turn: u32| (0..blocks).step_by(BLOCKS_BETWEEN).map(|block| self.load(turn, items, block, blocks)).max();
        TURNS.into_iter().min_by_key(|&turn| most(turn)).unwrap_or(0)
    }

    /// The cost of the first items of a block. Without a division for each: this is done for every launch.
    fn load(self, turn: u32, items: u32, block: u32, blocks: u32) -> u64 {
        let count = self.count().max(1);
        let sum = |a: u32, b: u32| if a + b < count { a + b } else { a + b - count };
        let (mut number, mut turned) = (block % count, block / count * turn % count);
        let (rest, turned_in_a_round) = (blocks % count, blocks / count * turn % count);
        let mut load = 0;
        for _ in (block..items).step_by(blocks.max(1) as usize).take(ROUNDS as usize) {
            load += self.cost(sum(number, turned));
            turned = sum(turned, turned_in_a_round);
            if number + rest >= count {
                turned = sum(turned, turn % count);
            }
            number = sum(number, rest);
        }
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_gets_the_dearest_items_of_all_heads() {
        const BLOCKS: u32 = 132;
        for (tiles, heads) in [(1, 768), (2, 200), (4, 256), (8, 96), (16, 64), (17, 32), (17, 60), (31, 24), (64, 16)]
        {
            for is_causal in [false, true] {
                let items = HeadItems { key_tiles: tiles, query_tiles: tiles, group: 1, is_causal };
                let all = heads * items.count();
                let turn = items.best_turn(all, BLOCKS);
                let mean = (0..items.count()).map(|place| items.cost(place)).sum::<u64>() as f64 * f64::from(heads)
                    / f64::from(BLOCKS);
                let of = |block: u32| -> u64 {
                    let count = items.count();
                    let own = (block..all).step_by(BLOCKS as usize);
                    own.map(|item| items.cost((item % count + item / count % count * turn) % count)).sum()
                };
                let count = items.count();
                let first: u64 = (7..all)
                    .step_by(BLOCKS as usize)
                    .take(ROUNDS as usize)
                    .map(|item| items.cost((item % count + item / count % count * turn) % count))
                    .sum();
                assert_eq!(items.load(turn, all, 7, BLOCKS), first);
                let most = (0..BLOCKS).map(of).max().unwrap() as f64;
                let dearest = (0..items.count()).map(|place| items.cost(place)).max().unwrap() as f64;
                assert!(most <= 1.1 * mean + dearest, "{tiles} tiles, {heads} heads, turn {turn}: {most}, mean {mean}");
            }
        }
    }

    #[test]
    fn costs_are_those_of_the_tiles_that_are_attended_to() {
        let items = HeadItems { key_tiles: 2, query_tiles: 3, group: 2, is_causal: true };
        let costs: [u64; 8] = core::array::from_fn(|place| items.cost(place as u32));
        assert_eq!(costs, [24, 16, 3, 6, 6, 3, 6, 6]);
        let full = HeadItems { is_causal: false, ..items };
        assert_eq!((full.cost(0), full.cost(7), full.count()), (24, 6, 8));
    }
}
