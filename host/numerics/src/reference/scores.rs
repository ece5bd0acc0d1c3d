//! The scores of a row of Q, as the softmax takes them.

use std::ops::Range;

use contract::problem::ScoreMod;

use crate::element::Encoding;
use crate::inputs::Inputs;

/// Turns the products of a row of Q with its keys into scores.
pub struct RowScores<'a> {
    inputs: &'a Inputs,
    /// Factor on the products.
    pub scale: f64,
    softcap: Option<f64>,
    /// ALiBi slope of the head.
    slope: f64,
    /// Position of the row among the keys.
    position: i64,
    bias: Option<&'a [u16]>,
}

impl<'a> RowScores<'a> {
    /// For row `row` of Q, at position `position` among the keys of its sequence, and the ALiBi slope `slope`.
    pub fn new(inputs: &'a Inputs, (batch, head): (u32, u32), slope: f64, row: u32, position: i64) -> Self {
        let problem = inputs.problem();
        let ScoreMod { softcap, .. } = *problem.score_mod();
        Self { inputs, scale: problem.scale(), softcap, slope, position, bias: inputs.bias_row(batch, head, row) }
    }

    /// The score of a key of the sequence, given its product with the row.
    pub fn score(&self, product: f64, key: usize) -> f64 {
        let scaled = self.scale * product;
        let capped = self.softcap.map_or(scaled, |cap| cap * (scaled / cap).tanh());
        capped - self.penalty(key) + self.bias(key)
    }

    /// The derivative of the softcap at a product; 1 without one.
    pub fn cap_derivative(&self, product: f64) -> f64 {
        self.softcap.map_or(1.0, |cap| 1.0 - (self.scale * product / cap).tanh().powi(2))
    }

    /// The largest finite amount by which modifications change a score of keys `attended`: rounding errors scale with
    /// it.
    pub fn largest_change(&self, attended: Range<usize>) -> f64 {
        let changes = attended.map(|key| self.penalty(key) + self.bias(key).abs());
        changes.filter(|change| change.is_finite()).fold(0.0, f64::max) + self.softcap.unwrap_or(0.0)
    }

    fn penalty(&self, key: usize) -> f64 {
        self.slope * self.position.abs_diff(key as i64) as f64
    }

    fn bias(&self, key: usize) -> f64 {
        self.bias.map_or(0.0, |bias| self.inputs.element().decode(bias[key]))
    }
}
