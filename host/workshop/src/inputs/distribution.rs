//! Seeded ways to fill one head of Q, K and V.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, StandardNormal, Uniform};

use super::COLUMNS;
use crate::element::{Bits, Element, Encoding};

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
    /// Scores that differ by multiples of one rounding of the element type; V standard normal.
    NearTies,
    /// All keys of a head are the same: uniform attention; Q, K, V standard normal otherwise.
    EqualKeys,
    /// Uniform attention over neighbours in V that are ±x with x normal of standard deviation 1000: what is summed is far
    /// larger than the sum.
    Cancelling,
    /// K and V hold only subnormal numbers, Q is so large that the scores still differ.
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

/// The values of one head: as numbers where they are drawn, then as the bits of elements.
pub(super) struct Head<T> {
    pub q: Vec<[T; COLUMNS]>,
    pub k: Vec<[T; COLUMNS]>,
    pub v: Vec<[T; COLUMNS]>,
}

impl Head<Bits> {
    /// Draws from a stream of random numbers of the head's own, and rounds to `element`.
    pub fn generate(distribution: Distribution, element: Element, seed: u64, head: u64, sequence: u32) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(head);
        let part = match distribution.parts() {
            [] => distribution,
            parts => parts[(head % parts.len() as u64) as usize],
        };
        let Head { q, k, v } = Head::draw(part, element, &mut random, sequence as usize);
        let rounded =
            |rows: Vec<[f64; COLUMNS]>| rows.iter().map(|row| row.map(|value| element.encode(value))).collect();
        Self { q: rounded(q), k: rounded(k), v: rounded(v) }
    }
}

impl Head<f64> {
    /// `rows` rows by a distribution that has no parts.
    fn draw(distribution: Distribution, element: Element, random: &mut ChaCha8Rng, rows: usize) -> Self {
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
            Distribution::NearTies => Self::near_ties(random, rows, element.epsilon()),
            Distribution::EqualKeys => Self::normal(random, rows, 1.0).with_equal_keys(),
            Distribution::Cancelling => Self::cancelling(random, rows),
            Distribution::Subnormal => Self::subnormal(random, rows, element),
            Distribution::NonFiniteQueries => Self::normal(random, rows, 1.0).with_non_finite_queries(random),
            Distribution::NonFiniteKey => Self::normal(random, rows, 1.0).with_non_finite_key(random),
            Distribution::NonFiniteValues => Self::normal(random, rows, 1.0).with_non_finite_values(random),
            Distribution::MinusInfinityScores => Self::normal(random, rows, 1.0).with_minus_infinity_scores(element),
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
        let q = (0..rows).map(|row| k[random.random_range(0..=row)].map(|x| x * 4.0)).collect();
        Self { q, k, v }
    }

    /// Scores of 8 plus up to 64 times an eighth of `epsilon`.
    fn near_ties(random: &mut ChaCha8Rng, rows: usize, epsilon: f64) -> Self {
        let k = filled(rows, |_, _| if random.random() { 1.0 } else { 1.0 + epsilon });
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

    /// Scores with a standard deviation of about 0.6 at the default scale; of half that for bf16, so that no Q is infinite.
    fn subnormal(random: &mut ChaCha8Rng, rows: usize, element: Element) -> Self {
        const SIGN: Bits = 0x8000;
        let (mantissa, deviation) = match element {
            Element::F16 => (0x03ff, 2f64.powi(14)),
            Element::Bf16 => (0x007f, 2f64.powi(125)),
        };
        let mut tensor = || filled(rows, |_, _| element.decode(random.random::<Bits>() & (SIGN | mantissa)));
        let (k, v) = (tensor(), tensor());
        Self { q: normal(random, rows, deviation), k, v }
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

    fn with_minus_infinity_scores(mut self, element: Element) -> Self {
        self.q.iter_mut().flatten().for_each(|x| *x = x.abs().max(element.epsilon()));
        self.k.iter_mut().for_each(|row| row[0] = f64::NEG_INFINITY);
        self
    }

    fn with_non_finite_rows(mut self, random: &mut ChaCha8Rng) -> Self {
        let mut spoil = |rows: &mut [[f64; COLUMNS]], one_in: u32| {
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
fn non_finite(random: &mut ChaCha8Rng) -> f64 {
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][random.random_range(0..3)]
}

fn filled(rows: usize, mut value: impl FnMut(usize, usize) -> f64) -> Vec<[f64; COLUMNS]> {
    (0..rows).map(|row| std::array::from_fn(|column| value(row, column))).collect()
}

fn normal(random: &mut ChaCha8Rng, rows: usize, deviation: f64) -> Vec<[f64; COLUMNS]> {
    filled(rows, |_, _| {
        let value: f64 = StandardNormal.sample(random);
        value * deviation
    })
}
