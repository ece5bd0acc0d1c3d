//! Score modifications as named by commands and cases, independent of a problem's size.

use contract::args::Strides;
use contract::limits::ROW_ALIGNMENT;
use contract::problem::{ScoreMod, Shape, Slopes};

/// The dimensions along which a bias varies; it always varies by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BiasForm {
    /// `[B,H,S_q,S_k]`.
    Bhqk,
    /// `[1,H,S_q,S_k]`, as for relative positions.
    Hqk,
    /// `[B,1,S_q,S_k]`.
    Bqk,
    /// `[1,1,S_q,S_k]`.
    Qk,
    /// `[B,1,1,S_k]`, as for padding of keys.
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

    /// Sizes of such a bias in batch, head and query dimension, for a problem of `shape`.
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

    /// Strides of such a bias, whose rows are contiguous, or with `padded_rows` apart by multiples of 16 bytes.
    pub fn strides(self, shape: Shape, padded_rows: bool) -> Strides {
        let [batch, heads, queries] = self.dimensions(shape);
        let keys = u64::from(shape.kv_sequence);
        let row = if padded_rows { keys.next_multiple_of(ROW_ALIGNMENT) } else { keys };
        let unless_one = |size: u64, stride: u64| if size == 1 { 0 } else { stride };
        Strides {
            batch: unless_one(batch, heads * queries * row),
            head: unless_one(heads, queries * row),
            row: unless_one(queries, row),
        }
    }
}

/// Score modifications for problems of any size.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ScoreModForm {
    /// The softcap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softcap: Option<f64>,
    /// Shape of the ALiBi slopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alibi: Option<Slopes>,
    /// The dimensions along which a bias varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<BiasForm>,
    /// Whether its rows are padded, so that they are apart by multiples of 16 bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub padded_bias: bool,
}

impl ScoreModForm {
    /// No score modifications.
    pub const NONE: Self = Self { softcap: None, alibi: None, bias: None, padded_bias: false };

    /// Whether there are no score modifications.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// The score modifications for a problem of `shape`.
    pub fn of(self, shape: Shape) -> ScoreMod {
        ScoreMod {
            softcap: self.softcap,
            alibi: self.alibi,
            bias: self.bias.map(|bias| bias.strides(shape, self.padded_bias)),
        }
    }

    /// The command-line options for it.
    pub fn options(self) -> Vec<String> {
        let softcap = self.softcap.map(|cap| format!("--softcap={cap:e}"));
        let alibi = self.alibi.map(|slopes| format!("--alibi={}", slopes_name(slopes)));
        let bias = self.bias.map(|bias| format!("--bias={}", bias.name()));
        let padded = self.padded_bias.then(|| "--padded-bias".to_owned());
        softcap.into_iter().chain(alibi).chain(bias).chain(padded).collect()
    }
}

impl std::fmt::Display for ScoreModForm {
    /// The modifications, separated by commas, such as `softcap 50, ALiBi (heads), bias (hqk)`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let softcap = self.softcap.map(|cap| format!("softcap {cap}"));
        let alibi = self.alibi.map(|slopes| format!("ALiBi ({})", slopes_name(slopes)));
        let rows = if self.padded_bias { ", padded rows" } else { "" };
        let bias = self.bias.map(|form| format!("bias ({}{rows})", form.name()));
        let changes: Vec<_> = [softcap, alibi, bias].into_iter().flatten().collect();
        formatter.write_str(&changes.join(", "))
    }
}

/// The command-line name of the shape of ALiBi slopes.
pub const fn slopes_name(slopes: Slopes) -> &'static str {
    match slopes {
        Slopes::PerHead => "heads",
        Slopes::PerBatchAndHead => "batch-and-heads",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape::new(2, 3, 5).with_kv_sequence(7);

    #[test]
    fn a_bias_has_a_stride_where_it_differs() {
        let strides = |form: BiasForm| {
            let Strides { batch, head, row } = form.strides(SHAPE, false);
            [batch, head, row]
        };
        let Strides { head, row, .. } = BiasForm::Hqk.strides(SHAPE, true);
        assert_eq!((head, row), (40, 8), "padded rows");
        assert_eq!(BiasForm::ALL.map(strides), [[105, 35, 7], [0, 35, 7], [35, 0, 7], [0, 0, 7], [7, 0, 0]]);
        for form in BiasForm::ALL {
            let elements = form.dimensions(SHAPE).iter().product::<u64>() * 7;
            let score_mod = ScoreModForm { bias: Some(form), ..ScoreModForm::default() }.of(SHAPE);
            assert_eq!(score_mod.bias_extent(SHAPE), Some(elements), "{form:?}");
        }
    }
}
