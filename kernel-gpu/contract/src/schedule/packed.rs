//! Packed batches: sequences of different lengths, one after another, without padding. Also padded batches, in which every
//! sequence has the same room.
//!
//! Row `i` of sequence `s` is row `cu_seqlens[s] + i` of Q and O; its key `j` is row `cu_seqlens_k[s] + j` of K and V. Both
//! arrays have one element more than there are sequences, and lie on the device; if K and V have the lengths of Q they are the
//! same array. The host knows the number of sequences and rows, but no length. In a padded batch of `n` sequences, sequence
//! `s` begins at row `s · rows / n` instead. `seqused_q` and `seqused_k` may shorten a sequence within its room.
//!
//! A launch therefore has a slot for every possible query tile, and a block finds its tile from `cu_seqlens` alone. Sequence
//! `s` has the slots from `⌊cu_seqlens[s] / block_m⌋ + s` up to those of the next sequence: one for each of its tiles, and at
//! most one more, since `⌊(r + n) / m⌋ + 1 ≥ ⌈n / m⌉`. Slots are ordered by sequence, so a binary search finds the
//! sequence of a slot. It needs no prefix sum of tiles and no workspace.
//!
//! Lengths are not trusted: whatever the arrays hold, the search terminates, rows lie within the tensors, and no row of O is of two
//! sequences. For the search visits elements that depend only on where it ends, and a row is of a sequence only if it lies between those
//! of them that the search passes on the left and those that it passes on the right: if the search for the row itself would end there.
//!
//! Rows before `cu_seqlens[0]` and from its last element on are of no sequence. Their O becomes 0, and their LSE −∞.

pub mod longest_first;

/// Consecutive rows of a head: those of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The first row, counted in the tensor.
    pub begin: u32,
    /// Number of rows.
    pub length: u32,
}

/// Rows from `begin` to `end`; none if that is not behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first row.
    pub begin: u32,
    /// The row behind the last.
    pub end: u32,
}

/// A query tile of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceTile {
    /// The sequence.
    pub sequence: u32,
    /// First row of the sequence in Q and O.
    pub begin: u32,
    /// Length of the sequence.
    pub length: u32,
    /// First row of the tile, counted within the sequence.
    pub first_row: u32,
}

impl SequenceTile {
    /// A tile without rows.
    pub const EMPTY: Self = Self { sequence: 0, begin: 0, length: 0, first_row: 0 };
}

/// The sequences in a tensor of `rows` rows. `begin` is called for elements `0 ..= sequences`, `used` for each
/// sequence.
pub struct Sequences<B, U> {
    /// Rows of the tensor.
    pub rows: u32,
    /// `cu_seqlens`, or a function in its place.
    pub begin: B,
    /// Maximum number of rows of a sequence; negative counts as 0.
    pub used: U,
}

impl<B: Fn(u32) -> u32, U: Fn(u32) -> i32> Sequences<B, U> {
    /// First row of a sequence, which is also the end of the previous one; clamped to the tensor.
    #[inline(always)]
    fn row(&self, sequence: u32) -> u32 {
        // As unsigned, a negative element is a large one.
        let row = (self.begin)(sequence);
        if row < self.rows { row } else { self.rows }
    }

    /// The rows of all sequences: those before and behind them are of none.
    #[inline(always)]
    pub fn all(&self, sequences: u32) -> Bounds {
        Bounds { begin: self.row(0), end: self.row(sequences) }
    }

    /// The rows of a sequence; not for rows that are written, which [overlap](Self::of_ascending) in bad arrays.
    #[inline(always)]
    pub fn of(&self, sequence: u32) -> Rows {
        let (begin, end) = (self.row(sequence), self.row(sequence + 1));
        self.used_between(sequence, begin, end)
    }

    /// The rows of a sequence, and whether its elements ascend up to at most `last`. If those of all sequences from the first on do, rows
    /// are of one sequence each.
    #[inline(always)]
    pub fn of_ascending(&self, sequence: u32, last: u32) -> (Rows, bool) {
        let (begin, end) = (self.row(sequence), self.row(sequence + 1));
        (self.used_between(sequence, begin, end), begin <= end && end <= last)
    }

    /// The rows that a sequence uses of those from `begin` to `end`.
    #[inline(always)]
    fn used_between(&self, sequence: u32, begin: u32, end: u32) -> Rows {
        // Signed: lengths may be negative.
        let room = end as i32 - begin as i32;
        let used = (self.used)(sequence);
        let length = if used < room { used } else { room };
        Rows { begin, length: if length > 0 { length as u32 } else { 0 } }
    }

    /// The query tile of `block_m` rows in a slot; `None` if the slot is empty. There must be at least one sequence; [`Self::all`] are
    /// their rows.
    #[inline(always)]
    pub fn tile_of_slot(&self, slot: u32, block_m: u32, sequences: u32, all: Bounds) -> Option<SequenceTile> {
        let (mut sequence, mut end) = (0, sequences);
        // The rows for which a search would have gone the same way.
        let Bounds { mut begin, end: mut rows_end } = all;
        while end - sequence > 1 {
            let middle = sequence + (end - sequence) / 2;
            let row = self.row(middle);
            if row / block_m + middle <= slot {
                sequence = middle;
                begin = if row > begin { row } else { begin };
            } else {
                end = middle;
                rows_end = if row < rows_end { row } else { rows_end };
            }
        }
        let Rows { begin, length } = self.used_between(sequence, begin, rows_end);
        let first_slot = begin / block_m + sequence;
        let first_row = slot.wrapping_sub(first_slot).wrapping_mul(block_m);
        // False if the slot is before the first sequence's, or a length is negative.
        let is_there = slot >= first_slot && first_row < length;
        if is_there { Some(SequenceTile { sequence, begin, length, first_row }) } else { None }
    }
}

/// Slots of a head that suffice for the query tiles of `sequences` sequences with `rows` rows in total; `None` if 32 bits
/// cannot count them.
pub const fn slots(rows: u32, sequences: u32, block_m: u32) -> Option<u32> {
    (rows / block_m).checked_add(sequences)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use core::ops::Range;
    use std::vec::Vec;

    /// A generator of pseudo-random numbers, the same in every run.
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
        let all = queries.all(sequences);
        (0..slots).filter_map(|slot| queries.tile_of_slot(slot, block_m, sequences, all)).collect()
    }

    /// Sequences with these arrays; if `used` is empty, all rows are used.
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

    /// An element of a length array that is meant for `rows` rows and may be anything.
    fn wild(rows: u32, random: &mut impl FnMut(u32) -> u32) -> u32 {
        match random(6) {
            0..3 => random(rows),
            3 => rows + random(1_000),
            4 => (random(1_000) as i32).wrapping_neg() as u32,
            _ => [0, u32::MAX, i32::MAX as u32, i32::MIN as u32][random(4) as usize],
        }
    }

    /// How often each row is written: as one of a sequence, or of none.
    fn writers(rows: u32, all: Bounds, written: impl Iterator<Item = Range<u32>>) -> Vec<u32> {
        let mut writers = std::vec![0; rows as usize];
        let of_none = [0..all.begin, all.end.max(all.begin)..rows];
        written.chain(of_none).flatten().for_each(|row| writers[row as usize] += 1);
        writers
    }

    #[test]
    fn no_row_is_written_twice_whatever_the_lengths() {
        for seed in 0..20_000 {
            let mut random = random(seed + 1);
            let (rows, block_m) = (1 + random(300), [16, 32, 64, 128][random(4) as usize]);
            let mut cu_seqlens: Vec<u32> = (0..2 + random(9)).map(|_| wild(rows, &mut random)).collect();
            if random(4) == 0 {
                cu_seqlens.sort_unstable();
            }
            let used: Vec<i32> = cu_seqlens.iter().skip(1).map(|_| wild(2 * rows, &mut random) as i32).collect();
            let used = if random(2) == 0 { &used[..] } else { &[] };
            let sequences = cu_seqlens.len() as u32 - 1;
            let queries = of(&cu_seqlens, used, rows);
            let all = queries.all(sequences);
            let slots = 0..slots(rows, sequences, block_m).unwrap();
            let tiles = slots.filter_map(|slot| queries.tile_of_slot(slot, block_m, sequences, all));
            let by_slots = writers(
                rows,
                all,
                tiles.map(|SequenceTile { begin, length, first_row, .. }| {
                    begin + first_row..begin + length.min(first_row + block_m)
                }),
            );
            // As a warp goes through them, so many at a time, up to those that do not ascend.
            const STEP: u32 = 3;
            let mut by_sequences = Vec::new();
            for first in (0..sequences).step_by(STEP as usize) {
                let step = first..sequences.min(first + STEP);
                let of_step: Vec<_> = step.map(|sequence| queries.of_ascending(sequence, all.end)).collect();
                if of_step.iter().any(|(_, ascends)| !ascends) {
                    break;
                }
                by_sequences.extend(of_step.into_iter().map(|(Rows { begin, length }, _)| begin..begin + length));
            }
            let by_sequences = writers(rows, all, by_sequences.into_iter());
            for writers in [&by_slots, &by_sequences] {
                assert!(
                    writers.iter().all(|&writers| writers < 2),
                    "{rows} rows, cu_seqlens {cu_seqlens:?}, used {used:?}"
                );
            }
            let clamped: Vec<u32> = cu_seqlens.iter().map(|&row| row.min(rows)).collect();
            if used.is_empty() && clamped.is_sorted() {
                assert!(by_slots.iter().all(|&writers| writers == 1), "{rows} rows, cu_seqlens {cu_seqlens:?}");
                assert_eq!(by_slots, by_sequences, "{rows} rows, cu_seqlens {cu_seqlens:?}");
            }
        }
    }

    #[test]
    fn no_lengths_lead_out_of_the_tensors() {
        for seed in 0..20_000 {
            let mut random = random(seed + 1);
            let rows = 1 + random(300);
            let cu_seqlens: Vec<u32> = (0..2 + random(9)).map(|_| wild(rows, &mut random)).collect();
            for SequenceTile { begin, length, first_row, .. } in tiles(&cu_seqlens, rows, 64) {
                assert!(first_row < length && begin + length <= rows, "{rows} rows, cu_seqlens {cu_seqlens:?}");
            }
            let used: Vec<i32> = cu_seqlens.iter().skip(1).map(|_| wild(rows, &mut random) as i32).collect();
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
        let found: Vec<_> = (0..slots).filter_map(|slot| queries.tile_of_slot(slot, 64, 3, queries.all(3))).collect();
        let tile = |sequence, length, first_row| SequenceTile { sequence, begin: sequence * 100, length, first_row };
        assert_eq!(found, [tile(0, 70, 0), tile(0, 70, 64), tile(2, 100, 0), tile(2, 100, 64)]);
    }

    #[test]
    fn more_slots_than_32_bits_count_are_refused() {
        assert_eq!(slots(u32::MAX, u32::MAX, 64), None);
        assert_eq!(slots(128, 3, 64), Some(5));
    }
}
