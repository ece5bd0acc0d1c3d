//! Simpler sequence lengths.

use contract::problem::Shape;

use super::smaller;
use crate::inputs::Lengths;

/// Fewer sequences, then shorter ones; at least one sequence, and no empty tensors. If K and V have separate lengths,
/// simpler kinds come first. Each with its shape.
pub fn simpler_lengths(shape: Shape, lengths: &Lengths) -> Vec<(Shape, Lengths)> {
    match lengths {
        Lengths::Shared(lengths) => {
            simpler_shared(lengths).into_iter().filter_map(|to| packed(shape, to, None)).collect()
        }
        Lengths::Separate(queries, keys) => simpler_separate(shape, queries, keys),
        Lengths::Padded(queries, keys) => simpler_padded(shape, queries, keys),
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

/// Used rows of the entries of a padded batch; `None`: all.
type Used = Option<Vec<u32>>;

fn simpler_padded(shape: Shape, queries: &Used, keys: &Used) -> Vec<(Shape, Lengths)> {
    let all = |used: &Used, room: u32| used.clone().unwrap_or_else(|| vec![room; shape.batch as usize]);
    let separate = packed(shape, all(queries, shape.sequence), Some(all(keys, shape.kv_sequence)));
    let less = less_used(queries, keys).into_iter().map(|(queries, keys)| (shape, Lengths::Padded(queries, keys)));
    let simpler = separate.into_iter().chain(fewer_entries(shape, queries, keys)).chain(less);
    simpler.chain(less_room(shape, queries, keys)).collect()
}

fn fewer_entries(shape: Shape, queries: &Used, keys: &Used) -> Vec<(Shape, Lengths)> {
    let entries: Vec<u32> = (0..shape.batch).collect();
    let of = |used: &Used, entries: &[u32]| {
        used.as_ref().map(|used| entries.iter().map(|&entry| used[entry as usize]).collect::<Vec<_>>())
    };
    let some = |entries: Vec<u32>| {
        let shape = Shape { batch: entries.len() as u32, ..shape };
        (shape, Lengths::Padded(of(queries, &entries), of(keys, &entries)))
    };
    fewer(&entries).into_iter().map(some).collect()
}

/// One of the two omitted, or fewer rows used in one. Not both omitted: that is no padded batch.
fn less_used(queries: &Used, keys: &Used) -> Vec<(Used, Used)> {
    let unsaid = match (queries, keys) {
        (Some(_), Some(_)) => vec![(None, keys.clone()), (queries.clone(), None)],
        _ => Vec::new(),
    };
    let shorter = |used: &Used| used.as_deref().map_or(Vec::new(), shorter);
    let of_queries = shorter(queries).into_iter().map(|queries| (Some(queries), keys.clone()));
    let of_keys = shorter(keys).into_iter().map(|keys| (queries.clone(), Some(keys)));
    unsaid.into_iter().chain(of_queries).chain(of_keys).collect()
}

fn less_room(shape: Shape, queries: &Used, keys: &Used) -> Vec<(Shape, Lengths)> {
    let within = |used: &Used, room: u32| -> Used { Some(used.as_ref()?.iter().map(|&rows| rows.min(room)).collect()) };
    let of_queries = smaller(shape.sequence)
        .into_iter()
        .map(|sequence| (Shape { sequence, ..shape }, Lengths::Padded(within(queries, sequence), keys.clone())));
    let of_keys = smaller(shape.kv_sequence).into_iter().map(|kv_sequence| {
        (Shape { kv_sequence, ..shape }, Lengths::Padded(queries.clone(), within(keys, kv_sequence)))
    });
    of_queries.chain(of_keys).collect()
}

/// Packed sequences, unless a tensor would have no row; without `keys`, K and V have the lengths of Q.
fn packed(shape: Shape, queries: Vec<u32>, keys: Option<Vec<u32>>) -> Option<(Shape, Lengths)> {
    let sequence = queries.iter().sum();
    let kv_sequence = keys.as_ref().map_or(sequence, |keys| keys.iter().sum());
    let lengths = match keys {
        None => Lengths::Shared(queries),
        Some(keys) => Lengths::Separate(queries, keys),
    };
    (sequence > 0 && kv_sequence > 0).then_some((Shape { batch: 1, sequence, kv_sequence, ..shape }, lengths))
}

/// Halves of the sequences, then all but one; at least one.
fn fewer(lengths: &[u32]) -> Vec<Vec<u32>> {
    let count = lengths.len();
    let halves = [&lengths[..count / 2], &lengths[count / 2..]].map(<[u32]>::to_vec);
    let without = (0..count).map(|index| [&lengths[..index], &lengths[index + 1..]].concat());
    halves.into_iter().chain(without).filter(|lengths| !lengths.is_empty()).collect()
}

/// One sequence shorter, down to zero rows.
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
