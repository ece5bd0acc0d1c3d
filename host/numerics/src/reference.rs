//! The forward pass in f64: what a kernel's outputs are compared with.
//!
//! Contract for inputs that are not finite, which is what the kernels' arithmetic gives without extra work:
//! - A row with a score of NaN or +∞ among its attended keys has NaN in all of O and in LSE.
//! - Otherwise a row whose attended scores are all −∞ has zeros in O (or NaN where a column of V is not finite) and −∞ in
//!   LSE.
//! - Otherwise an attended NaN in V, or attended infinities of both signs, make the element of O in their column NaN.
//! - Otherwise attended infinities of one sign make it that infinity; or NaN, where the weight of one of them is so small
//!   that the element type may round it to 0, since 0 · ∞ is NaN.
//! - Finite scores of more than about 4·10⁷ in magnitude are beyond what f32 tells apart: such a row is written, but what
//!   it holds is not said.
//! - bf16 numbers may be so large (Q times K, or V from about 10³⁰ on) that the sums of a row are beyond f32, in which they
//!   are accumulated: such a row is written, too, but what it holds is not said.
//! - A masked element of V that is not finite may make it NaN or leave it alone: a tile's masked probabilities are 0.
//!   Masked elements of K never matter.

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
use scores::RowScores;

/// Query rows that one task computes.
const ROWS_PER_TASK: usize = 64;

/// What an element of O may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Close to the value; exactly it if that is infinite.
    Close,
    /// The same, or NaN.
    CloseOrNan,
    /// NaN.
    Nan,
    /// Anything that was written.
    Anything,
}

/// One element of O as it should be.
#[derive(Clone, Copy, Debug)]
pub struct ElementReference {
    /// Σ p·v / Σ p, which may be infinite; meaningful under [`Rule::Close`] and [`Rule::CloseOrNan`].
    pub value: f64,
    /// Σ p·|v| / Σ p: what rounding errors of p are proportional to.
    pub magnitude: f32,
    /// What the element may be.
    pub rule: Rule,
}

/// What concerns a whole row.
#[derive(Clone, Copy, Debug)]
pub struct RowReference {
    /// ln Σ exp(score); NaN and −∞ stand for exactly these.
    pub lse: f64,
    /// An upper bound of scale · Σ|q·k| over the finite keys: what rounding errors of the scores are proportional to. 0
    /// for a query that is not finite, which has no finite score.
    pub score_magnitude: f64,
    /// Largest finite |v| of the head.
    pub value_magnitude: f64,
    /// Whether a sum that kernels keep in f32 may be beyond it; no fp16 numbers are so large.
    pub beyond_f32: bool,
}

/// O and LSE in f64 with what is needed to judge how close is close enough.
#[derive(Debug)]
pub struct Reference {
    /// `[B,H,S,D]` contiguous.
    pub elements: Rows<ElementReference>,
    /// `[B,H,S]` contiguous.
    pub rows: Vec<RowReference>,
}

impl Reference {
    /// Bytes of host memory that the reference of a row of so many columns takes.
    pub const fn bytes_of_a_row(columns: u32) -> usize {
        columns as usize * size_of::<ElementReference>() + size_of::<RowReference>()
    }

    /// Computes O and LSE of `inputs`. `progress` is told how many rows were finished, from several threads.
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
            for sequence in inputs.sequences() {
                let own = sequence.rows.start as usize..sequence.rows.end as usize;
                let results = (&mut elements[own.start * columns..own.end * columns], &mut rows[own]);
                attend_in_sequence(inputs, (batch, head), sequence, results, &progress);
            }
        });
        reference
    }
}

/// Computes the rows of one sequence of a head.
fn attend_in_sequence(
    inputs: &Inputs,
    (batch, head): (u32, u32),
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
            let scores = RowScores::new(inputs, (batch, head), index, position);
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
