//! Changes of scores as commands and cases name them, whatever the sizes of a problem, and values for them.

use contract::args::Strides;
use contract::problem::{ScoreMod, Shape, Slopes};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, StandardNormal};

use crate::element::{Bits, Element, Encoding};
use crate::inputs::Distribution;

/// Which of batch entry, head and query a bias differs by; it always differs by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BiasForm {
    /// `[B,H,S_q,S_k]`.
    Bhqk,
    /// `[1,H,S_q,S_k]`, as relative positions have it.
    Hqk,
    /// `[B,1,S_q,S_k]`.
    Bqk,
    /// `[1,1,S_q,S_k]`.
    Qk,
    /// `[B,1,1,S_k]`, as the padding of keys has it.
    Bk,
}

impl BiasForm {
    /// Every form.
    pub const ALL: [Self; 5] = [Self::Bhqk, Self::Hqk, Self::Bqk, Self::Qk, Self::Bk];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bhqk => "bhqk",
            Self::Hqk => "hqk",
            Self::Bqk => "bqk",
            Self::Qk => "qk",
            Self::Bk => "bk",
        }
    }

    /// Batch entries, heads and queries of such a bias for a problem of `shape`.
    pub fn dimensions(self, Shape { batch, heads, sequence, .. }: Shape) -> [u64; 3] {
        let (of_batch, of_heads, of_queries) = match self {
            Self::Bhqk => (batch, heads, sequence),
            Self::Hqk => (1, heads, sequence),
            Self::Bqk => (batch, 1, sequence),
            Self::Qk => (1, 1, sequence),
            Self::Bk => (batch, 1, 1),
        };
        [of_batch, of_heads, of_queries].map(u64::from)
    }

    /// Strides of such a bias without gaps.
    pub fn strides(self, shape: Shape) -> Strides {
        let [batch, heads, queries] = self.dimensions(shape);
        let row = u64::from(shape.kv_sequence);
        let unless_one = |size: u64, stride: u64| if size == 1 { 0 } else { stride };
        Strides {
            batch: unless_one(batch, heads * queries * row),
            head: unless_one(heads, queries * row),
            row: unless_one(queries, row),
        }
    }
}

/// What is done to scores, for problems of any sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ScoreModForm {
    /// The cap of soft-capped scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softcap: Option<f64>,
    /// Whose ALiBi slopes there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alibi: Option<Slopes>,
    /// What a bias differs by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<BiasForm>,
}

impl ScoreModForm {
    /// Leaves scores as they are.
    pub const NONE: Self = Self { softcap: None, alibi: None, bias: None };

    /// Whether it leaves scores as they are.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// That of a problem of `shape`.
    pub fn of(self, shape: Shape) -> ScoreMod {
        ScoreMod { softcap: self.softcap, alibi: self.alibi, bias: self.bias.map(|bias| bias.strides(shape)) }
    }

    /// The options of a command that ask for it.
    pub fn options(self) -> Vec<String> {
        let softcap = self.softcap.map(|cap| format!("--softcap={cap:e}"));
        let alibi = self.alibi.map(|slopes| format!("--alibi={}", slopes_name(slopes)));
        let bias = self.bias.map(|bias| format!("--bias={}", bias.name()));
        softcap.into_iter().chain(alibi).chain(bias).collect()
    }
}

impl std::fmt::Display for ScoreModForm {
    /// What there is, separated by commas, as in `softcap 50, ALiBi (heads), bias (hqk)`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let softcap = self.softcap.map(|cap| format!("softcap {cap}"));
        let alibi = self.alibi.map(|slopes| format!("ALiBi ({})", slopes_name(slopes)));
        let bias = self.bias.map(|form| format!("bias ({})", form.name()));
        let changes: Vec<_> = [softcap, alibi, bias].into_iter().flatten().collect();
        formatter.write_str(&changes.join(", "))
    }
}

/// The name of who has ALiBi slopes, as on the command line.
pub const fn slopes_name(slopes: Slopes) -> &'static str {
    match slopes {
        Slopes::PerHead => "heads",
        Slopes::PerBatchAndHead => "batch-and-heads",
    }
}

/// Random streams of heads begin with 0; these are far behind them.
const BIAS_STREAM: u64 = u64::MAX;

/// A bias of so many elements: normal with standard deviation 2. Unless other inputs are standard normal, one element in 16 is
/// −∞, as of keys that a query does not attend to.
pub fn bias(elements: u64, element: Element, distribution: Distribution, seed: u64) -> Vec<Bits> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(BIAS_STREAM);
    let excludes = distribution != Distribution::Normal;
    let draw = |_| {
        let number: f64 = StandardNormal.sample(&mut random);
        let is_excluded = random.random_range(0..16) == 0 && excludes;
        element.encode(if is_excluded { f64::NEG_INFINITY } else { 2.0 * number })
    };
    (0..elements).map(draw).collect()
}

/// ALiBi slopes: the geometric sequence from 2^(−8/H) down to 2⁻⁸ over the heads, a little larger in each batch entry.
pub fn slopes(count: u64, heads: u32) -> Vec<f32> {
    let heads = u64::from(heads);
    let slope = |index: u64| {
        let (batch, head) = (index / heads, index % heads);
        let exponent = -8.0 * (head + 1) as f64 / heads as f64;
        (exponent.exp2() * (1.0 + batch as f64 / 8.0)) as f32
    };
    (0..count).map(slope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape::new(2, 3, 5).with_kv_sequence(7);

    #[test]
    fn a_bias_has_a_stride_where_it_differs() {
        let strides = |form: BiasForm| {
            let Strides { batch, head, row } = form.strides(SHAPE);
            [batch, head, row]
        };
        assert_eq!(BiasForm::ALL.map(strides), [[105, 35, 7], [0, 35, 7], [35, 0, 7], [0, 0, 7], [7, 0, 0]]);
        for form in BiasForm::ALL {
            let elements = form.dimensions(SHAPE).iter().product::<u64>() * 7;
            let score_mod = ScoreModForm { bias: Some(form), ..ScoreModForm::default() }.of(SHAPE);
            assert_eq!(score_mod.bias_extent(SHAPE), Some(elements), "{form:?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_bias_and_only_hard_inputs_exclude_keys() {
        let of = |distribution| bias(1000, Element::F16, distribution, 7);
        assert_eq!(of(Distribution::Normal), of(Distribution::Normal));
        let excluded = |bits: &[Bits]| bits.iter().filter(|&&bits| Element::F16.decode(bits).is_infinite()).count();
        assert_eq!(excluded(&of(Distribution::Normal)), 0);
        assert!((30..100).contains(&excluded(&of(Distribution::Uniform))));
    }

    #[test]
    fn slopes_are_those_of_the_paper_and_differ_between_batch_entries() {
        let slopes = slopes(16, 8);
        assert_eq!((slopes[0], slopes[7]), (0.5, 1.0 / 256.0));
        assert_ne!(slopes[8], slopes[0]);
    }
}
