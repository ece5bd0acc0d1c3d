//! dQ, dK, dV and dBias in f64 with the bounds of their errors, and the comparison of a kernel's gradients with them.
//!
//! A row whose scores f32 does not resolve, or whose dS may overflow, constrains neither its dQ and dBias nor the dK and dV of the keys that it
//! attends to. A row with a NaN or an infinity constrains nothing of its sequence's keys: of a key that it does not attend to, 0 times an infinity
//! is added, too.

use std::ops::Range;

use contract::gradient::Gradient;
use contract::problem::{Problem, Shape};
use contract::refusal::{Refusal, Tensor};
use contract::view::View;
use rayon::prelude::*;

use crate::Result;
use crate::check::tolerance::{F32_TRUNCATION, KEYS_PER_STEP, SCORE_ERROR, UnitScaleBounds, unresolvable};
use crate::check::{Comparison, Deviation, O_POISON, overwritten_elements};
use crate::element::{Bits, Encoding};
use crate::inputs::{Distribution, Inputs, Sequence, row_of, row_start};
use crate::reference::{Reference, RowScores, dot, norm};
use crate::rows::Rows;

/// The gradients, in the order of all lists of them; dBias is only in those of gradients that have it.
pub const GRADIENTS: [Tensor; 4] = [Tensor::DQ, Tensor::DK, Tensor::DV, Tensor::DBias];
/// Those that every gradient has.
const OF_ROWS: [Tensor; 3] = [Tensor::DQ, Tensor::DK, Tensor::DV];

/// Seed of dO beside that of the inputs.
const SEED_OF_D_O: u64 = 0x6f64;
/// Bound of errors of unit-scale inputs, in roundings of the largest element of a gradient.
const UNIT_SCALE_ROUNDINGS: f64 = 4.0;
/// The largest element counts as this at least.
const LEAST_LARGEST: f64 = 0.1;

/// A gradient with the tensors that a backward pass reads: O and LSE are the reference's, rounded.
#[derive(Debug)]
pub struct GradientInputs {
    gradient: Gradient,
    inputs: Inputs,
    forward: Reference,
    o: Vec<Bits>,
    lse: Vec<f32>,
    d_o: Vec<Bits>,
    unit_scale: bool,
}

/// An element of a gradient in f64, and how far a kernel's may be from it: infinitely, where it is not constrained.
#[derive(Clone, Copy, Debug, Default)]
struct Bounded {
    value: f64,
    tolerance: f64,
}

/// The gradient of `problem` whose tensors are laid out like the problem's, or contiguously where rows of these overlap; with dBias, if it is asked for,
/// laid out like the bias.
///
/// # Errors
/// [`crate::Invalid`] when there is no bias that dBias could be of, or a tensor is too large.
pub fn gradient_of(problem: Problem, with_d_bias: bool) -> Result<Gradient> {
    let gradient = Gradient::new(problem).or_else(|_| Gradient::contiguous(problem))?;
    match with_d_bias {
        true => Ok(gradient.with_bias(problem.score_mod().bias.ok_or(Refusal::NoBias)?)?),
        false => Ok(gradient),
    }
}

/// dQ, dK and dV of a batch entry's head of K and V, and of the heads of Q that share it; all of dBias.
struct Head<'a> {
    dq: &'a mut [Bounded],
    dk: &'a mut [Bounded],
    dv: &'a mut [Bounded],
    d_bias: &'a mut [Bounded],
}

/// Result of comparing the gradients of a launch with those in f64.
#[derive(Clone, Debug, serde::Serialize)]
pub struct GradientReport {
    /// Comparisons of [`GRADIENTS`].
    pub comparisons: Vec<Comparison>,
    /// Elements before and between the rows of the gradients, and of rows in no sequence, that the kernel overwrote.
    pub overwritten_gaps: u64,
}

impl GradientReport {
    /// Whether the gradients are correct.
    pub fn passed(&self) -> bool {
        self.comparisons.iter().all(|comparison| comparison.wrong == 0) && self.overwritten_gaps == 0
    }
}

impl GradientInputs {
    /// The gradient ([`gradient_of`]) of `inputs`, of `distribution`, with standard normal dO. Rows of O and LSE in no sequence are NaN. Calls `progress`
    /// with the number of rows of O just finished, from several threads.
    ///
    /// # Errors
    /// As for [`gradient_of`], and when dO is larger than host memory can address.
    pub fn generate(
        inputs: Inputs,
        distribution: Distribution,
        seed: u64,
        with_d_bias: bool,
        progress: impl Fn(u64) + Sync,
    ) -> Result<Self> {
        let problem = *inputs.problem();
        let gradient = gradient_of(problem, with_d_bias)?;
        let forward = Reference::compute(&inputs, progress);
        let element = inputs.element();
        let columns = inputs.columns();
        let mut o = vec![element.encode(f64::NAN); elements(&gradient, Tensor::O)];
        for ([batch, head, row], values) in rows_of(problem.shape()).zip(forward.elements.iter()) {
            if inputs.sequence_of(row).is_some() {
                let start = row_start(problem.views().o, batch, head, row);
                let rounded = o[start..start + columns].iter_mut().zip(values);
                rounded.for_each(|(o, value)| *o = element.encode(value.value));
            }
        }
        let lse = rows_of(problem.shape()).zip(&forward.rows);
        let lse = lse.map(|([.., row], one)| inputs.sequence_of(row).map_or(f32::NAN, |_| one.lse as f32)).collect();
        let d_o = inputs.normal_rows(problem.shape(), gradient.views().d_o, seed ^ SEED_OF_D_O)?;
        let unit_scale = UnitScaleBounds::applicable(Some(distribution), &problem).is_some();
        Ok(Self { gradient, inputs, forward, o, lse, d_o, unit_scale })
    }

    /// The gradient.
    pub fn gradient(&self) -> &Gradient {
        &self.gradient
    }

    /// The inputs of the forward pass.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// O as stored.
    pub fn o(&self) -> &[Bits] {
        &self.o
    }

    /// LSE as stored.
    pub fn lse(&self) -> &[f32] {
        &self.lse
    }

    /// dO as stored.
    pub fn d_o(&self) -> &[Bits] {
        &self.d_o
    }

    /// Storages of the gradients that hold [`O_POISON`], as before a launch.
    pub fn poisoned(&self) -> Vec<Vec<Bits>> {
        let of_rows = OF_ROWS.iter().map(|tensor| elements(&self.gradient, *tensor));
        let of_bias = self.gradient.bias_extent().map(|elements| elements as usize);
        of_rows.chain(of_bias).map(|elements| vec![O_POISON; elements]).collect()
    }

    /// Compares `outputs`, storages of the gradients that held [`O_POISON`] before the launch, with the gradients in f64. Calls `progress` with the number
    /// of rows of Q just finished, from several threads.
    ///
    /// # Panics
    /// When a storage is shorter than its view says.
    pub fn check(&self, outputs: &[Vec<Bits>], progress: impl Fn(u64) + Sync) -> GradientReport {
        let mut overwritten_gaps = 0;
        let gradients = GRADIENTS.into_iter().zip(self.compute(progress)).zip(outputs);
        let compare = |((tensor, expected), output): ((Tensor, Rows<Bounded>), &Vec<Bits>)| {
            let (shape, view) = self.layout_of(tensor);
            let is_written = self.written_rows(tensor);
            overwritten_gaps += overwritten_elements(output, view, shape, &is_written);
            self.compare((shape, view), &expected, output, &is_written)
        };
        GradientReport { comparisons: gradients.map(compare).collect(), overwritten_gaps }
    }

    /// The elements of a gradient that are stored, and where: of dBias those that nothing shares, with keys for columns.
    fn layout_of(&self, tensor: Tensor) -> (Shape, View) {
        match (tensor, self.gradient.bias(), self.gradient.bias_shape()) {
            (Tensor::DBias, Some(strides), Some(shape)) => (shape, View::new(strides)),
            _ => (self.gradient.shape_of(tensor), self.gradient.view_of(tensor).expect("it has rows")),
        }
    }

    /// Compares the rows of a gradient that are written.
    fn compare(
        &self,
        (shape, view): (Shape, View),
        expected: &Rows<Bounded>,
        output: &[Bits],
        is_written: &[bool],
    ) -> Comparison {
        let element = self.inputs.element();
        let bound = self.unit_scale_bound(expected);
        let mut comparison = Comparison::default();
        let rows = rows_of(shape).zip(expected.iter()).filter(|([.., row], _)| is_written[*row as usize]);
        for ([batch, head, row], expected) in rows {
            let actual = row_of(output, view, expected.len(), batch, head, row);
            for (column, (&Bounded { value, tolerance }, &bits)) in expected.iter().zip(actual).enumerate() {
                let index = [batch, head, row, column as u32];
                if bits == O_POISON {
                    comparison.add_unwritten(Deviation { index, expected: value, actual: f64::NAN, tolerance: 0.0 });
                } else {
                    let pair = (value, element.decode(bits));
                    comparison.add_finite(index, element.overflow(), pair, tolerance.min(bound));
                }
            }
        }
        comparison
    }

    /// The bound of errors of unit-scale inputs; infinite for others.
    fn unit_scale_bound(&self, expected: &Rows<Bounded>) -> f64 {
        let is_constrained = |one: &&Bounded| one.tolerance.is_finite();
        let sizes = expected.values().iter().filter(is_constrained).map(|one| one.value.abs());
        let element = self.inputs.element();
        match self.unit_scale {
            true => UNIT_SCALE_ROUNDINGS * element.rounding() * sizes.fold(LEAST_LARGEST, f64::max),
            false => f64::INFINITY,
        }
    }

    /// Whether each row of a head is written: of dBias all are, of others those of a sequence.
    fn written_rows(&self, tensor: Tensor) -> Vec<bool> {
        let count = self.layout_of(tensor).0.sequence as usize;
        if tensor == Tensor::DBias {
            return vec![true; count];
        }
        let mut rows = vec![false; count];
        for sequence in self.inputs.sequences() {
            let own = if tensor == Tensor::DQ { sequence.rows } else { sequence.keys };
            rows[own.start as usize..own.end as usize].fill(true);
        }
        rows
    }

    /// The gradients, contiguous.
    fn compute(&self, progress: impl Fn(u64) + Sync) -> Vec<Rows<Bounded>> {
        let columns = self.inputs.columns();
        let shape = self.inputs.problem().shape();
        let zeros = |shape: Shape| vec![Bounded::default(); shape.rows() as usize * shape.head_dim as usize];
        let mut gradients = OF_ROWS.map(|tensor| Rows::new(columns, zeros(self.gradient.shape_of(tensor))));
        let [dq, dk, dv] = &mut gradients;
        let of_queries = shape.group() as usize * shape.sequence as usize * columns;
        let of_keys = shape.kv_sequence as usize * columns;
        let heads = dk.values_mut().par_chunks_mut(of_keys).zip(dv.values_mut().par_chunks_mut(of_keys));
        let heads = dq.values_mut().par_chunks_mut(of_queries).zip(heads).enumerate();
        let none_of_bias = || self.gradient.bias_shape().map_or(Vec::new(), zeros);
        let of_heads = heads.fold(none_of_bias, |mut d_bias, (index, (dq, (dk, dv)))| {
            let (batch, kv_head) = (index as u32 / shape.kv_heads, index as u32 % shape.kv_heads);
            let mut head = Head { dq, dk, dv, d_bias: &mut d_bias };
            for (number, sequence) in (0..).zip(self.inputs.sequences()) {
                self.add_sequence(&mut head, [batch, kv_head, number], &sequence, &progress);
            }
            head.dq.iter_mut().chain(head.dk).chain(head.dv).for_each(|one| self.round(one));
            d_bias
        });
        let mut d_bias = of_heads.reduce(none_of_bias, |mut sum, other| {
            for (sum, other) in sum.iter_mut().zip(other) {
                sum.value += other.value;
                sum.tolerance += other.tolerance;
            }
            sum
        });
        d_bias.iter_mut().for_each(|one| self.round(one));
        let d_bias = self.gradient.bias_shape().map(|shape| Rows::new(shape.head_dim as usize, d_bias));
        gradients.into_iter().chain(d_bias).collect()
    }

    /// Adds the error of rounding to an element.
    fn round(&self, one: &mut Bounded) {
        let element = self.inputs.element();
        one.tolerance += element.rounding() * one.value.abs() + element.smallest_rounding();
    }

    /// Adds the gradients of a sequence's scores.
    fn add_sequence(
        &self,
        head: &mut Head<'_>,
        [batch, kv_head, number]: [u32; 3],
        sequence: &Sequence,
        progress: impl Fn(u64),
    ) {
        let (inputs, shape) = (&self.inputs, self.inputs.problem().shape());
        let keys = sequence.keys.clone();
        let [k, v] = [Inputs::k_row, Inputs::v_row].map(|row| {
            let values = keys.clone().flat_map(|key| self.wide(row(inputs, batch, kv_head, key)));
            Rows::new(inputs.columns(), values.collect())
        });
        let norms: Vec<f64> = v.iter().map(norm).collect();
        let terms_of_bias = self.gradient.bias_shape().map_or(0.0, |own| shape.rows() as f64 / own.rows() as f64);
        let first_position =
            inputs.problem().alignment().first_position(sequence.rows.len() as u32, sequence.keys.len() as u32);
        for of_group in 0..shape.group() {
            let of_q = kv_head * shape.group() + of_group;
            for row in sequence.rows.clone() {
                let position = first_position + i64::from(row - sequence.rows.start);
                let slope = inputs.slope(batch + number, of_q);
                let of_row = RowScores::new(inputs, (batch, of_q), slope, row, position);
                let query = Query::new(self, [batch, of_q, row], &of_row, [&k, &v], &norms);
                let of_bias = self.row_of_bias([batch, of_q, row]).map(|row| &mut head.d_bias[row]);
                let (row, first_key) = ((of_group * shape.sequence + row) as usize, sequence.keys.start as usize);
                match query.attended() {
                    Some(keys) if query.is_resolved => {
                        of_bias.into_iter().for_each(|row| query.add_to_bias(&mut row[keys.clone()], terms_of_bias));
                        query.add(head, row, first_key + keys.start);
                    }
                    keys => {
                        let keys = keys.unwrap_or(0..sequence.keys.len());
                        let row_of_bias = of_bias.into_iter().flat_map(|row| &mut row[keys.clone()]);
                        row_of_bias.for_each(|one| one.tolerance = f64::INFINITY);
                        head.leave_open(row, first_key + keys.start..first_key + keys.end, inputs.columns());
                    }
                }
            }
            progress(sequence.rows.len() as u64);
        }
    }

    /// Where the elements of dBias are to which a row of Q adds, an element for each key.
    fn row_of_bias(&self, [batch, head, row]: [u32; 3]) -> Option<Range<usize>> {
        let own = self.gradient.bias_shape()?;
        // Of a dimension that shares elements there is one.
        let number = row_number(own, [batch % own.batch, head % own.heads, row % own.sequence]);
        let keys = own.head_dim as usize;
        Some(number * keys..(number + 1) * keys)
    }

    fn wide<'a>(&self, row: &'a [Bits]) -> impl Iterator<Item = f64> + use<'a> {
        let element = self.inputs.element();
        row.iter().map(move |&bits| element.decode(bits))
    }
}

/// What is known of a score.
struct Score {
    p: f64,
    /// dS before the derivative of the softcap, and the bound of its error.
    uncapped: f64,
    uncapped_error: f64,
    ds: f64,
    /// Bound of the error of dS, rounded, and of sums of products with it.
    ds_error: f64,
}

/// A query row with the gradients of its scores.
struct Query<'a> {
    q: Vec<f64>,
    d_o: Vec<f64>,
    k: &'a Rows<f64>,
    /// The first key that it attends to, of those of its sequence.
    first: usize,
    scores: Vec<Score>,
    scale: f64,
    /// Bound of the error of a probability, as a part of it: also of its rounding, and of sums of products with it.
    p_error: f64,
    smallest: f64,
    /// Whether it has neither a NaN nor an infinity.
    is_finite: bool,
    /// Whether f32 resolves its scores.
    is_resolved: bool,
}

impl<'a> Query<'a> {
    fn new(
        of: &GradientInputs,
        [batch, head, row]: [u32; 3],
        scores_of: &RowScores<'_>,
        [k, v]: [&'a Rows<f64>; 2],
        norms: &[f64],
    ) -> Self {
        let (inputs, problem) = (&of.inputs, of.inputs.problem());
        let (shape, element, columns) = (problem.shape(), inputs.element(), inputs.columns());
        let (rounding, smallest) = (element.rounding(), element.smallest_rounding());
        let q: Vec<f64> = of.wide(inputs.q_row(batch, head, row)).collect();
        let d_o: Vec<f64> = of.wide(row_of(&of.d_o, of.gradient.views().d_o, columns, batch, head, row)).collect();
        let known = &of.forward.rows[row_number(shape, [batch, head, row])];
        let attended = match known.lse == f64::NEG_INFINITY {
            true => 0..0,
            false => inputs.attended_keys(row),
        };
        let attended = attended.start as usize..attended.end as usize;
        let terms = shape.sequence.max(shape.kv_sequence) as usize * shape.group() as usize;
        // P is exp(score − LSE), with LSE rounded to f32.
        let score_error = SCORE_ERROR * known.score_magnitude + 4.0 * F32_TRUNCATION * (1.0 + known.lse.abs());
        let of_p = (2.0 * score_error).exp_m1();
        let parts = |key: usize| {
            let [k, v] = [k, v].map(|rows| rows.of(key..key + 1).next().expect("a key of the sequence"));
            let product = dot(&q, k);
            ((scores_of.score(product, key) - known.lse).exp(), dot(&d_o, v), scores_of.cap_derivative(product))
        };
        let parts: Vec<_> = attended.clone().map(parts).collect();
        // Of O as it is stored, rounded: where the sum cancels, that decides dS.
        let o: Vec<f64> = of.wide(row_of(&of.o, problem.views().o, columns, batch, head, row)).collect();
        let delta = dot(&d_o, &o);
        let of_delta = accumulation(columns) * d_o.iter().zip(&o).map(|(d_o, o)| (d_o * o).abs()).sum::<f64>();
        let d_o_norm = norm(&d_o);
        let score = |((p, dp, derivative), norm): (&(f64, f64, f64), &f64)| {
            let change = dp - delta;
            let uncapped = p * change;
            let ds = uncapped * derivative;
            let of_change = accumulation(columns) * d_o_norm * norm + of_delta;
            // Some kernels round P before they compute dS of it.
            let of_p = p * (of_p + 4.0 * score_error + rounding) + smallest;
            let uncapped_error = of_p * change.abs() + (p + of_p) * of_change;
            let ds_error = uncapped_error + (rounding + accumulation(terms)) * ds.abs() + smallest;
            Score { p: *p, uncapped, uncapped_error, ds, ds_error }
        };
        let scores: Vec<_> = parts.iter().zip(&norms[attended.clone()]).map(score).collect();
        let p_error = of_p + rounding + accumulation(terms);
        // A probability that may be infinite makes gradients NaN.
        let may_overflow = |score: &Score| score.ds.abs() + score.ds_error >= element.overflow();
        let is_resolved = !unresolvable(known) && of_p < element.overflow() && !scores.iter().any(may_overflow);
        let scale = problem.scale();
        let is_finite = !known.lse.is_nan() && q.iter().all(|one| one.is_finite());
        Self { q, d_o, k, first: attended.start, scores, scale, p_error, smallest, is_finite, is_resolved }
    }

    /// The keys that it attends to, of those of its sequence; `None` if it is not finite.
    fn attended(&self) -> Option<Range<usize>> {
        self.is_finite.then_some(self.first..self.first + self.scores.len())
    }

    /// Adds to the elements of dBias of the keys that it attends to, each of so many scores, in f32 one after another.
    fn add_to_bias(&self, keys: &mut [Bounded], terms: f64) {
        for (score, sum) in self.scores.iter().zip(keys) {
            sum.value += score.uncapped;
            sum.tolerance += score.uncapped_error + terms * F32_TRUNCATION * score.uncapped.abs();
        }
    }

    /// Adds to row `row` of dQ, and to the keys of dK and dV from `first_key` on, which it attends to.
    fn add(&self, head: &mut Head<'_>, row: usize, first_key: usize) {
        let columns = self.q.len();
        let dq = &mut head.dq[row * columns..][..columns];
        let keys = self.k.of(self.first..self.first + self.scores.len());
        for ((score, k), key) in self.scores.iter().zip(keys).zip(first_key..) {
            let of_key = key * columns..(key + 1) * columns;
            let (dk, dv) = (&mut head.dk[of_key.clone()], &mut head.dv[of_key]);
            let (ds, ds_error) = (self.scale * score.ds, self.scale * score.ds_error);
            let p_error = score.p * self.p_error + self.smallest;
            for column in 0..columns {
                dq[column].add(ds, ds_error, k[column]);
                dk[column].add(ds, ds_error, self.q[column]);
                dv[column].add(score.p, p_error, self.d_o[column]);
            }
        }
    }
}

impl Head<'_> {
    /// Takes anything for row `row` of dQ, and for `keys` of dK and dV.
    fn leave_open(&mut self, row: usize, keys: Range<usize>, columns: usize) {
        let [rows, keys] = [row..row + 1, keys].map(|rows| rows.start * columns..rows.end * columns);
        let open = self.dq[rows].iter_mut().chain(&mut self.dk[keys.clone()]).chain(&mut self.dv[keys]);
        open.for_each(|one| one.tolerance = f64::INFINITY);
    }
}

impl Bounded {
    /// Adds `factor` times `other`, which is exact, where `factor` has an error of at most `error`.
    fn add(&mut self, factor: f64, error: f64, other: f64) {
        self.value += factor * other;
        self.tolerance += error * other.abs();
    }
}

/// Bound of the error of a sum of so many products in f32, as a part of the sum of their sizes.
fn accumulation(terms: usize) -> f64 {
    (terms as f64 / KEYS_PER_STEP + 4.0) * F32_TRUNCATION
}

/// Elements of the storage of a tensor.
fn elements(gradient: &Gradient, tensor: Tensor) -> usize {
    let (offset, elements) = gradient.extent(tensor).expect("a tensor with rows");
    (offset + elements) as usize
}

/// The number of a row among all of a tensor of this shape.
fn row_number(shape: Shape, [batch, head, row]: [u32; 3]) -> usize {
    (batch as usize * shape.heads as usize + head as usize) * shape.sequence as usize + row as usize
}

/// Batch entry, head and row of every row of a tensor of this shape, in order.
fn rows_of(Shape { batch, heads, sequence, .. }: Shape) -> impl Iterator<Item = [u32; 3]> {
    let heads = (0..batch).flat_map(move |batch| (0..heads).map(move |head| (batch, head)));
    heads.flat_map(move |(batch, head)| (0..sequence).map(move |row| [batch, head, row]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::ElementReference;
    use contract::args::Strides;
    use contract::config::{Element, Mask};
    use contract::problem::{ScoreMod, Slopes, Window};
    use contract::view::Layout;

    fn problems() -> Vec<Problem> {
        let shape = Shape { kv_heads: 2, kv_sequence: 9, ..Shape::new(2, 4, 7) }.with_head_dim(16);
        let plain = |mask| Problem::new(shape, mask, Layout::Bshd).unwrap();
        let window = plain(Mask::Full).with_window(Window { left: Some(1), right: Some(2) });
        let slopes = ScoreMod { softcap: Some(1.5), alibi: Some(Slopes::PerHead), ..ScoreMod::NONE };
        let changed = |mask, change| plain(mask).with_score_mod(change).unwrap();
        let with_bias = |bias| changed(Mask::Causal, ScoreMod { bias: Some(bias), ..slopes });
        // Nothing shares an element; batch entries and queries do.
        let biases = [Strides { batch: 280, head: 70, row: 10 }, Strides { batch: 0, head: 12, row: 0 }];
        let mut problems = vec![plain(Mask::Full), plain(Mask::Causal), window, changed(Mask::Full, slopes)];
        problems.extend(biases.map(with_bias));
        problems
    }

    fn generated(problem: Problem) -> GradientInputs {
        let inputs = Inputs::generate(problem, Distribution::Normal, 3).unwrap();
        let has_bias = problem.score_mod().bias.is_some();
        GradientInputs::generate(inputs, Distribution::Normal, 3, has_bias, |_| ()).unwrap()
    }

    /// Σ dO ∘ O, whose gradients they are.
    fn loss(of: &GradientInputs, inputs: &Inputs) -> f64 {
        let forward = Reference::compute(inputs, |_| ());
        let rows = rows_of(inputs.problem().shape()).zip(forward.elements.iter());
        let of_row = |([batch, head, row], o): ([u32; 3], &[ElementReference])| {
            let d_o = row_of(&of.d_o, of.gradient.views().d_o, o.len(), batch, head, row);
            of.wide(d_o).zip(o).map(|(d_o, o)| d_o * o.value).sum::<f64>()
        };
        rows.map(of_row).sum()
    }

    /// By steps of elements, which are coarse, and central differences, which are exact but for third derivatives.
    #[test]
    fn gradients_are_the_slopes_of_the_loss() {
        for problem in problems() {
            let of = generated(problem);
            let rows = of.inputs.storages().map(|storage| storage.to_vec());
            let storages: Vec<_> = rows.into_iter().chain(of.inputs.bias().map(|bias| bias.to_vec())).collect();
            for (tensor, gradient) in of.compute(|_| ()).iter().enumerate() {
                let (shape, view) = of.layout_of(GRADIENTS[tensor]);
                for (number, column) in [(0, 0), (5, 3), (17, 15)] {
                    let (number, column) = (number % shape.rows() as usize, column % gradient.columns());
                    let [batch, head, row] = rows_of(shape).nth(number).unwrap();
                    let at = row_start(view, batch, head, row) + column;
                    let value = Element::F16.decode(storages[tensor][at]);
                    let moved = |step: f64| {
                        let mut storages = storages.clone();
                        storages[tensor][at] = Element::F16.encode(value + step);
                        let x = Element::F16.decode(storages[tensor][at]);
                        let mut storages = storages.into_iter();
                        let [q, k, v] = [(); 3].map(|()| storages.next().unwrap());
                        let inputs = Inputs::new(problem, q, k, v).unwrap();
                        let slopes = of.inputs.slopes().map(std::sync::Arc::from);
                        (x, loss(&of, &inputs.with_score_mod(storages.next().map(Into::into), slopes).unwrap()))
                    };
                    let ((low, before), (high, after)) = (moved(-0.02), moved(0.02));
                    let slope = (after - before) / (high - low);
                    let expected = gradient.values()[number * gradient.columns() + column].value;
                    assert!((slope - expected).abs() < 2e-3, "{problem:?} {tensor} {number}: {slope}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn rounded_gradients_pass_and_others_do_not() {
        for problem in problems() {
            let of = generated(problem);
            let mut outputs = of.poisoned();
            for ((tensor, values), output) in GRADIENTS.into_iter().zip(of.compute(|_| ())).zip(&mut outputs) {
                let (shape, view) = of.layout_of(tensor);
                for ([batch, head, row], values) in rows_of(shape).zip(values.iter()) {
                    let start = row_start(view, batch, head, row);
                    (start..).zip(values).for_each(|(at, one)| output[at] = Element::F16.encode(one.value));
                }
            }
            let wrong =
                |outputs: &[_]| -> u64 { of.check(outputs, |_| ()).comparisons.iter().map(|one| one.wrong).sum() };
            assert_eq!(wrong(&outputs), 0, "{problem:?}");
            assert_eq!(of.check(&outputs, |_| ()).overwritten_gaps, 0);
            for (tensor, output) in (0..).zip(&outputs) {
                let mut others = outputs.clone();
                others[tensor][20] = Element::F16.encode(Element::F16.decode(output[20]) + 0.02);
                assert_eq!(wrong(&others), 1, "{problem:?} {tensor}");
                others[tensor][20] = O_POISON;
                assert_eq!(of.check(&others, |_| ()).comparisons[tensor].unwritten, 1, "{problem:?} {tensor}");
            }
        }
    }
}
