//! Compares a kernel's outputs with the reference.

mod comparison;
mod severity;
#[cfg(test)]
mod tests;
pub(crate) mod tolerance;

use rayon::prelude::*;

use crate::element::{Bits, Element, Encoding};
use crate::inputs::{Inputs, row_of, row_start};
use crate::reference::{ElementReference, Reference, RowReference, Rule};
use contract::problem::Shape;
use contract::view::View;

pub use comparison::{Comparison, Deviation};
pub use severity::Severities;
pub use tolerance::{UnitScaleBounds, lse_tolerance, output_tolerance};

use tolerance::unresolvable;

/// Fill value of O before a launch: a NaN in every element type, with a payload that arithmetic does not produce (the
/// hardware's NaN is 0x7fff). An element that still holds it was not written.
pub const O_POISON: Bits = 0xffda;
/// Fill value of LSE before a launch, chosen like [`O_POISON`].
pub const LSE_POISON: u32 = 0xffa5_5a5a;
/// Rows per parallel task.
const ROWS_PER_TASK: usize = 64;

/// O and LSE after a launch.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// O, laid out by the problem's view; filled with [`O_POISON`] before the launch, gaps included.
    pub o: Vec<Bits>,
    /// LSE `[B,H,S]`, filled with [`LSE_POISON`] before the launch; `None` if it was not requested.
    pub lse: Option<Vec<f32>>,
}

/// Result of comparing a launch's outputs with the reference.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Comparison of O.
    pub output: Comparison,
    /// Comparison of LSE; `None` if it was not requested.
    pub lse: Option<Comparison>,
    /// ‖ΔO‖ / ‖O‖.
    pub output_frobenius: f64,
    /// Elements before and between the rows of O that the kernel overwrote.
    pub overwritten_gaps: u64,
    /// The bounds that were checked in addition to those from rounding analysis.
    pub unit_scale_bounds: Option<UnitScaleBounds>,
}

impl Report {
    /// Whether no element still holds its fill value.
    pub fn everything_written(&self) -> bool {
        self.output.unwritten == 0 && self.lse.as_ref().is_none_or(|lse| lse.unwritten == 0)
    }

    /// Whether the outputs are correct.
    pub fn passed(&self) -> bool {
        let frobenius = self.unit_scale_bounds.is_none_or(|bounds| self.output_frobenius <= bounds.output_frobenius);
        let lse = self.lse.as_ref().is_none_or(|lse| lse.wrong == 0);
        self.output.wrong == 0 && lse && frobenius && self.overwritten_gaps == 0
    }
}

/// Compares `outputs` with `reference`; both must belong to `inputs`.
///
/// # Panics
/// When `outputs` or `reference` have another shape.
pub fn check(
    inputs: &Inputs,
    reference: &Reference,
    outputs: &Outputs,
    unit_scale_bounds: Option<UnitScaleBounds>,
) -> Report {
    let problem = inputs.problem();
    let Shape { heads, sequence, .. } = problem.shape();
    let view = problem.views().o;
    let row_index = |row: usize| {
        let head = (row / sequence as usize) as u32;
        [head / heads, head % heads, (row % sequence as usize) as u32]
    };
    let rows = (0..reference.rows.len()).into_par_iter();
    let parts: Vec<_> = rows
        .fold_chunks(ROWS_PER_TASK, <(Comparison, Comparison)>::default, |(mut output, mut lse), row| {
            let index = row_index(row);
            let [batch, head, query] = index;
            if inputs.sequence_of(query).is_none() {
                return (output, lse);
            }
            let expected = &reference.rows[row];
            let actual = row_of(&outputs.o, view, inputs.columns(), batch, head, query);
            compare_row(&mut output, inputs, index, (&reference.elements[row], expected), actual, unit_scale_bounds);
            if let Some(values) = &outputs.lse {
                compare_lse(&mut lse, problem.element(), index, (expected, values[row]), unit_scale_bounds);
            }
            (output, lse)
        })
        .collect();
    // In order, so that sums are rounded alike whichever thread computed which part.
    let (output, lse) = parts.into_iter().fold(<(Comparison, Comparison)>::default(), |(output, lse), later| {
        (output.merge(later.0), lse.merge(later.1))
    });
    Report {
        output_frobenius: output.relative_frobenius(),
        overwritten_gaps: overwritten_gaps(inputs, outputs),
        output,
        lse: outputs.lse.as_ref().map(|_| lse),
        unit_scale_bounds,
    }
}

fn compare_row(
    comparison: &mut Comparison,
    inputs: &Inputs,
    [batch, head, query]: [u32; 3],
    (elements, row): (&[ElementReference], &RowReference),
    actual: &[Bits],
    bounds: Option<UnitScaleBounds>,
) {
    let rounded = inputs.element();
    for (column, (element, &actual)) in elements.iter().zip(actual).enumerate() {
        let index = [batch, head, query, column as u32];
        if actual == O_POISON {
            comparison.add_unwritten(Deviation { index, expected: element.value, actual: f64::NAN, tolerance: 0.0 });
            continue;
        }
        let rule = if unresolvable(row) { Rule::Anything } else { element.rule };
        comparison.add(index, rounded.overflow(), rule, (element.value, rounded.decode(actual)), || {
            let analysed = output_tolerance(rounded, element, row, inputs.attended_keys(query).len() as u32);
            bounds.map_or(analysed, |bounds| {
                analysed.min(bounds.output_absolute + bounds.output_relative * element.value.abs())
            })
        });
    }
}

fn compare_lse(
    comparison: &mut Comparison,
    rounded: Element,
    [batch, head, query]: [u32; 3],
    (row, actual): (&RowReference, f32),
    bounds: Option<UnitScaleBounds>,
) {
    let index = [batch, head, query, 0];
    if actual.to_bits() == LSE_POISON {
        return comparison.add_unwritten(Deviation { index, expected: row.lse, actual: f64::NAN, tolerance: 0.0 });
    }
    let rule = match row.lse {
        _ if unresolvable(row) => Rule::Anything,
        lse if lse.is_nan() => Rule::Nan,
        _ => Rule::Close,
    };
    comparison.add(index, f64::INFINITY, rule, (row.lse, actual.into()), || {
        let analysed = lse_tolerance(rounded, row);
        bounds.map_or(analysed, |bounds| analysed.min(bounds.lse_absolute))
    });
}

/// Elements in the buffers of O and LSE that belong to no row and no longer hold the fill value.
fn overwritten_gaps(inputs: &Inputs, Outputs { o, lse }: &Outputs) -> u64 {
    let problem = inputs.problem();
    let Shape { sequence, head_dim, .. } = problem.shape();
    let is_of_one: Vec<bool> = (0..sequence).map(|row| inputs.sequence_of(row).is_some()).collect();
    let has_gaps = o.len() != problem.shape().rows() as usize * head_dim as usize;
    if !has_gaps && is_of_one.iter().all(|&is_of_one| is_of_one) {
        return 0;
    }
    let of_lse = lse.iter().flatten().zip(is_of_one.iter().cycle());
    let overwritten_lse = of_lse.filter(|(value, is_of_one)| !**is_of_one && value.to_bits() != LSE_POISON);
    overwritten_lse.count() as u64 + overwritten_elements(o, problem.views().o, problem.shape(), &is_of_one)
}

/// Elements of `storage` that are in no written row of a tensor of `shape` and no longer hold [`O_POISON`]. `is_written` says which of a head's rows are
/// written.
pub(crate) fn overwritten_elements(storage: &[Bits], view: View, shape: Shape, is_written: &[bool]) -> u64 {
    let mut in_row = vec![false; storage.len()];
    for (batch, head) in (0..shape.batch).flat_map(|batch| (0..shape.heads).map(move |head| (batch, head))) {
        for (row, _) in (0..).zip(is_written).filter(|(_, is_written)| **is_written) {
            in_row[row_start(view, batch, head, row)..][..shape.head_dim as usize].fill(true);
        }
    }
    let overwritten = |(value, in_row): &(&Bits, bool)| !in_row && **value != O_POISON;
    storage.iter().zip(in_row).filter(overwritten).count() as u64
}
