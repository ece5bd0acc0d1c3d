//! Simpler lengths of packed sequences.

use contract::problem::Shape;

use super::smaller;
use crate::inputs::Lengths;

/// Fewer sequences, then shorter ones, but not none and no empty tensors; where keys have lengths of their own, the simpler kinds
/// first. Each with the shape that it is of.
pub fn simpler_lengths(shape: Shape, lengths: &Lengths) -> Vec<(Shape, Lengths)> {
    match lengths {
        Lengths::Shared(lengths) => {
            simpler_shared(lengths).into_iter().filter_map(|to| packed(shape, to, None)).collect()
        }
        Lengths::Separate(queries, keys) => simpler_separate(shape, queries, keys),
        Lengths::Padded(queries, keys) => simpler_padded(shape, queries.as_deref(), keys.as_deref()),
    }
}

fn simpler_shared(lengths: &[u32]) -> Vec<Vec<u32>> {
    fewer(lengths).into_iter().chain(shorter(lengths)).collect()
}

fn simpler_separate(shape: Shape, queries: &[u32], keys: &[u32]) -> Vec<(Shape, Lengths)> {
    let shared = [queries, keys].map(|lengths| packed(shape, lengths.to_vec(), None));
    let fewer = fewer(queries).into_iter().zip(fewer(keys));
    let shorter_queries = shorter(queries).into_iter().map(|queries| (queries, keys.to_vec()));
    let shorter_keys = shorter(keys).into_iter().map(|keys| (queries.to_vec(), keys));
    let separate = fewer.chain(shorter_queries).chain(shorter_keys);
    shared.into_iter().chain(separate.map(|(queries, keys)| packed(shape, queries, Some(keys)))).flatten().collect()
}

fn simpler_padded(shape: Shape, queries: Option<&[u32]>, keys: Option<&[u32]>) -> Vec<(Shape, Lengths)> {
    let entries = |used: Option<&[u32]>, room: u32| used.map_or(vec![room; shape.batch as usize], <[u32]>::to_vec);
    let owned = |used: Option<&[u32]>| used.map(<[u32]>::to_vec);
    let separate = packed(shape, entries(queries, shape.sequence), Some(entries(keys, shape.kv_sequence))).into_iter();
    // One of both is said, or it would be no padded batch.
    let unsaid = [(None, owned(keys)), (owned(queries), None)].into_iter();
    let unsaid = unsaid.filter(|(queries, keys)| queries.is_some() || keys.is_some());
    let of_all = |used: &dyn Fn(&[u32]) -> Vec<Vec<u32>>, given: Option<&[u32]>, count: usize| match given {
        Some(given) => used(given).into_iter().map(Some).collect::<Vec<_>>(),
        None => vec![None; count],
    };
    let fewer_entries = fewer(&vec![1; shape.batch as usize]);
    let fewer_of = |given| of_all(&fewer, given, fewer_entries.len());
    let fewer = fewer_entries.iter().zip(fewer_of(queries).into_iter().zip(fewer_of(keys)));
    let fewer = fewer.map(|(entries, (queries, keys))| {
        (Shape { batch: entries.len() as u32, ..shape }, Lengths::Padded(queries, keys))
    });
    let less = |given: Option<&[u32]>| given.map_or(Vec::new(), shorter);
    let less_queries = less(queries).into_iter().map(|queries| (Some(queries), owned(keys)));
    let less_keys = less(keys).into_iter().map(|keys| (owned(queries), Some(keys)));
    let within = |used: Option<&[u32]>, room: u32| used.map(|used| used.iter().map(|&rows| rows.min(room)).collect());
    let less_room = smaller(shape.sequence)
        .into_iter()
        .map(|room| (Shape { sequence: room, ..shape }, Lengths::Padded(within(queries, room), owned(keys))));
    let less_room_of_keys = smaller(shape.kv_sequence)
        .into_iter()
        .map(|room| (Shape { kv_sequence: room, ..shape }, Lengths::Padded(owned(queries), within(keys, room))));
    let of_the_same_shape = unsaid.chain(less_queries).chain(less_keys);
    let of_the_same_shape = of_the_same_shape.map(|(queries, keys)| (shape, Lengths::Padded(queries, keys)));
    separate.chain(fewer).chain(of_the_same_shape).chain(less_room).chain(less_room_of_keys).collect()
}

/// Packed sequences, unless a tensor has no row; without `keys`, with those of the queries.
fn packed(shape: Shape, queries: Vec<u32>, keys: Option<Vec<u32>>) -> Option<(Shape, Lengths)> {
    let sequence = queries.iter().sum();
    let kv_sequence = keys.as_ref().map_or(sequence, |keys| keys.iter().sum());
    let lengths = match keys {
        None => Lengths::Shared(queries),
        Some(keys) => Lengths::Separate(queries, keys),
    };
    (sequence > 0 && kv_sequence > 0).then_some((Shape { batch: 1, sequence, kv_sequence, ..shape }, lengths))
}

/// Halves of the sequences, then all but one; not none.
fn fewer(lengths: &[u32]) -> Vec<Vec<u32>> {
    let count = lengths.len();
    let halves = [&lengths[..count / 2], &lengths[count / 2..]].map(<[u32]>::to_vec);
    let without = (0..count).map(|index| [&lengths[..index], &lengths[index + 1..]].concat());
    halves.into_iter().chain(without).filter(|lengths| !lengths.is_empty()).collect()
}

/// One sequence shorter, down to none of its rows.
fn shorter(lengths: &[u32]) -> Vec<Vec<u32>> {
    let one = |index: usize| {
        let length = lengths[index];
        let none = (length == 1).then_some(0);
        smaller(length).into_iter().chain(none).map(move |length| {
            let mut changed = lengths.to_vec();
            changed[index] = length;
            changed
        })
    };
    (0..lengths.len()).flat_map(one).collect()
}
