//! Distributions that fill one head of Q, K and V from a seed.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, StandardNormal, Uniform};

use crate::element::{Bits, Element, Encoding};
use crate::rows::Rows;

/// How inputs are filled. The same seed gives element (b, h, s, d) the same bits on every machine, in every layout and
/// for every B. Heads are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Q, K, V standard normal.
    Normal,
    /// Q, K, V uniform in [−1, 1).
    Uniform,
    /// Q and K normal with standard deviation 8, so scores have 64 at the default scale; V standard normal.
    LargeLogits,
    /// Every score far below 0, near −4·√D with a standard deviation of 1 at the default scale; V standard normal.
    LowLogits,
    /// Every element of Q and K is 0.5, of V 0.75: uniform attention, O is 0.75.
    Constant,
    /// Hard cases for online softmax: head h of each batch entry is filled as growing-maxima, one-hot or near-ties,
    /// chosen by (b·H + h) mod 3.
    Adversarial,
    /// Standard normal, with NaN and ±∞ as in non-finite-queries, -key, -values or minus-infinity-scores, chosen by
    /// (b·H + h) mod 4.
    NonFinite,
    /// Row maxima that keep growing with the key index (scores −32 to 32); V standard normal.
    GrowingMaxima,
    /// One random key at or before the query takes nearly all the weight; V standard normal.
    OneHot,
    /// Scores that differ by multiples of one rounding error of the element type; V standard normal.
    NearTies,
    /// All keys of a head are equal: uniform attention; otherwise Q, K, V standard normal.
    EqualKeys,
    /// Uniform attention over neighbours in V that are ±x, x normal with standard deviation 1000: sums much smaller
    /// than their terms.
    Cancelling,
    /// K and V are subnormal; Q is large enough that the scores still differ.
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
            Distribution::LowLogits => "low-logits",
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

    /// The distributions of the heads, for a distribution that mixes several; empty for the others.
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

/// Rows of a head and columns of a row.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub rows: usize,
    pub columns: usize,
}

/// One head: numbers when drawn, then bits of elements.
pub(super) struct Head<T> {
    pub q: Rows<T>,
    pub k: Rows<T>,
    pub v: Rows<T>,
}

impl Head<Bits> {
    /// Draws from the head's own random stream, and rounds to `element`.
    pub fn generate(distribution: Distribution, element: Element, seed: u64, head: u64, size: Size) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(head);
        let part = match distribution.parts() {
            [] => distribution,
            parts => parts[(head % parts.len() as u64) as usize],
        };
        let Head { q, k, v } = Head::draw(part, element, &mut random, size);
        let rounded = |rows: Rows<f64>| rows.map(|&value| element.encode(value));
        Self { q: rounded(q), k: rounded(k), v: rounded(v) }
    }
}

impl Head<f64> {
    /// Draws from a distribution that is not a mixture.
    fn draw(distribution: Distribution, element: Element, random: &mut ChaCha8Rng, size: Size) -> Self {
        match distribution {
            Distribution::Normal | Distribution::Adversarial | Distribution::NonFinite => {
                Self::normal(random, size, 1.0)
            }
            Distribution::LargeLogits => Self::normal(random, size, 8.0),
            Distribution::LowLogits => Self::low_logits(random, size),
            Distribution::Uniform => Self::uniform(random, size),
            Distribution::Constant => {
                Self { q: filled(size, |_, _| 0.5), k: filled(size, |_, _| 0.5), v: filled(size, |_, _| 0.75) }
            }
            Distribution::GrowingMaxima => Self::growing_maxima(random, size),
            Distribution::OneHot => Self::one_hot(random, size),
            Distribution::NearTies => Self::near_ties(random, size, element.epsilon()),
            Distribution::EqualKeys => Self::normal(random, size, 1.0).with_equal_keys(),
            Distribution::Cancelling => Self::cancelling(random, size),
            Distribution::Subnormal => Self::subnormal(random, size, element),
            Distribution::NonFiniteQueries => Self::normal(random, size, 1.0).with_non_finite_queries(random),
            Distribution::NonFiniteKey => Self::normal(random, size, 1.0).with_non_finite_key(random),
            Distribution::NonFiniteValues => Self::normal(random, size, 1.0).with_non_finite_values(random),
            Distribution::MinusInfinityScores => Self::normal(random, size, 1.0).with_minus_infinity_scores(element),
            Distribution::NonFiniteRows => Self::normal(random, size, 1.0).with_non_finite_rows(random),
        }
    }

    fn normal(random: &mut ChaCha8Rng, size: Size, deviation_of_q_and_k: f64) -> Self {
        let k = normal(random, size, deviation_of_q_and_k);
        let v = normal(random, size, 1.0);
        Self { q: normal(random, size, deviation_of_q_and_k), k, v }
    }

    fn uniform(random: &mut ChaCha8Rng, size: Size) -> Self {
        let uniform = Uniform::new(-1.0, 1.0).expect("the bounds are finite and in order");
        let mut tensor = || filled(size, |_, _| uniform.sample(random));
        let (k, v) = (tensor(), tensor());
        Self { q: tensor(), k, v }
    }

    /// Scores that grow from −4·√D at the first key to 4·√D at the last, at the default scale.
    fn growing_maxima(random: &mut ChaCha8Rng, size: Size) -> Self {
        let k = filled(size, |row, _| 8.0 * (row as f64 + 0.5) / size.rows as f64 - 4.0);
        Self { k, v: normal(random, size, 1.0), q: filled(size, |_, _| 1.0) }
    }

    fn low_logits(random: &mut ChaCha8Rng, size: Size) -> Self {
        let Self { mut q, mut k, v } = Self::normal(random, size, 1.0);
        q.values_mut().iter_mut().for_each(|x| *x = 1.0 + 0.1 * *x);
        k.values_mut().iter_mut().for_each(|x| *x -= 4.0);
        Self { q, k, v }
    }

    /// Keys of random signs; each query is four times one of them, whose score is 4·√D. The others are near 0 ± 4.
    fn one_hot(random: &mut ChaCha8Rng, size: Size) -> Self {
        let k = filled(size, |_, _| if random.random() { 1.0 } else { -1.0 });
        let v = normal(random, size, 1.0);
        let chosen: Vec<_> = (0..size.rows).map(|row| random.random_range(0..=row)).collect();
        let q = filled(size, |row, column| 4.0 * k[chosen[row]][column]);
        Self { q, k, v }
    }

    /// Scores of √D, plus up to √D times `epsilon`.
    fn near_ties(random: &mut ChaCha8Rng, size: Size, epsilon: f64) -> Self {
        let k = filled(size, |_, _| if random.random() { 1.0 } else { 1.0 + epsilon });
        Self { k, v: normal(random, size, 1.0), q: filled(size, |_, _| 1.0) }
    }

    fn with_equal_keys(mut self) -> Self {
        let columns = self.k.columns();
        let (first, others) = self.k.values_mut().split_at_mut(columns);
        others.chunks_exact_mut(columns).for_each(|row| row.copy_from_slice(first));
        self
    }

    fn cancelling(random: &mut ChaCha8Rng, size: Size) -> Self {
        let mut head = Self::normal(random, size, 1.0).with_equal_keys();
        head.v = normal(random, size, 1000.0);
        for pair in head.v.values_mut().chunks_exact_mut(2 * size.columns) {
            let (one, other) = pair.split_at_mut(size.columns);
            one.iter().zip(other).for_each(|(one, other)| *other = -one);
        }
        head
    }

    /// Scores with a standard deviation of about 0.6 at the default scale; half of that for bf16, so that Q is finite.
    fn subnormal(random: &mut ChaCha8Rng, size: Size, element: Element) -> Self {
        const SIGN: Bits = 0x8000;
        let (mantissa, deviation) = match element {
            Element::F16 => (0x03ff, 2f64.powi(14)),
            Element::Bf16 => (0x007f, 2f64.powi(125)),
        };
        let mut tensor = || filled(size, |_, _| element.decode(random.random::<Bits>() & (SIGN | mantissa)));
        let (k, v) = (tensor(), tensor());
        Self { q: normal(random, size, deviation), k, v }
    }

    fn with_non_finite_queries(mut self, random: &mut ChaCha8Rng) -> Self {
        self.q.iter_mut().step_by(7).for_each(|row| row[5] = non_finite(random));
        self
    }

    fn with_non_finite_key(mut self, random: &mut ChaCha8Rng) -> Self {
        self.k.values_mut().last_mut().into_iter().for_each(|last| *last = non_finite(random));
        self
    }

    fn with_non_finite_values(mut self, random: &mut ChaCha8Rng) -> Self {
        let columns = self.v.columns();
        self.v.iter_mut().step_by(4).enumerate().for_each(|(row, values)| values[row % columns] = non_finite(random));
        self
    }

    fn with_minus_infinity_scores(mut self, element: Element) -> Self {
        self.q.values_mut().iter_mut().for_each(|x| *x = x.abs().max(element.epsilon()));
        self.k.iter_mut().for_each(|row| row[0] = f64::NEG_INFINITY);
        self
    }

    fn with_non_finite_rows(mut self, random: &mut ChaCha8Rng) -> Self {
        let mut spoil = |rows: &mut Rows<f64>, first: usize, one_in: u32| {
            for row in rows.iter_mut().skip(first) {
                if random.random_range(0..one_in) == 0 {
                    row.fill(non_finite(random));
                }
            }
        };
        let rows = self.k.iter().len();
        spoil(&mut self.q, 0, 8);
        spoil(&mut self.v, 0, 16);
        spoil(&mut self.k, rows - rows / 4, 4);
        self
    }
}

/// NaN, ∞ or −∞.
fn non_finite(random: &mut ChaCha8Rng) -> f64 {
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][random.random_range(0..3)]
}

fn filled(Size { rows, columns }: Size, value: impl FnMut(usize, usize) -> f64) -> Rows<f64> {
    Rows::filled(rows, columns, value)
}

fn normal(random: &mut ChaCha8Rng, size: Size, deviation: f64) -> Rows<f64> {
    filled(size, |_, _| {
        let value: f64 = StandardNormal.sample(random);
        value * deviation
    })
}
