//! Seeded ways to fill one head of Q, K and V.

use half::f16;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, StandardNormal, Uniform};

use super::{COLUMNS, Row};

/// How inputs are filled. Element (b, h, s, d) gets the same bits for the same seed on every machine and in every
/// layout, whatever B is; heads are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
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
    /// Made against the online softmax; head h of every batch entry is filled like growing-maxima, one-hot or near-ties, by
    /// (b·H + h) mod 3.
    Adversarial,
    /// Standard normal with NaN and ±∞ sprinkled as by non-finite-queries, -key, -values or minus-infinity-scores, by
    /// (b·H + h) mod 4.
    NonFinite,
    /// Row maxima that keep growing towards later keys (scores −32 to 32); V standard normal.
    GrowingMaxima,
    /// One key, a random one at or before the query, takes nearly all the weight; V standard normal.
    OneHot,
    /// Scores that differ by multiples of one fp16 rounding; V standard normal.
    NearTies,
    /// All keys of a head are the same: uniform attention; Q, K, V standard normal otherwise.
    EqualKeys,
    /// Uniform attention over neighbours in V that are ±x with x normal of standard deviation 1000: what is summed is far
    /// larger than the sum.
    Cancelling,
    /// K and V hold only subnormal fp16 numbers, Q is so large that the scores still differ.
    Subnormal,
    /// Standard normal, with NaN or ±∞ in every seventh row of Q.
    NonFiniteQueries,
    /// Standard normal, with NaN or ±∞ in the last key.
    NonFiniteKey,
    /// Standard normal, with NaN or ±∞ in one element of V in 256.
    NonFiniteValues,
    /// Every score −∞ (Q positive, the first column of K −∞); V standard normal.
    MinusInfinityScores,
    /// Standard normal, with whole rows of NaN, of ∞ or of −∞: one in 8 of Q, one in 16 of V, one in 4 of the last quarter
    /// of K.
    NonFiniteRows,
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
            Distribution::GrowingMaxima => "growing-maxima",
            Distribution::OneHot => "one-hot",
            Distribution::NearTies => "near-ties",
            Distribution::EqualKeys => "equal-keys",
            Distribution::Cancelling => "cancelling",
            Distribution::Subnormal => "subnormal",
            Distribution::NonFiniteQueries => "non-finite-queries",
            Distribution::NonFiniteKey => "non-finite-key",
            Distribution::NonFiniteValues => "non-finite-values",
            Distribution::MinusInfinityScores => "minus-infinity-scores",
            Distribution::NonFiniteRows => "non-finite-rows",
        }
    }

    /// Whether every input is a finite number.
    pub fn is_finite(self) -> bool {
        !matches!(
            self,
            Distribution::NonFinite
                | Distribution::NonFiniteQueries
                | Distribution::NonFiniteKey
                | Distribution::NonFiniteValues
                | Distribution::MinusInfinityScores
                | Distribution::NonFiniteRows
        )
    }

    /// What each head is filled by, of a distribution whose heads differ; empty for the others.
    pub fn parts(self) -> &'static [Self] {
        match self {
            Distribution::Adversarial => &[Distribution::GrowingMaxima, Distribution::OneHot, Distribution::NearTies],
            Distribution::NonFinite => &[
                Distribution::NonFiniteQueries,
                Distribution::NonFiniteKey,
                Distribution::NonFiniteValues,
                Distribution::MinusInfinityScores,
            ],
            _ => &[],
        }
    }
}

/// The values of one head.
pub(super) struct Head {
    pub q: Vec<Row>,
    pub k: Vec<Row>,
    pub v: Vec<Row>,
}

impl Head {
    /// Draws from a stream of random numbers of the head's own.
    pub fn generate(distribution: Distribution, seed: u64, head: u64, sequence: u32) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(head);
        let part = match distribution.parts() {
            [] => distribution,
            parts => parts[(head % parts.len() as u64) as usize],
        };
        Self::draw(part, &mut random, sequence as usize)
    }

    /// `rows` rows by a distribution that has no parts.
    fn draw(distribution: Distribution, random: &mut ChaCha8Rng, rows: usize) -> Self {
        match distribution {
            Distribution::Normal | Distribution::Adversarial | Distribution::NonFinite => {
                Self::normal(random, rows, 1.0)
            }
            Distribution::LargeLogits => Self::normal(random, rows, 8.0),
            Distribution::Uniform => Self::uniform(random, rows),
            Distribution::Constant => {
                Self { q: filled(rows, |_, _| 0.5), k: filled(rows, |_, _| 0.5), v: filled(rows, |_, _| 0.75) }
            }
            Distribution::GrowingMaxima => Self::growing_maxima(random, rows),
            Distribution::OneHot => Self::one_hot(random, rows),
            Distribution::NearTies => Self::near_ties(random, rows),
            Distribution::EqualKeys => Self::normal(random, rows, 1.0).with_equal_keys(),
            Distribution::Cancelling => Self::cancelling(random, rows),
            Distribution::Subnormal => Self::subnormal(random, rows),
            Distribution::NonFiniteQueries => Self::normal(random, rows, 1.0).with_non_finite_queries(random),
            Distribution::NonFiniteKey => Self::normal(random, rows, 1.0).with_non_finite_key(random),
            Distribution::NonFiniteValues => Self::normal(random, rows, 1.0).with_non_finite_values(random),
            Distribution::MinusInfinityScores => Self::normal(random, rows, 1.0).with_minus_infinity_scores(),
            Distribution::NonFiniteRows => Self::normal(random, rows, 1.0).with_non_finite_rows(random),
        }
    }

    fn normal(random: &mut ChaCha8Rng, rows: usize, deviation_of_q_and_k: f64) -> Self {
        let k = normal(random, rows, deviation_of_q_and_k);
        let v = normal(random, rows, 1.0);
        Self { q: normal(random, rows, deviation_of_q_and_k), k, v }
    }

    fn uniform(random: &mut ChaCha8Rng, rows: usize) -> Self {
        let uniform = Uniform::new(-1.0, 1.0).expect("the bounds are finite and in order");
        let mut tensor = || filled(rows, |_, _| uniform.sample(random));
        let (k, v) = (tensor(), tensor());
        Self { q: tensor(), k, v }
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

    fn with_equal_keys(mut self) -> Self {
        let first = self.k[0];
        self.k.fill(first);
        self
    }

    fn cancelling(random: &mut ChaCha8Rng, rows: usize) -> Self {
        let mut head = Self::normal(random, rows, 1.0).with_equal_keys();
        head.v = normal(random, rows, 1000.0);
        for pair in head.v.chunks_exact_mut(2) {
            pair[1] = pair[0].map(|x| -x);
        }
        head
    }

    /// Scores with a standard deviation of about 0.6 at the default scale.
    fn subnormal(random: &mut ChaCha8Rng, rows: usize) -> Self {
        const MANTISSA: u16 = 0x03ff;
        const SIGN: u16 = 0x8000;
        let mut tensor = || {
            (0..rows)
                .map(|_| std::array::from_fn(|_| f16::from_bits(random.random::<u16>() & (SIGN | MANTISSA))))
                .collect()
        };
        let (k, v) = (tensor(), tensor());
        Self { q: normal(random, rows, 16_384.0), k, v }
    }

    fn with_non_finite_queries(mut self, random: &mut ChaCha8Rng) -> Self {
        self.q.iter_mut().step_by(7).for_each(|row| row[5] = non_finite(random));
        self
    }

    fn with_non_finite_key(mut self, random: &mut ChaCha8Rng) -> Self {
        self.k.iter_mut().rev().take(1).for_each(|row| row[63] = non_finite(random));
        self
    }

    fn with_non_finite_values(mut self, random: &mut ChaCha8Rng) -> Self {
        self.v.iter_mut().step_by(4).enumerate().for_each(|(row, values)| values[row % COLUMNS] = non_finite(random));
        self
    }

    fn with_minus_infinity_scores(mut self) -> Self {
        self.q.iter_mut().flatten().for_each(|x| *x = f16::from_bits(x.to_bits() & 0x7fff).max(f16::EPSILON));
        self.k.iter_mut().for_each(|row| row[0] = f16::NEG_INFINITY);
        self
    }

    fn with_non_finite_rows(mut self, random: &mut ChaCha8Rng) -> Self {
        let mut spoil = |rows: &mut [Row], one_in: u32| {
            for row in rows {
                if random.random_range(0..one_in) == 0 {
                    *row = [non_finite(random); COLUMNS];
                }
            }
        };
        let last_quarter = self.k.len() - self.k.len() / 4;
        spoil(&mut self.q, 8);
        spoil(&mut self.v, 16);
        spoil(&mut self.k[last_quarter..], 4);
        self
    }
}

/// NaN, ∞ or −∞.
fn non_finite(random: &mut ChaCha8Rng) -> f16 {
    [f16::NAN, f16::INFINITY, f16::NEG_INFINITY][random.random_range(0..3)]
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
