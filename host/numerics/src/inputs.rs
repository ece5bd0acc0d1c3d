//! Q, K and V in host memory, filled from a seed.

mod distribution;
mod lengths;
mod score_values;

use std::ops::Range;
use std::sync::Arc;

use contract::config::Mask;
use rayon::prelude::*;

use crate::element::{Bits, Element, Encoding};
use crate::rows::Rows;
use crate::{Invalid, Result};
use contract::problem::{Problem, Shape, Slopes};
use contract::refusal::Tensor;
use contract::view::View;

pub use distribution::Distribution;
use distribution::{Head, Size};
use lengths::Sequences;
pub use lengths::{Lengths, Sequence, cu_seqlens};

/// A problem with its Q, K and V. Each lies in a storage as the problem's view says; several may share one.
#[derive(Clone, Debug)]
pub struct Inputs {
    problem: Problem,
    q: Arc<[Bits]>,
    k: Arc<[Bits]>,
    v: Arc<[Bits]>,
    /// The packed sequences; `None` for sequences of one length.
    sequences: Option<Arc<Sequences>>,
    /// The bias, if the problem has one.
    bias: Option<Arc<[Bits]>>,
    /// The ALiBi slopes, if the problem has them.
    slopes: Option<Arc<[f32]>>,
}

impl Inputs {
    /// Combines a problem with the storages of Q, K and V. A bias and slopes that the problem has are filled with 0.
    ///
    /// # Errors
    /// [`Invalid`] when a storage is too short for its tensor's view.
    pub fn new(
        problem: Problem,
        q: impl Into<Arc<[Bits]>>,
        k: impl Into<Arc<[Bits]>>,
        v: impl Into<Arc<[Bits]>>,
    ) -> Result<Self> {
        let (score_mod, shape) = (problem.score_mod(), problem.shape());
        let bias = score_mod.bias_extent(shape).map(|elements| vec![0; elements as usize].into());
        let slopes = score_mod.slopes(shape, problem.packing()).map(|count| vec![0.0; count as usize].into());
        let inputs = Self { problem, q: q.into(), k: k.into(), v: v.into(), sequences: None, bias, slopes };
        for ((tensor, view), storage) in problem.views().named().into_iter().zip(inputs.storages()) {
            let needed = u128::from(view.offset) + u128::from(problem.extent(tensor));
            if needed > storage.len() as u128 {
                return Err(Invalid(format!(
                    "{tensor} has {} elements; its offset, shape and strides need {needed}",
                    storage.len()
                )));
            }
        }
        Ok(inputs)
    }

    /// Inputs of `problem` filled by `distribution`, each in its own storage. Elements before the first row and between
    /// rows are NaN, so that reading them shows.
    ///
    /// # Errors
    /// [`Invalid`] when a tensor is larger than host memory can address.
    pub fn generate(problem: Problem, distribution: Distribution, seed: u64) -> Result<Self> {
        let shape = problem.shape();
        let heads = (0..u64::from(shape.batch) * u64::from(shape.heads)).into_par_iter();
        let element = problem.element();
        let rows = shape.sequence.max(shape.kv_sequence);
        let size = Size { rows: rows as usize, columns: shape.head_dim as usize };
        let generate = |head| Head::generate(distribution, element, seed, head, size);
        let heads: Vec<_> = heads.map(generate).collect();
        // Query heads that share K and V use those generated for the first of them.
        let of_keys = || heads.iter().step_by(shape.group() as usize);
        let views = problem.views();
        let q = scatter(element, shape, views.q, heads.iter().map(|head| &head.q))?;
        let k = scatter(element, shape.of(Tensor::K), views.k, of_keys().map(|head| &head.k))?;
        let v = scatter(element, shape.of(Tensor::V), views.v, of_keys().map(|head| &head.v))?;
        let (score_mod, bias_of) =
            (problem.score_mod(), |elements| score_values::bias(elements, element, distribution, seed));
        let bias = score_mod.bias_extent(shape).map(bias_of).map(Arc::from);
        let slopes = slopes(&problem);
        Ok(Self { bias, slopes, ..Self::new(problem, q, k, v)? })
    }

    /// Another tensor of `shape` that lies as `view` says, filled like Q of standard normal inputs of another seed.
    ///
    /// # Errors
    /// [`Invalid`] when the tensor is larger than host memory can address.
    pub fn normal_rows(&self, shape: Shape, view: View, seed: u64) -> Result<Vec<Bits>> {
        let size = Size { rows: shape.sequence as usize, columns: shape.head_dim as usize };
        let heads = (0..u64::from(shape.batch) * u64::from(shape.heads)).into_par_iter();
        let generate = |head| Head::generate(Distribution::Normal, self.element(), seed, head, size).q;
        let heads: Vec<_> = heads.map(generate).collect();
        scatter(self.element(), shape, view, heads.iter())
    }

    /// The same rows as packed sequences of these lengths.
    ///
    /// # Errors
    /// [`Invalid`] when there are several batch entries, no sequences, or the lengths do not sum to the number of rows.
    pub fn packed(self, lengths: &[u32]) -> Result<Self> {
        self.with_lengths(&Lengths::Shared(lengths.to_vec()))
    }

    /// The same inputs with another bias and other slopes, if the problem has them.
    ///
    /// # Errors
    /// [`Invalid`] when their numbers of elements differ from the problem's.
    pub fn with_score_mod(self, bias: Option<Arc<[Bits]>>, slopes: Option<Arc<[f32]>>) -> Result<Self> {
        let (score_mod, shape) = (self.problem.score_mod(), self.problem.shape());
        let given = (bias.as_ref().map(|bias| bias.len() as u64), slopes.as_ref().map(|slopes| slopes.len() as u64));
        let needed = (score_mod.bias_extent(shape), score_mod.slopes(shape, self.problem.packing()));
        if given != needed {
            return Err(Invalid(format!("bias and slopes have {given:?} elements, and the problem's {needed:?}")));
        }
        Ok(Self { bias, slopes, ..self })
    }

    /// The bias as stored, if the problem has one.
    pub fn bias(&self) -> Option<&Arc<[Bits]>> {
        self.bias.as_ref()
    }

    /// The ALiBi slopes, if the problem has them.
    pub fn slopes(&self) -> Option<&[f32]> {
        self.slopes.as_deref()
    }

    /// Row `row` of the bias, an element per key.
    pub fn bias_row(&self, batch: u32, head: u32, row: u32) -> Option<&[Bits]> {
        let view = View::new(self.problem.score_mod().bias?);
        let keys = self.problem.shape().kv_sequence as usize;
        self.bias.as_ref().map(|bias| row_of(bias, view, keys, batch, head, row))
    }

    /// The ALiBi slope of a head of a batch entry, or of a sequence; 0 without ALiBi.
    pub fn slope(&self, batch: u32, head: u32) -> f64 {
        let heads = self.problem.shape().heads as usize;
        let of = |slopes: &[f32]| slopes[(batch as usize * heads + head as usize) % slopes.len()];
        self.slopes().map_or(0.0, |slopes| of(slopes).into())
    }

    /// The same rows as the sequences described by `lengths`. Slopes per batch entry become the generated ones per sequence.
    ///
    /// # Errors
    /// As for [`Lengths::apply`].
    pub fn with_lengths(self, lengths: &Lengths) -> Result<Self> {
        let (problem, sequences) = lengths.apply(self.problem)?;
        let slopes = match problem.score_mod().alibi {
            Some(Slopes::PerBatchAndHead) => slopes(&problem),
            Some(Slopes::PerHead) | None => self.slopes,
        };
        Ok(Self { problem, sequences: Some(sequences.into()), slopes, ..self })
    }

    /// The same sequences where the device has `elements` as array `tensor`. They may be bad: negative, decreasing, beyond the
    /// tensors. What kernels make of them must be the sequences that these inputs have.
    #[must_use]
    pub fn with_array(mut self, tensor: Tensor, elements: &[u32]) -> Self {
        if let Some(sequences) = &mut self.sequences {
            let arrays = &mut Arc::make_mut(sequences).arrays;
            arrays.retain(|(name, _)| *name != tensor);
            arrays.push((tensor, elements.into()));
        }
        self
    }

    /// The arrays that describe the sequences on the device (`cu_seqlens`, `seqused`), with their names.
    pub fn lengths(&self) -> &[(Tensor, Arc<[u32]>)] {
        self.sequences.as_ref().map_or(&[], |sequences| &sequences.arrays)
    }

    /// One of these arrays, if the problem has it.
    pub fn array(&self, tensor: Tensor) -> Option<&[u32]> {
        self.lengths().iter().find(|(name, _)| *name == tensor).map(|(_, array)| &**array)
    }

    /// The sequences of a batch entry.
    pub fn sequences(&self) -> Vec<Sequence> {
        match &self.sequences {
            None => vec![self.whole()],
            Some(sequences) => sequences.all.clone(),
        }
    }

    /// All rows of a batch entry.
    fn whole(&self) -> Sequence {
        let Shape { sequence, kv_sequence, .. } = self.problem.shape();
        Sequence { rows: 0..sequence, keys: 0..kv_sequence }
    }

    /// The sequence that contains row `row` of Q in a batch entry; `None` if no sequence does, and no output is
    /// written.
    pub fn sequence_of(&self, row: u32) -> Option<Sequence> {
        match &self.sequences {
            None => Some(self.whole()),
            Some(sequences) => sequences.of(row).cloned(),
        }
    }

    /// Floating-point operations by the usual count ([`Shape::operations`]), summed over sequences. With a window,
    /// counts the keys of each row.
    pub fn operations(&self) -> f64 {
        let shape = self.problem.shape();
        if self.problem.mask() == Mask::Window {
            let keys: f64 = (0..shape.sequence).map(|row| self.attended_keys(row).len() as f64).sum();
            return 4.0 * f64::from(shape.batch) * f64::from(shape.heads) * f64::from(shape.head_dim) * keys;
        }
        let of = |Sequence { rows, keys }: Sequence| {
            let shape = Shape { sequence: rows.len() as u32, kv_sequence: keys.len() as u32, ..shape };
            shape.operations(self.problem.mask())
        };
        self.sequences().into_iter().map(of).sum()
    }

    /// The keys of its sequence that query `row` of a batch entry attends to.
    pub fn attended_keys(&self, row: u32) -> Range<u32> {
        self.sequence_of(row).map_or(0..0, |Sequence { rows, keys }| {
            self.problem.attended_keys(row - rows.start, rows.len() as u32, keys.len() as u32)
        })
    }

    /// The type of the elements.
    pub fn element(&self) -> Element {
        self.problem.element()
    }

    /// Elements of a row (D).
    pub fn columns(&self) -> usize {
        self.problem.shape().head_dim as usize
    }

    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The storages of Q, K and V.
    pub fn storages(&self) -> [&Arc<[Bits]>; 3] {
        [&self.q, &self.k, &self.v]
    }

    /// Row `row` of Q.
    pub fn q_row(&self, batch: u32, head: u32, row: u32) -> &[Bits] {
        row_of(&self.q, self.problem.views().q, self.columns(), batch, head, row)
    }

    /// Row `row` of K; `head` is one of K and V.
    pub fn k_row(&self, batch: u32, head: u32, row: u32) -> &[Bits] {
        row_of(&self.k, self.problem.views().k, self.columns(), batch, head, row)
    }

    /// Row `row` of V; `head` is one of K and V.
    pub fn v_row(&self, batch: u32, head: u32, row: u32) -> &[Bits] {
        row_of(&self.v, self.problem.views().v, self.columns(), batch, head, row)
    }
}

/// The generated ALiBi slopes of a problem, if it has any.
fn slopes(problem: &Problem) -> Option<Arc<[f32]>> {
    let (shape, count) = (problem.shape(), problem.score_mod().slopes(problem.shape(), problem.packing()));
    count.map(|count| score_values::slopes(count, shape.heads).into())
}

/// A row of a tensor of `columns` columns that lies in `storage` as `view` says.
///
/// # Panics
/// When the row is outside the storage.
pub fn row_of(storage: &[Bits], view: View, columns: usize, batch: u32, head: u32, row: u32) -> &[Bits] {
    &storage[row_start(view, batch, head, row)..][..columns]
}

/// Index of the first element of a row.
pub fn row_start(View { offset, strides }: View, batch: u32, head: u32, row: u32) -> usize {
    let [batch, head, row] = [batch, head, row].map(u64::from);
    (offset + batch * strides.batch + head * strides.head + row * strides.row) as usize
}

/// Lays out the rows of all heads of a tensor of `shape` as `view` says; everything else is NaN.
fn scatter<'a>(
    element: Element,
    shape: Shape,
    view: View,
    heads: impl Iterator<Item = &'a Rows<Bits>>,
) -> Result<Vec<Bits>> {
    // The view's check made sure that the sum fits 64 bits.
    let elements = view.offset + view.span(shape).expect("a checked view");
    let mut storage = Vec::new();
    usize::try_from(elements).ok().and_then(|elements| storage.try_reserve_exact(elements).ok()).ok_or_else(|| {
        Invalid(format!("{elements} 16-bit elements do not fit the memory of this machine; make the problem smaller"))
    })?;
    storage.resize(elements as usize, element.encode(f64::NAN));
    for (index, rows) in heads.enumerate() {
        let (batch, head) = (index as u32 / shape.heads, index as u32 % shape.heads);
        for (row, values) in rows.iter().take(shape.sequence as usize).enumerate() {
            let start = row_start(view, batch, head, row as u32);
            storage[start..][..values.len()].copy_from_slice(values);
        }
    }
    Ok(storage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::args::Strides;
    use contract::config::Mask;
    use contract::view::{Layout, Views};
    use sha2::{Digest, Sha256};

    const SHAPE: Shape = Shape::new(2, 3, 21);

    fn generate(shape: Shape, layout: Layout, distribution: Distribution) -> Inputs {
        Inputs::generate(Problem::new(shape, Mask::Full, layout).unwrap(), distribution, 42).unwrap()
    }

    fn all() -> impl Iterator<Item = Distribution> {
        <Distribution as clap::ValueEnum>::value_variants().iter().copied()
    }

    /// The rows of Q, K and V in `[B,H,S]` order.
    fn rows(inputs: &Inputs) -> Vec<[Vec<Bits>; 3]> {
        let Shape { batch, heads, sequence, .. } = inputs.problem().shape();
        let indices = (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..sequence).map(move |s| (b, h, s))));
        let row = |(b, h, s)| [inputs.q_row(b, h, s), inputs.k_row(b, h, s), inputs.v_row(b, h, s)];
        indices.map(|index| row(index).map(<[Bits]>::to_vec)).collect()
    }

    #[test]
    fn a_seed_gives_the_same_bits_everywhere() {
        let hash = |distribution| {
            let mut hash = Sha256::new();
            rows(&generate(SHAPE, Layout::Bhsd, distribution)).iter().flatten().flatten().for_each(|bits| {
                hash.update(bits.to_le_bytes());
            });
            hash.finalize()[..4].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let hashes: Vec<_> = all().map(hash).collect();
        let golden = [
            "5fed86fe", "c915c420", "e5658427", "fa2d2263", "dbb5475e", "de896742", "006f061c", "1b68ca47", "c3a404f2",
            "b0d17c91", "467eb132", "8528a9e8", "46687176", "2341b42b", "7748075c", "c0cc2d83", "e02827b6", "7ef79b43",
        ];
        assert_eq!(hashes, golden, "seeded inputs changed: recorded results can no longer be repeated");
    }

    #[test]
    fn values_do_not_depend_on_layout_or_batch() {
        for distribution in all() {
            let bhsd = rows(&generate(SHAPE, Layout::Bhsd, distribution));
            assert_eq!(bhsd, rows(&generate(SHAPE, Layout::Bshd, distribution)), "{distribution:?}");
            let one = rows(&generate(Shape { batch: 1, ..SHAPE }, Layout::Bhsd, distribution));
            assert_eq!(bhsd[..one.len()], one, "{distribution:?}");
        }
    }

    #[test]
    fn normal_values_of_either_type_are_the_same_numbers_rounded() {
        let of = |element: Element| {
            let problem = Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap().with_element(element);
            rows(&Inputs::generate(problem, Distribution::Normal, 42).unwrap())
        };
        for (f16, bf16) in of(Element::F16).as_flattened().iter().zip(of(Element::Bf16).as_flattened()) {
            for (&f16, &bf16) in f16.iter().zip(bf16) {
                let (f16, bf16) = (Element::F16.decode(f16), Element::Bf16.decode(bf16));
                let bound = f16.abs() * (Element::F16.epsilon() + Element::Bf16.epsilon()) + 2f64.powi(-24);
                assert!((f16 - bf16).abs() <= bound, "{f16} {bf16}");
            }
        }
    }

    #[test]
    fn seeds_and_heads_differ() {
        let inputs = |seed| {
            let problem = Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap();
            rows(&Inputs::generate(problem, Distribution::Normal, seed).unwrap())
        };
        assert_ne!(inputs(1), inputs(2));
        assert_ne!(inputs(1)[0], inputs(1)[21], "rows 0 of heads 0 and 1");
    }

    #[test]
    fn normal_values_have_mean_zero_and_variance_one() {
        let inputs = generate(Shape::new(1, 4, 256), Layout::Bhsd, Distribution::Normal);
        for storage in inputs.storages() {
            let values: Vec<f64> = storage.iter().map(|&bits| Element::F16.decode(bits)).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
            assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "mean {mean}, variance {variance}");
        }
    }

    #[test]
    fn only_non_finite_inputs_hold_nan_or_infinity() {
        for distribution in all() {
            for element in Element::ALL {
                let problem = Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap().with_element(element);
                let inputs = Inputs::generate(problem, distribution, 42).unwrap();
                let is_finite = |&bits: &Bits| element.decode(bits).is_finite();
                let finite = inputs.storages().iter().all(|storage| storage.iter().all(is_finite));
                assert_eq!(finite, distribution.is_finite(), "{distribution:?} {element:?}");
            }
        }
    }

    #[test]
    fn gaps_between_rows_hold_nan() {
        let problem = Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap();
        let k = View::new(Strides { batch: 3 * 21 * 72, head: 21 * 72, row: 72 });
        let problem = problem.with_views(Views { k, ..*problem.views() }).unwrap();
        let inputs = Inputs::generate(problem, Distribution::Normal, 42).unwrap();
        let [_, k, _] = inputs.storages();
        assert!(k[64..72].iter().all(|&bits| Element::F16.decode(bits).is_nan()));
        assert_eq!(rows(&inputs), rows(&generate(SHAPE, Layout::Bhsd, Distribution::Normal)));
    }

    #[test]
    fn an_offset_puts_nan_before_the_same_values() {
        let problem = Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap();
        let Views { q, k, v, o } = *problem.views();
        let shifted = Views { q, k: View { offset: 8, ..k }, v: View { offset: 64, ..v }, o };
        let shifted = Inputs::generate(problem.with_views(shifted).unwrap(), Distribution::Normal, 42).unwrap();
        assert_eq!(rows(&shifted), rows(&generate(SHAPE, Layout::Bhsd, Distribution::Normal)));
        let [_, k, v] = shifted.storages();
        assert!(k[..8].iter().chain(&v[..64]).all(|&bits| Element::F16.decode(bits).is_nan()));
    }

    #[test]
    fn bad_arrays_leave_the_sequences_as_they_are() {
        let inputs = generate(Shape::new(1, 2, 9), Layout::Bshd, Distribution::Normal).packed(&[4, 5, 0]).unwrap();
        let bad = inputs.clone().with_array(Tensor::CuSeqlens, &[0, 4, u32::MAX, 7]);
        assert_eq!(bad.sequences(), inputs.sequences());
        assert_eq!(bad.lengths().len(), 1, "the array is replaced");
        assert_eq!(bad.array(Tensor::CuSeqlens), Some(&[0, 4, u32::MAX, 7][..]));
        assert_eq!(inputs.array(Tensor::CuSeqlens), Some(&[0, 4, 9, 9][..]), "of these alone");
        assert_eq!(bad.with_array(Tensor::SequsedK, &[4, 9, 1]).lengths().len(), 2, "another one is added");
    }

    #[test]
    fn storages_must_hold_every_row() {
        let problem = Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap();
        let elements = SHAPE.rows() as usize * 64;
        let zeros = |count| vec![0; count];
        let message =
            Inputs::new(problem, zeros(elements), zeros(elements - 1), zeros(elements)).unwrap_err().to_string();
        assert!(message.contains("K has 8063 elements") && message.contains("need 8064"), "{message}");
        let v = View { offset: 8, ..problem.views().v };
        let problem = problem.with_views(Views { v, ..*problem.views() }).unwrap();
        let message = Inputs::new(problem, zeros(elements), zeros(elements), zeros(elements)).unwrap_err().to_string();
        assert!(message.contains("V has 8064 elements") && message.contains("need 8072"), "{message}");
    }
}
