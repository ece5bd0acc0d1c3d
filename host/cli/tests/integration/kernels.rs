//! Every entry of the PTX against the f64 reference, in the simulator or, with `FA512_TEST_DEVICE=gpu`, on a GPU.

use cli::element::{Bits, Encoding};
use cli::forward::Forward;
use cli::inputs::{Distribution, Inputs};
use contract::args::Strides;
use contract::config::{Element, Mask, Sequence};
use contract::manifest::Entry;
use contract::problem::{Problem, Shape, Window};
use contract::view::{Layout, View, Views};

use crate::support::{Case, entries, executor, multiply, ptx};

const MASKS: [Mask; 2] = [Mask::Full, Mask::Causal];

fn problem(batch: u32, heads: u32, sequence: u32, mask: Mask, layout: Layout) -> Problem {
    Problem::new(Shape::new(batch, heads, sequence), mask, layout).unwrap()
}

const LAYOUTS: [Layout; 2] = [Layout::Bhsd, Layout::Bshd];

/// Under each mask the type that it is tried with where every pair of both would take long: one of them, and with `swap` the other.
/// Kernels of one type and of the other are made from the same source. Those of each are tried with every kind of lengths and inputs,
/// under one mask or the other.
fn masks_and_types(swap: bool) -> impl Iterator<Item = (Mask, Element)> {
    let [first, second] = Element::ALL;
    MASKS.into_iter().zip(if swap { [second, first] } else { [first, second] })
}

/// Runs one sequence length under both masks, with both types: fp16 in one layout and bf16 in the other, under the other mask the other
/// way round. With `swap` each has the other layout. Entries take turns: [`sequences_around_512`] tries all.
fn every_mask_and_type(batch: u32, heads: u32, sequence: u32, swap: bool) {
    for (index, mask) in MASKS.into_iter().enumerate() {
        for (of_type, element) in Element::ALL.into_iter().enumerate() {
            let layout = LAYOUTS[(index + of_type + usize::from(swap)) % 2];
            let problem = problem(batch, heads, sequence, mask, layout).with_element(element);
            Case::generate(problem, Distribution::Normal).assert_right_in_turns(is_made_for(sequence));
        }
    }
}

/// One head of a sequence length under each mask with one type.
fn every_mask_with_a_type(sequence: u32, swap: bool) -> impl Iterator<Item = Case> {
    masks_and_types(swap).zip(LAYOUTS).map(move |((mask, element), layout)| {
        let problem = problem(1, 1, sequence, mask, layout).with_element(element);
        Case::generate(problem, Distribution::Normal)
    })
}

macro_rules! sequences {
    ($($name:ident: $batch:literal x $heads:literal x $sequence:literal, $swap:literal;)*) => {$(
        #[test]
        fn $name() {
            every_mask_and_type($batch, $heads, $sequence, $swap);
        }
    )*};
}

sequences! {
    sequence_1: 2 x 3 x 1, false;
    sequence_4: 2 x 3 x 4, true;
    sequence_15: 2 x 2 x 15, false;
    sequence_63: 1 x 2 x 63, true;
    sequence_64: 1 x 2 x 64, false;
    sequence_65: 1 x 2 x 65, false;
    sequence_127: 1 x 2 x 127, false;
    sequence_128: 1 x 2 x 128, true;
    sequence_192: 1 x 2 x 192, false;
    sequence_255: 1 x 1 x 255, true;
    sequence_257: 1 x 1 x 257, true;
    sequence_512: 1 x 2 x 512, false;
    sequence_512_in_the_other_layouts: 1 x 2 x 512, true;
}

/// The keys go round the stages of every pipeline at least once. At both lengths together, every kernel is tried once.
#[test]
fn sequences_around_512() {
    for (sequence, swap) in [(511, false), (513, true)] {
        every_mask_with_a_type(sequence, swap).for_each(|case| case.assert_right(true));
    }
}

#[test]
fn sequences_of_many_tiles() {
    for (sequence, swap) in [(700, false), (768, true)] {
        every_mask_with_a_type(sequence, swap).for_each(|case| case.assert_right_in_turns(|_| true));
    }
}

/// Heads enough for every pattern of every distribution.
const PATTERNS: u32 = 4;
/// The length that entries are specialised for.
const SPECIALISED: u32 = 512;

/// At the length that some entries are specialised for those alone: the others are tested at other lengths.
fn is_made_for(sequence: u32) -> impl Fn(&Entry) -> bool {
    move |entry| sequence != SPECIALISED || entry.sequence == Sequence::Exact(SPECIALISED)
}

/// Where a distribution is tried at two lengths, each type has both masks. Entries take turns.
fn every_mask(distribution: Distribution, sequence: u32) {
    let swap = (distribution as usize + usize::from(sequence == SPECIALISED)) % 2 == 1;
    for (mask, element) in masks_and_types(swap) {
        let problem = problem(1, PATTERNS, sequence, mask, Layout::Bshd).with_element(element);
        Case::generate(problem, distribution).assert_right_in_turns(is_made_for(sequence));
    }
}

macro_rules! distributions {
    ($($name:ident: $distribution:ident, $sequence:literal;)*) => {$(
        #[test]
        fn $name() {
            every_mask(Distribution::$distribution, $sequence);
        }
    )*};
}

distributions! {
    uniform_inputs: Uniform, 130;
    large_logits: LargeLogits, 130;
    large_logits_at_512: LargeLogits, 512;
    low_logits: LowLogits, 130;
    low_logits_at_512: LowLogits, 512;
    constant_inputs: Constant, 130;
    inputs_made_against_the_online_softmax: Adversarial, 200;
    inputs_made_against_the_online_softmax_at_512: Adversarial, 512;
    equal_keys: EqualKeys, 130;
    values_that_cancel: Cancelling, 130;
    subnormal_inputs: Subnormal, 130;
    inputs_that_are_not_finite: NonFinite, 130;
    rows_that_are_not_finite: NonFiniteRows, 130;
    rows_that_are_not_finite_at_512: NonFiniteRows, 512;
    inputs_that_are_not_finite_at_512: NonFinite, 512;
}

/// On the four multiprocessors of a simulated GPU one, two or three heads are left behind the whole rounds: the first two
/// times they are dealt out in parts, the last time in halves and parts.
#[test]
fn heads_that_are_left_behind_whole_rounds_are_dealt_out_in_strips() {
    if ptx().manifest().code_generator.name != "rustc" {
        eprintln!("not tested: only rustc's PTX has the kernels with a producer");
        return;
    }
    for heads in [5, 6, 7, 11] {
        let case = Case::generate(problem(1, heads, 512, Mask::Full, Layout::Bshd), Distribution::Normal);
        case.assert_right_in(true, |entry| entry.config.holds_whole_heads());
    }
}

#[test]
fn scales_from_zero_to_the_largest() {
    for (index, scale) in [0.0, 1e-40, 1.0, 30.0, 1e4, contract::limits::MAXIMUM_SCALE].into_iter().enumerate() {
        let [first, second] = Element::ALL;
        let elements = if index % 2 == 0 { [first, second] } else { [second, first] };
        for (mask, element) in MASKS.into_iter().zip(elements) {
            let problem = problem(1, 2, 70, mask, Layout::Bhsd).with_element(element).with_scale(scale).unwrap();
            Case::generate(problem, Distribution::Normal).assert_right(true);
        }
    }
}

/// Scores of −∞ for the first 16 keys, from which some kernels guess where the maximum of a row is, and of −128 for the
/// others, far below any guess that is made of nothing. Under a causal mask the first rows attend to −∞ alone.
#[test]
fn first_keys_may_have_no_weight() {
    let lengths = [(70, false), (SPECIALISED, true)];
    let of_length = |(sequence, swap)| masks_and_types(swap).map(move |(mask, element)| (sequence, mask, element));
    for (sequence, mask, element) in lengths.into_iter().flat_map(of_length) {
        let problem = problem(1, 1, sequence, mask, Layout::Bhsd).with_element(element);
        let normal = Inputs::generate(problem, Distribution::Normal, 7).unwrap();
        let [_, _, v] = normal.storages();
        let filled = |value: f32| vec![problem.element().encode(value.into()); sequence as usize * normal.columns()];
        let mut keys = filled(-4.0);
        keys[..16 * normal.columns()]
            .iter_mut()
            .step_by(normal.columns())
            .for_each(|first| *first = problem.element().encode(f64::NEG_INFINITY));
        let inputs = Inputs::new(problem, filled(4.0), keys, v.clone()).unwrap();
        Case::new(inputs, Distribution::MinusInfinityScores).assert_right_in(true, is_made_for(sequence));
    }
}

/// O of a row that attends to one key is V of that key, to the bit, and its LSE is the score: a backward computes P = 2^(score − LSE) from it,
/// and sums errors of P over all rows.
#[test]
fn a_row_with_one_key_gets_its_v_and_an_exact_lse() {
    const ROWS: u32 = 70;
    let limits = [
        (Mask::Full, Window::UNLIMITED, 1, ROWS),
        (Mask::Causal, Window::CAUSAL, ROWS, 1),
        (Mask::Window, Window { left: Some(0), right: Some(0) }, ROWS, ROWS),
    ];
    for ((mask, window, keys, rows), head_dim) in
        limits.into_iter().flat_map(|of| [32, 64, 96, 128, 192, 256].map(|d| (of, d)))
    {
        for element in Element::ALL {
            let shape = Shape::new(1, 1, ROWS).with_kv_sequence(keys).with_head_dim(head_dim);
            let problem = Problem::new(shape, mask, Layout::Bhsd).unwrap().with_window(window).with_element(element);
            let inputs = Inputs::generate(problem, Distribution::Normal, 7).unwrap();
            let [q, k, v] = inputs.storages().map(|of| of.chunks_exact(inputs.columns()).collect::<Vec<_>>());
            for (entry, module) in entries(&problem) {
                let mut executor = executor();
                let mut forward = Forward::prepare(executor.as_mut(), module, entry, &inputs, true).unwrap();
                let outputs = forward.execute().unwrap().outputs;
                let lse = outputs.lse.expect("it was asked for");
                for row in 0..rows as usize {
                    let key = if keys == 1 { 0 } else { row };
                    let place = format!("{}: row {row} of D = {head_dim}", entry.name);
                    assert_eq!(outputs.o[row * inputs.columns()..][..inputs.columns()], *v[key], "O of {place}");
                    let products = q[row].iter().zip(k[key]).map(|(&q, &k)| element.decode(q) * element.decode(k));
                    let score = products.sum::<f64>() * problem.scale();
                    let error = (f64::from(lse[row]) - score).abs();
                    assert!(error <= 1e-5, "LSE of {place}: {error:e} from the score {score}");
                }
            }
        }
    }
}

/// The largest scores for which results are promised, all equal: O is the mean of V, and LSE the score and the logarithm of the number of
/// keys. f32 has no smaller difference there than 1/8.
#[test]
fn equal_scores_may_be_as_large_as_two_to_the_20() {
    const COLUMNS: f64 = 64.0;
    let score = 2.0f64.powi(20);
    for (sequence, swap) in [(70, false), (340, true), (SPECIALISED, false)] {
        for ((mask, element), sign) in masks_and_types(swap).flat_map(|of| [(of, 1.0), (of, -1.0)]) {
            let problem = problem(1, 1, sequence, mask, Layout::Bhsd).with_element(element).with_scale(1.0).unwrap();
            let normal = Inputs::generate(problem, Distribution::Normal, 7).unwrap();
            let [_, _, v] = normal.storages();
            let filled = |value: f64| vec![element.encode(value); sequence as usize * normal.columns()];
            let (q, k) = (filled((score / COLUMNS).sqrt()), filled(sign * (score / COLUMNS).sqrt()));
            let inputs = Inputs::new(problem, q, k, v.clone()).unwrap();
            let values: Vec<f64> = v.iter().map(|&bits| element.decode(bits)).collect();
            let mut mean = vec![0.0; normal.columns()];
            for (entry, module) in entries(&problem).into_iter().filter(|(entry, _)| is_made_for(sequence)(entry)) {
                let mut executor = executor();
                let outputs = Forward::prepare(executor.as_mut(), module, entry, &inputs, true)
                    .unwrap()
                    .execute()
                    .unwrap()
                    .outputs;
                for row in 0..sequence as usize {
                    let keys = if mask == Mask::Causal { row + 1 } else { sequence as usize };
                    mean.iter_mut().enumerate().for_each(|(column, mean)| {
                        *mean = values[column..].iter().step_by(normal.columns()).take(keys).sum::<f64>() / keys as f64;
                    });
                    let got = outputs.o[row * normal.columns()..].iter().map(|&bits| element.decode(bits));
                    let tolerance = if element == Element::F16 { 4e-3 } else { 3.2e-2 };
                    let is_close = got.zip(&mean).all(|(got, mean)| (got - mean).abs() <= tolerance);
                    assert!(
                        is_close,
                        "{}: row {row} of {sequence}, {sign}: {:?} is not the mean {mean:?}",
                        entry.name,
                        element.decode(outputs.o[row * 64])
                    );
                    let lse = f64::from(outputs.lse.as_ref().unwrap()[row]);
                    let expected = sign * score + (keys as f64).ln();
                    assert!((lse - expected).abs() <= 0.5, "{}: LSE of row {row} is {lse}, not {expected}", entry.name);
                }
            }
        }
    }
}

/// Normal inputs of two lengths, every mask and type, after `change(element, columns, Q, K)`.
fn assert_right_after(lengths: [(u32, bool); 2], seed: u64, change: impl Fn(Element, usize, &mut [Bits], &mut [Bits])) {
    for (sequence, swap) in lengths {
        for (mask, element) in masks_and_types(swap) {
            let problem = problem(1, 1, sequence, mask, Layout::Bhsd).with_element(element);
            let normal = Inputs::generate(problem, Distribution::Normal, seed).unwrap();
            let [mut q, mut k, v] = normal.storages().map(|storage| storage.to_vec());
            change(element, normal.columns(), &mut q, &mut k);
            let inputs = Inputs::new(problem, q, k, v).unwrap();
            Case::new(inputs, Distribution::LargeLogits).assert_right_in(true, is_made_for(sequence));
        }
    }
}

/// Of a block's rows some have scores that are far apart from the first key on, and others overflow a guess that is made of the first
/// keys, but not all: warps of one block go different ways, and start over together.
#[test]
fn scores_of_some_rows_and_of_a_late_key_are_far_apart() {
    assert_right_after([(200, false), (SPECIALISED, true)], 31, |element, columns, q, k| {
        multiply(&mut q[32 * columns..48 * columns], element, 64.0);
        multiply(&mut k[120 * columns..121 * columns], element, 64.0);
    });
}

/// Scores of the later keys are larger, but overflow no guess that is made of the first ones: sums grow until shifts are raised. In some
/// rows they are not, and keep theirs.
#[test]
fn scores_of_later_keys_are_larger() {
    assert_right_after([(340, false), (SPECIALISED, true)], 37, |element, columns, q, k| {
        multiply(&mut q[40 * columns..72 * columns], element, 0.25);
        multiply(&mut k[16 * columns..], element, 3.0);
    });
}

#[test]
fn lse_may_be_absent() {
    for (sequence, mask) in [(65, Mask::Full), (65, Mask::Causal), (512, Mask::Full)] {
        Case::generate(problem(1, 1, sequence, mask, Layout::Bhsd), Distribution::Normal).assert_right(false);
    }
}

#[test]
fn rows_may_be_padded_differently_in_every_tensor() {
    let padded = |row: u64| {
        let head = 70 * row + 8;
        View::new(Strides { batch: 2 * head + 16, head, row })
    };
    let views = Views { q: padded(72), k: padded(80), v: padded(128), o: padded(96) };
    for mask in MASKS {
        let problem = problem(2, 2, 70, mask, Layout::Bhsd).with_views(views).unwrap();
        Case::generate(problem, Distribution::Normal).assert_right(true);
    }
}

/// Between rows lies NaN, which an entry would compute with where it read beyond a row, and what it wrote there would be found.
#[test]
fn rows_may_be_narrower_than_tiles() {
    for (index, (head_dim, mask)) in
        [(8, Mask::Full), (24, Mask::Causal), (40, Mask::Window), (72, Mask::Causal), (120, Mask::Full)]
            .into_iter()
            .enumerate()
    {
        let shape = Shape::new(1, 1, 70).with_head_dim(head_dim);
        let row = u64::from(head_dim) + 8;
        let views = Views::all(View::new(Strides { batch: 0, head: 70 * row, row }));
        let problem = Problem::new(shape, mask, Layout::Bhsd).unwrap().with_views(views).unwrap();
        let problem = problem.with_element(Element::ALL[index % 2]);
        Case::generate(problem, Distribution::Normal).assert_right(true);
    }
}

#[test]
fn keys_and_values_may_be_shared_by_heads() {
    let contiguous = problem(2, 4, 70, Mask::Causal, Layout::Bhsd);
    let shared = View::new(Strides { head: 0, batch: 70 * 64, row: 64 });
    let views = Views { k: shared, v: shared, ..*contiguous.views() };
    Case::generate(contiguous.with_views(views).unwrap(), Distribution::Normal).assert_right(true);
}

#[test]
fn q_k_and_v_may_be_interleaved_in_one_storage() {
    const HEADS: u32 = 2;
    const SEQUENCE: u32 = 130;
    for mask in MASKS {
        let separate = problem(1, HEADS, SEQUENCE, mask, Layout::Bshd);
        let inputs = Inputs::generate(separate, Distribution::Normal, 7).unwrap();
        // [S, 3, H, 64]
        let mut storage = Vec::new();
        for row in 0..SEQUENCE {
            let heads = || 0..HEADS;
            let q = heads().map(|head| inputs.q_row(0, head, row));
            let k = heads().map(|head| inputs.k_row(0, head, row));
            let v = heads().map(|head| inputs.v_row(0, head, row));
            storage.extend(q.chain(k).chain(v).flatten());
        }
        let storage: std::sync::Arc<[Bits]> = storage.into();
        let row = u64::from(HEADS) * 64;
        let interleaved = |index| View { offset: index * row, strides: Strides { batch: 0, head: 64, row: 3 * row } };
        let views = Views { q: interleaved(0), k: interleaved(1), v: interleaved(2), ..*separate.views() };
        let problem = separate.with_views(views).unwrap();
        let inputs = Inputs::new(problem, storage.clone(), storage.clone(), storage).unwrap();
        Case::new(inputs, Distribution::Normal).assert_right(true);
    }
}

/// One tensor at a time has its second batch entry more than 4 GiB behind the first, where 32-bit offsets would wrap.
#[test]
#[ignore = "needs 14 GiB of memory and minutes"]
fn offsets_may_exceed_32_bits() {
    let contiguous = problem(2, 1, 70, Mask::Causal, Layout::Bhsd);
    let near = *contiguous.views();
    let far = View::new(Strides { batch: (1 << 31) + 64, ..near.q.strides });
    for views in
        [Views { q: far, ..near }, Views { k: far, ..near }, Views { v: far, ..near }, Views { o: far, ..near }]
    {
        Case::generate(contiguous.with_views(views).unwrap(), Distribution::Normal).assert_right(true);
    }
}
