//! Softcap, ALiBi and bias through the simulated driver: correct results, no findings, and wrong tensors named in errors.

mod common;

use fa512::{
    Addresses, Alignment, Element, Error, Gpu, Layout, Mask, MemoryProblem, Plan, Problem, ScoreMod, Shape, Slopes,
    Strides, Tensor, Window,
};

use common::attention::Case;
use common::{findings, gpu, machine, raw};

const SOFTCAP: ScoreMod = ScoreMod { softcap: Some(0.5), ..ScoreMod::NONE };
const ALIBI: ScoreMod = ScoreMod { alibi: Some(Slopes::PerHead), ..ScoreMod::NONE };
const OF_BATCHES: ScoreMod = ScoreMod { alibi: Some(Slopes::PerBatchAndHead), ..ScoreMod::NONE };

fn problem(shape: Shape, mask: Mask, score_mod: ScoreMod) -> Problem {
    Problem::new(shape, mask, Layout::Bshd).unwrap().with_score_mod(score_mod).unwrap()
}

fn bias(batch: u64, head: u64, row: u64) -> ScoreMod {
    ScoreMod { bias: Some(Strides { batch, head, row }), ..ScoreMod::NONE }
}

/// Calls `forward`. This is sound: the tensors of a case live until its check has synchronised.
fn forward(case: &Case, addresses: Addresses) -> Result<(), Error> {
    // SAFETY: see above; finding wrong addresses is the purpose of the call.
    unsafe { fa512::forward(&case.problem, addresses, raw(&case.stream)) }
}

/// Computes a case and requires correct O and LSE.
fn compute(case: &Case) {
    forward(case, case.addresses()).unwrap();
    case.check(true);
    let entry = Plan::new(&case.problem, &Gpu::current().unwrap()).unwrap().entry();
    assert!(entry.contains("_modified_"), "{entry}");
}

#[test]
fn each_change_is_computed_and_all_together() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let shape = Shape::new(2, 2, 20);
    let full = bias(2 * 20 * 20, 20 * 20, 20);
    let all = ScoreMod { softcap: SOFTCAP.softcap, alibi: OF_BATCHES.alibi, bias: full.bias };
    for (score_mod, mask) in [
        (SOFTCAP, Mask::Full),
        (ALIBI, Mask::Causal),
        (OF_BATCHES, Mask::Full),
        (full, Mask::Full),
        (bias(0, 20 * 20, 20), Mask::Window),
        (bias(20, 0, 0), Mask::Full),
        (all, Mask::Causal),
    ] {
        compute(&Case::new(problem(shape, mask, score_mod), &stream));
    }
    let longer = ScoreMod { bias: bias(0, 70 * 70, 70).bias, ..all };
    let problem = problem(Shape::new(1, 2, 70), Mask::Full, ScoreMod { alibi: ALIBI.alibi, ..longer });
    compute(&Case::new(problem.with_element(Element::Bf16), &stream));
    assert_eq!(findings(), "");
}

#[test]
fn a_bias_may_lie_at_any_element_and_alibi_counts_from_where_queries_are() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let shape = Shape::new(1, 2, 33).with_kv_heads(1).with_kv_sequence(75).with_head_dim(32);
    for alignment in Alignment::ALL {
        // Rows of 77 elements: those of odd queries begin between two 4-byte words.
        let score_mod = ScoreMod { bias: bias(0, 33 * 77, 77).bias, ..ALIBI };
        compute(&Case::new(problem(shape, Mask::Causal, score_mod).aligned(alignment), &stream));
    }
    // Rows that are apart by multiples of 16 bytes, so that kernels copy these at once where the first row is aligned, too.
    let score_mod = ScoreMod { bias: bias(0, 33 * 80, 80).bias, ..ALIBI };
    for begin in [0, 1, 2, 8] {
        compute(&Case::new(problem(shape, Mask::Full, score_mod), &stream).with_bias_from(begin));
    }
    assert_eq!(findings(), "");
}

#[test]
fn packed_sequences_have_softcap_and_alibi() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (element, score_mod, window) in [
        (Element::F16, SOFTCAP, Window::UNLIMITED),
        (Element::Bf16, ALIBI, Window::CAUSAL),
        (Element::F16, ScoreMod { alibi: ALIBI.alibi, ..SOFTCAP }, Window { left: Some(9), right: Some(2) }),
    ] {
        let problem = problem(Shape::new(1, 2, 103), Mask::Full, score_mod).with_element(element).with_window(window);
        compute(&Case::packed_problem(problem, &[2, 3, 70, 70, 100], &stream));
    }
    assert_eq!(findings(), "");
}

#[test]
fn what_bias_and_slopes_point_to_is_checked() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let score_mod = ScoreMod { bias: bias(0, 0, 40).bias, ..ALIBI };
    let case = Case::new(problem(Shape::new(1, 2, 40), Mask::Full, score_mod), &stream);
    let good = case.addresses();
    let (bias, slopes) = (good.bias.unwrap(), good.alibi_slopes.unwrap());
    for (addresses, tensor, bytes, needed) in [
        (Addresses { bias: Some(bias + 2), ..good }, Tensor::Bias, 3198, 3200),
        (Addresses { alibi_slopes: Some(slopes + 4), ..good }, Tensor::Slopes, 4, 8),
    ] {
        let error = forward(&case, addresses).unwrap_err();
        let Error::Memory { tensor: found, why, .. } = error else { panic!("another error: {error}") };
        assert_eq!((found, why), (tensor, MemoryProblem::TooShort { bytes, needed }));
    }
    for (addresses, expected) in [
        (Addresses { bias: None, ..good }, "bias is missing"),
        (Addresses { alibi_slopes: None, ..good }, "alibi_slopes is missing"),
        (Addresses { bias: Some(bias + 1), ..good }, "it must be a non-zero multiple of 2"),
        (Addresses { alibi_slopes: Some(slopes + 2), ..good }, "it must be a non-zero multiple of 4"),
        (Addresses { bias: Some(good.o), ..good }, "O at"),
    ] {
        let error = forward(&case, addresses).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let plain = Case::new(problem(Shape::new(1, 2, 40), Mask::Full, ScoreMod::NONE), &stream);
    let error = forward(&plain, Addresses { bias: Some(bias), ..plain.addresses() }).unwrap_err().to_string();
    assert!(error.contains("bias is given, but the problem has none"), "{error}");
    assert!(case.is_untouched() && plain.is_untouched());
    assert_eq!(findings(), "");
}

#[cfg(feature = "cudarc")]
mod slices {
    use fa512::cudarc::{Lengths, ScoreTensors};
    use half::f16;

    use super::*;

    #[test]
    fn of_changed_scores_are_checked_by_their_length() {
        let Some(()) = machine() else { return };
        let stream = gpu(0);
        let score_mod = ScoreMod { bias: bias(0, 0, 40).bias, ..ALIBI };
        let mut case = Case::new(problem(Shape::new(1, 2, 40), Mask::Full, score_mod), &stream);
        let Case { problem, q, k, v, o, lse, bias, slopes, .. } = &mut case;
        let elements = 2 * 40 * 64;
        // SAFETY: every 16-bit pattern is a valid f16.
        let [q, k, v] = [q, k, v].map(|slice| unsafe { slice.transmute::<f16>(elements) }.unwrap());
        // SAFETY: as above.
        let mut o = unsafe { o.transmute_mut::<f16>(elements) }.unwrap();
        // SAFETY: as above.
        let bias = unsafe { bias.as_ref().unwrap().transmute::<f16>(1600) }.unwrap();
        let slopes = slopes.as_ref().unwrap();
        let tensors = |rows: usize, heads: usize| ScoreTensors {
            bias: Some(bias.slice(..rows * 40)),
            alibi_slopes: Some(slopes.slice(..heads)),
        };
        let mut call = |tensors: &ScoreTensors<'_, f16>| {
            let lse = Some(&mut *lse);
            fa512::cudarc::forward_modified(problem, &q, &k, &v, tensors, &mut o, lse, &stream)
        };
        let message = |result: Result<(), Error>| result.unwrap_err().to_string();
        assert_eq!(message(call(&tensors(39, 2))), "bias: its memory ends after 3120 bytes; the tensor spans 3200");
        assert_eq!(message(call(&tensors(40, 1))), "alibi_slopes: its memory ends after 4 bytes; the tensor spans 8");
        assert!(message(call(&ScoreTensors::NONE)).contains("bias is missing"));
        call(&tensors(40, 2)).unwrap();
        case.check(true);
        assert_eq!(findings(), "");
    }

    #[test]
    fn of_packed_sequences_take_slopes() {
        let Some(()) = machine() else { return };
        let stream = gpu(0);
        let problem = problem(Shape::new(1, 2, 30), Mask::Causal, ALIBI);
        let mut case = Case::packed_problem(problem, &[0, 9, 30], &stream);
        let Case { problem, q, k, v, o, lse, cu_seqlens, slopes, .. } = &mut case;
        let elements = 30 * 2 * 64;
        // SAFETY: every 16-bit pattern is a valid f16.
        let [q, k, v] = [q, k, v].map(|slice| unsafe { slice.transmute::<f16>(elements) }.unwrap());
        // SAFETY: as above.
        let mut o = unsafe { o.transmute_mut::<f16>(elements) }.unwrap();
        let lengths = cu_seqlens.as_ref().unwrap();
        let tensors = ScoreTensors { bias: None, alibi_slopes: slopes.as_ref().map(|slopes| slopes.as_view()) };
        let lse = Some(lse);
        fa512::cudarc::forward_varlen_modified(problem, &q, &k, &v, lengths, &tensors, &mut o, lse, &stream).unwrap();
        case.check(true);
    }

    #[test]
    fn of_padded_batches_take_slopes() {
        let Some(()) = machine() else { return };
        let stream = gpu(0);
        let shape = Shape::new(2, 2, 20).with_kv_sequence(30);
        let problem = problem(shape, Mask::Causal, ALIBI).aligned(Alignment::BottomRight);
        let mut case = Case::padded(problem, [&[20, 7], &[11, 30]], &stream);
        let Case { problem, q, k, v, o, lse, seqused, slopes, .. } = &mut case;
        // SAFETY: every 16-bit pattern is a valid f16.
        let [q, k, v] = [(q, 20), (k, 30), (v, 30)]
            .map(|(slice, rows)| unsafe { slice.transmute::<f16>(2 * rows * 2 * 64) }.unwrap());
        // SAFETY: as above.
        let mut o = unsafe { o.transmute_mut::<f16>(2 * 20 * 2 * 64) }.unwrap();
        let [seqused_q, seqused_k] = seqused.as_ref().unwrap().each_ref().map(|used| Some(used.as_view()));
        let lengths = Lengths { seqused_q, seqused_k, ..Lengths::default() };
        let tensors = ScoreTensors { bias: None, alibi_slopes: slopes.as_ref().map(|slopes| slopes.as_view()) };
        let mut call = |tensors| {
            let lse = Some(&mut *lse);
            fa512::cudarc::forward_lengths_modified(problem, &q, &k, &v, &lengths, tensors, &mut o, lse, &stream)
        };
        assert!(call(&ScoreTensors::NONE).unwrap_err().to_string().contains("alibi_slopes is missing"));
        call(&tensors).unwrap();
        case.check(true);
        assert_eq!(findings(), "");
    }
}
