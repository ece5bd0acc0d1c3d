//! The gradients of a test process, whose GPUs are of its `ARCHITECTURE`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use fa512::{
    Addresses, Alignment, BackwardAddresses, Element, Error, Gpu, Gradient, GradientViews, Layout, Mask, Problem,
    ScoreMod, Shape, Slopes, Strides, Tensor, View, Views, Window,
};

use crate::common::attention::{Case, UNTOUCHED, decode, index, random};
use crate::common::{address, findings, gpu, machine_of, raw};

/// A problem whose O and LSE were computed, with dO and memory for its gradients.
struct Gradients {
    case: Case,
    gradient: Gradient,
    d_o: CudaSlice<u16>,
    /// dQ, dK and dV.
    outputs: [CudaSlice<u16>; 3],
    d_o_values: Vec<u16>,
    d_bias: Option<CudaSlice<u16>>,
    workspace: Option<CudaSlice<u8>>,
}

/// The process's GPUs.
fn machine() -> Option<()> {
    machine_of(crate::ARCHITECTURE)
}

const OUTPUTS: [Tensor; 3] = [Tensor::DQ, Tensor::DK, Tensor::DV];

impl Gradients {
    fn new(problem: Problem, stream: &Arc<CudaStream>) -> Self {
        Self::of(Case::new(problem, stream), Gradient::new(problem).unwrap())
    }

    /// The gradient of a case.
    fn of_case(case: Case) -> Self {
        let gradient = Gradient::new(case.problem).unwrap();
        Self::of(case, gradient)
    }

    fn of(case: Case, gradient: Gradient) -> Self {
        let stream = &case.stream;
        let elements = |tensor| {
            let (offset, elements) = gradient.extent(tensor).unwrap();
            (offset + elements) as usize
        };
        let d_o_values = random(case.problem.element(), elements(Tensor::DO), 5);
        let d_o = stream.clone_htod(&d_o_values).unwrap();
        let outputs = OUTPUTS.map(|tensor| stream.clone_htod(&vec![UNTOUCHED; elements(tensor)]).unwrap());
        let untouched = |elements| stream.clone_htod(&vec![UNTOUCHED; elements as usize]).unwrap();
        let d_bias = gradient.bias_extent().map(untouched);
        Self { case, gradient, d_o, outputs, d_o_values, d_bias, workspace: None }
    }

    /// Computes O and LSE.
    fn forward(&self) {
        // SAFETY: the tensors live until the case is dropped, behind a synchronisation.
        unsafe { fa512::forward(&self.case.problem, self.case.addresses(), raw(&self.case.stream)) }.unwrap();
    }

    /// With a workspace of any contents, if a kernel can use one.
    fn by_sums(self) -> Self {
        let bytes = fa512::backward_by_sums_workspace_bytes(&self.gradient, &Gpu::current().unwrap()).unwrap() as usize;
        let workspace = (bytes > 0).then(|| self.case.stream.clone_htod(&vec![u8::MAX; bytes]).unwrap());
        Self { workspace, ..self }
    }

    /// Computes the gradients and requires right ones, but for those that the other process computes by the same entry.
    fn compute(&self) {
        if self.comes_again() {
            return;
        }
        self.forward();
        self.call(self.addresses()).unwrap();
        self.check();
    }

    /// Whether an entry of sm_80, which computed a problem in this test before, would compute this one. It does so in `backward_sm_80.rs`, from
    /// O and LSE of entries of sm_80, too: with those of sm_90a, which other tests compare with what is right, it has one problem in each test.
    fn comes_again(&self) -> bool {
        thread_local! {
            static SEEN: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
        }
        if crate::ARCHITECTURE != "90" || self.workspace.is_some() {
            return false;
        }
        let entry = fa512::supports_backward(&self.gradient, &Gpu::current().unwrap()).unwrap().entry;
        entry.starts_with("fa512_sm80_") && SEEN.with_borrow_mut(|seen| !seen.insert(entry.to_owned()))
    }

    fn addresses(&self) -> BackwardAddresses {
        let stream = &self.case.stream;
        let [dq, dk, dv] = self.outputs.each_ref().map(|slice| address(slice, stream));
        let workspace = self.workspace.as_ref().map(|workspace| address(workspace, stream));
        let forward = Addresses { workspace, ..self.case.addresses() };
        let d_bias = self.d_bias.as_ref().map(|slice| address(slice, stream));
        BackwardAddresses { forward, d_o: address(&self.d_o, stream), dq, dk, dv, d_bias }
    }

    fn call(&self, addresses: BackwardAddresses) -> Result<(), Error> {
        let call = if self.workspace.is_some() { fa512::backward_by_sums } else { fa512::backward };
        // SAFETY: the tensors live until `self` is dropped, behind a synchronisation; finding wrong addresses is the purpose of the call.
        unsafe { call(&self.gradient, addresses, raw(&self.case.stream)) }
    }

    /// dQ, dK and dV as they are on the GPU.
    fn results(&self) -> [Vec<u16>; 3] {
        self.case.stream.synchronize().unwrap_or_else(|error| panic!("{error}: {}", findings()));
        self.outputs.each_ref().map(|slice| self.case.stream.clone_dtoh(slice).unwrap())
    }

    /// Requires the results to be the gradients in f64, and nothing else to be written.
    fn check(&self) {
        let expected = self.reference();
        for ((tensor, got), expected) in OUTPUTS.into_iter().zip(self.results()).zip(expected) {
            let (shape, view) = (self.gradient.shape_of(tensor), self.gradient.view_of(tensor).unwrap());
            let columns = shape.head_dim as usize;
            let largest = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
            let mut written = 0;
            for (number, row) in expected.chunks(columns).enumerate() {
                let number = number as u32;
                let (of_head, row_index) = (number / shape.sequence, number % shape.sequence);
                let first = index(view, of_head / shape.heads, of_head % shape.heads, row_index);
                if self.is_unused(tensor, row_index) {
                    assert!(got[first..first + columns].iter().all(|&bits| bits == UNTOUCHED), "{tensor} {row_index}");
                    continue;
                }
                for (column, expected) in row.iter().enumerate() {
                    let value = decode(self.case.problem.element(), got[first + column]);
                    // dS is rounded to elements, and sums of its errors follow the largest of what is summed.
                    let coarseness = if self.case.problem.element() == Element::F16 { 2e-3 } else { 1.6e-2 };
                    assert!(
                        (value - expected).abs() <= coarseness * largest.max(0.1),
                        "{tensor}[{of_head}, {row_index}, {column}] is {value}, not {expected}: {:?}",
                        self.case.problem
                    );
                    written += 1;
                }
            }
            let touched = got.iter().filter(|&&bits| bits != UNTOUCHED).count();
            assert!(touched <= written, "{tensor}: {touched} elements were written instead of {written}");
        }
    }

    /// Requires dBias to be dS in f64, summed where elements are shared.
    fn check_bias(&self) {
        let (shape, strides) = (self.case.problem.shape(), self.gradient.bias().expect("it is asked for"));
        let mut expected = vec![None; self.gradient.bias_extent().unwrap() as usize];
        let at = |[batch, head, query, key]: [u32; 4]| {
            let of_head = u64::from(batch) * strides.batch + u64::from(head) * strides.head;
            (of_head + u64::from(query) * strides.row + u64::from(key)) as usize
        };
        for (batch, head) in (0..shape.batch).flat_map(|batch| (0..shape.heads).map(move |head| (batch, head))) {
            for (query, key) in
                (0..shape.sequence).flat_map(|query| (0..shape.kv_sequence).map(move |key| (query, key)))
            {
                expected[at([batch, head, query, key])] = Some(0.0);
            }
        }
        self.for_each_score(|place, _, score| *expected[at(place)].as_mut().expect("it is one of all") += score.ds);
        let got = self.case.stream.clone_dtoh(self.d_bias.as_ref().unwrap()).unwrap();
        let largest = expected.iter().flatten().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let coarseness = if self.case.problem.element() == Element::F16 { 2e-3 } else { 1.6e-2 };
        for (index, (&bits, expected)) in got.iter().zip(expected).enumerate() {
            let Some(expected) = expected else {
                assert_eq!(bits, UNTOUCHED, "element {index}, between rows of dBias");
                continue;
            };
            let value = decode(self.case.problem.element(), bits);
            let is_near = (value - expected).abs() <= coarseness * largest.max(0.05);
            assert!(is_near, "dBias[{index}] is {value}, not {expected}: {:?} {strides:?}", self.case.problem);
        }
    }

    /// Whether a row is one that an entry of a padded batch does not use.
    fn is_unused(&self, tensor: Tensor, row: u32) -> bool {
        let of_keys = usize::from(tensor != Tensor::DQ);
        let is_used = self.case.sequences().iter().any(|sequence| sequence[of_keys].contains(&row));
        self.case.seqused.is_some() && !is_used
    }

    /// dQ, dK and dV in f64, contiguous `[B,H,S,D]`.
    fn reference(&self) -> [Vec<f64>; 3] {
        let problem = &self.case.problem;
        let shape = problem.shape();
        let columns = shape.head_dim as usize;
        let mut gradients = OUTPUTS.map(|tensor| {
            let shape = self.gradient.shape_of(tensor);
            vec![0.0; (shape.batch * shape.heads * shape.sequence) as usize * columns]
        });
        let [dq, dk, dv] = &mut gradients;
        self.for_each_score(|[batch, head, query, key], rows, Score { p, ds, derivative }| {
            let ds = problem.scale() * derivative * ds;
            let kv_head = head / shape.group();
            let q_first = (((batch * shape.heads + head) * shape.sequence + query) as usize) * columns;
            let k_first = (((batch * shape.kv_heads + kv_head) * shape.kv_sequence + key) as usize) * columns;
            for column in 0..columns {
                dq[q_first + column] += ds * rows.k[column];
                dk[k_first + column] += ds * rows.q[column];
                dv[k_first + column] += p * rows.d_o[column];
            }
        });
        gradients
    }

    /// Calls `use_it` with each batch entry, head, query and key that it attends to, the rows of Q, K and dO, and what is known of the score.
    fn for_each_score(&self, mut use_it: impl FnMut([u32; 4], Rows<'_>, Score)) {
        let problem = &self.case.problem;
        let (shape, views) = (problem.shape(), problem.views());
        let columns = shape.head_dim as usize;
        let row = |values: &[u16], view: View, batch, head, row| -> Vec<f64> {
            let first = index(view, batch, head, row);
            values[first..first + columns].iter().map(|&bits| decode(problem.element(), bits)).collect()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let [q_values, k_values, v_values] = self.case.inputs();
        for (batch, head) in (0..shape.batch).flat_map(|batch| (0..shape.heads).map(move |head| (batch, head))) {
            let kv_head = head / shape.group();
            let keys: Vec<_> = (0..shape.kv_sequence).map(|key| row(k_values, views.k, batch, kv_head, key)).collect();
            let values: Vec<_> =
                (0..shape.kv_sequence).map(|key| row(v_values, views.v, batch, kv_head, key)).collect();
            for query in 0..shape.sequence {
                let Some(attended) = self.case.keys(query) else { continue };
                let q = row(q_values, views.q, batch, head, query);
                let d_o = row(&self.d_o_values, self.gradient.views().d_o, batch, head, query);
                let scaled = |key: u32| problem.scale() * dot(&q, &keys[key as usize]);
                let score = |key| self.case.score([batch, head, query, key], scaled(key));
                let scores: Vec<f64> = attended.clone().map(score).collect();
                let maximum = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|score| (score - maximum).exp()).sum();
                let p: Vec<f64> = scores.iter().map(|score| (score - maximum).exp() / sum).collect();
                let dp: Vec<f64> = attended.clone().map(|key| dot(&d_o, &values[key as usize])).collect();
                let delta = dot(&p, &dp);
                for ((key, &p), dp) in attended.zip(&p).zip(&dp) {
                    let cap = problem.score_mod().softcap;
                    let derivative = cap.map_or(1.0, |cap| 1.0 - (scaled(key) / cap).tanh().powi(2));
                    let rows = Rows { q: &q, k: &keys[key as usize], d_o: &d_o };
                    use_it([batch, head, query, key], rows, Score { p, ds: p * (dp - delta), derivative });
                }
            }
        }
    }
}

/// The rows that a score's gradient is multiplied with.
struct Rows<'a> {
    q: &'a [f64],
    k: &'a [f64],
    d_o: &'a [f64],
}

/// What is known of a score: its probability, dS before the softcap, and the derivative of the softcap.
struct Score {
    p: f64,
    ds: f64,
    derivative: f64,
}

fn problem(shape: Shape, mask: Mask, layout: Layout) -> Problem {
    Problem::new(shape, mask, layout).unwrap()
}

#[test]
fn gradients_are_right_whatever_the_length_mask_type_and_layout() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (sequence, layout) in [(1, Layout::Bhsd), (17, Layout::Bshd), (64, Layout::Bhsd), (130, Layout::Bshd)] {
        for mask in [Mask::Full, Mask::Causal] {
            for element in [Element::F16, Element::Bf16] {
                let problem = problem(Shape::new(2, 2, sequence), mask, layout).with_element(element);
                let gradients = Gradients::new(problem, &stream);
                gradients.compute();
            }
        }
    }
    assert_eq!(findings(), "");
}

#[test]
fn gradients_of_several_steps_and_blocks_are_right() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (mask, head_dim) in [(Mask::Full, 64), (Mask::Causal, 64), (Mask::Full, 256)] {
        let shape = Shape::new(1, 1, 270).with_head_dim(head_dim);
        let gradients = Gradients::new(problem(shape, mask, Layout::Bhsd), &stream);
        gradients.compute();
    }
    assert_eq!(findings(), "");
}

/// A problem that `seed` decides.
fn drawn(seed: u64) -> Problem {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |limit: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 33) as u32) % limit
    };
    let (kv_heads, group) = (1 + below(2), 1 + below(3));
    let (sequence, other) = (1 + below(200), 1 + below(200));
    let shape = Shape::new(1 + below(2), kv_heads * group, sequence).with_kv_heads(kv_heads);
    let shape = shape.with_kv_sequence([sequence, other][below(2) as usize]).with_head_dim(8 * (1 + below(32)));
    let (layout, mask) =
        ([Layout::Bhsd, Layout::Bshd][below(2) as usize], [Mask::Full, Mask::Causal][below(2) as usize]);
    let problem = problem(shape, mask, layout).with_element([Element::F16, Element::Bf16][below(2) as usize]);
    let problem = problem.with_scale(f64::from(1 + below(20)) / 40.0).unwrap();
    let problem = if below(3) == 0 { problem.aligned(Alignment::BottomRight) } else { problem };
    match below(4) {
        0 => problem.with_window(Window { left: Some(below(70)), right: Some(below(70)) }),
        1 => problem.with_score_mod(ScoreMod { softcap: Some(2.0), ..ScoreMod::NONE }).unwrap(),
        _ => problem,
    }
}

/// `FA512_GRADIENTS` is how many problems are drawn.
#[test]
fn gradients_of_random_problems_are_right() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let count = std::env::var("FA512_GRADIENTS").map_or(10, |count| count.parse().expect("a number of problems"));
    for seed in 0..count {
        let problem = drawn(seed);
        Gradients::new(problem, &stream).compute();
        assert_eq!(findings(), "", "{problem:?}");
    }
}

#[test]
fn gradients_of_heads_of_any_size_are_right() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for head_dim in [8, 40, 72, 128, 136, 192, 200, 256] {
        for mask in [Mask::Full, Mask::Causal] {
            let shape = Shape::new(1, 2, 70).with_head_dim(head_dim);
            let gradients = Gradients::new(problem(shape, mask, Layout::Bshd), &stream);
            gradients.compute();
        }
    }
    assert_eq!(findings(), "");
}

#[test]
fn heads_of_queries_add_to_the_gradients_of_the_heads_of_keys_that_they_share() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (heads, kv_heads, mask, head_dim) in
        [(4, 2, Mask::Full, 64), (3, 1, Mask::Causal, 64), (2, 1, Mask::Full, 192), (3, 1, Mask::Causal, 256)]
    {
        let shape = Shape::new(2, heads, 70).with_kv_heads(kv_heads).with_head_dim(head_dim);
        let gradients = Gradients::new(problem(shape, mask, Layout::Bhsd), &stream);
        gradients.compute();
    }
    assert_eq!(findings(), "");
}

#[test]
fn there_may_be_more_keys_than_queries_or_fewer() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (sequence, kv_sequence) in [(1, 200), (70, 130), (130, 70), (200, 1)] {
        for mask in [Mask::Full, Mask::Causal] {
            let shape = Shape::new(1, 2, sequence).with_kv_sequence(kv_sequence);
            let gradients = Gradients::new(problem(shape, mask, Layout::Bshd), &stream);
            gradients.compute();
        }
    }
    assert_eq!(findings(), "");
}

#[test]
fn gradients_of_heads_that_a_block_computes_whole_are_right() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (batch, kv_heads, group, sequence, kv_sequence, head_dim) in [
        (1, 2, 1, 300, 300, 64),
        (6, 1, 1, 130, 129, 40),
        (2, 1, 2, 140, 260, 64),
        (1, 2, 1, 310, 140, 8),
        (2, 1, 1, 512, 70, 64),
    ] {
        for mask in [Mask::Full, Mask::Causal] {
            let shape = Shape::new(batch, kv_heads * group, sequence).with_kv_heads(kv_heads);
            let problem = problem(shape.with_kv_sequence(kv_sequence).with_head_dim(head_dim), mask, Layout::Bshd);
            let gradients = Gradients::new(problem, &stream);
            let entry = fa512::supports_backward(&gradients.gradient, &Gpu::current().unwrap()).unwrap().entry;
            assert_eq!(entry.contains("_backward_heads_"), crate::ARCHITECTURE == "90", "{entry}");
            gradients.compute();
            assert_eq!(findings(), "", "{problem:?}");
        }
    }
}

#[test]
fn gradients_of_heads_of_one_tile_are_right() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (batch, heads, sequence, kv_sequence, head_dim) in
        [(3, 3, 64, 64, 64), (2, 1, 1, 64, 128), (1, 2, 64, 1, 72), (5, 1, 17, 40, 32), (1, 3, 50, 33, 128)]
    {
        // Before the last key, a causal mask is a window.
        let masks = if sequence < kv_sequence { &[Mask::Full][..] } else { &[Mask::Full, Mask::Causal] };
        for &mask in masks {
            let shape = Shape::new(batch, heads, sequence).with_kv_sequence(kv_sequence).with_head_dim(head_dim);
            let problem = problem(shape, mask, Layout::Bshd);
            let gradients = Gradients::new(problem, &stream);
            let entry = fa512::supports_backward(&gradients.gradient, &Gpu::current().unwrap()).unwrap().entry;
            assert_eq!(entry.contains("_backward_single_"), crate::ARCHITECTURE == "90", "{entry}");
            gradients.compute();
            assert_eq!(findings(), "", "{problem:?}");
        }
    }
}

#[test]
fn gradients_that_are_summed_in_a_workspace_are_right_and_come_again() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let window = |left, right| Window { left, right };
    // Some leave tiles of queries without a key, or give an item a step in which only rows that do not exist attend to its keys.
    for (kv_heads, group, sequence, kv_sequence, head_dim, element, window) in [
        (1, 1, 400, 400, 64, Element::F16, window(Some(70), Some(5))),
        (1, 2, 200, 300, 40, Element::Bf16, window(Some(0), Some(90))),
        (2, 1, 300, 390, 128, Element::Bf16, window(None, Some(130))),
        (1, 1, 300, 40, 72, Element::F16, window(Some(30), Some(1))),
        // Of the two blocks, one begins another head, and both the same one again.
        (2, 2, 270, 300, 64, Element::F16, window(Some(129), Some(17))),
        (1, 1, 130, 700, 64, Element::Bf16, window(Some(1), Some(300))),
    ] {
        let shape = Shape::new(1, kv_heads * group, sequence).with_kv_heads(kv_heads);
        let shape = shape.with_kv_sequence(kv_sequence).with_head_dim(head_dim);
        let of = |mask| problem(shape, mask, Layout::Bshd).with_element(element);
        let windowed = of(Mask::Full).with_window(window);
        for problem in [of(Mask::Full), of(Mask::Causal), windowed, windowed.aligned(Alignment::BottomRight)] {
            let gradients = Gradients::new(problem, &stream).by_sums();
            assert_eq!(gradients.workspace.is_some(), crate::ARCHITECTURE == "90", "{problem:?}");
            if gradients.workspace.is_none() {
                continue;
            }
            gradients.compute();
            let first = gradients.results();
            gradients.call(gradients.addresses()).unwrap();
            assert!(gradients.results() == first, "the same bits, {problem:?}");
            assert_eq!(findings(), "", "{problem:?}");
        }
    }
}

#[test]
fn gradients_have_views_of_their_own() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let problem = problem(Shape::new(2, 2, 40), Mask::Full, Layout::Bhsd).with_scale(0.3).unwrap();
    let padded = View { offset: 8, ..View::new(Strides { batch: 8192, head: 4000, row: 72 }) };
    let padded_problem = problem.with_views(Views::all(padded)).unwrap();
    let other = View::new(Strides { batch: 40 * 256, head: 64, row: 256 });
    let views = GradientViews { d_o: other, dq: other, dk: padded, dv: other };
    let gradient = Gradient::new(padded_problem).unwrap().with_views(views).unwrap();
    let gradients = Gradients::of(Case::new(padded_problem, &stream), gradient);
    gradients.compute();
    assert_eq!(findings(), "");
}

#[test]
fn the_same_gradients_come_again() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let gradients = Gradients::new(problem(Shape::new(1, 2, 150), Mask::Causal, Layout::Bhsd), &stream);
    gradients.forward();
    gradients.call(gradients.addresses()).unwrap();
    let first = gradients.results();
    for _ in 0..2 {
        gradients.call(gradients.addresses()).unwrap();
        assert!(gradients.results() == first);
    }
}

#[test]
fn gradients_of_windows_are_right() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let window = |left, right| Window { left, right };
    for (sequence, window) in [
        (150, window(Some(40), Some(40))),
        (150, window(Some(70), Some(60))),
        (100, window(Some(3), None)),
        (70, window(None, Some(9))),
        (80, window(Some(0), Some(0))),
    ] {
        for head_dim in [64, 128, 256] {
            let shape = Shape::new(1, 1, sequence).with_head_dim(head_dim);
            let problem = problem(shape, Mask::Full, Layout::Bhsd).with_window(window);
            Gradients::new(problem, &stream).compute();
        }
    }
    for (sequence, kv_sequence) in [(70, 130), (130, 70)] {
        for mask in [Mask::Causal, Mask::Window] {
            let shape = Shape::new(1, 2, sequence).with_kv_sequence(kv_sequence);
            Gradients::new(problem(shape, mask, Layout::Bshd).aligned(Alignment::BottomRight), &stream).compute();
        }
    }
    assert_eq!(findings(), "");
}

#[test]
fn gradients_of_changed_scores_are_right() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let (sequence, kv_sequence) = (70, 90);
    let strides = Strides { batch: 0, head: sequence * kv_sequence, row: kv_sequence };
    let softcap = ScoreMod { softcap: Some(1.5), ..ScoreMod::NONE };
    let alibi = ScoreMod { alibi: Some(Slopes::PerHead), ..ScoreMod::NONE };
    let bias = ScoreMod { bias: Some(strides), ..ScoreMod::NONE };
    let all = ScoreMod { softcap: Some(2.0), alibi: Some(Slopes::PerBatchAndHead), bias: Some(strides) };
    for score_mod in [softcap, alibi, bias, all] {
        let of_widths = [(Mask::Full, Element::F16, 64), (Mask::Causal, Element::Bf16, 72)];
        let of_pairs = [(Mask::Causal, Element::F16, 192), (Mask::Full, Element::Bf16, 256)];
        for (mask, element, head_dim) in of_widths.into_iter().chain(of_pairs) {
            let shape = Shape::new(2, 2, sequence as u32).with_kv_sequence(kv_sequence as u32).with_head_dim(head_dim);
            let problem = problem(shape, mask, Layout::Bhsd).with_element(element).with_score_mod(score_mod).unwrap();
            Gradients::new(problem, &stream).compute();
        }
    }
    assert_eq!(findings(), "");
}

/// From some rows on, entries with tensor maps compute them.
#[test]
fn gradients_of_changed_scores_of_long_heads_are_right() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let window = Window { left: Some(150), right: Some(20) };
    for (group, sequence, kv_sequence, head_dim, mask, element) in [
        (2, 400, 110, 64, Mask::Full, Element::F16),
        (1, 390, 180, 40, Mask::Causal, Element::Bf16),
        (1, 390, 300, 64, Mask::Window, Element::Bf16),
    ] {
        let strides = Strides { batch: 0, head: sequence * kv_sequence, row: kv_sequence };
        let softcap = ScoreMod { softcap: Some(1.5), ..ScoreMod::NONE };
        let alibi = ScoreMod { alibi: Some(Slopes::PerHead), ..ScoreMod::NONE };
        let bias = ScoreMod { bias: Some(strides), ..ScoreMod::NONE };
        let all = ScoreMod { softcap: Some(2.0), alibi: Some(Slopes::PerBatchAndHead), bias: Some(strides) };
        let shape = Shape::new(1, group, sequence as u32).with_kv_heads(1).with_head_dim(head_dim);
        let problem = problem(shape.with_kv_sequence(kv_sequence as u32), mask, Layout::Bshd).with_element(element);
        let problem = if mask == Mask::Window { problem.with_window(window) } else { problem };
        for score_mod in [softcap, alibi, bias, all] {
            let gradients = Gradients::new(problem.with_score_mod(score_mod).unwrap(), &stream);
            let entry = fa512::supports_backward(&gradients.gradient, &Gpu::current().unwrap()).unwrap().entry;
            assert_eq!(entry.contains("sm90"), crate::ARCHITECTURE == "90", "{entry}");
            gradients.compute();
        }
    }
    assert_eq!(findings(), "");
}

#[test]
fn gradients_of_a_bias_are_right_whatever_shares_its_elements() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    // Bits of `shared`: batch entries, queries, heads.
    let of_widths = [(40, 3), (128, 6), (192, 5), (256, 3)];
    for (head_dim, shared) in (0..8).map(|shared| (64, shared)).chain(of_widths) {
        let (batch, heads, rows, keys) = (3, 2, if shared & 1 == 0 { 9 } else { 76 }, 70 + shared);
        let own = |of, stride| if shared & of == 0 { stride } else { 0 };
        // A gap behind each head.
        let of_head = rows * keys + 1;
        let strides = Strides { batch: own(1, heads * of_head), head: own(4, of_head), row: own(2, keys) };
        let bias = Strides { batch: 0, head: rows * keys, row: keys };
        let element = if shared % 3 == 0 { Element::Bf16 } else { Element::F16 };
        let changes = ScoreMod { bias: Some(bias), softcap: (shared == 5).then_some(2.0), ..ScoreMod::NONE };
        let shape = Shape::new(batch, heads as u32, rows as u32).with_kv_heads(1).with_kv_sequence(keys as u32);
        let mask = if shared == 6 { Mask::Causal } else { Mask::Full };
        let problem = problem(shape.with_head_dim(head_dim), mask, Layout::Bhsd).with_element(element);
        let case = Case::new(problem.with_score_mod(changes).unwrap(), &stream);
        let gradient = Gradient::new(case.problem).unwrap().with_bias(strides).unwrap();
        let gradients = Gradients::of(case, gradient);
        // With a workspace, sums have parts.
        let gradients = if shared % 2 == 0 { gradients } else { gradients.by_sums() };
        if gradients.comes_again() {
            continue;
        }
        gradients.forward();
        gradients.call(gradients.addresses()).unwrap();
        gradients.check();
        gradients.check_bias();
        assert_eq!(findings(), "", "{:?}", gradients.case.problem);
    }
}

#[test]
fn gradients_of_packed_sequences_are_right_and_0_outside() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let at = |head_dim| Shape::new(1, 2, 160).with_head_dim(head_dim).with_kv_heads(1);
    for mask in [Mask::Full, Mask::Causal, Mask::Window] {
        for head_dim in [64, 96, 160, 256] {
            let problem = problem(at(head_dim), mask, Layout::Bshd);
            Gradients::of_case(Case::packed_problem(problem, &[3, 3, 20, 140, 150], &stream)).compute();
            let (q, k) = ([0, 30, 30, 120, 150], [5, 40, 50, 155, 155]);
            let separate = problem.aligned(Alignment::BottomRight);
            Gradients::of_case(Case::separate(separate, &q, &k, &stream)).compute();
        }
    }
    let alibi = ScoreMod { alibi: Some(Slopes::PerHead), softcap: Some(2.0), bias: None };
    for head_dim in [64, 256] {
        let changed = problem(at(head_dim), Mask::Causal, Layout::Bshd).with_score_mod(alibi).unwrap();
        Gradients::of_case(Case::packed_problem(changed, &[0, 70, 160], &stream)).compute();
    }
    assert_eq!(findings(), "");
}

#[test]
fn gradients_of_padded_batches_are_right_where_rows_are_used() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    for (mask, head_dim) in [(Mask::Full, 64), (Mask::Causal, 64), (Mask::Causal, 256)] {
        let shape = Shape::new(3, 2, 80).with_kv_sequence(90).with_head_dim(head_dim);
        let problem = problem(shape, mask, Layout::Bshd);
        Gradients::of_case(Case::padded(problem, [&[80, 20, 0], &[90, 70, 10]], &stream)).compute();
    }
    assert_eq!(findings(), "");
}

#[test]
fn no_lengths_make_a_gradient_leave_its_tensors_or_hang() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let problem = problem(Shape::new(1, 1, 100), Mask::Full, Layout::Bshd);
    for cu_seqlens in [[0, 20, 10, 30], [90, -5, 1000, 7], [i32::MAX, i32::MIN, -1, 0]] {
        let gradients = Gradients::of_case(Case::packed_problem(problem, &cu_seqlens, &stream));
        gradients.forward();
        gradients.call(gradients.addresses()).unwrap();
        gradients.results();
    }
    assert_eq!(findings(), "");
}

#[test]
fn heads_get_the_narrowest_tiles_that_hold_them() {
    let Some(()) = machine() else { return };
    // Its context ends with it.
    let _stream = gpu(0);
    for (head_dim, tiles) in [(128, "d128"), (136, "d192"), (192, "d192"), (200, "d256"), (256, "d256")] {
        let shape = Shape::new(1, 2, 70).with_head_dim(head_dim);
        let gradient = Gradient::new(problem(shape, Mask::Full, Layout::Bshd)).unwrap();
        let entry = fa512::supports_backward(&gradient, &Gpu::current().unwrap()).unwrap().entry;
        assert!(entry.ends_with(&format!("{tiles}_backward_full")), "{entry}");
    }
}

#[test]
fn wrong_addresses_are_refused_before_anything_is_launched() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let gradients = Gradients::new(problem(Shape::new(1, 2, 64), Mask::Full, Layout::Bhsd), &stream);
    let good = gradients.addresses();
    for (addresses, expected) in [
        (BackwardAddresses { d_o: 0, ..good }, "dO is at address 0x0"),
        (BackwardAddresses { dk: good.dk + 8, ..good }, "dK is at address"),
        (BackwardAddresses { dq: good.dv, ..good }, "dQ at"),
        (BackwardAddresses { dv: good.forward.v, ..good }, "dV at"),
        (BackwardAddresses { dq: good.d_o, ..good }, "dQ at"),
        (BackwardAddresses { forward: Addresses { lse: Some(good.dk), ..good.forward }, ..good }, "dK at"),
        (BackwardAddresses { forward: Addresses { lse: None, ..good.forward }, ..good }, "LSE"),
        (BackwardAddresses { dv: good.dv + 16, ..good }, "dV"),
        (BackwardAddresses { d_bias: Some(good.dv), ..good }, "dBias"),
    ] {
        let error = gradients.call(addresses).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(gradients.results().iter().flatten().all(|&bits| bits == UNTOUCHED));
    assert_eq!(findings(), "");
}
