//! Refused launches, and error messages for texts that are not PTX.

use crate::common::Kernel;
use ptx_sim::{Counters, GlobalMemory, Launch, LaunchError, Module, Options, run};

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

fn module(entry: &str) -> Module {
    Module::parse(&format!("{HEADER}{entry}"), "test.ptx").unwrap_or_else(|error| panic!("{error}"))
}

fn launch(module: &Module, change: impl FnOnce(&mut Launch<'_>)) -> Result<(), LaunchError> {
    let mut launch = Launch {
        entry: "test",
        grid: [1; 3],
        block: [32, 1, 1],
        dynamic_shared_bytes: 0,
        params: &[],
        architecture: 80,
    };
    change(&mut launch);
    run(module, &mut GlobalMemory::new(), &launch, &Options::default()).map(drop)
}

#[test]
fn an_unknown_entry() {
    let module = module(".entry test() { ret; }\n.entry other() { ret; }");
    let error = launch(&module, |launch| launch.entry = "missing").expect_err("there is no such entry");
    assert_eq!(error.to_string(), "no entry `missing` in test.ptx; it has test, other");
}

#[test]
fn parameters_of_the_wrong_number_or_size() {
    let module = module(".entry test(.param .u64 a, .param .align 8 .b8 b[24]) { ret; }");
    let error = launch(&module, |launch| launch.params = &[&[0; 8]]).expect_err("one parameter is missing");
    assert_eq!(error, LaunchError::ParameterCount { entry: "test".to_owned(), expected: 2, given: 1 });
    let error = launch(&module, |launch| launch.params = &[&[0; 8], &[0; 16]]).expect_err("too small");
    assert_eq!(error.to_string(), "parameter 1 of entry `test` has 24 bytes, the launch gives 16");
    launch(&module, |launch| launch.params = &[&[0; 8], &[0; 24]]).expect("these fit");
}

#[test]
fn geometry_beyond_the_hardware_or_the_directives() {
    let plain = module(".entry test() { ret; }");
    for (grid, block) in [([0, 1, 1], [1; 3]), ([1; 3], [1025, 1, 1]), ([1; 3], [32, 33, 1]), ([1, 70_000, 1], [1; 3])]
    {
        let result = launch(&plain, |launch| (launch.grid, launch.block) = (grid, block));
        assert!(matches!(result, Err(LaunchError::Geometry(_))), "grid {grid:?}, block {block:?}: {result:?}");
    }
    let limited = module(".entry test() .maxntid 64, 1, 1 { ret; }");
    launch(&limited, |launch| launch.block = [64, 1, 1]).expect("as many as allowed");
    let error = launch(&limited, |launch| launch.block = [96, 1, 1]).expect_err("too many");
    assert!(error.to_string().contains(".maxntid of `test` allows 64"), "{error}");
    let fixed = module(".entry test() .reqntid 64 { ret; }");
    assert!(launch(&fixed, |launch| launch.block = [32, 2, 1]).is_err(), "the shape counts, not only the number");
}

#[test]
fn shared_memory_beyond_the_architecture() {
    let module = module(".shared .align 16 .b8 tile[1024];\n.entry test() { .reg .b32 r; mov.u32 r, tile; ret; }");
    let with = |architecture: u32, dynamic: u32| {
        launch(&module, |launch| (launch.architecture, launch.dynamic_shared_bytes) = (architecture, dynamic))
    };
    with(80, 162 * 1024).expect("exactly what there is");
    let error = with(80, 162 * 1024 + 1).expect_err("one byte too many");
    assert!(error.to_string().contains("exceed the 166912 a block can have on sm_80"), "{error}");
    assert!(with(86, 99 * 1024).is_err());
    with(90, 226 * 1024).expect("exactly what there is");
}

#[test]
fn local_memory_beyond_any_architecture() {
    let module = module(".entry test() { .local .align 8 .b8 depot[524289]; ret; }");
    assert!(matches!(launch(&module, |_| {}), Err(LaunchError::LocalMemory { bytes: 524_289, .. })));
}

#[test]
fn an_empty_body_ends_at_once() {
    launch(&module(".entry test() { }"), |_| {}).expect("nothing to do");
}

#[test]
fn targets_and_architectures() {
    let with = |target: &str, architecture: u32| {
        let text = format!(".version 8.0\n.target {target}\n.address_size 64\n.entry test() {{ ret; }}");
        let module = Module::parse(&text, "test.ptx").expect("parsing");
        launch(&module, |launch| launch.architecture = architecture)
    };
    with("sm_80", 90).expect("newer hardware runs older code");
    assert!(matches!(with("sm_90", 80), Err(LaunchError::Target { .. })));
    with("sm_90a", 90).expect("the same architecture");
    assert!(matches!(with("sm_90a", 100), Err(LaunchError::Target { .. })));
    assert!(matches!(with("sm_80", 81), Err(LaunchError::UnknownArchitecture { .. })));
}

#[test]
fn unknown_instructions_are_refused_by_name_before_anything_runs() {
    let cases = [
        ("add.s32.fancy %r0, %r1, %r2;", "`.fancy` in `add.s32.fancy`"),
        ("frobnicate.b32 %r0, %r1;", "`frobnicate.b32`"),
        ("mov.u32 %r0, %pm0;", "register `%pm0`"),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0}, {%r0}, {%r0}, {%f0};", "m8n8k4"),
        ("multimem.red.global.add.u32 [%rd0], %r0;", "multimem.red"),
        ("add.rz.bf16 %h0, %h1, %h2;", "add.rz.bf16"),
    ];
    for (instruction, what) in cases {
        let body = format!("st.global.u32 [%output+1], 7;\n{instruction}");
        let error = Kernel::new(&body).try_run().err().unwrap_or_else(|| panic!("{instruction} must be refused"));
        let LaunchError::Unsupported { line, what: said, .. } = &error else { panic!("{instruction}: {error}") };
        assert_eq!((*line, said.contains(what)), (17, true), "{instruction}: {error}");
    }
}

#[test]
fn wrong_instructions_are_refused_with_their_place() {
    let cases = [
        ("add.s32 %r0, %r1;", "lacks operand 3"),
        ("add.s32 %r0, %r1, %undeclared;", "`%undeclared`"),
        ("add.s32 %r0, %r1, %rd0;", "register `%rd0` is `.b64` where `.s32` is expected"),
        ("bra nowhere;", "label `nowhere` is not declared"),
        ("@%r0 ret;", "not a predicate"),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2}, {%r0,%r0,%r0,%r0}, {%r0,%r0}, {%f0,%f1,%f2,%f3};",
            "takes 4 registers here, not 3",
        ),
        ("cp.async.cg.shared.global [%r0], [%rd0], 8;", ".cg copies 16"),
        ("ld.global.u32 %r0, [%r1];", "cannot hold an address"),
        ("mov.f32 %f0, 1;", "not of type"),
    ];
    for (instruction, what) in cases {
        let error = Kernel::new(instruction).try_run().err().unwrap_or_else(|| panic!("{instruction} must be refused"));
        assert!(
            error.to_string().contains("test.ptx:16:") && error.to_string().contains(what),
            "{instruction}: {error}"
        );
    }
}

#[test]
fn texts_that_are_not_ptx() {
    let cases = [
        ("", "1:1: expected a `.version` directive, found the end of the file"),
        ("hello", "1:1: expected a directive, found `hello`"),
        (".version 8.0\n.target sm_80\n.address_size 32", "3:15: an address size of 32 bits; only 64 is supported"),
        (".version 8.0\n.target sm_80\n.entry k() {\n  add.s32 %r0 %r1;\n}", "4:15: expected `;`, found `%r1`"),
        (".version 8.0\n.target sm_80\n.entry k() {\n  ret;\n", "3:12: a `{` that is never closed"),
        (".version 8.0\n.target sm_80\n.entry k() { ret; } /* never", "3:21: a comment that does not end"),
        (".version 8.0\n.target sm_80\n.entry k() { mov.u32 %r0, 0q; }", "3:27: `0q` is not a number PTX knows"),
        (".version 8.0\n.target sm_80\n  # what", "3:3: unexpected character `#`"),
        (".version 8.0\n.target sm_80\n.file 1 \"open\n", "3:9: a string that does not end on its line"),
        (".version 8.0\n.target sm_80\n.entry k() { ret; }\n.entry k() { ret; }", "4:8: a second entry called `k`"),
        (".version 8.0\n.target sm_80\n.global .align 3 .u32 x;", "3:9: an alignment of 3"),
        (
            ".version 8.0\n.target sm_80\n.const .align 4 .u32 x[1] = {1, 2};",
            "3:22: 8 bytes of initial values for `x`, which is smaller",
        ),
    ];
    for (text, expected) in cases {
        let error = Module::parse(text, "test.ptx").err().unwrap_or_else(|| panic!("{text:?} must be refused"));
        assert!(error.to_string().starts_with(&format!("test.ptx:{expected}")), "{text:?}: {error}");
    }
}

#[test]
fn damaged_texts_never_panic() {
    let body = ".shared .align 16 .b8 tile[64]; mov.b64 {%r0, %r1}, %rd0; @!%p0 bra out;\n\
        setp.lt.and.f32 %p0|%p1, %f0, 0f3F800000, !%p2; ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%input+-16];\nout: /* x */";
    let text = Kernel::new(body).with_variables(".global .align 4 .u32 table[2] = {1, -2};\n").text();
    let mut parsed = 0;
    for length in 0..text.len() {
        parsed += u32::from(Module::parse(&text[..length], "test.ptx").is_ok());
        for replacement in ["{", "}", ";", ".", "\"", "0x", "%", "\u{e9}", "["] {
            let damaged = format!("{}{replacement}{}", &text[..length], &text[length + 1..]);
            if let Ok(module) = Module::parse(&damaged, "test.ptx") {
                let launch = Launch {
                    entry: "test",
                    grid: [1; 3],
                    block: [1; 3],
                    dynamic_shared_bytes: 0,
                    params: &[&[0; 8], &[0; 8]],
                    architecture: 80,
                };
                let options = Options { threads: 1, instructions_per_warp: 1000, ..Options::default() };
                let _ = run(&module, &mut GlobalMemory::new(), &launch, &options);
            }
        }
    }
    assert!(parsed > 0, "the prefixes before the entry are whole modules");
}

#[test]
fn module_properties() {
    let module = module(
        ".entry test() { ret; }\n.visible .func (.param .b32 r) helper(.param .b32 x) { ret; }\n.entry last() { ret; }",
    );
    assert_eq!(module.entries().collect::<Vec<_>>(), ["test", "last"]);
    assert_eq!((module.version(), module.target(), module.file()), ((8, 0), "sm_80", "test.ptx"));
}

#[test]
fn counters_add_up() {
    let once = Kernel::new("ex2.approx.ftz.f32 %f0, 0f3F800000; bar.sync 0;").run().report.counters;
    assert_eq!((once.blocks, once.ex2, once.barrier_instructions, once.control_instructions), (1, 32, 1, 1));
    let mut twice = once;
    twice += once;
    assert_eq!(twice.instructions, 2 * once.instructions);
    assert_eq!(once.entries().count(), Counters::default().entries().count());
}
