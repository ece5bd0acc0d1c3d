//! Checks a sample of a problem's heads, for problems that would take long to check completely in f64.
//!
//! Heads are computed independently and differ only in their numbers and addresses. A kernel that is correct in heads
//! from all over the grid, and has written every element of all others, is correct enough to be timed. `fa512 run` and
//! `fa512 fuzz` check whole problems.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::index;
use rayon::prelude::*;

use crate::check::{self, Comparison, LSE_POISON, O_POISON, Outputs, UnitScaleBounds};
use crate::contender::Answer;
use crate::element::Bits;
use crate::error::Result;
use crate::inputs::{Distribution, Inputs, row_of};
use crate::record::Correctness;
use crate::reference::Reference;
use crate::score_mod::{BiasForm, ScoreModForm};
use contract::problem::{Problem, ScoreMod, Shape, Slopes};
use contract::view::Layout;

/// A sample of the heads of a problem, and their reference.
pub struct SampledCheck {
    problem: Problem,
    heads: Vec<Head>,
    /// Q, K and V of these heads only, as one batch entry.
    inputs: Inputs,
    reference: Reference,
    bounds: Option<UnitScaleBounds>,
}

#[derive(Clone, Copy)]
struct Head {
    batch: u32,
    head: u32,
}

impl SampledCheck {
    /// Computes the reference of `count` heads of `inputs`, which were filled by `distribution`: the first, the last,
    /// and random ones by `seed`; of all heads if there are fewer.
    ///
    /// # Errors
    /// When the problem of these heads is not accepted, which cannot happen if that of `inputs` is.
    pub fn new(inputs: &Inputs, distribution: Distribution, count: usize, seed: u64) -> Result<Self> {
        let problem = *inputs.problem();
        let shape = problem.shape();
        let heads = choose(shape, count, seed);
        // Every sampled head has its own K and V.
        let sampled = Shape { batch: 1, heads: heads.len() as u32, kv_heads: heads.len() as u32, ..shape };
        let sampled = Problem::new(sampled, problem.mask(), Layout::Bhsd)?.with_scale(problem.scale())?;
        let sampled = sampled.with_element(problem.element());
        let sampled = sampled.with_window(problem.window()).aligned(problem.alignment());
        let ScoreMod { softcap, alibi, bias } = *problem.score_mod();
        // Every sampled head has its own slope and bias, too.
        let (alibi, bias) = (alibi.map(|_| Slopes::PerHead), bias.map(|_| BiasForm::Hqk));
        let form = ScoreModForm { softcap, alibi, bias, padded_bias: false };
        let sampled = sampled.with_score_mod(form.of(sampled.shape()))?;
        let gather = |row: fn(&Inputs, u32, u32, u32) -> &[Bits], group: u32, rows: u32| {
            let rows = heads.iter().flat_map(|at| (0..rows).map(|index| row(inputs, at.batch, at.head / group, index)));
            rows.flatten().copied().collect::<Vec<Bits>>()
        };
        let q = gather(Inputs::q_row, 1, shape.sequence);
        let [k, v] = [Inputs::k_row, Inputs::v_row].map(|row| gather(row, shape.group(), shape.kv_sequence));
        let bias = heads.iter().flat_map(|at| {
            (0..shape.sequence).filter_map(|row| inputs.bias_row(at.batch, at.head, row)).flatten().copied()
        });
        let bias = form.bias.map(|_| bias.collect());
        let slopes = heads.iter().map(|at| inputs.slope(at.batch, at.head) as f32);
        let slopes = form.alibi.map(|_| slopes.collect());
        let inputs = Inputs::new(sampled, q, k, v)?.with_score_mod(bias, slopes)?;
        let reference = Reference::compute(&inputs, |_rows| ());
        let bounds = UnitScaleBounds::applicable(Some(distribution), &problem);
        Ok(Self { problem, heads, inputs, reference, bounds })
    }

    /// Compares the sampled heads of `answer`, and counts unwritten elements in all heads.
    pub fn judge(&self, answer: &Answer) -> Correctness {
        let report = check::check(&self.inputs, &self.reference, &self.sampled(&answer.outputs), self.bounds);
        let wrong = |comparison: &Comparison| comparison.wrong - comparison.unwritten;
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        let mut violations = answer.violations.clone();
        if let Some(bounds) = self.bounds.filter(|bounds| report.output_frobenius > bounds.output_frobenius) {
            let (error, bound) = (report.output_frobenius, bounds.output_frobenius);
            violations.push(format!("‖ΔO‖/‖O‖ is {error:.1e}, over {bound:e}"));
        }
        Correctness {
            heads_checked: self.heads.len() as u64,
            heads: u64::from(self.problem.shape().batch) * u64::from(self.problem.shape().heads),
            wrong_elements: wrong(&report.output) + report.lse.as_ref().map_or(0, wrong),
            unwritten_elements: self.unwritten(&answer.outputs),
            largest_output_error: finite(report.output.largest_error),
            output_frobenius: finite(report.output_frobenius),
            largest_lse_error: report.lse.as_ref().and_then(|lse| finite(lse.largest_error)),
            violations,
        }
    }

    /// The outputs of the sampled heads, as one batch entry.
    fn sampled(&self, outputs: &Outputs) -> Outputs {
        let Shape { heads, sequence, .. } = self.problem.shape();
        let o = self.heads.iter().flat_map(|&at| (0..sequence).map(move |index| (at, index)));
        let o = o.flat_map(|(Head { batch, head }, index)| self.o_row(outputs, batch, head, index)).copied().collect();
        let length = sequence as usize;
        let lse = outputs.lse.as_ref().map(|lse| {
            let starts = self.heads.iter().map(|at| (at.batch * heads + at.head) as usize * length);
            starts.flat_map(|start| &lse[start..start + length]).copied().collect()
        });
        Outputs { o, lse }
    }

    fn o_row<'a>(&self, outputs: &'a Outputs, batch: u32, head: u32, index: u32) -> &'a [Bits] {
        row_of(&outputs.o, self.problem.views().o, self.inputs.columns(), batch, head, index)
    }

    /// Elements of O and LSE that still hold the fill value.
    fn unwritten(&self, outputs: &Outputs) -> u64 {
        let Shape { batch, heads, sequence, .. } = self.problem.shape();
        let in_head = |at: u64| {
            let (batch, head) = ((at / u64::from(heads)) as u32, (at % u64::from(heads)) as u32);
            let rows = (0..sequence).map(|index| self.o_row(outputs, batch, head, index));
            rows.flatten().filter(|&&bits| bits == O_POISON).count() as u64
        };
        let in_o: u64 = (0..u64::from(batch) * u64::from(heads)).into_par_iter().map(in_head).sum();
        let lse = outputs.lse.iter().flatten();
        in_o + lse.filter(|value| value.to_bits() == LSE_POISON).count() as u64
    }
}

/// `count` heads of `shape`, sorted, including the first and the last.
fn choose(shape: Shape, count: usize, seed: u64) -> Vec<Head> {
    let total = shape.batch as usize * shape.heads as usize;
    let mut chosen: Vec<usize> = match count.clamp(1, total) {
        all if all == total => (0..total).collect(),
        1 => vec![0],
        count => {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let between = index::sample(&mut random, total - 2, count - 2);
            between.into_iter().map(|index| index + 1).chain([0, total - 1]).collect()
        }
    };
    chosen.sort_unstable();
    chosen.iter().map(|&index| Head { batch: index as u32 / shape.heads, head: index as u32 % shape.heads }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Element, Encoding};
    use contract::config::Mask;
    use contract::refusal::Tensor;

    const SHAPE: Shape = Shape::new(3, 4, 20);

    struct Case {
        inputs: Inputs,
        answer: Answer,
    }

    /// The reference, rounded, as an answer.
    fn case(layout: Layout) -> Case {
        case_of(Element::F16, layout)
    }

    fn case_of(type_: Element, layout: Layout) -> Case {
        case_of_problem(Problem::new(SHAPE, Mask::Causal, layout).unwrap().with_element(type_))
    }

    fn case_of_problem(problem: Problem) -> Case {
        let type_ = problem.element();
        let inputs = Inputs::generate(problem, Distribution::Normal, 3).unwrap();
        let reference = Reference::compute(&inputs, |_| ());
        let mut o = vec![0; problem.extent(Tensor::O) as usize];
        for (index, row) in reference.elements.iter().enumerate() {
            let (head, query) = (index as u32 / SHAPE.sequence, index as u32 % SHAPE.sequence);
            let start = crate::inputs::row_start(problem.views().o, head / SHAPE.heads, head % SHAPE.heads, query);
            for (bits, element) in o[start..].iter_mut().zip(row) {
                *bits = type_.encode(element.value);
            }
        }
        let lse = reference.rows.iter().map(|row| row.lse as f32).collect();
        Case { inputs, answer: Answer { outputs: Outputs { o, lse: Some(lse) }, violations: vec![] } }
    }

    fn judge(case: &Case, count: usize) -> Correctness {
        SampledCheck::new(&case.inputs, Distribution::Normal, count, 7).unwrap().judge(&case.answer)
    }

    #[test]
    fn a_right_answer_passes_in_every_layout_and_sample() {
        for layout in [Layout::Bhsd, Layout::Bshd] {
            for (count, checked) in [(1, 1), (5, 5), (12, 12), (100, 12)] {
                for type_ in Element::ALL {
                    let correctness = judge(&case_of(type_, layout), count);
                    assert!(correctness.passed(), "{correctness}");
                    assert_eq!((correctness.heads_checked, correctness.heads), (checked, 12));
                }
            }
        }
    }

    #[test]
    fn sampled_heads_have_their_own_slopes_and_biases() {
        let form = ScoreModForm {
            softcap: Some(2.0),
            alibi: Some(Slopes::PerBatchAndHead),
            bias: Some(BiasForm::Bhqk),
            padded_bias: true,
        };
        let plain = Problem::new(SHAPE, Mask::Causal, Layout::Bshd).unwrap();
        let case = case_of_problem(plain.with_score_mod(form.of(SHAPE)).unwrap());
        for count in [3, 12] {
            let correctness = judge(&case, count);
            assert!(correctness.passed(), "{correctness}");
        }
    }

    #[test]
    fn the_first_and_the_last_head_are_always_sampled() {
        for index in [0, 12 * 20 * 64 - 1] {
            let mut case = case(Layout::Bhsd);
            let bits = &mut case.answer.outputs.o[index];
            *bits = Element::F16.encode(Element::F16.decode(*bits) + 1.0);
            let correctness = judge(&case, 2);
            assert_eq!((correctness.wrong_elements, correctness.passed()), (1, false), "{correctness}");
        }
    }

    #[test]
    fn what_was_not_written_is_found_in_every_head() {
        let mut case = case(Layout::Bshd);
        case.answer.outputs.o.iter_mut().skip(1).step_by(100).for_each(|value| *value = O_POISON);
        case.answer.outputs.lse.as_mut().unwrap()[5 * 20 + 3] = f32::from_bits(LSE_POISON);
        let correctness = judge(&case, 2);
        assert_eq!(correctness.unwritten_elements, 154 + 1);
        assert!(correctness.to_string().contains("155 elements never written"), "{correctness}");
    }

    #[test]
    fn a_wrong_lse_and_violations_count() {
        let mut case = case(Layout::Bhsd);
        case.answer.outputs.lse.as_mut().unwrap()[0] += 1.0;
        assert_eq!(judge(&case, 1).wrong_elements, 1);
        let mut case = self::case(Layout::Bhsd);
        case.answer.violations.push("changed its input Q".into());
        assert!(!judge(&case, 1).passed());
        case.answer.outputs.lse = None;
        assert_eq!(judge(&case, 1).largest_lse_error, None, "a library may give no LSE");
    }
}
