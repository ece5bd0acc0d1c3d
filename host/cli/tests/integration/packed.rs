//! Packed sequences, including invalid lengths.

use std::ops::Range;

use cli::check::Outputs;
use cli::element::{Bits, Encoding};
use cli::executor::{DeviceChoice, open, sim};
use cli::forward::Forward;
use cli::inputs::{self, Distribution, Inputs};
use cli::kernel::Kernel;
use cli::launch::plan;
use cli::ptx_module::PtxModule;
use contract::config::{Element, Mask, Sequence};
use contract::manifest::Entry;
use contract::packing::{Lengths, Packing};
use contract::plan::Addresses;
use contract::problem::{Alignment, DEFAULT_HEAD_DIM, Problem, ScoreMod, Shape, Slopes, Window};
use contract::refusal::Tensor;
use contract::view::Layout;
use ptx_sim::FindingClass;

use crate::support::{Case, is_turn, ptx_entries};

/// The entries for packed sequences: of the usual width and element type all, of others those of one mask.
fn packed_entries() -> impl Iterator<Item = (&'static Entry, &'static PtxModule)> {
    let is_tried = |entry: &Entry| match (entry.config.columns() == DEFAULT_HEAD_DIM, entry.element) {
        (true, Element::F16) => true,
        (true, Element::Bf16) | (false, Element::F16) => entry.mask == Mask::Causal,
        (false, Element::Bf16) => false,
    };
    ptx_entries().filter(move |(entry, _)| entry.sequence == Sequence::Packed && is_tried(entry))
}

/// Each of those entries with some of the `arrays`, in turns.
fn packed_entries_with<T: Copy>(arrays: &[T]) -> impl Iterator<Item = (&'static Entry, &'static PtxModule, T)> {
    packed_entries().enumerate().flat_map(|(index, (entry, module))| {
        let turns = arrays.iter().enumerate().filter(move |(number, _)| is_turn(index + number));
        turns.map(move |(_, arrays)| (entry, module, *arrays))
    })
}

/// `cu_seqlens` arrays, and their problem given by its rows of Q and of K and V.
struct Arrays<'a> {
    rows: [u32; 2],
    packing: Packing,
    arrays: &'a [(Tensor, &'a [u32])],
}

impl<'a> Arrays<'a> {
    /// One `cu_seqlens`, over as many rows of K and V as of Q.
    fn shared(rows: u32, cu_seqlens: &'a [u32], arrays: &'a mut [(Tensor, &'a [u32]); 1]) -> Self {
        arrays[0] = (Tensor::CuSeqlens, cu_seqlens);
        Self { rows: [rows; 2], packing: Packing::new(cu_seqlens.len() as u32 - 1, rows), arrays }
    }

    fn address(&self, tensor: Tensor, addresses: &[u64]) -> Option<u64> {
        self.arrays.iter().position(|(name, _)| *name == tensor).map(|index| addresses[index])
    }
}

/// What `entry` does with such arrays, under a mask aligned at the last key where it has a window, and O and LSE as it left them.
fn run(entry: &Entry, module: &PtxModule, arrays: &Arrays<'_>) -> (Vec<FindingClass>, Outputs) {
    let mut executor = open(DeviceChoice::Sim, sim::DEFAULT_ARCHITECTURE).unwrap().executor;
    let columns = entry.config.columns();
    let [rows, kv_rows] = arrays.rows;
    let shape = Shape::new(1, 2, rows).with_kv_sequence(kv_rows).with_head_dim(columns);
    let problem = Kernel::Forward(entry).problem(shape, Layout::Bshd).unwrap().packed(arrays.packing).unwrap();
    let problem = if entry.mask == Mask::Window { problem.aligned(Alignment::BottomRight) } else { problem };
    executor.load(module).unwrap();
    let ones = |rows: u32| vec![entry.element.encode(1.0); rows as usize * 2 * columns as usize];
    let mut buffer = |name: &str, bytes: &[u8]| {
        let buffer = executor.allocate(name, bytes.len() as u64).unwrap();
        executor.write(buffer, bytes).unwrap();
        buffer
    };
    let [q, k, v] = [("Q", rows), ("K", kv_rows), ("V", kv_rows)]
        .map(|(name, rows)| buffer(name, bytemuck::cast_slice(&ones(rows))).address);
    let mut output = vec![0xffff_u16; ones(rows).len()];
    let o = buffer("O", bytemuck::cast_slice(&output));
    let mut logarithms = vec![f32::NAN; rows as usize * 2];
    let lse = buffer("LSE", bytemuck::cast_slice(&logarithms));
    let lengths: Vec<u64> = arrays
        .arrays
        .iter()
        .map(|(name, elements)| buffer(name.name(), bytemuck::cast_slice(elements)).address)
        .collect();
    let slopes = problem.score_mod().alibi.map(|_| buffer("alibi_slopes", bytemuck::cast_slice(&[0.5f32; 2])).address);
    let plan = plan(entry, &problem, executor.device()).unwrap();
    let mut launch = plan
        .bind(Addresses {
            lse: Some(lse.address),
            cu_seqlens: arrays.address(Tensor::CuSeqlens, &lengths),
            cu_seqlens_k: arrays.address(Tensor::CuSeqlensK, &lengths),
            seqused_q: arrays.address(Tensor::SequsedQ, &lengths),
            seqused_k: arrays.address(Tensor::SequsedK, &lengths),
            alibi_slopes: slopes,
            ..Addresses::new(q, k, v, o.address)
        })
        .unwrap();
    executor.complete(&mut launch).unwrap();
    let findings = executor.launch(&launch).unwrap().findings.iter().map(|finding| finding.class).collect();
    executor.read(o, bytemuck::cast_slice_mut(&mut output)).unwrap();
    executor.read(lse, bytemuck::cast_slice_mut(&mut logarithms)).unwrap();
    (findings, Outputs { o: output, lse: Some(logarithms) })
}

#[test]
fn every_family_has_kernels_of_packed_sequences_for_every_mask() {
    for mask in [Mask::Full, Mask::Causal, Mask::Window] {
        assert!(packed_entries().any(|(entry, _)| entry.mask == mask), "{mask:?}");
    }
}

const fn minus(number: i32) -> u32 {
    number.wrapping_neg() as u32
}

/// Of two or three sequences over 90 rows.
const HOSTILE: [&[u32]; 8] = [
    &[0, 20, 10, 30],
    &[0, 5, minus(3), 90],
    &[0, 80, 40, 90],
    &[0, u32::MAX, u32::MAX, u32::MAX],
    &[0, i32::MAX as u32, i32::MIN as u32, 7],
    &[1_000_000, 2_000_000, 3_000_000, 4_000_000],
    &[90, 60, 30, 0],
    &[17, 17, 40, 1_000],
];

/// Requires that nothing is found, races included: no row has two writers.
fn assert_within(entry: &Entry, module: &PtxModule, arrays: &Arrays<'_>) {
    let (findings, _) = run(entry, module, arrays);
    assert!(findings.is_empty(), "{} with {:?}: {findings:?}", entry.name, arrays.arrays);
}

#[test]
fn no_lengths_make_a_kernel_leave_the_tensors_or_hang() {
    for (entry, module, cu_seqlens) in packed_entries_with(&HOSTILE) {
        assert_within(entry, module, &Arrays::shared(90, cu_seqlens, &mut [(Tensor::Q, &[])]));
    }
}

/// Arrays for each way in which the finder of `sm_90a` looks for items: it sorts the first and not the others. The last ascends through
/// the first sequences that it looks at together.
#[test]
fn no_row_has_two_writers_however_many_sequences_overlap() {
    let overlapping: Vec<u32> = (0..13).map(|index| index * 12 % 90).collect();
    let many: Vec<u32> = (0..300).map(|index| index * 7 % 90).collect();
    let late: Vec<u32> = (0..300).map(|index| if index < 100 { index } else { index * 11 % 150 }).collect();
    for (entry, module, (rows, cu_seqlens)) in packed_entries_with(&[(90, &overlapping), (90, &many), (150, &late)]) {
        assert_within(entry, module, &Arrays::shared(rows, cu_seqlens, &mut [(Tensor::Q, &[])]));
    }
}

#[test]
fn no_lengths_of_keys_make_a_kernel_leave_the_tensors_or_hang() {
    let both: Vec<_> = HOSTILE.into_iter().zip(HOSTILE.into_iter().rev()).collect();
    for (entry, module, (queries, keys)) in packed_entries_with(&both) {
        let used = [minus(7), 3, i32::MAX as u32];
        let arrays = [
            (Tensor::CuSeqlens, queries),
            (Tensor::CuSeqlensK, keys),
            (Tensor::SequsedQ, &used[..]),
            (Tensor::SequsedK, &used[1..]),
        ];
        // The last array is too short for three sequences; with the others for as many as they are.
        let packing = Packing::separate(3, 90);
        assert_within(entry, module, &Arrays { rows: [90, 70], packing, arrays: &arrays[..3] });
        assert_within(entry, module, &Arrays { rows: [70, 90], packing, arrays: &arrays[..2] });
    }
}

#[test]
fn no_used_rows_make_a_kernel_leave_its_batch_entry_or_hang() {
    let packing = Packing { sequences: 3, longest: 30, lengths: Lengths::Padded };
    let used: [&[u32]; 3] = [&[minus(7), 31, u32::MAX], &[i32::MIN as u32, 1_000_000, 30], &[0, i32::MAX as u32, 1]];
    for (entry, module, used) in packed_entries_with(&used) {
        let arrays = [(Tensor::SequsedQ, used), (Tensor::SequsedK, used)];
        for arrays in [&arrays[..1], &arrays[1..], &arrays[..]] {
            let (findings, _) = run(entry, module, &Arrays { rows: [90, 210], packing, arrays });
            assert!(findings.is_empty(), "{} with {arrays:?}: {findings:?}", entry.name);
        }
    }
}

/// Requires all elements of each row of O, and LSE of each head, to be as expected.
fn assert_rows(entry: &Entry, outputs: &Outputs, rows: u32, expected: impl Fn(u32) -> (u16, fn(f32) -> bool)) {
    let lse = outputs.lse.as_ref().unwrap();
    for (row, elements) in (0..rows).zip(outputs.o.chunks(2 * entry.config.columns() as usize)) {
        let (o, is_expected) = expected(row);
        assert!(elements.iter().all(|&bits| bits == o), "{}: row {row} is {elements:x?}", entry.name);
        let of_heads = [row, rows + row].map(|index| lse[index as usize]);
        assert!(of_heads.into_iter().all(is_expected), "{}: LSE of row {row} is {of_heads:?}", entry.name);
    }
}

#[test]
fn rows_of_no_sequence_become_zeros() {
    // In front and behind, behind only, none, all.
    let arrays: [&[u32]; 6] =
        [&[20, 30, 30, 70], &[0, 30, 30, 70], &[3, 30, 41, 90], &[0, 90], &[90, 90], &[0, 0, 0, 0, 0, 0]];
    for (entry, module, cu_seqlens) in packed_entries_with(&arrays) {
        let one = entry.element.encode(1.0);
        let arrays = &mut [(Tensor::Q, &[][..])];
        let (findings, outputs) = run(entry, module, &Arrays::shared(90, cu_seqlens, arrays));
        assert!(findings.is_empty(), "{} with {cu_seqlens:?}: {findings:?}", entry.name);
        let of_sequences = cu_seqlens[0]..*cu_seqlens.last().unwrap();
        assert_rows(entry, &outputs, 90, |row| match of_sequences.contains(&row) {
            true => (one, f32::is_finite),
            false => (0, |lse| lse == f32::NEG_INFINITY),
        });
    }
}

#[test]
fn unused_rows_are_left_alone() {
    let begins: &[u32] = &[0, 30, 60, 90];
    let arrays: [(Tensor, &[u32]); 3] =
        [(Tensor::CuSeqlens, begins), (Tensor::CuSeqlensK, begins), (Tensor::SequsedQ, &[10, 0, minus(1)])];
    let packed = Packing::separate(3, 30);
    let padded = Packing { sequences: 3, longest: 30, lengths: Lengths::Padded };
    for (entry, module) in packed_entries() {
        let one = entry.element.encode(1.0);
        for (arrays, packing) in [(&arrays[..], packed), (&arrays[2..], padded)] {
            let (findings, outputs) = run(entry, module, &Arrays { rows: [90, 90], packing, arrays });
            assert!(findings.is_empty(), "{}: {findings:?}", entry.name);
            assert_rows(entry, &outputs, 90, |row| match row < 10 {
                true => (one, f32::is_finite),
                false => (0xffff, f32::is_nan),
            });
        }
    }
}

/// Rows of Q and of K and V of each sequence: with more keys and with fewer, without keys, without queries, around tiles.
const QUERIES: [u32; 8] = [70, 3, 0, 129, 1, 64, 40, 200];
const KEYS: [u32; 8] = [3, 70, 20, 64, 200, 0, 129, 70];

#[test]
fn keys_with_lengths_of_their_own() {
    let windows = [Window { left: Some(20), right: Some(5) }, Window { left: None, right: Some(70) }, Window::CAUSAL];
    let more = [Window::UNLIMITED, Window { left: Some(0), right: Some(0) }, Window { left: Some(4), right: None }];
    let windows = windows.into_iter().chain(more);
    let shape = Shape::new(1, 2, QUERIES.iter().sum()).with_kv_sequence(KEYS.iter().sum());
    for (index, window) in windows.enumerate() {
        for alignment in Alignment::ALL {
            let (element, layout) = (Element::ALL[index % 2], [Layout::Bshd, Layout::Bhsd][index / 2 % 2]);
            let problem = Problem::new(shape, Mask::Full, layout).unwrap().with_element(element);
            let problem = problem.with_window(window).aligned(alignment);
            let alibi = [Some(Slopes::PerHead), Some(Slopes::PerBatchAndHead)].get(index).copied().flatten();
            let problem = problem.with_score_mod(ScoreMod { alibi, ..ScoreMod::NONE }).unwrap();
            let inputs = Inputs::generate(problem, Distribution::Normal, 3).unwrap();
            let lengths = inputs::Lengths::separate(&QUERIES, &KEYS).unwrap();
            Case::new(inputs.with_lengths(&lengths).unwrap(), Distribution::Normal).assert_right(true);
        }
    }
}

/// Lengths for each way in which the finder of `sm_90a` looks for items (`kernel-gpu/contract/src/schedule/packed/longest_first.rs`), with 4 to 12
/// blocks: few items; many of different lengths, some of several tiles; so many sequences that it looks several times, an odd number;
/// too many to sort; all of one length.
fn lengths_to_find() -> [Vec<u32>; 5] {
    let every =
        |count: u32, step: u32| (0..count).map(move |index| if index % step == 3 { 66 + index } else { 1 + index % 9 });
    [
        vec![300, 10, 0, 130, 64, 20, 1],
        every(63, 8).collect(),
        every(129, 30).collect(),
        every(259, 90).collect(),
        vec![30; 64],
    ]
}

#[test]
fn items_are_found_however_many_there_are() {
    for (index, lengths) in lengths_to_find().into_iter().enumerate() {
        let heads = if lengths.len() > 64 { 1 } else { 2 };
        let shape = Shape::new(1, heads, lengths.iter().sum()).with_head_dim([64, 32, 128, 64, 96][index]);
        // No mask changes where items are found.
        let problem = Problem::new(shape, [Mask::Full, Mask::Causal][index % 2], Layout::Bshd).unwrap();
        let problem = problem.with_element(Element::ALL[index / 2 % 2]);
        let inputs = Inputs::generate(problem, Distribution::Normal, 5).unwrap();
        let lengths = inputs::Lengths::Shared(lengths);
        Case::new(inputs.with_lengths(&lengths).unwrap(), Distribution::Normal).assert_right(true);
    }
}

#[test]
fn items_are_found_beside_a_sequence_too_long_for_its_size_to_be_kept() {
    let (queries, keys) = ([3, 1, 0, 70, 9, 1, 2, 5], [5, 16_384, 3, 70, 0, 1, 2, 5]);
    let shape = Shape::new(1, 2, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
    let problem = Problem::new(shape, Mask::Full, Layout::Bshd).unwrap();
    let inputs = Inputs::generate(problem, Distribution::Normal, 6).unwrap();
    let lengths = inputs::Lengths::separate(&queries, &keys).unwrap();
    Case::new(inputs.with_lengths(&lengths).unwrap(), Distribution::Normal).assert_right(true);
}

#[test]
fn entries_of_a_padded_batch_use_some_of_their_rows() {
    let used = |used: &[u32]| Some(used.to_vec());
    let (queries, keys) = (used(&[70, 0, 1, 33]), used(&[3, 90, 0, 64]));
    for (index, window) in
        [Window::CAUSAL, Window::UNLIMITED, Window { left: Some(9), right: Some(3) }].into_iter().enumerate()
    {
        for alignment in Alignment::ALL {
            let shape = Shape::new(4, 4, 70).with_kv_sequence(90).with_kv_heads(2);
            let problem = Problem::new(shape, Mask::Full, Layout::Bshd).unwrap();
            let problem = problem.with_element(Element::ALL[index % 2]).with_window(window).aligned(alignment);
            let alibi = (index == 0).then_some(Slopes::PerBatchAndHead);
            let problem = problem.with_score_mod(ScoreMod { alibi, ..ScoreMod::NONE }).unwrap();
            for (queries, keys) in [(&queries, &keys), (&queries, &None), (&None, &keys)] {
                let inputs = Inputs::generate(problem, Distribution::Normal, 4).unwrap();
                let lengths = inputs::Lengths::Padded(queries.clone(), keys.clone());
                Case::new(inputs.with_lengths(&lengths).unwrap(), Distribution::Normal).assert_right(true);
            }
        }
    }
}

#[test]
fn what_lies_in_other_sequences_changes_no_bit() {
    let lengths = [70, 3, 129, 64];
    // With the keys of the queries, with others, and without any: those rows have nothing to do with the neighbours' either.
    let keys = [(None, 73..202), (Some([64, 129, 70, 3]), 193..263), (Some([64, 129, 0, 3]), 193..193)];
    for (entry, module, (keys, own)) in packed_entries_with(&keys.each_ref()) {
        let lengths = match keys {
            None => inputs::Lengths::Shared(lengths.to_vec()),
            Some(keys) => inputs::Lengths::separate(&lengths, keys).unwrap(),
        };
        assert_apart(entry, module, &lengths, [73..202, own.clone()]);
    }
}

/// Requires the outputs of the sequence with `own` rows of Q, and of K and V, to be the same to the bit whatever the others hold.
fn assert_apart(entry: &Entry, module: &PtxModule, lengths: &inputs::Lengths, own: [Range<u32>; 2]) {
    let (rows, kv_rows) = match lengths {
        inputs::Lengths::Separate(queries, keys) => (queries.iter().sum(), keys.iter().sum()),
        inputs::Lengths::Shared(lengths) => (lengths.iter().sum(), lengths.iter().sum()),
        inputs::Lengths::Padded(..) => unreachable!("no test has them"),
    };
    let columns = entry.config.columns();
    let shape = Shape::new(1, 2, rows).with_kv_sequence(kv_rows).with_head_dim(columns);
    let problem = Kernel::Forward(entry).problem(shape, Layout::Bhsd).unwrap();
    let inputs = Inputs::generate(problem, Distribution::Normal, 7).unwrap();
    let outputs = |inputs: Inputs| {
        let mut executor = open(DeviceChoice::Sim, sim::DEFAULT_ARCHITECTURE).unwrap().executor;
        let inputs = inputs.with_lengths(lengths).unwrap();
        let outcome = Forward::prepare(executor.as_mut(), module, entry, &inputs, true).unwrap().execute().unwrap();
        assert!(outcome.execution.findings.is_empty(), "{}: {:?}", entry.name, outcome.execution.findings);
        outcome.outputs
    };
    // Everything but that sequence holds NaN and infinities.
    let poisons = [f64::NAN, f64::INFINITY].map(|value| entry.element.encode(value));
    let poisoned = |storage: &[Bits], rows: u32, own: &Range<u32>| {
        let poison = |(index, &value): (usize, &Bits)| {
            let is_own = own.contains(&(index as u32 / columns % rows));
            if is_own { value } else { poisons[index / 3 % 2] }
        };
        storage.iter().enumerate().map(poison).collect::<Vec<_>>()
    };
    let [q, k, v] = inputs.storages();
    let (q, k, v) = (poisoned(q, rows, &own[0]), poisoned(k, kv_rows, &own[1]), poisoned(v, kv_rows, &own[1]));
    let slopes = inputs.slopes().map(|slopes| slopes.into());
    let spoilt = Inputs::new(problem, q, k, v).unwrap().with_score_mod(None, slopes).unwrap();
    let (clean, spoilt) = (outputs(inputs), outputs(spoilt));
    for head in 0..2 {
        let own = (head * rows + own[0].start) as usize..(head * rows + own[0].end) as usize;
        let of = |outputs: &Outputs| {
            let o = outputs.o[own.start * columns as usize..own.end * columns as usize].to_vec();
            (o, outputs.lse.as_ref().unwrap()[own.clone()].iter().map(|lse| lse.to_bits()).collect::<Vec<_>>())
        };
        assert_eq!(of(&clean), of(&spoilt), "{}, head {head}", entry.name);
    }
}
