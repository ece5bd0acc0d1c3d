//! Q, K and V in host memory, and seeded ways to fill them.

mod distribution;

use std::sync::Arc;

use contract::args::Strides;
use contract::config::HEAD_DIM;
use half::f16;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::problem::{Problem, Shape};

pub use distribution::Distribution;
use distribution::Head;

/// Columns of a row.
pub const COLUMNS: usize = HEAD_DIM as usize;
/// One row of a tensor.
pub type Row = [f16; COLUMNS];

/// An fp16 tensor in host memory: where it starts in a storage that several tensors may share.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The elements.
    pub storage: Arc<[f16]>,
    /// Index of the tensor's first element.
    pub offset: usize,
}

impl Operand {
    /// The operand that starts at the beginning of its own storage.
    pub fn new(storage: impl Into<Arc<[f16]>>) -> Self {
        Self { storage: storage.into(), offset: 0 }
    }
}

/// A problem with its Q, K and V: every row that the problem's strides lead to lies inside the storage.
#[derive(Clone, Debug)]
pub struct Inputs {
    problem: Problem,
    q: Operand,
    k: Operand,
    v: Operand,
}

impl Inputs {
    /// Joins a problem and its operands.
    ///
    /// # Errors
    /// [`Error::Invalid`] when an operand is shorter than its strides need, or does not start on a 16-byte chunk.
    pub fn new(problem: Problem, q: Operand, k: Operand, v: Operand) -> Result<Self> {
        let strides = problem.strides();
        for (name, operand, strides) in [("Q", &q, strides.q), ("K", &k, strides.k), ("V", &v, strides.v)] {
            let needed = operand.offset as u128 + u128::from(problem.extent(strides));
            if needed > operand.storage.len() as u128 {
                return Err(Error::Invalid(format!(
                    "{name} has {} elements; its offset, shape and strides need {needed}",
                    operand.storage.len()
                )));
            }
            if !(operand.offset as u64).is_multiple_of(crate::problem::ROW_ALIGNMENT) {
                return Err(Error::Invalid(format!(
                    "{name} starts at element {}; it must start at a multiple of {}",
                    operand.offset,
                    crate::problem::ROW_ALIGNMENT
                )));
            }
        }
        Ok(Self { problem, q, k, v })
    }

    /// Inputs of `problem` filled by `distribution`, each in a storage of its own. Gaps between rows hold NaN, so that
    /// reading one shows.
    ///
    /// # Errors
    /// As [`Self::new`], when a tensor is larger than host memory can address.
    pub fn generate(problem: Problem, distribution: Distribution, seed: u64) -> Result<Self> {
        let shape = problem.shape();
        let strides = problem.strides();
        let heads = (0..u64::from(shape.batch) * u64::from(shape.heads)).into_par_iter();
        let heads: Vec<_> = heads.map(|head| Head::generate(distribution, seed, head, shape.sequence)).collect();
        let operand = |strides, rows: fn(&Head) -> &[Row]| -> Result<Operand> {
            Ok(Operand::new(scatter(&problem, strides, heads.iter().map(rows))?))
        };
        let q = operand(strides.q, |head| &head.q)?;
        let k = operand(strides.k, |head| &head.k)?;
        let v = operand(strides.v, |head| &head.v)?;
        Self::new(problem, q, k, v)
    }

    /// The same values, with so many NaN elements before Q, K and V in their storages.
    ///
    /// # Errors
    /// As [`Self::new`], when an offset is not a multiple of a 16-byte chunk.
    pub fn with_offsets(self, [q, k, v]: [usize; 3]) -> Result<Self> {
        let shifted = |operand: Operand, offset: usize| match offset {
            0 => operand,
            _ => {
                let before = std::iter::repeat_n(f16::NAN, offset);
                let storage = before.chain(operand.storage[operand.offset..].iter().copied()).collect();
                Operand { storage, offset }
            }
        };
        Self::new(self.problem, shifted(self.q, q), shifted(self.k, k), shifted(self.v, v))
    }

    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Q, K and V.
    pub fn operands(&self) -> [&Operand; 3] {
        [&self.q, &self.k, &self.v]
    }

    /// Row `row` of Q.
    pub fn q_row(&self, batch: u32, head: u32, row: u32) -> &Row {
        operand_row(&self.q, self.problem.strides().q, batch, head, row)
    }

    /// Row `row` of K.
    pub fn k_row(&self, batch: u32, head: u32, row: u32) -> &Row {
        operand_row(&self.k, self.problem.strides().k, batch, head, row)
    }

    /// Row `row` of V.
    pub fn v_row(&self, batch: u32, head: u32, row: u32) -> &Row {
        operand_row(&self.v, self.problem.strides().v, batch, head, row)
    }
}

fn operand_row(operand: &Operand, strides: Strides, batch: u32, head: u32, row: u32) -> &Row {
    row_of(&operand.storage[operand.offset..], strides, batch, head, row)
}

/// The row of a strided tensor that starts at the beginning of `storage`.
///
/// # Panics
/// When the row lies beyond the storage.
pub fn row_of(storage: &[f16], strides: Strides, batch: u32, head: u32, row: u32) -> &Row {
    let start = row_start(strides, batch, head, row);
    storage[start..].first_chunk().expect("the storage was checked to hold every row")
}

/// Index of the first element of a row.
pub fn row_start(strides: Strides, batch: u32, head: u32, row: u32) -> usize {
    (u64::from(batch) * strides.batch + u64::from(head) * strides.head + u64::from(row) * strides.row) as usize
}

/// Lays `[B·H][S]` rows out by `strides`; gaps hold NaN.
fn scatter<'a>(problem: &Problem, strides: Strides, heads: impl Iterator<Item = &'a [Row]>) -> Result<Vec<f16>> {
    let Shape { heads: heads_per_batch, .. } = problem.shape();
    let elements = problem.extent(strides);
    let mut storage = Vec::new();
    usize::try_from(elements).ok().and_then(|elements| storage.try_reserve_exact(elements).ok()).ok_or_else(|| {
        Error::Invalid(format!(
            "{elements} fp16 elements do not fit the memory of this machine; make the problem smaller"
        ))
    })?;
    storage.resize(elements as usize, f16::NAN);
    for (index, rows) in heads.enumerate() {
        let (batch, head) = (index as u32 / heads_per_batch, index as u32 % heads_per_batch);
        for (row, values) in rows.iter().enumerate() {
            let start = row_start(strides, batch, head, row as u32);
            storage[start..start + COLUMNS].copy_from_slice(values);
        }
    }
    Ok(storage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Layout;
    use contract::config::Mask;
    use sha2::{Digest, Sha256};

    const SHAPE: Shape = Shape { batch: 2, heads: 3, sequence: 21 };

    fn generate(shape: Shape, layout: Layout, distribution: Distribution) -> Inputs {
        Inputs::generate(Problem::new(shape, Mask::Full, layout).unwrap(), distribution, 42).unwrap()
    }

    fn all() -> impl Iterator<Item = Distribution> {
        <Distribution as clap::ValueEnum>::value_variants().iter().copied()
    }

    /// The rows of Q, K and V in `[B,H,S]` order.
    fn rows(inputs: &Inputs) -> Vec<[[u16; COLUMNS]; 3]> {
        let Shape { batch, heads, sequence } = inputs.problem().shape();
        let indices = (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..sequence).map(move |s| (b, h, s))));
        let row = |(b, h, s)| [inputs.q_row(b, h, s), inputs.k_row(b, h, s), inputs.v_row(b, h, s)];
        indices.map(|index| row(index).map(|row| row.map(f16::to_bits))).collect()
    }

    #[test]
    fn a_seed_gives_the_same_bits_everywhere() {
        let hash = |distribution| {
            let mut hash = Sha256::new();
            rows(&generate(SHAPE, Layout::Bhsd, distribution)).iter().flatten().flatten().for_each(|bits| {
                hash.update(bits.to_le_bytes());
            });
            hash.finalize()[..4].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let hashes: Vec<_> = all().map(hash).collect();
        let golden = [
            "5fed86fe", "c915c420", "e5658427", "dbb5475e", "de896742", "006f061c", "1b68ca47", "c3a404f2", "b0d17c91",
            "467eb132", "8528a9e8", "46687176", "2341b42b", "7748075c", "c0cc2d83", "e02827b6", "7ef79b43",
        ];
        assert_eq!(hashes, golden, "seeded inputs changed: recorded results can no longer be repeated");
    }

    #[test]
    fn values_do_not_depend_on_layout_or_batch() {
        for distribution in all() {
            let bhsd = rows(&generate(SHAPE, Layout::Bhsd, distribution));
            assert_eq!(bhsd, rows(&generate(SHAPE, Layout::Bshd, distribution)), "{distribution:?}");
            let one = rows(&generate(Shape { batch: 1, ..SHAPE }, Layout::Bhsd, distribution));
            assert_eq!(bhsd[..one.len()], one, "{distribution:?}");
        }
    }

    #[test]
    fn seeds_and_heads_differ() {
        let inputs = |seed| {
            let problem = Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap();
            rows(&Inputs::generate(problem, Distribution::Normal, seed).unwrap())
        };
        assert_ne!(inputs(1), inputs(2));
        assert_ne!(inputs(1)[0], inputs(1)[21], "rows 0 of heads 0 and 1");
    }

    #[test]
    fn normal_values_have_mean_zero_and_variance_one() {
        let inputs = generate(Shape { batch: 1, heads: 4, sequence: 256 }, Layout::Bhsd, Distribution::Normal);
        for operand in inputs.operands() {
            let values: Vec<f64> = operand.storage.iter().map(|value| value.to_f64()).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
            assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "mean {mean}, variance {variance}");
        }
    }

    #[test]
    fn only_non_finite_inputs_hold_nan_or_infinity() {
        for distribution in all() {
            let inputs = generate(SHAPE, Layout::Bhsd, distribution);
            let finite = inputs.operands().iter().all(|operand| operand.storage.iter().all(|value| value.is_finite()));
            assert_eq!(finite, distribution.is_finite(), "{distribution:?}");
        }
    }

    #[test]
    fn gaps_between_rows_hold_nan() {
        let problem = Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap();
        let padded = Strides { batch: 3 * 21 * 72, head: 21 * 72, row: 72 };
        let strides = crate::problem::TensorStrides { k: padded, ..*problem.strides() };
        let inputs = Inputs::generate(problem.with_strides(strides).unwrap(), Distribution::Normal, 42).unwrap();
        let [_, k, _] = inputs.operands();
        assert!(k.storage[64..72].iter().all(|value| value.is_nan()));
        assert_eq!(rows(&inputs), rows(&generate(SHAPE, Layout::Bhsd, Distribution::Normal)));
    }

    #[test]
    fn an_offset_puts_nan_before_the_same_values() {
        let inputs = generate(SHAPE, Layout::Bhsd, Distribution::Normal);
        let shifted = inputs.clone().with_offsets([0, 8, 64]).unwrap();
        assert_eq!(rows(&shifted), rows(&inputs));
        let [_, k, v] = shifted.operands();
        assert!(k.storage[..8].iter().chain(&v.storage[..64]).all(|value| value.is_nan()));
        let message = inputs.with_offsets([0, 0, 4]).unwrap_err().to_string();
        assert!(message.contains("V starts at element 4"), "{message}");
    }

    #[test]
    fn operands_must_hold_every_row() {
        let problem = Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap();
        let elements = SHAPE.rows() as usize * COLUMNS;
        let full = || Operand::new(vec![f16::ZERO; elements]);
        let short = Operand::new(vec![f16::ZERO; elements - 1]);
        let message = Inputs::new(problem, full(), short, full()).unwrap_err().to_string();
        assert!(message.contains("K has 8063 elements") && message.contains("need 8064"), "{message}");
        let misaligned = Operand { storage: vec![f16::ZERO; elements + 8].into(), offset: 4 };
        let message = Inputs::new(problem, full(), full(), misaligned).unwrap_err().to_string();
        assert!(message.contains("V starts at element 4"), "{message}");
    }
}
