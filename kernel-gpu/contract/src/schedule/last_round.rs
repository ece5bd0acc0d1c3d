//! The last round of a persistent grid with equal work items, dealt out in strips of query rows.
//!
//! The number of heads is rarely a multiple of the number of blocks, so in the last round some blocks would compute a head
//! while others idle. Distributed in strips, the remaining heads take all blocks about equally long: each block first gets
//! half of a head while there are enough, then a part of one of the others, whose strips fewer warpgroups compute in parallel.
//! If an item has one strip per warpgroup, the remaining items are distributed in equal parts.

use core::num::NonZeroU32;

use crate::schedule::divisor::Divisor;

/// Strips of a head, computed in two passes of half of them each.
const STRIPS: u32 = 8;

/// How the items of a launch are distributed over its blocks if they are equally long. "Heads" below are items in general.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRound {
    /// The last round; earlier rounds give each block a whole head.
    round: u32,
    /// The first of its heads that is split into parts; those before it are split into halves. [`u32::MAX`] if the heads of the
    /// round are whole too, one for each of the first blocks.
    first_split: u32,
    /// The first of its heads that is split into one part more.
    first_finer: u32,
    /// Number of parts of the split heads before `first_finer`.
    parts: Divisor,
    /// Number of parts of the heads from `first_finer` on.
    finer_parts: Divisor,
}

/// The strips of a head that a block computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The head, as work item.
    pub item: u32,
    /// The first strip.
    pub first: u32,
    /// Number of strips, at most half of the head's; 0 for none.
    pub strips: u32,
}

impl Share {
    /// No strips.
    // No `Option`: its payload would be undefined here, and a select instruction would read it, though its result is unused.
    pub const NONE: Self = Self { item: 0, first: 0, strips: 0 };
}

impl LastRound {
    /// The last round of `heads` heads on at most as many `blocks`, in whole heads.
    #[inline]
    pub const fn whole(heads: u32, blocks: u32) -> Self {
        let one = Divisor::new(NonZeroU32::MIN);
        Self { round: heads / blocks, first_split: u32::MAX, first_finer: u32::MAX, parts: one, finer_parts: one }
    }

    /// The last round of `heads` heads on at most as many `blocks`, in strips; in [whole heads](Self::whole) if strips would not
    /// be faster.
    // Inlined, so that it is not in the PTX: only the host calls it.
    #[inline]
    pub const fn in_strips(heads: u32, blocks: u32) -> Self {
        let whole = Self::whole(heads, blocks);
        let (left, half) = (heads % blocks, blocks / 2);
        let halves = left > half;
        let split = if halves { left - half } else { left };
        if split == 0 || halves && blocks % 2 != 0 {
            return whole;
        }
        let most = blocks / split;
        // The remaining blocks take one part each.
        let (parts, finer) = if most < STRIPS { (most, blocks % split) } else { (STRIPS, 0) };
        let Some(parts) = NonZeroU32::new(parts) else { return whole };
        // After one half, another would take as long as a whole head.
        if halves && parts.get() <= 2 {
            return whole;
        }
        let (parts, finer_parts) = (Divisor::new(parts), Divisor::new(parts.saturating_add(1)));
        Self { first_split: heads - split, first_finer: heads - finer, parts, finer_parts, ..whole }
    }

    /// The last round of `items` items of `strips` strips each, one strip per warpgroup, on at most as many `blocks`: each item is
    /// split into as many equal parts as there are blocks for.
    #[inline]
    pub const fn in_parts(items: u32, blocks: u32, strips: u32) -> Self {
        let whole = Self::whole(items, blocks);
        let left = items % blocks;
        if left == 0 || strips == 0 {
            return whole;
        }
        let most = blocks / left;
        let mut parts = if most < strips { most } else { strips };
        while strips % parts != 0 {
            parts -= 1;
        }
        match NonZeroU32::new(parts) {
            Some(parts) if parts.get() > 1 => {
                Self { first_split: items - left, first_finer: items, parts: Divisor::new(parts), ..whole }
            }
            _ => whole,
        }
    }

    /// Whether the round is distributed in strips.
    #[inline(always)]
    pub const fn is_split(self) -> bool {
        self.first_split != u32::MAX
    }

    /// The head that block `block` computes a part of, the index of the part, and the number of parts. Heads with fewer parts go
    /// to the first blocks, which begin first.
    #[inline(always)]
    fn part(self, block: u32) -> (u32, u32, Divisor) {
        let Self { first_split, first_finer, parts, finer_parts, .. } = self;
        let finer_block = (first_finer - first_split) * parts.get().get();
        let (first, block, parts) = if block < finer_block {
            (first_split, block, parts)
        } else {
            (first_finer, block - finer_block, finer_parts)
        };
        let (head, part) = parts.divide(block);
        (first + head, part, parts)
    }

    /// Number of strips in an equal part of an item of `strips` strips.
    #[inline(always)]
    pub fn strips_of_a_part(&self, strips: u32) -> u32 {
        self.parts.divide(strips).0
    }

    /// The round that is distributed in strips; a round that never comes if there is none.
    #[inline(always)]
    pub const fn split_round(self) -> u32 {
        if self.is_split() { self.round } else { u32::MAX / 2 }
    }

    /// Share of block `block` of `blocks` in the last round, in pass 0 or 1, of a launch of `heads` heads, if the round is
    /// distributed in strips.
    // `heads` by reference, so that the device loads it only where it needs it.
    #[inline(always)]
    pub(crate) fn share(&self, pass: u32, block: u32, blocks: u32, heads: &NonZeroU32) -> Share {
        let Self { round, first_split, .. } = *self;
        let begin = round * blocks;
        let halves = first_split > begin;
        if halves && pass == 0 {
            return Share { item: begin + block / 2, first: block % 2 * (STRIPS / 2), strips: STRIPS / 2 };
        }
        let (item, part, parts) = self.part(block);
        if pass > u32::from(halves) || item >= heads.get() {
            return Share::NONE;
        }
        let first = parts.divide(STRIPS * part).0;
        Share { item, first, strips: parts.divide(STRIPS * (part + 1)).0 - first }
    }

    /// Share of block `block` in a last round distributed in [equal parts](Self::in_parts) of items of `strips` strips. Its item
    /// is beyond the last one if the block has none.
    #[inline(always)]
    pub(crate) fn equal_part(&self, block: u32, strips: u32) -> Share {
        let Self { first_split, parts, .. } = *self;
        let (item, part) = parts.divide(block);
        let strips = self.strips_of_a_part(strips);
        Share { item: first_split + item, first: part * strips, strips }
    }

    /// Number of passes that block `block` of `blocks` makes through whole heads, two per head, in a launch of `heads` heads.
    // `heads` by reference for the same reason.
    #[inline(always)]
    pub(crate) fn whole_passes(&self, block: u32, blocks: u32, heads: &NonZeroU32) -> u32 {
        let is_in_last = !self.is_split() && self.round * blocks + block < heads.get();
        2 * (self.round + u32::from(is_in_last))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::schedule::geometry::work_item;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn positive(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).expect("a positive number")
    }

    /// The strips that a block computes in the last round, if that is distributed in strips.
    fn shares(last_round: LastRound, block: u32, blocks: u32, heads: u32) -> Vec<Share> {
        let share = |pass| last_round.share(pass, block, blocks, &positive(heads));
        let passes = if last_round.is_split() { 0..u32::MAX } else { 0..0 };
        passes.map(share).take_while(|share| share.strips > 0).collect()
    }

    /// Numbers of heads and blocks: small launches, and some on an H200 and an H100 PCIe.
    fn launches() -> impl Iterator<Item = (u32, u32)> {
        let small = (1..=12).flat_map(|blocks| (blocks..=4 * blocks).map(move |heads| (heads, blocks)));
        let large = [132, 114].into_iter().flat_map(|blocks| (blocks..3 * blocks).map(move |heads| (heads, blocks)));
        small.chain(large).chain([(1024, 132)])
    }

    #[test]
    fn every_strip_of_every_head_is_dealt_out_once() {
        for (heads, blocks) in launches() {
            let last_round = LastRound::in_strips(heads, blocks);
            let mut strips = BTreeSet::new();
            let mut take = |item, strip| {
                assert!(item < heads && strip < STRIPS, "{heads} heads, {blocks} blocks: strip {strip} of head {item}");
                assert!(strips.insert((item, strip)), "{heads} heads, {blocks} blocks: strip {strip} of {item} twice");
            };
            for block in 0..blocks {
                for round in 0..last_round.whole_passes(block, blocks, &positive(heads)) / 2 {
                    let item = work_item(round, block, blocks, heads).expect("a head in each of its rounds");
                    (0..STRIPS).for_each(|strip| take(item, strip));
                }
                for Share { item, first, strips } in shares(last_round, block, blocks, heads) {
                    (first..first + strips).for_each(|strip| take(item, strip));
                }
            }
            assert_eq!(strips.len(), (heads * STRIPS) as usize, "{heads} heads on {blocks} blocks");
        }
    }

    #[test]
    fn a_round_in_strips_is_shorter_than_a_whole_head_for_every_block() {
        let mut split = 0;
        for (heads, blocks) in launches() {
            let last_round = LastRound::in_strips(heads, blocks);
            split += u32::from(last_round.is_split());
            for block in 0..blocks {
                let strips: Vec<u32> =
                    shares(last_round, block, blocks, heads).iter().map(|share| share.strips).collect();
                assert!(strips.iter().all(|&strips| strips <= STRIPS / 2), "a strip for each warpgroup: {strips:?}");
                assert!(strips.iter().sum::<u32>() < STRIPS, "{heads} heads on {blocks} blocks: {strips:?}");
            }
        }
        assert!(split > 100, "only {split} of the launches are dealt out in strips");
    }

    #[test]
    fn the_heads_of_the_benchmark_take_an_h200_seven_whole_rounds_and_half_a_head_and_at_most_three_strips() {
        let last_round = LastRound::in_strips(1024, 132);
        assert_eq!(last_round.split_round(), 7);
        let mut longest = 0;
        for block in 0..132 {
            let strips: Vec<u32> = shares(last_round, block, 132, 1024).iter().map(|share| share.strips).collect();
            assert!(matches!(strips[..], [4, 2 | 3]), "block {block}: {strips:?}");
            longest += strips[1] - 2;
        }
        assert_eq!(longest, 1024 * STRIPS - 132 * (7 * STRIPS + 6), "no more blocks than need be have a third strip");
    }

    #[test]
    fn every_strip_of_the_items_that_are_left_is_dealt_out_once_in_equal_parts() {
        let mut split = 0;
        for (items, blocks) in launches() {
            for strips in 1..=4 {
                let last_round = LastRound::in_parts(items, blocks, strips);
                if !last_round.is_split() {
                    let half = blocks / 2;
                    assert!(
                        strips == 1 || items % blocks == 0 || items % blocks > half || strips == 3,
                        "{items} {blocks}"
                    );
                    continue;
                }
                split += 1;
                assert_eq!(last_round.split_round(), items / blocks);
                let parts = (0..blocks).map(|block| last_round.equal_part(block, strips));
                let shares: Vec<Share> = parts.filter(|share| share.item < items).collect();
                let dealt = shares
                    .iter()
                    .flat_map(|&Share { item, first, strips }| (first..first + strips).map(move |strip| (item, strip)));
                let left =
                    (items / blocks * blocks..items).flat_map(|item| (0..strips).map(move |strip| (item, strip)));
                assert!(dealt.eq(left), "{items} items of {strips} strips on {blocks} blocks: {shares:?}");
                assert!(shares.iter().all(|share| share.strips < strips), "{shares:?}");
            }
        }
        assert!(split > 100, "only {split} of the launches are dealt out in parts");
    }

    #[test]
    fn heads_that_strips_would_not_finish_sooner_are_computed_whole() {
        for (heads, blocks) in [(132, 132), (264, 132), (256, 132), (8, 3), (5, 5)] {
            assert_eq!(LastRound::in_strips(heads, blocks), LastRound::whole(heads, blocks), "{heads} on {blocks}");
        }
    }
}
