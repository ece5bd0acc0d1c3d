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

use std::ops::Range;

use rayon::prelude::*;

use crate::element::Bits;
use crate::element::Encoding;
use crate::inputs::Inputs;
use crate::rows::Rows;
use contract::problem::Shape;

/// Query rows that one task computes.
const ROWS_PER_TASK: usize = 64;
/// Sums kept apart in a dot product, so that it can be computed with vector instructions.
const LANES: usize = 8;

/// A weight from here on is not 0 in fp16 (2⁻²⁵ and less may be), whatever f32 makes of a resolvable score.
const SMALLEST_CERTAIN_WEIGHT: f64 = 1.0 / (1 << 14) as f64;
/// Scores up to this magnitude are known to about 0.1, so that a weight of [`SMALLEST_CERTAIN_WEIGHT`] is what it seems.
const LARGEST_CERTAIN_SCORE: f64 = 1e5;

/// A weight may be this much before the rows are divided by their sums: kernels let the maximum fall behind by up to 14
/// powers of two before they rescale.
const LARGEST_WEIGHT: f64 = (1 << 15) as f64;

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
                let own = sequence.start as usize..sequence.end as usize;
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
    sequence: Range<u32>,
    (elements, rows): (&mut [ElementReference], &mut [RowReference]),
    progress: impl Fn(u64) + Sync,
) {
    let keys = Keys::load(inputs, (batch, head), sequence.clone());
    let columns = inputs.columns();
    let tasks = elements.par_chunks_mut(ROWS_PER_TASK * columns).zip(rows.par_chunks_mut(ROWS_PER_TASK));
    tasks.enumerate().for_each(|(task, (elements, rows))| {
        let mut space = Space::new(sequence.len(), columns);
        let results = elements.chunks_exact_mut(columns).zip(rows.iter_mut());
        for ((elements, row), index) in results.zip(sequence.start + (task * ROWS_PER_TASK) as u32..) {
            let q = wide(inputs, inputs.q_row(batch, head, index)).collect::<Vec<_>>();
            let attended = inputs.attended_keys(index);
            let attended = attended.start as usize..attended.end as usize;
            *row = keys.attend(&q, inputs.problem().scale(), attended, &mut space, elements);
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

/// Working space of a row.
struct Space {
    scores: Vec<f64>,
    /// Σ p·v of each column.
    output: Vec<f64>,
    /// Σ p·|v| of each column.
    magnitude: Vec<f64>,
}

impl Space {
    fn new(keys: usize, columns: usize) -> Self {
        Self { scores: Vec::with_capacity(keys), output: vec![0.0; columns], magnitude: vec![0.0; columns] }
    }
}

/// From beyond all keys to before them.
#[allow(clippy::reversed_empty_ranges, reason = "the first key and the last widen it")]
const NOWHERE: Range<usize> = usize::MAX..0;

/// K and V of one sequence of a head.
struct Keys {
    k: Rows<f64>,
    v: Rows<f64>,
    /// Largest ‖k‖ among the finite ones.
    key_norm: f64,
    /// Largest finite |v|.
    value_magnitude: f64,
    /// For each column of V, from the first to the last key whose element is not finite; where there is none, from beyond all keys to 0.
    non_finite: Vec<Range<usize>>,
}

impl Keys {
    fn load(inputs: &Inputs, (batch, head): (u32, u32), sequence: Range<u32>) -> Self {
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

    /// The row of a query that attends to the keys `attended`, and its elements.
    fn attend(
        &self,
        q: &[f64],
        scale: f64,
        attended: Range<usize>,
        Space { scores, output, magnitude }: &mut Space,
        elements: &mut [ElementReference],
    ) -> RowReference {
        scores.clear();
        scores.extend(self.k.of(attended.clone()).map(|k| scale * dot(q, k)));
        let mut row = RowReference {
            lse: f64::NAN,
            score_magnitude: Some(scale * norm(q) * self.key_norm).filter(|bound| bound.is_finite()).unwrap_or(0.0),
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
        // Of a length that the compiler knows to be that of the loop.
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

    /// Whether products of a query of that norm, or sums over that many keys, may be beyond f32.
    fn beyond_f32(&self, query_norm: f64, attended: usize) -> bool {
        let largest = [query_norm * self.key_norm, self.value_magnitude * attended as f64 * LARGEST_WEIGHT];
        largest.into_iter().any(|sum| sum.is_finite() && sum > f32::MAX.into())
    }

    /// The element of a column of V that holds attended elements that are not finite; `certain` says for each attended
    /// key whether its weight is surely not 0.
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

    /// Whether a column of V holds an element that is not finite before or behind the keys `attended`.
    fn has_non_finite_beside(&self, column: usize, attended: &Range<usize>) -> bool {
        let non_finite = &self.non_finite[column];
        non_finite.start < attended.start || non_finite.end > attended.end
    }
}

/// An element of a row that attends to nothing, in a column of V with these keys that are not finite.
fn nothing_attended(non_finite: &Range<usize>) -> ElementReference {
    let rule = if non_finite.end > 0 { Rule::CloseOrNan } else { Rule::Close };
    ElementReference { rule, ..ElementReference::ZERO }
}

/// Σ a·b over rows of whole [`LANES`].
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

fn norm(row: &[f64]) -> f64 {
    dot(row, row).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Bits, Element};
    use crate::inputs::Distribution;
    use contract::config::Mask;
    use contract::problem::Problem;
    use contract::view::Layout;

    fn problem(sequence: u32, mask: Mask) -> Problem {
        Problem::new(Shape::new(1, 1, sequence), mask, Layout::Bhsd).unwrap()
    }

    /// One row per entry, whose first two columns are given and whose others are 0.
    fn tensor(rows: &[[f32; 2]]) -> Vec<Bits> {
        let wide = |row: &[f32; 2]| {
            let row = *row;
            (0..64).map(move |column| Element::F16.encode((*row.get(column).unwrap_or(&0.0)).into()))
        };
        rows.iter().flat_map(wide).collect()
    }

    fn reference(mask: Mask, q: &[[f32; 2]], k: &[[f32; 2]], v: &[[f32; 2]]) -> Reference {
        let problem = problem(q.len() as u32, mask).with_scale(1.0).unwrap();
        Reference::compute(&Inputs::new(problem, tensor(q), tensor(k), tensor(v)).unwrap(), |_| ())
    }

    #[test]
    fn two_keys_by_hand() {
        // Query 0 scores 1 and −1, query 1 scores 0 and 0.
        let (q, k) = ([[1.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [-1.0, 0.0]]);
        let reference = reference(Mask::Full, &q, &k, &[[4.0, 1.0], [-2.0, 1.0]]);
        let (e, inverse) = (1f64.exp(), (-1f64).exp());
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
        close(reference.elements[0][0].value, (4.0 * e - 2.0 * inverse) / (e + inverse));
        close(reference.elements[0][0].magnitude.into(), ((4.0 * e + 2.0 * inverse) / (e + inverse)) as f32 as f64);
        close(reference.elements[0][1].value, 1.0);
        close(reference.elements[0][2].value, 0.0);
        close(reference.rows[0].lse, (e + inverse).ln());
        close(reference.elements[1][0].value, 1.0);
        close(reference.rows[1].lse, 2f64.ln());
    }

    #[test]
    fn causal_rows_attend_to_themselves_and_what_came_before() {
        let zeros = [[0.0; 2]; 3];
        let reference = reference(Mask::Causal, &zeros, &zeros, &[[3.0, 0.0], [6.0, 0.0], [9.0, 0.0]]);
        let firsts: Vec<_> = reference.elements.iter().map(|row| row[0].value).collect();
        assert_eq!(firsts, [3.0, 4.5, 6.0]);
        assert_eq!(reference.rows[0].lse, 0.0);
    }

    /// exp without subtracting the maximum, textbook loops, straight from the definition.
    fn naive(inputs: &Inputs, batch: u32, head: u32, query: u32) -> (Vec<f64>, f64) {
        let keys = inputs.attended_keys(query);
        let q = inputs.q_row(batch, head, query);
        let decode = |bits| inputs.element().decode(bits);
        let weight = |key| {
            let k = inputs.k_row(batch, head, key);
            let mut score = 0.0;
            for column in 0..q.len() {
                score += decode(q[column]) * decode(k[column]);
            }
            (score * inputs.problem().scale()).exp()
        };
        let weights: Vec<f64> = keys.clone().map(weight).collect();
        let total: f64 = weights.iter().sum();
        let output = (0..q.len()).map(|column| {
            let values = keys.clone().map(|key| decode(inputs.v_row(batch, head, key)[column]));
            let terms = weights.iter().zip(values).map(|(weight, value)| weight * value);
            terms.sum::<f64>() / total
        });
        (output.collect(), total.ln())
    }

    #[test]
    fn agrees_with_the_definition_for_every_mask_and_layout() {
        for mask in [Mask::Full, Mask::Causal, Mask::Window] {
            for layout in [Layout::Bhsd, Layout::Bshd] {
                let shape = Shape::new(2, 3, 70).with_head_dim(if layout == Layout::Bhsd { 64 } else { 40 });
                let element = if mask == Mask::Full { Element::F16 } else { Element::Bf16 };
                let problem = Problem::new(shape, mask, layout).unwrap().with_element(element);
                let inputs = Inputs::generate(problem, Distribution::Normal, 1).unwrap();
                let reference = Reference::compute(&inputs, |_| ());
                for (index, (elements, row)) in reference.elements.iter().zip(&reference.rows).enumerate() {
                    let [head, query] = [index / 70, index % 70].map(|index| index as u32);
                    let (output, lse) = naive(&inputs, head / 3, head % 3, query);
                    assert!((row.lse - lse).abs() < 1e-12, "{mask:?} {layout:?} row {index}");
                    for (element, output) in elements.iter().zip(output) {
                        assert!((element.value - output).abs() < 1e-12, "{mask:?} {layout:?} row {index}");
                        assert_eq!(element.rule, Rule::Close);
                    }
                }
            }
        }
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let reference = reference(Mask::Full, &[[60_000.0, 0.0]; 2], &[[60_000.0, 0.0]; 2], &[[1.0, 0.0], [3.0, 0.0]]);
        assert_eq!(reference.elements[0][0].value, 2.0);
        assert_eq!(reference.rows[0].lse, 3.6e9 + 2f64.ln());
    }

    #[test]
    fn sums_beyond_f32_are_known() {
        let largest = Element::Bf16.largest() as f32;
        let beyond = |q: f32, k: f32, v: f32| {
            let problem = problem(1, Mask::Full).with_scale(0.0).unwrap().with_element(Element::Bf16);
            let row = |value| std::iter::once(value).chain([0.0; 63]);
            let [q, k, v] =
                [q, k, v].map(|value| row(value).map(|x| Element::Bf16.encode(x.into())).collect::<Vec<_>>());
            Reference::compute(&Inputs::new(problem, q, k, v).unwrap(), |_| ()).rows[0].beyond_f32
        };
        assert!(!beyond(1.0, largest, 1e30) && !beyond(1e19, 1e19, 1e30));
        assert!(beyond(2.0, largest, 1.0) && beyond(1.0, 1.0, largest));
        assert!(!beyond(f32::INFINITY, 1.0, f32::INFINITY), "infinities have rules of their own");
    }

    #[test]
    fn progress_counts_every_row() {
        let counted = std::sync::atomic::AtomicU64::new(0);
        let inputs = Inputs::generate(problem(130, Mask::Full), Distribution::Constant, 0).unwrap();
        Reference::compute(&inputs, |rows| {
            counted.fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(counted.into_inner(), 130);
    }

    const INFINITY: f32 = f32::INFINITY;
    const ONES: [[f32; 2]; 2] = [[1.0, 1.0]; 2];

    fn rules(reference: &Reference) -> Vec<[Rule; 2]> {
        reference.elements.iter().map(|row| [row[0].rule, row[1].rule]).collect()
    }

    #[test]
    fn a_nan_or_infinite_score_makes_its_row_nan() {
        for poison in [f32::NAN, INFINITY] {
            let reference = reference(Mask::Causal, &ONES, &[[1.0, 1.0], [poison, 1.0]], &ONES);
            assert_eq!(rules(&reference), [[Rule::Close; 2], [Rule::Nan; 2]], "key 1 is masked for row 0");
            assert_eq!(reference.rows[0].lse, 2.0);
            assert!(reference.rows[1].lse.is_nan());
        }
    }

    #[test]
    fn a_key_of_score_minus_infinity_is_ignored() {
        let reference = reference(Mask::Full, &ONES, &[[-INFINITY, 1.0], [1.0, 1.0]], &[[5.0, 0.0], [7.0, 0.0]]);
        assert_eq!(reference.elements[0][0].value, 7.0);
        assert_eq!(reference.rows[0].lse, 2.0);
    }

    #[test]
    fn a_row_without_finite_scores_is_zero() {
        let minus = [[-INFINITY, 1.0]; 2];
        let reference = reference(Mask::Full, &ONES, &minus, &[[5.0, INFINITY], [7.0, 0.0]]);
        assert_eq!(rules(&reference), [[Rule::Close, Rule::CloseOrNan]; 2]);
        assert_eq!(reference.elements[0][0].value, 0.0);
        assert_eq!(reference.rows[0].lse, f64::NEG_INFINITY);
    }

    #[test]
    fn non_finite_values_reach_the_rows_that_attend_to_them() {
        for (poison, rule) in [(f32::NAN, Rule::Nan), (INFINITY, Rule::Close), (-INFINITY, Rule::Close)] {
            let reference = reference(Mask::Causal, &ONES, &ONES, &[[5.0, 1.0], [poison, 1.0]]);
            assert_eq!(rules(&reference), [[Rule::CloseOrNan, Rule::Close], [rule, Rule::Close]]);
            assert_eq!(reference.elements[0][0].value, 5.0);
            assert_eq!(reference.elements[1][0].value.to_bits(), f64::from(poison).to_bits(), "{poison}");
        }
    }

    #[test]
    fn infinities_of_both_signs_are_nan() {
        let reference = reference(Mask::Full, &ONES, &ONES, &[[INFINITY, 1.0], [-INFINITY, 1.0]]);
        assert_eq!(rules(&reference), [[Rule::Nan, Rule::Close]; 2]);
    }

    #[test]
    fn an_infinity_whose_weight_may_round_to_zero_may_be_nan() {
        let rule_for = |key: f32| {
            let reference = reference(Mask::Full, &ONES, &[[key, 0.0], [0.0, 0.0]], &[[INFINITY, 1.0], [1.0, 1.0]]);
            assert_eq!(reference.elements[0][0].value, f64::INFINITY);
            reference.elements[0][0].rule
        };
        assert_eq!(rule_for(-9.0), Rule::Close, "exp(−9) > 2⁻¹⁴");
        assert_eq!(rule_for(-10.0), Rule::CloseOrNan, "exp(−10) < 2⁻¹⁴");
        assert_eq!(rule_for(-1000.0), Rule::CloseOrNan, "0 even in f64");
    }

    #[test]
    fn a_scale_of_zero_attends_uniformly_and_keeps_infinite_scores() {
        let problem = problem(2, Mask::Full).with_scale(0.0).unwrap();
        let compute = |k: &[[f32; 2]]| {
            let inputs = Inputs::new(problem, tensor(&ONES), tensor(k), tensor(&[[5.0, 1.0], [7.0, 1.0]])).unwrap();
            Reference::compute(&inputs, |_| ()).elements[0][0].value
        };
        assert_eq!(compute(&[[1.0, 3.0], [-2.0, 0.5]]), 6.0);
        assert_eq!(compute(&[[1.0, 3.0], [-INFINITY, 0.5]]), 5.0);
    }
}
