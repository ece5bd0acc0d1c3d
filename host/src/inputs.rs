//! Q, K and V in host memory, and seeded ways to fill them.

use std::sync::Arc;

use half::f16;
use kernel_gpu::args::Strides;
use kernel_gpu::config::HEAD_DIM;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, StandardNormal, Uniform};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::problem::{Problem, Shape};

/// Columns of a row.
pub const COLUMNS: usize = HEAD_DIM as usize;
/// One row of a tensor.
pub type Row = [f16; COLUMNS];

/// How inputs are filled. Element (b, h, s, d) gets the same bits for the same seed on every machine and in every
/// layout, whatever B is; heads are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Q, K, V standard normal.
    Normal,
    /// Q, K, V uniform in [−1, 1).
    Uniform,
    /// Q and K normal with standard deviation 8, so that the scores have one of 64 at the default scale; V standard
    /// normal.
    LargeLogits,
    /// Every element of Q and K 0.5, of V 0.75: uniform attention, O is 0.75.
    Constant,
    /// Made against the online softmax; head h of every batch entry takes pattern (b·H + h) mod 3, V is standard normal:
    /// row maxima that keep growing towards later keys (scores −32 to 32), one key that takes nearly all the weight (a
    /// random one at or before the query), scores that differ by multiples of one fp16 rounding.
    Adversarial,
    /// Standard normal with NaN and ±∞ sprinkled by pattern (b·H + h) mod 4: in every seventh row of Q; in the last key;
    /// one element of V in 256; every score −∞ (Q positive, the first column of K −∞).
    NonFinite,
}

impl Distribution {
    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Normal => "normal",
            Distribution::Uniform => "uniform",
            Distribution::LargeLogits => "large-logits",
            Distribution::Constant => "constant",
            Distribution::Adversarial => "adversarial",
            Distribution::NonFinite => "non-finite",
        }
    }
}

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

/// The values of one head.
struct Head {
    q: Vec<Row>,
    k: Vec<Row>,
    v: Vec<Row>,
}

impl Head {
    /// Draws K, V, then Q from a stream of random numbers of the head's own.
    fn generate(distribution: Distribution, seed: u64, head: u64, sequence: u32) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(head);
        let rows = sequence as usize;
        match distribution {
            Distribution::Normal => Self::normal(&mut random, rows, 1.0),
            Distribution::LargeLogits => Self::normal(&mut random, rows, 8.0),
            Distribution::Uniform => {
                let uniform = Uniform::new(-1.0, 1.0).expect("the bounds are finite and in order");
                let mut tensor = || filled(rows, |_, _| uniform.sample(&mut random));
                let (k, v) = (tensor(), tensor());
                Self { q: tensor(), k, v }
            }
            Distribution::Constant => {
                Self { q: filled(rows, |_, _| 0.5), k: filled(rows, |_, _| 0.5), v: filled(rows, |_, _| 0.75) }
            }
            Distribution::Adversarial => match head % 3 {
                0 => Self::growing_maxima(&mut random, rows),
                1 => Self::one_hot(&mut random, rows),
                _ => Self::near_ties(&mut random, rows),
            },
            Distribution::NonFinite => {
                let mut head_values = Self::normal(&mut random, rows, 1.0);
                head_values.spoil(&mut random, head % 4);
                head_values
            }
        }
    }

    fn normal(random: &mut ChaCha8Rng, rows: usize, deviation_of_q_and_k: f64) -> Self {
        let k = normal(random, rows, deviation_of_q_and_k);
        let v = normal(random, rows, 1.0);
        Self { q: normal(random, rows, deviation_of_q_and_k), k, v }
    }

    /// Scores that rise from −32 at the first key to 32 at the last, at the default scale.
    fn growing_maxima(random: &mut ChaCha8Rng, rows: usize) -> Self {
        let k = filled(rows, |row, _| 8.0 * (row as f64 + 0.5) / rows as f64 - 4.0);
        Self { k, v: normal(random, rows, 1.0), q: filled(rows, |_, _| 1.0) }
    }

    /// Keys of random signs, and queries that are four times one of them: its score is 32, all others near 0 ± 4.
    fn one_hot(random: &mut ChaCha8Rng, rows: usize) -> Self {
        let k = filled(rows, |_, _| if random.random() { 1.0 } else { -1.0 });
        let v = normal(random, rows, 1.0);
        let q = (0..rows).map(|row| k[random.random_range(0..=row)].map(|x| x * f16::from_f32_const(4.0))).collect();
        Self { q, k, v }
    }

    /// Scores of 8 plus up to 64 times 2⁻¹³.
    fn near_ties(random: &mut ChaCha8Rng, rows: usize) -> Self {
        let ulp = f64::from(f16::EPSILON);
        let k = filled(rows, |_, _| if random.random() { 1.0 } else { 1.0 + ulp });
        Self { k, v: normal(random, rows, 1.0), q: filled(rows, |_, _| 1.0) }
    }

    fn spoil(&mut self, random: &mut ChaCha8Rng, pattern: u64) {
        let mut non_finite = || [f16::NAN, f16::INFINITY, f16::NEG_INFINITY][random.random_range(0..3)];
        match pattern {
            0 => self.q.iter_mut().step_by(7).for_each(|row| row[5] = non_finite()),
            1 => self.k.iter_mut().rev().take(1).for_each(|row| row[63] = non_finite()),
            2 => self.v.iter_mut().step_by(4).enumerate().for_each(|(row, values)| values[row % 64] = non_finite()),
            _ => {
                self.q.iter_mut().flatten().for_each(|x| *x = f16::from_bits(x.to_bits() & 0x7fff).max(f16::EPSILON));
                self.k.iter_mut().for_each(|row| row[0] = f16::NEG_INFINITY);
            }
        }
    }
}

fn filled(rows: usize, mut value: impl FnMut(usize, usize) -> f64) -> Vec<Row> {
    (0..rows).map(|row| std::array::from_fn(|column| f16::from_f64(value(row, column)))).collect()
}

fn normal(random: &mut ChaCha8Rng, rows: usize, deviation: f64) -> Vec<Row> {
    filled(rows, |_, _| {
        let value: f64 = StandardNormal.sample(random);
        value * deviation
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Layout;
    use kernel_gpu::config::Mask;
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
        let golden = ["5fed86fe", "c915c420", "e5658427", "dbb5475e", "de896742", "006f061c"];
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
            assert_eq!(finite, distribution != Distribution::NonFinite, "{distribution:?}");
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
