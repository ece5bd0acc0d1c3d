//! Sequence lengths, and the arrays that describe them on the device.

use std::ops::Range;
use std::sync::Arc;

use contract::packing::{Lengths as Arrays, Packing};
use contract::problem::Problem;
use contract::refusal::Tensor;

use crate::{Invalid, Result};

/// Lengths of packed sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// Q, K and V have the same lengths.
    Shared(Vec<u32>),
    /// Lengths in Q, and in K and V.
    Separate(Vec<u32>, Vec<u32>),
    /// Padded batch: rows of Q that each entry uses, and rows of K and V; `None`: all.
    Padded(Option<Vec<u32>>, Option<Vec<u32>>),
}

/// A sequence: its rows of Q and of K and V.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Rows of Q and O.
    pub rows: Range<u32>,
    /// Rows of K and V.
    pub keys: Range<u32>,
}

/// The sequences of a packed problem.
#[derive(Clone, Debug)]
pub struct Sequences {
    /// The sequences, in the order of their rows.
    pub all: Vec<Sequence>,
    /// The arrays that describe them on the device, with their names.
    pub arrays: Vec<(Tensor, Arc<[u32]>)>,
}

impl Lengths {
    /// Separate lengths of Q and of K and V. A sequence may have queries only, or keys only.
    ///
    /// # Errors
    /// [`Invalid`] when the two differ in number.
    pub fn separate(queries: &[u32], keys: &[u32]) -> Result<Self> {
        match queries.len() == keys.len() {
            true => Ok(Self::Separate(queries.to_vec(), keys.to_vec())),
            false => Err(Invalid(format!(
                "there are lengths of {} sequences of Q, and of {} of K and V; they must be as many",
                queries.len(),
                keys.len()
            ))),
        }
    }

    /// Adds these sequences to `problem`, whose numbers of rows they must have.
    ///
    /// # Errors
    /// [`Invalid`] when the numbers of rows differ, or there is no sequence.
    pub fn apply(&self, problem: Problem) -> Result<(Problem, Sequences)> {
        match self {
            Self::Shared(lengths) => {
                check_sum(lengths, problem.shape().sequence)?;
                let (begins, problem) = (cu_seqlens(lengths), problem.packed(packing(lengths, Arrays::Shared))?);
                let all = pairs(&begins, &begins).map(|(rows, keys)| Sequence { rows, keys }).collect();
                Ok((problem, Sequences { all, arrays: vec![(Tensor::CuSeqlens, begins)] }))
            }
            Self::Separate(queries, keys) => {
                check_sum(queries, problem.shape().sequence)?;
                check_sum(keys, problem.shape().kv_sequence)?;
                let problem = problem.packed(packing(queries, Arrays::Separate))?;
                let (queries, keys) = (cu_seqlens(queries), cu_seqlens(keys));
                let all = pairs(&queries, &keys).map(|(rows, keys)| Sequence { rows, keys }).collect();
                Ok((problem, Sequences { all, arrays: vec![(Tensor::CuSeqlens, queries), (Tensor::CuSeqlensK, keys)] }))
            }
            Self::Padded(queries, keys) => {
                let shape = problem.shape();
                let used = |used: &Option<Vec<u32>>, room: u32| {
                    let used = used.clone().unwrap_or_else(|| vec![room; shape.batch as usize]);
                    let fits = used.len() == shape.batch as usize && used.iter().all(|&rows| rows <= room);
                    fits.then_some(used).ok_or_else(|| {
                        Invalid(format!("{} entries with room for {room} rows do not use others", shape.batch))
                    })
                };
                let rows = used(queries, shape.sequence)?;
                let rows_of_keys = used(keys, shape.kv_sequence)?;
                let of = |entry: u32, room: u32, used: u32| entry * room..entry * room + used;
                let all = (0..).zip(rows.iter().zip(&rows_of_keys)).map(|(entry, (&rows, &keys))| Sequence {
                    rows: of(entry, shape.sequence, rows),
                    keys: of(entry, shape.kv_sequence, keys),
                });
                let given = [(Tensor::SequsedQ, queries), (Tensor::SequsedK, keys)].into_iter();
                let arrays = given.filter_map(|(tensor, used)| Some((tensor, used.as_deref()?.into())));
                Ok((problem.padded()?, Sequences { all: all.collect(), arrays: arrays.collect() }))
            }
        }
    }
}

impl Sequences {
    /// The sequence that contains a row of Q.
    pub fn of(&self, row: u32) -> Option<&Sequence> {
        let next = self.all.partition_point(|sequence| sequence.rows.start <= row);
        self.all[..next].last().filter(|sequence| sequence.rows.contains(&row))
    }
}

fn packing(lengths: &[u32], arrays: Arrays) -> Packing {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    Packing { sequences: lengths.len() as u32, longest, lengths: arrays }
}

fn check_sum(lengths: &[u32], rows: u32) -> Result<()> {
    let sum: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    match sum == u64::from(rows) {
        true => Ok(()),
        false => Err(Invalid(format!("the sequences have {sum} rows together, and the tensors {rows}"))),
    }
}

/// First row of each sequence of these lengths, then the end of the last; their sum is below 2³².
pub fn cu_seqlens(lengths: &[u32]) -> Arc<[u32]> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// For two arrays in parallel, the ranges between consecutive elements.
fn pairs(one: &[u32], other: &[u32]) -> impl Iterator<Item = (Range<u32>, Range<u32>)> {
    let ranges = |begins: &[u32]| begins.windows(2).map(|pair| pair[0]..pair[1]).collect::<Vec<_>>();
    ranges(one).into_iter().zip(ranges(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::config::Mask;
    use contract::problem::Shape;
    use contract::view::Layout;

    fn apply(lengths: &Lengths, shape: Shape) -> Result<(Problem, Sequences)> {
        lengths.apply(Problem::new(shape, Mask::Full, Layout::Bshd).unwrap())
    }

    fn arrays(sequences: &Sequences) -> Vec<(Tensor, Vec<u32>)> {
        sequences.arrays.iter().map(|(tensor, array)| (*tensor, array.to_vec())).collect()
    }

    #[test]
    fn queries_and_keys_may_have_lengths_of_their_own() {
        let shape = Shape::new(1, 2, 9).with_kv_sequence(5);
        let (problem, sequences) = apply(&Lengths::separate(&[4, 0, 5], &[0, 2, 3]).unwrap(), shape).unwrap();
        let of = |row| sequences.of(row).cloned();
        assert_eq!(of(3), Some(Sequence { rows: 0..4, keys: 0..0 }));
        assert_eq!(of(4), Some(Sequence { rows: 4..9, keys: 2..5 }), "the second has no row");
        assert_eq!(arrays(&sequences), [(Tensor::CuSeqlens, vec![0, 4, 4, 9]), (Tensor::CuSeqlensK, vec![0, 0, 2, 5])]);
        assert_eq!(problem.packing(), Some(Packing::separate(3, 5)));
        let refused = |lengths: Result<Lengths>| lengths.and_then(|lengths| apply(&lengths, shape)).unwrap_err();
        assert!(refused(Lengths::separate(&[9], &[4])).to_string().contains("4 rows together, and the tensors 5"));
        assert!(refused(Lengths::separate(&[9], &[4, 1])).to_string().contains("they must be as many"));
    }

    #[test]
    fn entries_of_a_padded_batch_use_some_of_their_rows() {
        let shape = Shape::new(3, 2, 4).with_kv_sequence(10);
        let lengths = Lengths::Padded(Some(vec![4, 0, 3]), None);
        let (problem, sequences) = apply(&lengths, shape).unwrap();
        assert_eq!((problem.shape().batch, problem.shape().sequence, problem.shape().kv_sequence), (1, 12, 30));
        let of = |row| sequences.of(row).map(|sequence| sequence.keys.clone());
        assert_eq!([0, 3, 4, 7, 8, 10, 11].map(of), {
            let (first, last) = (Some(0..10), Some(20..30));
            [first.clone(), first, None, None, last.clone(), last, None]
        });
        assert_eq!(arrays(&sequences), [(Tensor::SequsedQ, vec![4, 0, 3])]);
        let too_long = apply(&Lengths::Padded(Some(vec![5, 0, 3]), None), shape).unwrap_err();
        assert!(too_long.to_string().contains("room for 4 rows"), "{too_long}");
    }
}
