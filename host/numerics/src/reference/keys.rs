//! Attention of one query over its sequence's keys and values.

use std::ops::Range;

use super::scores::RowScores;
use super::{ElementReference, RowReference, Rule, wide};
use crate::inputs::Inputs;
use crate::rows::Rows;

/// Independent partial sums of a dot product, so that it vectorises.
const LANES: usize = 8;

/// From this weight on it is not rounded to 0 in fp16 (2⁻²⁵ and less may be), for any score that f32 resolves.
const SMALLEST_CERTAIN_WEIGHT: f64 = 1.0 / (1 << 14) as f64;
/// Up to this magnitude scores are accurate to about 0.1, so comparing a weight with [`SMALLEST_CERTAIN_WEIGHT`] is
/// safe.
const LARGEST_CERTAIN_SCORE: f64 = 1e5;

/// Upper bound of a weight before normalisation: a stale row max may lag by up to 14 powers of two before the kernels
/// rescale.
const LARGEST_WEIGHT: f64 = (1 << 15) as f64;

/// Scratch space of a row.
pub struct Space {
    scores: Vec<f64>,
    /// Σ p·v of each column.
    output: Vec<f64>,
    /// Σ p·|v| of each column.
    magnitude: Vec<f64>,
}

impl Space {
    pub fn new(keys: usize, columns: usize) -> Self {
        Self { scores: Vec::with_capacity(keys), output: vec![0.0; columns], magnitude: vec![0.0; columns] }
    }
}

/// The empty range: starts after all keys, ends before them.
#[allow(clippy::reversed_empty_ranges, reason = "the first key and the last widen it")]
const NOWHERE: Range<usize> = usize::MAX..0;

/// K and V of one sequence of a head.
pub struct Keys {
    k: Rows<f64>,
    v: Rows<f64>,
    /// Largest finite ‖k‖.
    key_norm: f64,
    /// Largest finite |v|.
    value_magnitude: f64,
    /// For each column of V, from the first to the last key whose element is not finite; [`NOWHERE`] if all are finite.
    non_finite: Vec<Range<usize>>,
}

impl Keys {
    pub fn load(inputs: &Inputs, (batch, head): (u32, u32), sequence: Range<u32>) -> Self {
        let columns = inputs.columns();
        let k = sequence.clone().flat_map(|key| wide(inputs, inputs.k_row(batch, head, key)));
        let v = sequence.flat_map(|key| wide(inputs, inputs.v_row(batch, head, key)));
        let (k, v) = (Rows::new(columns, k.collect()), Rows::new(columns, v.collect()));
        let finite_maximum =
            |values: &mut dyn Iterator<Item = f64>| values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let key_norm = finite_maximum(&mut k.iter().map(norm));
        let value_magnitude = finite_maximum(&mut v.values().iter().map(|value| value.abs()));
        let mut non_finite = vec![NOWHERE; columns];
        for (key, row) in v.iter().enumerate() {
            for (keys, value) in non_finite.iter_mut().zip(row) {
                if !value.is_finite() {
                    *keys = keys.start.min(key)..key + 1;
                }
            }
        }
        Self { k, v, key_norm, value_magnitude, non_finite }
    }

    /// Computes the row of a query that attends to keys `attended`.
    pub fn attend(
        &self,
        q: &[f64],
        scores_of: &RowScores<'_>,
        attended: Range<usize>,
        Space { scores, output, magnitude }: &mut Space,
        elements: &mut [ElementReference],
    ) -> RowReference {
        scores.clear();
        let raw = self.k.of(attended.clone()).map(|k| dot(q, k));
        scores.extend(raw.zip(attended.clone()).map(|(raw, key)| scores_of.score(raw, key)));
        let mut row = RowReference {
            lse: f64::NAN,
            score_magnitude: Some(scores_of.scale * norm(q) * self.key_norm)
                .filter(|bound| bound.is_finite())
                .unwrap_or(0.0)
                + scores_of.largest_change(attended.clone()),
            value_magnitude: self.value_magnitude,
            beyond_f32: self.beyond_f32(norm(q), attended.len()),
        };
        if scores.iter().any(|&score| score.is_nan() || score == f64::INFINITY) {
            elements.fill(ElementReference::NAN);
            return row;
        }
        let maximum = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if maximum == f64::NEG_INFINITY {
            row.lse = f64::NEG_INFINITY;
            elements.iter_mut().zip(&self.non_finite).for_each(|(element, keys)| *element = nothing_attended(keys));
            return row;
        }
        let mut total = 0.0;
        // Reslicing lets the compiler drop the bounds checks of the loop.
        let columns = elements.len();
        let (output, magnitude) = (&mut output[..columns], &mut magnitude[..columns]);
        output.fill(0.0);
        magnitude.fill(0.0);
        for (score, v) in scores.iter().zip(self.v.of(attended.clone())) {
            let weight = (score - maximum).exp();
            total += weight;
            let v = &v[..columns];
            for column in 0..columns {
                let product = weight * v[column];
                output[column] += product;
                magnitude[column] += product.abs();
            }
        }
        row.lse = maximum + total.ln();
        let certain = row.score_magnitude <= LARGEST_CERTAIN_SCORE;
        for (column, element) in elements.iter_mut().enumerate() {
            let computed = if output[column].is_finite() {
                let (value, magnitude) = (output[column] / total, (magnitude[column] / total) as f32);
                ElementReference { value, magnitude, rule: Rule::Close }
            } else {
                self.non_finite(
                    column,
                    attended.clone(),
                    scores.iter().map(|score| certain && score - maximum >= SMALLEST_CERTAIN_WEIGHT.ln()),
                )
            };
            *element = match computed.rule {
                Rule::Close if self.has_non_finite_beside(column, &attended) => {
                    ElementReference { rule: Rule::CloseOrNan, ..computed }
                }
                _ => computed,
            };
        }
        row
    }

    /// Whether products of a query of this norm, or sums over this many keys, may overflow f32.
    fn beyond_f32(&self, query_norm: f64, attended: usize) -> bool {
        let largest = [query_norm * self.key_norm, self.value_magnitude * attended as f64 * LARGEST_WEIGHT];
        largest.into_iter().any(|sum| sum.is_finite() && sum > f32::MAX.into())
    }

    /// The element in a column of V with attended elements that are not finite. `certain` tells for each attended key
    /// whether its weight is certainly not 0.
    fn non_finite(
        &self,
        column: usize,
        attended: Range<usize>,
        certain: impl Iterator<Item = bool>,
    ) -> ElementReference {
        let spoilt = self.v.of(attended).map(|v| v[column]).zip(certain).filter(|(value, _)| !value.is_finite());
        let (sum, all_certain) = spoilt.fold((0.0, true), |(sum, all), (value, certain)| (sum + value, all && certain));
        match sum.is_nan() {
            true => ElementReference::NAN,
            false => ElementReference {
                value: sum,
                magnitude: f32::INFINITY,
                rule: if all_certain { Rule::Close } else { Rule::CloseOrNan },
            },
        }
    }

    /// Whether a column of V has an element that is not finite outside the keys `attended`.
    fn has_non_finite_beside(&self, column: usize, attended: &Range<usize>) -> bool {
        let non_finite = &self.non_finite[column];
        non_finite.start < attended.start || non_finite.end > attended.end
    }
}

/// The element of a row that attends to nothing, given the keys of its column of V that are not finite.
fn nothing_attended(non_finite: &Range<usize>) -> ElementReference {
    let rule = if non_finite.end > 0 { Rule::CloseOrNan } else { Rule::Close };
    ElementReference { rule, ..ElementReference::ZERO }
}

/// Dot product of rows whose length is a multiple of [`LANES`].
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

/// ‖row‖.
pub fn norm(row: &[f64]) -> f64 {
    dot(row, row).sqrt()
}
