//! Packed sequences, and lengths that no caller should pass.

use contract::config::{Element, Mask, Sequence};
use contract::manifest::Entry;
use contract::packed::Packing;
use contract::plan::Addresses;
use contract::problem::{DEFAULT_HEAD_DIM, Shape};
use contract::view::Layout;
use ptx_sim::FindingClass;
use workshop::element::{Bits, Encoding};
use workshop::executor::{DeviceChoice, PtxModule, open, sim};
use workshop::forward::Forward;
use workshop::inputs::{Distribution, Inputs};
use workshop::launch::{plan, problem};

use crate::support::ptx;

/// The entries for packed sequences: all of the usual width, of the others those of one element type and mask.
fn packed_entries() -> impl Iterator<Item = (&'static Entry, &'static PtxModule)> {
    let is_tried = |entry: &Entry| {
        entry.config.columns() == DEFAULT_HEAD_DIM || (entry.element, entry.mask) == (Element::F16, Mask::Causal)
    };
    ptx().entries().filter(move |(entry, _)| entry.sequence == Sequence::Packed && is_tried(entry))
}

/// What `entry` does with `cu_seqlens` over tensors of `rows` rows, and O as it left it.
fn run(entry: &Entry, module: &PtxModule, rows: u32, cu_seqlens: &[u32]) -> (Vec<FindingClass>, Vec<u16>) {
    let mut executor = open(DeviceChoice::Sim, sim::DEFAULT_ARCHITECTURE).unwrap().executor;
    let columns = entry.config.columns();
    let shape = Shape::new(1, 2, rows).with_head_dim(columns);
    let packing = Packing { sequences: cu_seqlens.len() as u32 - 1, longest: rows };
    let problem = problem(entry, shape, Layout::Bshd).unwrap().packed(packing).unwrap();
    executor.load(module).unwrap();
    let values = vec![entry.element.encode(1.0); rows as usize * 2 * columns as usize];
    let mut buffer = |name: &str, bytes: &[u8]| {
        let buffer = executor.allocate(name, bytes.len() as u64).unwrap();
        executor.write(buffer, bytes).unwrap();
        buffer
    };
    let [q, k, v] = ["Q", "K", "V"].map(|name| buffer(name, bytemuck::cast_slice(&values)).address);
    let o = buffer("O", bytemuck::cast_slice(&vec![0xffff_u16; values.len()]));
    let lse = buffer("LSE", &vec![0; rows as usize * 2 * 4]);
    let lengths = buffer("cu_seqlens", bytemuck::cast_slice(cu_seqlens));
    let slopes = problem.score_mod().alibi.map(|_| buffer("alibi_slopes", bytemuck::cast_slice(&[0.5f32; 2])).address);
    let plan = plan(entry, &problem, executor.device()).unwrap();
    let addresses = Addresses {
        lse: Some(lse.address),
        cu_seqlens: Some(lengths.address),
        alibi_slopes: slopes,
        ..Addresses::new(q, k, v, o.address)
    };
    let mut launch = plan.bind(addresses).unwrap();
    executor.complete(&mut launch).unwrap();
    let findings = executor.launch(&launch).unwrap().findings.iter().map(|finding| finding.class).collect();
    let mut output = vec![0_u16; values.len()];
    executor.read(o, bytemuck::cast_slice_mut(&mut output)).unwrap();
    (findings, output)
}

#[test]
fn every_family_has_kernels_of_packed_sequences_for_every_mask() {
    for mask in [Mask::Full, Mask::Causal, Mask::Window] {
        assert!(packed_entries().any(|(entry, _)| entry.mask == mask), "{mask:?}");
    }
}

/// Rows that two sequences claim are written by both: the simulator may call that a race, and nothing else.
#[test]
fn no_lengths_make_a_kernel_leave_the_tensors_or_hang() {
    let minus = |number: i32| number.wrapping_neg() as u32;
    let lengths: [&[u32]; 7] = [
        &[0, 5, minus(3), 90],
        &[0, 80, 40, 90],
        &[0, u32::MAX, u32::MAX, u32::MAX],
        &[0, i32::MAX as u32, i32::MIN as u32, 7],
        &[1_000_000, 2_000_000, 3_000_000, 4_000_000],
        &[90, 60, 30, 0],
        &[17, 17, 40, 1_000],
    ];
    for (entry, module) in packed_entries() {
        for cu_seqlens in lengths {
            let (findings, _) = run(entry, module, 90, cu_seqlens);
            let others: Vec<_> = findings.iter().filter(|class| **class != FindingClass::Race).collect();
            assert!(others.is_empty(), "{} with cu_seqlens {cu_seqlens:?}: {others:?}", entry.name);
        }
    }
}

#[test]
fn rows_of_no_sequence_are_left_alone() {
    for (entry, module) in packed_entries() {
        let (findings, output) = run(entry, module, 90, &[20, 30, 30, 70]);
        assert!(findings.is_empty(), "{}: {findings:?}", entry.name);
        let one = entry.element.encode(1.0);
        for (row, elements) in output.chunks(2 * entry.config.columns() as usize).enumerate() {
            let expected = if (20..70).contains(&row) { one } else { 0xffff };
            assert!(elements.iter().all(|&element| element == expected), "{}: row {row} is {elements:x?}", entry.name);
        }
    }
}

#[test]
fn what_lies_in_other_sequences_changes_no_bit() {
    let lengths = [70, 3, 129, 64];
    let rows: u32 = lengths.iter().sum();
    for (entry, module) in packed_entries() {
        let shape = Shape::new(1, 2, rows).with_head_dim(entry.config.columns());
        let problem = problem(entry, shape, Layout::Bhsd).unwrap();
        let inputs = Inputs::generate(problem, Distribution::Normal, 7).unwrap();
        let outputs = |inputs: Inputs| {
            let mut executor = open(DeviceChoice::Sim, sim::DEFAULT_ARCHITECTURE).unwrap().executor;
            let inputs = inputs.packed(&lengths).unwrap();
            let outcome = Forward::prepare(executor.as_mut(), module, entry, &inputs, true).unwrap().execute().unwrap();
            assert!(outcome.execution.findings.is_empty(), "{}: {:?}", entry.name, outcome.execution.findings);
            outcome.outputs.o
        };
        // Everything but the third sequence holds NaN and infinities.
        let poisons = [f64::NAN, f64::INFINITY].map(|value| entry.element.encode(value));
        let poisoned = |storage: &[Bits]| {
            let poison = |(index, &value): (usize, &Bits)| {
                let row = index as u32 / entry.config.columns() % rows;
                let own = (73..202).contains(&row);
                if own { value } else { poisons[index / 3 % 2] }
            };
            storage.iter().enumerate().map(poison).collect::<Vec<_>>()
        };
        let [q, k, v] = inputs.storages().map(|storage| poisoned(storage));
        let slopes = inputs.slopes().map(|slopes| slopes.into());
        let spoilt = Inputs::new(problem, q, k, v).unwrap().with_score_mod(None, slopes).unwrap();
        let (clean, spoilt) = (outputs(inputs), outputs(spoilt));
        let own = |output: &[Bits], head: usize| {
            let columns = entry.config.columns() as usize;
            let first = (head * rows as usize + 73) * columns;
            output[first..first + 129 * columns].to_vec()
        };
        for head in 0..2 {
            assert_eq!(own(&clean, head), own(&spoilt, head), "{}, head {head}", entry.name);
        }
    }
}
