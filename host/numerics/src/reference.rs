//! The forward pass in f64, which kernels' outputs are compared with.
//!
//! For inputs that are not finite it specifies what the kernels' arithmetic computes without extra work:
//! - If an attended score is NaN or +∞, the row's O and LSE are NaN.
//! - Otherwise, if all attended scores are −∞, O is 0 (or NaN where a column of V is not finite) and LSE is −∞.
//! - Otherwise, an attended NaN in a column of V, or attended infinities of both signs, make that element of O NaN.
//! - Otherwise, attended infinities of one sign make the element that infinity. It may be NaN if the weight of one of
//!   them is so small that the element type may round it to 0, since 0 · ∞ is NaN.
//! - f32 does not resolve finite scores above about 4·10⁷ in magnitude: the row is written, its values are unspecified.
//! - bf16 numbers may be so large (Q times K, or V from about 10³⁰ on) that the f32 accumulators of a row overflow: the
//!   row is written, its values are unspecified.
//! - A masked element of V that is not finite may or may not make an element NaN: a tile's masked probabilities are 0.
//!   Masked elements of K have no effect.

mod keys;
mod scores;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use crate::element::Bits;
use crate::element::Encoding;
use crate::inputs::{Inputs, Sequence};
use crate::rows::Rows;
use contract::problem::Shape;
use keys::{Keys, Space};
pub(crate) use keys::{dot, norm};
pub(crate) use scores::RowScores;

/// Query rows per task.
const ROWS_PER_TASK: usize = 64;

/// Constraint on an element of O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Close to the value; equal to it if the value is infinite.
    Close,
    /// As [`Self::Close`], or NaN.
    CloseOrNan,
    /// NaN.
    Nan,
    /// Anything, as long as it was written.
    Anything,
}

/// Reference of one element of O.
#[derive(Clone, Copy, Debug)]
pub struct ElementReference {
    /// Σ p·v / Σ p, which may be infinite; meaningful under [`Rule::Close`] and [`Rule::CloseOrNan`].
    pub value: f64,
    /// Σ p·|v| / Σ p: errors of p scale with it.
    pub magnitude: f32,
    /// The constraint on the element.
    pub rule: Rule,
}

/// Reference of one row.
#[derive(Clone, Copy, Debug)]
pub struct RowReference {
    /// ln Σ exp(score). NaN and −∞ are required exactly.
    pub lse: f64,
    /// Upper bound of scale · Σ|q·k| over the finite keys: rounding errors of the scores scale with it. 0 for a query
    /// that is not finite, which has no finite score.
    pub score_magnitude: f64,
    /// Largest finite |v| of the head.
    pub value_magnitude: f64,
    /// Whether a sum that kernels keep in f32 may overflow. Never so for fp16.
    pub beyond_f32: bool,
}

/// O and LSE in f64, with what the tolerances depend on.
#[derive(Debug)]
pub struct Reference {
    /// `[B,H,S,D]`, contiguous.
    pub elements: Rows<ElementReference>,
    /// `[B,H,S]`, contiguous.
    pub rows: Vec<RowReference>,
}

impl Reference {
    /// Host memory of the reference of a row of so many columns, in bytes.
    pub const fn bytes_of_a_row(columns: u32) -> usize {
        columns as usize * size_of::<ElementReference>() + size_of::<RowReference>()
    }

    /// Computes O and LSE of `inputs`. Calls `progress` with the number of rows just finished, from several threads.
    pub fn compute(inputs: &Inputs, progress: impl Fn(u64) + Sync) -> Self {
        let Shape { heads, sequence, .. } = inputs.problem().shape();
        let (sequence, columns) = (sequence as usize, inputs.columns());
        let rows = inputs.problem().shape().rows() as usize;
        let elements = Rows::filled(rows, columns, |_, _| ElementReference::ZERO);
        let mut reference = Self { elements, rows: vec![RowReference::EMPTY; rows] };
        let head_elements = reference.elements.values_mut().par_chunks_mut(sequence * columns);
        let head_rows = reference.rows.par_chunks_mut(sequence);
        head_elements.zip(head_rows).enumerate().for_each(|(index, (elements, rows))| {
            let (batch, head) = (index as u32 / heads, index as u32 % heads);
            for (number, sequence) in (0..).zip(inputs.sequences()) {
                let own = sequence.rows.start as usize..sequence.rows.end as usize;
                let results = (&mut elements[own.start * columns..own.end * columns], &mut rows[own]);
                // A batch has one sequence, and sequences are of one batch.
                let slope = inputs.slope(batch + number, head);
                attend_in_sequence(inputs, (batch, head), slope, sequence, results, &progress);
            }
        });
        reference
    }
}

/// Computes the rows of one sequence of a head.
fn attend_in_sequence(
    inputs: &Inputs,
    (batch, head): (u32, u32),
    slope: f64,
    Sequence { rows: own, keys: of_sequence }: Sequence,
    (elements, rows): (&mut [ElementReference], &mut [RowReference]),
    progress: impl Fn(u64) + Sync,
) {
    let key_count = of_sequence.len();
    let keys = Keys::load(inputs, (batch, head / inputs.problem().shape().group()), of_sequence);
    let columns = inputs.columns();
    let first_position = inputs.problem().alignment().first_position(own.len() as u32, key_count as u32);
    let tasks = elements.par_chunks_mut(ROWS_PER_TASK * columns).zip(rows.par_chunks_mut(ROWS_PER_TASK));
    tasks.enumerate().for_each(|(task, (elements, rows))| {
        let mut space = Space::new(key_count, columns);
        let results = elements.chunks_exact_mut(columns).zip(rows.iter_mut());
        for ((elements, row), index) in results.zip(own.start + (task * ROWS_PER_TASK) as u32..) {
            let q = wide(inputs, inputs.q_row(batch, head, index)).collect::<Vec<_>>();
            let attended = inputs.attended_keys(index);
            let attended = attended.start as usize..attended.end as usize;
            let position = first_position + i64::from(index - own.start);
            let scores = RowScores::new(inputs, (batch, head), slope, index, position);
            *row = keys.attend(&q, &scores, attended, &mut space, elements);
        }
        progress(rows.len() as u64);
    });
}

impl ElementReference {
    const ZERO: Self = Self { value: 0.0, magnitude: 0.0, rule: Rule::Close };
    const NAN: Self = Self { value: f64::NAN, magnitude: 0.0, rule: Rule::Nan };
}

impl RowReference {
    const EMPTY: Self = Self { lse: f64::NEG_INFINITY, score_magnitude: 0.0, value_magnitude: 0.0, beyond_f32: false };
}

/// A row of `inputs` in f64.
fn wide<'a>(inputs: &'a Inputs, row: &'a [Bits]) -> impl Iterator<Item = f64> + 'a {
    row.iter().map(|&bits| inputs.element().decode(bits))
}
