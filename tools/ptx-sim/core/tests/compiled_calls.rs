//! Calls as nvcc 13.0 writes them, without optimisation, with debug information, and optimised: `compiled/calls.cu`.

use ptx_sim::{Finding, FindingClass, GlobalMemory, Launch, Module, Options, Report, run};

/// Expected results for each way of compilation.
const COMPILED: [(&str, &str); 3] = [
    ("calls.ptx", include_str!("compiled/calls.ptx")),
    ("calls_O0.ptx", include_str!("compiled/calls_O0.ptx")),
    ("calls_G.ptx", include_str!("compiled/calls_G.ptx")),
];

/// The same of `compiled/programs.cu`.
const PROGRAMS: [(&str, &str); 3] = [
    ("programs.ptx", include_str!("compiled/programs.ptx")),
    ("programs_O0.ptx", include_str!("compiled/programs_O0.ptx")),
    ("programs_G.ptx", include_str!("compiled/programs_G.ptx")),
];

/// Output of a kernel with 32 threads, for an output of 32 elements of a size, followed by these parameters.
fn launch(name: &str, text: &str, entry: &str, bytes: u64, more: &[&[u8]]) -> (Report, Vec<u8>, GlobalMemory) {
    let module = Module::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = GlobalMemory::new();
    let output = memory.allocate("out", 32 * bytes).expect("allocating");
    let address = output.to_le_bytes();
    let params: Vec<&[u8]> = std::iter::once(&address[..]).chain(more.iter().copied()).collect();
    let launch =
        Launch { entry, grid: [1; 3], block: [32, 1, 1], dynamic_shared_bytes: 0, params: &params, architecture: 80 };
    let report = run(&module, &mut memory, &launch, &Options::default())
        .unwrap_or_else(|error| panic!("{entry} of {name}: {error}"));
    let mut data = vec![0; 32 * bytes as usize];
    memory.read(output, &mut data).expect("reading");
    (report, data, memory)
}

fn check(entry: &str, more: &[&[u8]], expected: impl Fn(i32) -> i32) {
    check_in(&COMPILED, entry, more, expected);
}

fn check_in(compiled: &[(&str, &str)], entry: &str, more: &[&[u8]], expected: impl Fn(i32) -> i32) {
    for (name, text) in compiled {
        let (report, data, memory) = launch(name, text, entry, 4, more);
        let findings: Vec<String> = report.findings.iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "{entry} of {name}: {}", findings.join("\n"));
        let results: Vec<i32> = crate::common::words(&data).into_iter().map(|word| word as i32).collect();
        assert_eq!(results, (0..32).map(&expected).collect::<Vec<_>>(), "{entry} of {name}");
        assert_eq!(memory.heap_bytes_in_use(), 0, "{entry} of {name}");
    }
}

#[test]
fn calls_of_every_kind() {
    check("direct", &[], |thread| thread * thread - 3);
    check("recursive", &[], |thread| [0, 1, 1, 2, 3, 5, 8, 13][thread as usize % 8]);
    check("stack", &[&7_u32.to_le_bytes()], |thread| thread + 7);
    check("pointers", &[], |thread| [thread * thread, -thread, 2 * thread][thread as usize % 3]);
    check("virtuals", &[], |thread| if thread % 2 == 1 { 3 * thread } else { thread + 100 });
}

#[test]
fn memory_of_the_device_heap() {
    check("heap", &[], |thread| 16 * thread + 120);
    check("on_heap", &[], |thread| if thread % 2 == 1 { 2 * thread } else { thread });
}

#[test]
fn structures_are_passed_by_value() {
    for (name, text) in COMPILED {
        let (report, data, _) = launch(name, text, "structures", 8, &[]);
        // Unoptimised code copies unwritten padding along.
        assert!(report.findings.is_empty(), "{name}: {:#?}", report.findings);
        let results = data.chunks_exact(8).map(|value| f64::from_le_bytes(value.try_into().expect("eight bytes")));
        assert_eq!(results.collect::<Vec<_>>(), (0..32).map(|thread| 3.5 * f64::from(thread)).collect::<Vec<_>>());
    }
}

#[test]
fn what_kernels_print_is_in_the_report() {
    for (name, text) in COMPILED {
        let module = Module::parse(text, name).expect("parsing");
        let launch = Launch {
            entry: "print",
            grid: [2, 1, 1],
            block: [32, 1, 1],
            dynamic_shared_bytes: 0,
            params: &[&5_u32.to_le_bytes()],
            architecture: 80,
        };
        let report = run(&module, &mut GlobalMemory::new(), &launch, &Options::default()).expect("running");
        let line = |block, thread| format!("thread {thread} of block {block}:  1.25 text z 1099511627776 ff%\n");
        let expected: String = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(block, thread)| line(block, thread)).concat();
        assert_eq!(String::from_utf8_lossy(&report.printed), expected, "{name}");
        assert!(report.findings.is_empty(), "{name}: {:#?}", report.findings);
    }
}

#[test]
fn an_assertion_that_fails_is_named() {
    for (name, text) in COMPILED {
        let (report, _, _) = launch(name, text, "checked", 4, &[&30_u32.to_le_bytes()]);
        let [finding] = report.findings.as_slice() else { panic!("{name}: {:#?}", report.findings) };
        assert_eq!((finding.class, finding.occurrences), (FindingClass::AssertionFailed, 2), "{name}");
        for part in [r#"`threadIdx.x < limit && "too many threads"`"#, "calls.cu:78", "checked", "lanes 30-31"] {
            assert!(finding.message.contains(part), "{name}: {finding}");
        }
        let (report, data, _) = launch(name, text, "checked", 4, &[&32_u32.to_le_bytes()]);
        assert!(report.findings.is_empty(), "{name}: {:#?}", report.findings);
        assert_eq!(crate::common::words(&data), [1; 32], "{name}");
    }
}

#[test]
fn programs() {
    let check = |entry: &str, more: &[&[u8]], expected: &dyn Fn(i32) -> i32| check_in(&PROGRAMS, entry, more, expected);
    check("list", &[], &|_| 10);
    check("lambdas", &[&3_u32.to_le_bytes()], &|thread| 6 * thread + 3);
    let ackermann = |m: i32, n: i32| [n + 1, n + 2, 2 * n + 3][m as usize];
    check("deep", &[], &|thread| ackermann(thread % 3, thread % 4));
    check("sorting", &[], &|_| 1);
    check("warps", &[], &|_| 31 * 16);
    check("objects", &[], &|thread| if thread % 2 == 1 { thread * thread } else { thread << 3 });
}

#[test]
fn programs_with_errors() {
    let cases = [
        ("too_far", FindingClass::OutOfBounds, "0 bytes past the end of its 32 bytes", 32),
        ("gone", FindingClass::OutOfBounds, "where a function had local variables that has returned", 32),
        ("freed_twice", FindingClass::HeapMisuse, "it was freed before", 1),
        ("bottomless", FindingClass::StackOverflow, "`_Z7endlessi`", 1),
    ];
    for (name, text) in PROGRAMS {
        for (entry, class, said, lanes) in cases {
            let (report, ..) = launch(name, text, entry, 4, &[]);
            let [finding] = report.findings.as_slice() else { panic!("{entry} of {name}: {:#?}", report.findings) };
            assert_eq!((finding.class, finding.occurrences), (class, lanes), "{entry} of {name}: {finding}");
            assert!(finding.message.contains(said), "{entry} of {name}: {finding}");
        }
        let (report, ..) = launch(name, text, "too_far", 4, &[]);
        // Optimised, the function is not inlined, and it is there that the write happens.
        assert_eq!(report.findings[0].at.called_from[0].function, "_Z7overrunPii", "{name}");
    }
}

#[test]
fn mathematics() {
    for (name, text) in COMPILED {
        let module = Module::parse(text, name).expect("parsing");
        let mut memory = GlobalMemory::new();
        let inputs: Vec<f64> = (1..=32).map(|index| f64::from(index) * 0.37).collect();
        let input = memory.allocate("in", 256).expect("allocating");
        let bytes: Vec<u8> = inputs.iter().flat_map(|value| value.to_le_bytes()).collect();
        memory.write(input, &bytes).expect("writing");
        let output = memory.allocate("out", 3 * 256).expect("allocating");
        let launch = Launch {
            entry: "mathematics",
            grid: [1; 3],
            block: [32, 1, 1],
            dynamic_shared_bytes: 0,
            params: &[&output.to_le_bytes(), &input.to_le_bytes()],
            architecture: 80,
        };
        let report = run(&module, &mut memory, &launch, &Options::default()).expect("running");
        assert!(report.findings.is_empty(), "{name}: {:#?}", report.findings);
        let mut data = vec![0; 3 * 256];
        memory.read(output, &mut data).expect("reading");
        let results = data.chunks_exact(8).map(|value| f64::from_le_bytes(value.try_into().expect("eight bytes")));
        let expected =
            inputs.iter().flat_map(|x| [x.powf(1.7), (x * 1e6).sin(), x / 3.0 + x.sqrt() + x.exp() + x.ln()]);
        for (place, (result, expected)) in results.zip(expected).enumerate() {
            // CUDA C++ Programming Guide, "Mathematical Functions": at most 2 units in the last place each.
            let error = ((result - expected) / expected).abs();
            assert!(error < 1e-15, "{name}, {place}: {result:e} where {expected:e} is right");
        }
    }
}
