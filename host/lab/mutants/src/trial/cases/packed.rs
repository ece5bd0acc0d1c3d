//! Packed sequences that an entry is tried on.

use anyhow::Result;
use cli::inputs::{Distribution, Lengths, cu_seqlens};
use contract::config::WARPGROUP_ROWS;
use contract::manifest::Entry;
use contract::packed::longest_first::MOST_ITEMS;
use contract::problem::Shape;
use contract::refusal::Tensor;
use contract::tile::Kind;
use contract::tile::sm90_tma::SIZES_KEPT;
use contract::view::Layout;

use super::{Case, apart, columns, contiguous, drawn, in_layout, shape};

/// Each of `cases` as a single packed sequence, and before all but the first of them several sequences: at the edges of tiles,
/// empty, of one row, and so many that the search for a block's takes all of its turns.
pub(super) fn of(entry: &Entry, cases: Vec<Case>) -> Result<Vec<Case>> {
    let (block_m, block_n) = (entry.config.block_m(), entry.config.block_n());
    let several = [
        vec![block_n + 1, 0, 1, block_m, block_m - 1, block_n],
        vec![0, 0, 3 * block_m + 5, 0, 2],
        (0..37).map(|index| index * 5 % 11).collect(),
    ];
    let mut packed = Vec::new();
    for case in cases {
        let Shape { sequence, kv_sequence, .. } = case.problem.shape();
        packed.push(match sequence == kv_sequence {
            true => case.packed(vec![sequence]),
            false => Case { lengths: Some(Lengths::separate(&[sequence], &[kv_sequence])?), ..case },
        });
    }
    for lengths in several.into_iter().rev() {
        for distribution in [Distribution::LargeLogits, Distribution::NonFiniteValues, Distribution::Normal] {
            let rows = shape(1, 3, lengths.iter().sum());
            packed.insert(1, Case::of(apart(rows, entry)?, distribution).packed(lengths.clone()));
        }
    }
    // Keys with lengths of their own: the last tile of a strip may lie wholly before the strip's rows.
    // All rows of a block, and the next one's first, may have none, and few rows many: more tiles than a block of rows.
    let queries = [2 * block_m + 3, block_n, block_m + 5, 0, 5];
    let keys = [block_n, 2 * block_n + 1, 0, 9, 2 * block_m + 1];
    let rows = shape(1, 3, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
    let case = Case::of(apart(rows, entry)?, Distribution::Normal);
    packed.insert(1, Case { lengths: Some(Lengths::separate(&queries, &keys)?), ..case });
    packed.splice(1..1, in_turns(entry)?);
    packed.extend(many_sequences(entry)?);
    let bad = bad_lengths(entry)?;
    if entry.config.kind() == Kind::Sm90Tma {
        packed.extend(equal(entry)?);
        packed.extend(too_long(entry)?);
        packed.extend(about_as_many_as_are_sorted(entry)?);
        // So many items of one block that it sorts them.
        packed.extend(bad.iter().cloned().map(|case| Case { multiprocessors: 1, ..case }));
        packed.extend(a_little_too_large(entry)?);
        packed.push(many_bad_lengths(entry)?);
        packed.extend(drawn::bad_lengths(entry)?);
    }
    packed.splice(1..1, bad);
    // Equal room for three, of which one uses none of it and one all.
    let room = block_m + block_n + 3;
    let padded = Lengths::Padded(Some(vec![room - 5, 0, room]), Some(vec![block_n + 1, 3, room]));
    for distribution in [Distribution::LargeLogits, Distribution::Normal] {
        let case = Case::of(in_layout(Layout::Bshd, columns(entry), shape(3, 3, room), entry)?, distribution);
        packed.insert(1, Case { lengths: Some(padded.clone()), ..case });
    }
    packed.extend(drawn::lengths(entry)?);
    Ok(packed)
}

/// Sequences that one multiprocessor computes one after the other, every third without keys: they come to each stage of the pipeline
/// while the products of the one before are in flight. Of one tile each, and of several; and some with as many keys as queries.
fn in_turns(entry: &Entry) -> Result<Vec<Case>> {
    let (block_m, tile, stages) = (entry.config.block_m(), entry.config.block_n(), entry.config.stages().max(3));
    let sizes = [(3 * stages + 1, tile, tile), (stages + 2, block_m + 1, 2 * tile + 1)];
    let cases = sizes.map(|(number, most_queries, most_keys)| {
        let queries: Vec<u32> = (0..number).map(|index| 1 + index * 37 % most_queries).collect();
        let keys: Vec<u32> =
            (0..number).map(|index| if index % 3 == 2 { 0 } else { 1 + index * 23 % most_keys }).collect();
        let rows = shape(1, 1, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
        let case = Case::of(contiguous(rows, entry)?, Distribution::Normal);
        Ok(Case { lengths: Some(Lengths::separate(&queries, &keys)?), multiprocessors: 1, ..case })
    });
    let mut cases: Vec<Case> = cases.into_iter().collect::<Result<_>>()?;
    // Of a strip for each warpgroup, and one fewer, so that all let tiles behind their own pass, at every stage.
    let strips = block_m.div_ceil(WARPGROUP_ROWS);
    let strips = (0..2 * stages).map(|index| if index % 3 == 0 { strips.max(2) - 1 } else { strips });
    let lengths: Vec<u32> = strips.map(|strips| strips * WARPGROUP_ROWS - 6).collect();
    let case = Case::of(contiguous(shape(1, 1, lengths.iter().sum()), entry)?, Distribution::Normal);
    cases.push(Case { multiprocessors: 1, ..case.packed(lengths) });
    Ok(cases)
}

/// Sequences of which the longest come first: few for each block, and so many that the lanes of a warp look at them in two turns. The
/// longest keys and the most rows belong to those of the last lanes, or of the second turn, and some of the others have none. One after
/// the other, and with equal room.
fn many_sequences(entry: &Entry) -> Result<Vec<Case>> {
    let most = 5 * entry.config.block_n();
    let mut cases = Vec::new();
    for (number, multiprocessors) in [(45, 8), (75, 4)] {
        let mut queries: Vec<u32> = (0..number)
            .map(|index| if index % 3 < index / (number / 3 - 2) { 1 + index * 7 % 23 } else { 0 })
            .collect();
        let mut keys: Vec<u32> = (0..number).map(|index| 1 + index * 11 % 19).collect();
        keys[number as usize - 10] = most;
        let room = in_layout(Layout::Bshd, columns(entry), shape(number, 1, 24).with_kv_sequence(most), entry)?;
        let padded = Lengths::Padded(Some(queries.clone()), Some(keys.clone()));
        queries[number as usize - 5] = entry.config.block_m() + 3;
        let rows = shape(1, 1, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
        let separate = Lengths::separate(&queries, &keys)?;
        cases.extend([(contiguous(rows, entry)?, separate), (room, padded)].map(|(problem, lengths)| {
            let case = Case::of(problem, Distribution::Normal);
            Case { lengths: Some(lengths), multiprocessors, ..case }
        }));
    }
    Ok(cases)
}

/// Sequences of one length: too many to be sorted for that, and few and many of which each has a short last item. And such of which one, the
/// first or the second that a lane looks at, in its first turn or its second, is shorter, so that it comes last.
fn equal(entry: &Entry) -> Result<Vec<Case>> {
    let length = entry.config.block_m() + 1;
    let all_but = |number: usize, length: u32, index: usize| {
        let mut lengths = vec![length; number];
        lengths[index] = 1;
        lengths
    };
    let mut cases =
        vec![vec![9; 50], vec![length; 3], vec![length; 14], all_but(14, length, 4), all_but(14, length, 5)];
    // Of two tiles; beside the shorter one some that have no rows.
    cases.extend([66, 67].map(|index| {
        let mut lengths = all_but(70, 65, index);
        lengths[64..66].fill(0);
        lengths
    }));
    let cases = cases.into_iter().map(|lengths| {
        let items = lengths.iter().map(|rows| rows.div_ceil(entry.config.block_m())).sum();
        let case = Case::of(contiguous(shape(1, 1, lengths.iter().sum()), entry)?, Distribution::Normal);
        Ok(Case { multiprocessors: fewest_that_sort(entry, items), ..case.packed(lengths) })
    });
    cases.collect()
}

/// The fewest multiprocessors whose blocks sort this many items.
fn fewest_that_sort(entry: &Entry, items: u32) -> u32 {
    (items / MOST_ITEMS + 1).div_ceil(entry.config.min_blocks())
}

/// Rows of Q and of K of sequences of several strips and of none, of keys that fill their tiles and that do not, and of none, in no order.
const MANY_SIZES: [[u32; 2]; 14] = [
    [3, 320],
    [2, 300],
    [1, 256],
    [70, 250],
    [300, 300],
    [600, 0],
    [5, 64],
    [2, 128],
    [5, 129],
    [140, 450],
    [1, 0],
    [0, 70],
    [6, 512],
    [4, 448],
];

/// [`MANY_SIZES`] beside a sequence with so many keys or rows that sizes are not kept in shared memory, the first or the second that a lane
/// looks at; and with equal room, of which bad lengths pretend more. On so many blocks that they are sorted.
fn too_long(entry: &Entry) -> Result<Vec<Case>> {
    let sizes = |at: usize, too_long: [u32; 2]| {
        let mut sizes = MANY_SIZES.to_vec();
        sizes.insert(at, too_long);
        [0, 1].map(|tensor| sizes.iter().map(|size| size[tensor]).collect::<Vec<u32>>())
    };
    let (rows, keys) = (16_321, 16_384);
    let mut cases = Vec::new();
    for (at, too_long) in [(0, [1, keys]), (1, [1, keys]), (0, [rows, 1]), (1, [rows, 1])] {
        let [queries, keys] = sizes(at, too_long);
        let shape = shape(1, 1, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
        let case = Case::of(contiguous(shape, entry)?, Distribution::Normal);
        cases.push(Case { lengths: Some(Lengths::separate(&queries, &keys)?), ..case });
    }
    let [queries, used_keys] = sizes(1, [1, keys]);
    let room = shape(queries.len() as u32, 1, 600).with_kv_sequence(keys);
    let more = |used: &[u32], room: u32| used.iter().map(|&used| if used == room { used + 70 } else { used }).collect();
    let arrays = vec![(Tensor::SequsedQ, more(&queries, 600)), (Tensor::SequsedK, more(&used_keys, keys))];
    let case = Case::of(in_layout(Layout::Bshd, columns(entry), room, entry)?, Distribution::Normal);
    cases.push(Case { lengths: Some(Lengths::Padded(Some(queries), Some(used_keys))), arrays, ..case });
    let most_items =
        rows.div_ceil(entry.config.block_m()) + MANY_SIZES.len() as u32 * 600_u32.div_ceil(entry.config.block_m());
    let multiprocessors = fewest_that_sort(entry, most_items);
    Ok(cases.into_iter().map(|case| Case { multiprocessors, ..case }).collect())
}

/// Sequences of different lengths around the numbers of items and of sequences up to which they are sorted: for each block some more
/// items than that, and far fewer; as many sequences as a warp looks at together; more, with few items for each block and with enough; and as
/// many as have room in shared memory.
fn about_as_many_as_are_sorted(entry: &Entry) -> Result<Vec<Case>> {
    let blocks = entry.config.min_blocks();
    let has_one_strip = entry.config.block_m() == WARPGROUP_ROWS;
    let of_several_blocks = if has_one_strip { 24 } else { 16 } / blocks;
    let cases = [
        (45 * blocks, 2, 1),
        (15 * blocks, 1, 1),
        (64, 1, 2),
        (65, 1, of_several_blocks),
        (75, 1, of_several_blocks),
        (75, 1, 4),
        (SIZES_KEPT, 1, 6_u32.div_ceil(blocks)),
    ];
    let cases = cases.map(|(number, heads, multiprocessors)| {
        let length = |index: u32| if index % 11 == 7 { 65 + 70 * (index % 3) } else { 1 + index % 5 };
        let lengths: Vec<u32> = (0..number).map(length).collect();
        let rows = shape(1, heads, lengths.iter().sum());
        let case = Case::of(contiguous(rows, entry)?, Distribution::Normal).packed(lengths);
        Ok(Case { multiprocessors, ..case })
    });
    cases.into_iter().collect()
}

/// A sequence, the first or the second that a lane looks at, whose end is behind all rows, but so little that its size would be kept.
fn a_little_too_large(entry: &Entry) -> Result<Vec<Case>> {
    let cases = [[5, 3, 4, 0], [5, 4, 0, 0]].map(|queries: [u32; 4]| {
        let keys = queries.map(|rows| 2 * rows);
        let ends = |lengths: [u32; 4]| {
            let total: u32 = lengths.iter().sum();
            cu_seqlens(&lengths).iter().map(|&end| if end == total { end + 300 } else { end }).collect()
        };
        let shape = shape(1, 2, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
        let case = Case::of(contiguous(shape, entry)?, Distribution::Normal);
        let arrays = vec![(Tensor::CuSeqlens, ends(queries)), (Tensor::CuSeqlensK, ends(keys))];
        Ok(Case { lengths: Some(Lengths::separate(&queries, &keys)?), arrays, multiprocessors: 1, ..case })
    });
    cases.into_iter().collect()
}

/// So many sequences that they are not sorted, of which the last have arrays that lead out of the tensors.
fn many_bad_lengths(entry: &Entry) -> Result<Case> {
    let blocks = entry.config.min_blocks();
    let (number, largest) = (70 * blocks as usize, i32::MAX as u32);
    let (mut queries, mut keys) = (vec![3; number], vec![2; number]);
    queries[number - 3..].fill(0);
    keys[number - 3..].fill(0);
    let [mut rows, mut kv_rows] = [&queries, &keys].map(|lengths| cu_seqlens(lengths).to_vec());
    rows[number - 2..].copy_from_slice(&[largest, 9, 4]);
    kv_rows[number - 2..].copy_from_slice(&[largest, 4, 1 << 31]);
    let shape = shape(1, 1, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
    let case = Case::of(contiguous(shape, entry)?, Distribution::Normal);
    let arrays = vec![(Tensor::CuSeqlens, rows), (Tensor::CuSeqlensK, kv_rows)];
    Ok(Case { lengths: Some(Lengths::separate(&queries, &keys)?), arrays, multiprocessors: 1, ..case })
}

/// Arrays that lead out of the tensors, or back, where a kernel does not hold them to these: of sequences that share theirs, of
/// keys with lengths of their own, and of a padded batch. Of each array, some elements are too large, some negative, and the last
/// pair of rows decreases.
fn bad_lengths(entry: &Entry) -> Result<Vec<Case>> {
    let (block_m, block_n) = (entry.config.block_m(), entry.config.block_n());
    let (minus, largest) = (|number: u32| number.wrapping_neg(), i32::MAX as u32);
    let normal = |problem| Case::of(problem, Distribution::Normal);
    let (first, second) = (block_n + 1, block_m + 5);
    let rows = first + second;
    let shared = Case {
        arrays: vec![(Tensor::CuSeqlens, vec![0, first, rows + 1_000, minus(1), 7])],
        ..normal(apart(shape(1, 2, rows), entry)?).packed(vec![first, second, 0, 0])
    };
    let (queries, keys) = ([second, 5, 1, 2], [first, first + 1, 0, 0]);
    let (rows, kv_rows) = (queries.iter().sum::<u32>(), keys.iter().sum::<u32>());
    let separate = Case {
        lengths: Some(Lengths::separate(&queries, &keys)?),
        arrays: vec![
            (Tensor::CuSeqlens, vec![0, second, second + 5, second + 6, largest]),
            (Tensor::CuSeqlensK, vec![0, first, minus(largest), minus(1), 4]),
            (Tensor::SequsedQ, vec![largest, 6, rows, 2]),
            (Tensor::SequsedK, vec![kv_rows, largest, minus(3), largest]),
        ],
        ..normal(apart(shape(1, 2, rows).with_kv_sequence(kv_rows), entry)?)
    };
    let room = block_n + 3;
    let padded = Case {
        lengths: Some(Lengths::Padded(Some(vec![room, 0, room, 0]), Some(vec![5, room, 0, room]))),
        arrays: vec![
            (Tensor::SequsedQ, vec![room + 7, minus(5), largest, minus(largest)]),
            (Tensor::SequsedK, vec![5, room + 3, minus(1), largest]),
        ],
        ..normal(in_layout(Layout::Bshd, columns(entry), shape(4, 2, room), entry)?)
    };
    Ok(vec![shared, separate, padded])
}
