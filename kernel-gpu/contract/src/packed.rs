//! Packed batches: sequences of different lengths one behind the other, without padding.
//!
//! Row `i` of sequence `s` is row `cu_seqlens[s] + i` of Q, K, V and O; `cu_seqlens` has one element more than there are
//! sequences, and lies on the device. The host knows the number of sequences and of rows, and no length.
//!
//! A launch therefore has a slot for every query tile that there may be, and a block finds its tile from `cu_seqlens` alone.
//! Sequence `s` has the slots from `⌊cu_seqlens[s] / block_m⌋ + s` up to those of the next one. That is one for each of its
//! tiles, and at most one more: `⌊(r + n) / m⌋ + 1 ≥ ⌈n / m⌉`. Slots rise with the sequences, so a binary search finds the
//! sequence of a slot; no prefix sum of tiles and no workspace is needed.
//!
//! Lengths are not trusted. Whatever `cu_seqlens` holds, the search ends, and rows lie within the tensors.

/// How many sequences the rows of a packed problem are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
pub struct Packing {
    /// Their number.
    pub sequences: u32,
    /// The length of the longest, or a bound of it. It may help to choose a kernel; a wrong one makes no result wrong.
    pub longest: u32,
}

/// A query tile of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceTile {
    /// Row of the tensors at which the sequence begins.
    pub begin: u32,
    /// Its length.
    pub length: u32,
    /// The tile's first row, counted from the sequence's.
    pub first_row: u32,
}

/// Slots of a head: enough for the query tiles of `sequences` sequences of `rows` rows in all; `None` when they are more than
/// 32 bits count.
pub const fn slots(rows: u32, sequences: u32, block_m: u32) -> Option<u32> {
    (rows / block_m).checked_add(sequences)
}

/// The query tile that has a slot; `None` for a slot that no tile has.
///
/// `cu_seqlens` is asked for elements `0 ..= sequences`. There must be a sequence.
#[inline(always)]
pub fn tile_of_slot(
    slot: u32,
    block_m: u32,
    rows: u32,
    sequences: u32,
    cu_seqlens: impl Fn(u32) -> u32,
) -> Option<SequenceTile> {
    // A negative element is a large one here.
    let row = |sequence| {
        let row = cu_seqlens(sequence);
        if row < rows { row } else { rows }
    };
    let first_slot = |sequence| row(sequence) / block_m + sequence;
    let (mut sequence, mut end) = (0, sequences);
    while end - sequence > 1 {
        let middle = sequence + (end - sequence) / 2;
        if first_slot(middle) <= slot {
            sequence = middle;
        } else {
            end = middle;
        }
    }
    let (begin, end) = (row(sequence), row(sequence + 1));
    let first_row = slot.wrapping_sub(begin / block_m + sequence).wrapping_mul(block_m);
    // Not so where the first sequence begins behind row 0, or where lengths are negative.
    let is_there = slot >= begin / block_m + sequence && begin < end && first_row < end - begin;
    if is_there { Some(SequenceTile { begin, length: end - begin, first_row }) } else { None }
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
        (0..slots)
            .filter_map(|slot| tile_of_slot(slot, block_m, rows, sequences, |index| cu_seqlens[index as usize]))
            .collect()
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
                .flat_map(|(&length, &begin)| {
                    (0..length.div_ceil(block_m)).map(move |tile| SequenceTile {
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
        let tile = |begin, length| SequenceTile { begin, length, first_row: 0 };
        assert_eq!(found, [tile(100, 30), tile(130, 1)]);
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
            for SequenceTile { begin, length, first_row } in tiles(&cu_seqlens, rows, 64) {
                assert!(first_row < length && begin + length <= rows, "{rows} rows, cu_seqlens {cu_seqlens:?}");
            }
        }
    }

    #[test]
    fn more_slots_than_32_bits_count_are_refused() {
        assert_eq!(slots(u32::MAX, u32::MAX, 64), None);
        assert_eq!(slots(128, 3, 64), Some(5));
    }
}
