//! Parameters of an entry: their addresses, their ends, and that they can only be read.

use crate::common::{Kernel, words};
use ptx_sim::{FindingClass, GlobalMemory, Launch, LaunchError, Module, Options, Report, run};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// `%rd2` is the address of `input` in the param space, `%rd3` its generic one.
const ADDRESS: &str = "mov.b64 %rd2, input; cvta.param.u64 %rd3, %rd2;\n";

#[test]
fn a_parameter_is_read_through_its_addresses() {
    for read in [
        "ld.param.u64 %rd4, [%rd2];",
        "ld.u64 %rd4, [%rd3];",
        "cvta.to.param.u64 %rd5, %rd3; ld.param.u64 %rd4, [%rd5];",
        "ld.v2.u32 {%r0, %r1}, [%rd3]; mov.b64 %rd4, {%r0, %r1};",
        "mov.b64 %rd5, input+4; cvta.param.u64 %rd5, %rd5; ld.b64 %rd4, [%rd5+-4];",
        "mov.u32 %r0, input; ld.param.u64 %rd4, [%r0];",
    ] {
        let body = format!("{ADDRESS}{read} sub.u64 %rd4, %rd4, %input; st.global.u64 [%output], %rd4;");
        let output = Kernel::new(&body).with_threads(1).with_output_bytes(8).run_clean();
        assert_eq!(output, [0; 8], "{read} gives another value than the parameter's");
    }
}

#[test]
fn reading_beyond_a_parameter() {
    for (read, said) in [
        // Not the next parameter: PTX does not say where that lies.
        ("ld.param.u64 %rd4, [output+8];", "0 bytes past the end of parameter `output` (8 bytes)"),
        ("ld.param.u64 %rd4, [input+-8];", "8 bytes before parameter `input` (8 bytes)"),
        ("ld.param.u64 %rd4, [%rd2+16];", "8 bytes past the end of parameter `input` (8 bytes)"),
        ("ld.u64 %rd4, [%rd3+8];", "0 bytes past the end of parameter `input` (8 bytes)"),
        ("ld.u64 %rd4, [%rd3+1073741824];", "bytes past the end of parameter `input` (8 bytes)"),
    ] {
        let finding = Kernel::new(&format!("{ADDRESS}{read}")).run_faulty(FindingClass::OutOfBounds);
        assert!(finding.message.contains(said), "{read}: {finding}");
        assert!(finding.message.contains("8-byte read from parameter memory"), "{read}: {finding}");
    }
}

#[test]
fn a_space_address_is_no_generic_one() {
    let finding = Kernel::new(&format!("{ADDRESS}ld.u64 %rd4, [%rd2];")).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("read from global memory"), "{finding}");
    let finding = Kernel::new(&format!("{ADDRESS}ld.param.u64 %rd4, [%rd3];")).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("past the end of parameter `input`"), "{finding}");
    let finding = Kernel::new(&format!("{ADDRESS}ld.global.u64 %rd4, [%rd3];")).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("a generic address of parameter memory"), "{finding}");
}

#[test]
fn parameters_cannot_be_written() {
    for write in [
        "st.u32 [%rd3+4], %lane;",
        "st.v2.u32 [%rd3], {%lane, %lane};",
        "atom.add.u32 %r0, [%rd3+4], %lane;",
        "red.add.u32 [%rd3+4], %lane;",
    ] {
        let body = format!(
            "{ADDRESS}{write} ld.param.u64 %rd4, [input]; sub.u64 %rd4, %rd4, %input; st.global.u64 [%output], %rd4;"
        );
        let kernel = Kernel::new(&body).with_threads(1).with_output_bytes(8);
        let finding = kernel.run_faulty(FindingClass::OutOfBounds);
        assert!(finding.message.contains("write to parameter memory, which can only be read, offset"), "{finding}");
        assert!(finding.message.contains("of parameter `input` (8 bytes)"), "{finding}");
        assert_eq!(kernel.run().output, [0; 8], "{write} changed the parameter");
    }
}

/// Runs an entry with parameters of its own, in one thread.
fn run_entry(parameters: &str, body: &str, params: &[&[u8]]) -> Result<Report, LaunchError> {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry test({parameters})\n{{\n\
         .reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n{body}\nret;\n}}\n"
    );
    let module = Module::parse(&text, "test.ptx").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let launch =
        Launch { entry: "test", grid: [1; 3], block: [1; 3], dynamic_shared_bytes: 0, params, architecture: 90 };
    run(&module, &mut GlobalMemory::new(), &launch, &Options { threads: 1, ..Options::default() })
}

/// The only finding of a run.
fn only_finding(report: &Report) -> (FindingClass, &str) {
    match report.findings.as_slice() {
        [finding] => (finding.class, &finding.message),
        findings => panic!("expected one finding, got {findings:#?}"),
    }
}

#[test]
fn a_parameter_is_aligned_as_declared_and_no_more() {
    let run = |alignment: u32, load: &str| {
        let parameters = format!(".param .u8 first, .param .align {alignment} .b8 args[16], .param .u64 last");
        run_entry(&parameters, load, &[&[0], &[0; 16], &[0; 8]]).expect("a launch that is possible")
    };
    let wide = "ld.param.v2.b64 {%rd0, %rd1}, [args];";
    assert!(run(16, wide).findings.is_empty());
    let report = run(8, wide);
    assert_eq!(only_finding(&report).0, FindingClass::Misaligned, "8 bytes were declared, and 16 are needed");
    assert!(run(8, "ld.param.b64 %rd0, [args+8];").findings.is_empty());
}

#[test]
fn a_tensor_map_is_aligned_to_64_bytes() {
    let run = |alignment: u32, instruction: &str| {
        let body = format!(
            ".shared .align 8 .b64 gate; .shared .align 128 .b8 tile[1024]; mov.u32 %r0, gate; mov.u32 %r1, tile;\n\
             mov.b64 %rd0, map; cvta.param.u64 %rd1, %rd0; mbarrier.init.shared::cta.b64 [%r0], 1;\n\
             fence.proxy.async; {instruction}"
        );
        run_entry(&format!(".param .align {alignment} .b8 map[128]"), &body, &[&[0; 128]]).expect("a possible launch")
    };
    for instruction in [
        "prefetch.tensormap [%rd1];",
        "prefetch.tensormap [map];",
        "prefetch.param.tensormap [%rd0];",
        "prefetch.param.tensormap [map];",
    ] {
        assert!(run(64, instruction).findings.is_empty(), "{instruction}");
        let report = run(32, instruction);
        let (class, message) = only_finding(&report);
        assert_eq!(class, FindingClass::Misaligned, "{instruction}: {message}");
        assert!(message.contains("offset 0 of parameter `map` (128 bytes)"), "{message}");
    }
    let report = run(64, "prefetch.tensormap [%rd1+64];");
    let (class, message) = only_finding(&report);
    assert_eq!(class, FindingClass::OutOfBounds, "{message}");
    assert!(message.contains("the last 64 bytes are past the end of parameter `map` (128 bytes)"), "{message}");
    for copy in [
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {0}], [%r0];",
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {0}], [%r1];",
    ] {
        let report = run(32, copy);
        let misaligned = report.findings.iter().find(|finding| finding.class == FindingClass::Misaligned);
        let finding = misaligned.unwrap_or_else(|| panic!("{copy}: {:#?}", report.findings));
        assert!(finding.message.contains("multiple of 64, offset 0 of parameter `map`"), "{finding}");
        let report = run(64, copy);
        let (class, message) = only_finding(&report);
        assert_eq!(class, FindingClass::InvalidOperand, "{message}");
        assert!(message.contains("there is no tensor map"), "{message}");
    }
}

#[test]
fn a_prefetch_needs_an_address() {
    let report = run_entry("", "prefetch.tensormap [%rd0];", &[]).expect("a possible launch");
    assert!(
        report.findings.iter().any(|finding| finding.class == FindingClass::Uninitialised),
        "{:#?}",
        report.findings
    );
    let report = run_entry("", "mov.b64 %rd0, 64; prefetch.tensormap [%rd0];", &[]).expect("a possible launch");
    assert_eq!(only_finding(&report).0, FindingClass::OutOfBounds);
    assert!(matches!(run_entry("", "prefetch.global.tensormap [%rd0];", &[]), Err(LaunchError::Unsupported { .. })));
}

#[test]
fn more_parameters_than_there_can_be() {
    let args = vec![0; 32_765];
    let run = |parameters: &str, count: usize| run_entry(parameters, "", &[&args[..count]]);
    assert!(run(".param .b8 args[32764]", 32_764).is_ok());
    let error = run(".param .b8 args[32765]", 32_765).expect_err("a byte too much").to_string();
    assert!(error.contains("take 32765 bytes; at most 32764"), "{error}");
    let many: Vec<String> = (0..200_000).map(|index| format!(".param .b8 a{index}[70000000000000]")).collect();
    assert!(matches!(run(&many.join(","), 0), Err(LaunchError::ParameterSpace { .. })));
    let empty: Vec<String> = (0..50_000).map(|index| format!(".param .align 65536 .b8 a{index}[0]")).collect();
    let given: Vec<&[u8]> = vec![&[]; empty.len()];
    assert!(run_entry(&empty.join(","), "ld.param.u8 %r0, [a49999];", &given).expect("they fit").findings.len() == 1);
}

#[test]
fn parameters_without_bytes_lie_nowhere() {
    let parameters = ".param .align 64 .b8 nothing[0], .param .u32 something";
    let body = "ld.param.u32 %r0, [something]; setp.ne.u32 %p0, %r0, 7; @%p0 trap; ld.param.u8 %r1, [nothing];";
    let report = run_entry(parameters, body, &[&[], &[7, 0, 0, 0]]).expect("a possible launch");
    assert_eq!(only_finding(&report).0, FindingClass::OutOfBounds);
}

#[test]
fn any_generic_address_is_survived() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let window = 0x5000_0000_0000_u64;
    let edges = [window, window - 1, window + 7, window + (1 << 32) - 1, window + (1 << 32), u64::MAX, u64::MAX - 127];
    let near = (0..64).map(|_| window.wrapping_add(random.random_range(0..1 << 18))).collect::<Vec<_>>();
    for address in edges.into_iter().chain(near) {
        let body = format!(
            "mov.b64 %rd2, {address}; ld.u8 %r0, [%rd2]; ld.v4.u32 {{%r0,%r1,%r2,%r3}}, [%rd2]; st.u8 [%rd2], 0; st.b64 [%rd2], %rd2;\n\
             atom.add.u64 %rd3, [%rd2], 1; prefetch.tensormap [%rd2]; ld.param.u64 %rd3, [%rd2]; ld.param.u8 %r0, [%rd2+-1];\n\
             prefetch.param.tensormap [%rd2]; st.global.u32 [%output], 1;"
        );
        let outcome = Kernel::new(&body).on_hopper().with_threads(1).with_output_bytes(4).run();
        assert_eq!(words(&outcome.output), [1], "{address:#x}: the run does not go on");
    }
}

#[test]
fn parameters_by_value() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry test(.param .align 8 .b8 args[24])\n{\n\
        .reg .b64 %rd<3>; .reg .b32 %r<2>; ld.param.b64 %rd0, [args]; ld.param.v2.u32 {%r0, %r1}, [args+8];\n\
        st.global.v2.u32 [%rd0], {%r1, %r0}; ret;\n}\n";
    let module = Module::parse(text, "test.ptx").expect("parsing");
    let mut memory = GlobalMemory::new();
    let output = memory.allocate("output", 8).expect("allocating");
    let mut args = output.to_le_bytes().to_vec();
    args.extend(crate::common::bytes(&[1, 2, 3, 4]));
    let launch = Launch {
        entry: "test",
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared_bytes: 0,
        params: &[&args],
        architecture: 90,
    };
    let report = run(&module, &mut memory, &launch, &Options::default()).expect("running");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let mut data = [0; 8];
    memory.read(output, &mut data).expect("reading");
    assert_eq!(words(&data), [2, 1]);
}
