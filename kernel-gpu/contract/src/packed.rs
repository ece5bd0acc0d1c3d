//! Packed batches: sequences of different lengths one behind the other, without padding; and padded ones, whose sequences have
//! equal room.
//!
//! Row `i` of sequence `s` is row `cu_seqlens[s] + i` of Q and O, and key `j` of it row `cu_seqlens_k[s] + j` of K and V. Both
//! arrays have one element more than there are sequences, and lie on the device; where keys have the lengths of queries they are
//! one. The host knows the numbers of sequences and of rows, and no length. In a padded batch of `n` sequences, sequence `s`
//! begins at row `s · rows / n` instead. `seqused_q` and `seqused_k` may say that a sequence has fewer rows than room.
//!
//! A launch therefore has a slot for every query tile that there may be, and a block finds its tile from `cu_seqlens` alone.
//! Sequence `s` has the slots from `⌊cu_seqlens[s] / block_m⌋ + s` up to those of the next one. That is one for each of its
//! tiles, and at most one more: `⌊(r + n) / m⌋ + 1 ≥ ⌈n / m⌉`. Slots rise with the sequences, so a binary search finds the
//! sequence of a slot; no prefix sum of tiles and no workspace is needed.
//!
//! Lengths are not trusted. Whatever these arrays hold, the search ends, and rows lie within the tensors.

pub mod longest_first;

/// How many sequences the rows of a packed problem are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
pub struct Packing {
    /// Their number.
    pub sequences: u32,
    /// The length of the longest, or a bound of it. It may help to choose a kernel; a wrong one makes no result wrong.
    pub longest: u32,
    /// What says where they begin and end.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub lengths: Lengths,
}

impl Packing {
    /// So many sequences, each of which has as many keys as queries.
    pub const fn new(sequences: u32, longest: u32) -> Self {
        Self { sequences, longest, lengths: Lengths::Shared }
    }

    /// So many sequences, whose K and V have lengths of their own.
    pub const fn separate(sequences: u32, longest: u32) -> Self {
        Self { sequences, longest, lengths: Lengths::Separate }
    }
}

/// What says where the sequences of a packed problem begin and end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Lengths {
    /// One `cu_seqlens` for Q, K and V.
    #[default]
    Shared,
    /// `cu_seqlens` for Q, and `cu_seqlens_k` for K and V; `seqused_q` and `seqused_k` may shorten them.
    Separate,
    /// Equal room for all of Q, and for all of K and V; `seqused_q` and `seqused_k` may say how much of it is used.
    Padded,
}

/// Neighbouring rows of a head: those of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The first, counted in the tensor.
    pub begin: u32,
    /// Their number.
    pub length: u32,
}

/// A query tile of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceTile {
    /// The sequence.
    pub sequence: u32,
    /// Row of Q and O at which the sequence begins.
    pub begin: u32,
    /// Its length.
    pub length: u32,
    /// The tile's first row, counted from the sequence's.
    pub first_row: u32,
}

impl SequenceTile {
    /// One without rows.
    pub const EMPTY: Self = Self { sequence: 0, begin: 0, length: 0, first_row: 0 };
}

/// Where the sequences of a tensor of `rows` rows are: `begin` is asked for elements `0 ..= sequences`, and `used` for each
/// sequence.
pub struct Sequences<B, U> {
    /// Rows of the tensor.
    pub rows: u32,
    /// `cu_seqlens`, or what takes its place.
    pub begin: B,
    /// How many rows a sequence has at most; negative for none.
    pub used: U,
}

impl<B: Fn(u32) -> u32, U: Fn(u32) -> i32> Sequences<B, U> {
    /// The row at which a sequence begins, and the one before it ends; within the tensor.
    #[inline(always)]
    fn row(&self, sequence: u32) -> u32 {
        // A negative element is a large one here.
        let row = (self.begin)(sequence);
        if row < self.rows { row } else { self.rows }
    }

    /// The rows of a sequence.
    #[inline(always)]
    pub fn of(&self, sequence: u32) -> Rows {
        let (begin, end) = (self.row(sequence), self.row(sequence + 1));
        // Signed: lengths may be negative.
        let room = end as i32 - begin as i32;
        let used = (self.used)(sequence);
        let length = if used < room { used } else { room };
        Rows { begin, length: if length > 0 { length as u32 } else { 0 } }
    }

    /// The query tile of `block_m` rows that has a slot; `None` for a slot that no tile has. There must be a sequence.
    #[inline(always)]
    pub fn tile_of_slot(&self, slot: u32, block_m: u32, sequences: u32) -> Option<SequenceTile> {
        let first_slot = |sequence| self.row(sequence) / block_m + sequence;
        let (mut sequence, mut end) = (0, sequences);
        while end - sequence > 1 {
            let middle = sequence + (end - sequence) / 2;
            if first_slot(middle) <= slot {
                sequence = middle;
            } else {
                end = middle;
            }
        }
        let Rows { begin, length } = self.of(sequence);
        let first_slot = begin / block_m + sequence;
        let first_row = slot.wrapping_sub(first_slot).wrapping_mul(block_m);
        // Not so where the first sequence begins behind row 0, or where lengths are negative.
        let is_there = slot >= first_slot && first_row < length;
        if is_there { Some(SequenceTile { sequence, begin, length, first_row }) } else { None }
    }
}

/// Slots of a head: enough for the query tiles of `sequences` sequences of `rows` rows in all; `None` when they are more than
/// 32 bits count.
pub const fn slots(rows: u32, sequences: u32, block_m: u32) -> Option<u32> {
    (rows / block_m).checked_add(sequences)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    /// Numbers that look random, the same in every run.
    fn random(seed: u64) -> impl FnMut(u32) -> u32 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move |end| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 32) % u64::from(end)) as u32
        }
    }

    fn cu_seqlens(lengths: &[u32]) -> Vec<u32> {
        let mut sum = 0;
        core::iter::once(0)
            .chain(lengths.iter().map(|length| {
                sum += length;
                sum
            }))
            .collect()
    }

    fn tiles(cu_seqlens: &[u32], rows: u32, block_m: u32) -> Vec<SequenceTile> {
        let sequences = cu_seqlens.len() as u32 - 1;
        let slots = slots(rows, sequences, block_m).unwrap();
        let queries = of(cu_seqlens, &[], rows);
        (0..slots).filter_map(|slot| queries.tile_of_slot(slot, block_m, sequences)).collect()
    }

    /// Sequences by these arrays; all rows are used without `used`.
    fn of(cu_seqlens: &[u32], used: &[i32], rows: u32) -> Sequences<impl Fn(u32) -> u32, impl Fn(u32) -> i32> {
        let begin = |index| cu_seqlens[index as usize];
        let used = |index| used.get(index as usize).copied().unwrap_or(i32::MAX);
        Sequences { rows, begin, used }
    }

    #[test]
    fn every_tile_of_every_sequence_has_one_slot() {
        for seed in 0..2_000 {
            let mut random = random(seed + 1);
            let (longest, block_m) = ([2, 20, 200, 700][random(4) as usize], [16, 64, 128][random(3) as usize]);
            let lengths: Vec<u32> = (0..1 + random(40)).map(|_| random(longest)).collect();
            let cu_seqlens = cu_seqlens(&lengths);
            let expected: Vec<_> = lengths
                .iter()
                .zip(&cu_seqlens)
                .zip(0..)
                .flat_map(|((&length, &begin), sequence)| {
                    (0..length.div_ceil(block_m)).map(move |tile| SequenceTile {
                        sequence,
                        begin,
                        length,
                        first_row: tile * block_m,
                    })
                })
                .collect();
            let found = tiles(&cu_seqlens, lengths.iter().sum(), block_m);
            assert_eq!(found, expected, "tiles of {block_m} rows, lengths {lengths:?}");
        }
    }

    #[test]
    fn as_many_sequences_as_there_can_be_are_found() {
        let lengths: Vec<u32> = (0..65_535).map(|index| index % 3).collect();
        let found = tiles(&cu_seqlens(&lengths), lengths.iter().sum(), 64);
        assert_eq!(found.len(), lengths.iter().filter(|&&length| length > 0).count());
    }

    #[test]
    fn rows_before_the_first_and_behind_the_last_sequence_belong_to_nobody() {
        let found = tiles(&[100, 130, 131], 1_000, 64);
        let tile = |sequence, begin, length| SequenceTile { sequence, begin, length, first_row: 0 };
        assert_eq!(found, [tile(0, 100, 30), tile(1, 130, 1)]);
    }

    #[test]
    fn no_lengths_lead_out_of_the_tensors() {
        for seed in 0..20_000 {
            let mut random = random(seed + 1);
            let rows = 1 + random(300);
            let wild = |random: &mut dyn FnMut(u32) -> u32| match random(4) {
                0 => random(rows),
                1 => rows + random(1_000),
                2 => (random(1_000) as i32).wrapping_neg() as u32,
                _ => [0, u32::MAX, i32::MAX as u32, i32::MIN as u32][random(4) as usize],
            };
            let cu_seqlens: Vec<u32> = (0..2 + random(9)).map(|_| wild(&mut random)).collect();
            for SequenceTile { begin, length, first_row, .. } in tiles(&cu_seqlens, rows, 64) {
                assert!(first_row < length && begin + length <= rows, "{rows} rows, cu_seqlens {cu_seqlens:?}");
            }
            let used: Vec<i32> = cu_seqlens.iter().skip(1).map(|_| wild(&mut random) as i32).collect();
            let keys = of(&cu_seqlens, &used, rows);
            for (sequence, used) in used.iter().enumerate() {
                let Rows { begin, length } = keys.of(sequence as u32);
                assert!(begin + length <= rows, "{rows} rows, cu_seqlens {cu_seqlens:?}");
                assert!(length as i32 <= (*used).max(0), "{length} of {used} rows");
            }
        }
    }

    #[test]
    fn no_more_rows_are_there_than_are_used() {
        let queries = of(&[0, 100, 200, 300], &[70, -1, 1_000], 300);
        assert_eq!([0, 1, 2].map(|sequence| queries.of(sequence).length), [70, 0, 100]);
        let slots = slots(300, 3, 64).unwrap();
        let found: Vec<_> = (0..slots).filter_map(|slot| queries.tile_of_slot(slot, 64, 3)).collect();
        let tile = |sequence, length, first_row| SequenceTile { sequence, begin: sequence * 100, length, first_row };
        assert_eq!(found, [tile(0, 70, 0), tile(0, 70, 64), tile(2, 100, 0), tile(2, 100, 64)]);
    }

    #[test]
    fn more_slots_than_32_bits_count_are_refused() {
        assert_eq!(slots(u32::MAX, u32::MAX, 64), None);
        assert_eq!(slots(128, 3, 64), Some(5));
    }
}
