//! Kernels as compilers write them: the PTX in `compiled/` was made by rustc 1.96 (LLVM 22) and nvcc 13.0 from the
//! sources beside it.

use crate::common::bytes;
use ptx_sim::{Counters, GlobalMemory, Launch, Module, Options, Report, run};

fn module(name: &str, text: &str) -> Module {
    Module::parse(text, name).unwrap_or_else(|error| panic!("{error}"))
}

fn upload(memory: &mut GlobalMemory, name: &str, values: &[f32]) -> u64 {
    let address = memory.allocate(name, 4 * values.len() as u64).expect("allocating");
    let words: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
    memory.write(address, &bytes(&words)).expect("writing");
    address
}

fn download(memory: &GlobalMemory, address: u64, count: usize) -> Vec<f32> {
    let mut data = vec![0; 4 * count];
    memory.read(address, &mut data).expect("reading");
    crate::common::words(&data).into_iter().map(f32::from_bits).collect()
}

fn without_findings(report: Report) -> Counters {
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    report.counters
}

#[test]
fn nvcc() {
    let module = module("nvcc.ptx", include_str!("compiled/nvcc.ptx"));
    let mut memory = GlobalMemory::new();
    let values: Vec<f32> = (0..1000).map(|index| (index % 13) as f32 * 0.25).collect();
    let input = upload(&mut memory, "values", &values);
    let sum = memory.allocate("sum", 4).expect("allocating");
    let count = memory.allocate("count", 4).expect("allocating");
    let params: [&[u8]; 4] =
        [&input.to_le_bytes(), &sum.to_le_bytes(), &count.to_le_bytes(), &(values.len() as u32).to_le_bytes()];
    let launch = Launch {
        entry: "weighted_sum",
        grid: [1; 3],
        block: [256, 1, 1],
        dynamic_shared_bytes: 0,
        params: &params,
        architecture: 80,
    };
    let expected: f32 = values.iter().enumerate().map(|(index, value)| value * (index % 4 + 1) as f32).sum();
    for launches in 3..5 {
        without_findings(run(&module, &mut memory, &launch, &Options::default()).expect("running"));
        assert_eq!(download(&memory, sum, 1), [expected]);
        assert_eq!(download(&memory, count, 1)[0].to_bits(), launches, "the variable keeps its value");
    }
}

#[test]
fn rustc() {
    const SCALE: f32 = 0.5;
    let module = module("rustc.ptx", include_str!("compiled/rustc.ptx"));
    let mut memory = GlobalMemory::new();
    let values: Vec<f32> = (0..100).map(|index| index as f32 / 64.0).collect();
    let x = upload(&mut memory, "x", &values);
    let y = upload(&mut memory, "y", &[0.0; 100]);
    let mut args = [x.to_le_bytes(), y.to_le_bytes()].concat();
    args.extend(bytes(&[values.len() as u32, SCALE.to_bits()]));
    let launch = Launch {
        entry: "neighbours",
        grid: [2, 1, 1],
        block: [64, 1, 1],
        dynamic_shared_bytes: 256,
        params: &[&args],
        architecture: 86,
    };
    let counters = without_findings(run(&module, &mut memory, &launch, &Options::default()).expect("running"));
    assert_eq!((counters.blocks, counters.ex2), (2, 128));
    let power = |index: usize| {
        let start = values.get(index).copied().unwrap_or(0.0);
        let exponent = (0..index % 8).fold(start, |value, _| value * SCALE + 1.0);
        f64::from(exponent).exp2() as f32
    };
    let expected: Vec<f32> = (0..100).map(|index| power(index ^ 1) / SCALE).collect();
    assert_eq!(download(&memory, y, 100), expected);

    let short = Launch { dynamic_shared_bytes: 128, ..launch };
    let report = run(&module, &mut memory, &short, &Options::default()).expect("running");
    let source = report.findings[0].at.source.as_ref().expect("the PTX has line information");
    assert_eq!((source.file.as_str(), source.line), ("rustc.rs", 43), "{}", report.findings[0]);
}

/// `compiled/pipeline.ptx` by nvcc 13.0 with the libcu++ of CUDA 13.2, whose call of `__nv_activemask_impl` is an `activemask` here.
#[test]
fn a_pipeline_of_libcudacxx() {
    let module = module("pipeline.ptx", include_str!("compiled/pipeline.ptx"));
    let mut memory = GlobalMemory::new();
    let values: Vec<u32> = (0..5 * 64).map(|index| index * index % 97).collect();
    let input = memory.allocate("input", 4 * 5 * 64).expect("allocating");
    memory.write(input, &bytes(&values)).expect("writing");
    let output = memory.allocate("output", 256).expect("allocating");
    let launch = Launch {
        entry: "through_pipeline",
        grid: [1; 3],
        block: [64, 1, 1],
        dynamic_shared_bytes: 0,
        params: &[&input.to_le_bytes(), &output.to_le_bytes(), &5_u32.to_le_bytes()],
        architecture: 80,
    };
    without_findings(run(&module, &mut memory, &launch, &Options::default()).expect("running"));
    let mut data = vec![0; 256];
    memory.read(output, &mut data).expect("reading");
    let expected: Vec<u32> = (0..64).map(|thread| (0..5).map(|round| values[round * 64 + 63 - thread]).sum()).collect();
    assert_eq!(crate::common::words(&data), expected);
}
