//! Unwritten values: they may be moved and computed with, and give findings when something depends on them. The PTX in
//! `compiled/undefined*.ptx` was made by nvcc 13.0 from `compiled/undefined.cu`, with `-O3 -lineinfo` and with `-Xcicc -O0`.

use crate::common::{Kernel, bytes, words};
use ptx_sim::{Finding, FindingClass, GlobalMemory, Launch, Module, Options, run};

const OPTIMISED: &str = include_str!("compiled/undefined.ptx");
const UNOPTIMISED: &str = include_str!("compiled/undefined_O0.ptx");

/// Runs a kernel of `compiled/undefined.cu` in one block, with an output of that many bytes and, where there is one, `n`.
fn compiled(text: &str, entry: &str, threads: u32, output_bytes: u64, n: Option<u32>) -> (Vec<u8>, Vec<Finding>) {
    let module = Module::parse(text, "undefined.ptx").unwrap_or_else(|error| panic!("{error}"));
    let mut memory = GlobalMemory::new();
    let output = memory.allocate("output", output_bytes).expect("allocating");
    let (address, n) = (output.to_le_bytes(), n.map(u32::to_le_bytes));
    let mut params: Vec<&[u8]> = vec![&address];
    params.extend(n.as_ref().map(|n| n.as_slice()));
    let (grid, block) = ([1; 3], [threads, 1, 1]);
    let launch = Launch { entry, grid, block, dynamic_shared_bytes: 0, params: &params, architecture: 80 };
    let report = run(&module, &mut memory, &launch, &Options::default()).expect("running");
    let mut data = vec![0; output_bytes as usize];
    memory.read(output, &mut data).expect("reading");
    (data, report.findings)
}

/// The only finding, which is about an unwritten value.
fn unwritten(text: &str, entry: &str, threads: u32, output_bytes: u64, n: u32) -> Finding {
    let findings = compiled(text, entry, threads, output_bytes, Some(n)).1;
    match findings.as_slice() {
        [finding] if finding.class == FindingClass::Uninitialised => finding.clone(),
        _ => panic!("{entry}: {findings:#?}"),
    }
}

/// The kernel's output; there must be no findings.
fn clean(text: &str, entry: &str, threads: u32, output_bytes: u64, n: Option<u32>) -> Vec<u8> {
    let (output, findings) = compiled(text, entry, threads, output_bytes, n);
    assert!(findings.is_empty(), "{entry}: {findings:#?}");
    output
}

#[test]
fn a_load_before_the_guard_of_its_value() {
    for text in [OPTIMISED, UNOPTIMISED] {
        let output = words(&clean(text, "guarded", 64, 256, Some(39)));
        let expected = |thread: u32| if thread ^ 1 < 39 { ((thread ^ 1) as f32).to_bits() } else { 0 };
        assert_eq!(output, (0..64).map(expected).collect::<Vec<u32>>());
    }
}

#[test]
fn a_scan_whose_last_lanes_hold_nothing() {
    let output = words(&clean(OPTIMISED, "scan_tail", 32, 128, Some(20)));
    let expected = |lane: u32| match lane {
        0..19 => lane + 2,
        19 => 210,
        _ => 0,
    };
    assert_eq!(output, (0..32).map(expected).collect::<Vec<u32>>());
}

#[test]
fn padding_comes_along_with_a_struct() {
    for text in [OPTIMISED, UNOPTIMISED] {
        let output = clean(text, "copy_structs", 64, 64 * 16, None);
        for (index, particle) in output.chunks(16).enumerate() {
            let from = 63 - index;
            let x = if from % 26 == 1 { 7.0 } else { from as f32 * 0.5 };
            assert_eq!(particle[..8], (from as f64).to_le_bytes());
            assert_eq!(particle[8..12], x.to_le_bytes());
            assert_eq!(particle[12], b'a' + (from % 26) as u8);
        }
    }
}

#[test]
fn a_sum_of_values_that_are_missing() {
    let finding = unwritten(OPTIMISED, "sum_of_all", 64, 256, 60);
    let source = finding.at.source.as_ref().expect("there is line information");
    let read = &finding.other.as_ref().expect("the read").at;
    let read_line = read.source.as_ref().map(|source| source.line);
    assert_eq!((source.line, read_line), (56, Some(55)), "{finding}");
    assert!(finding.message.contains("a 4-byte read, in line"), "{finding}");
    assert!(finding.message.contains("never written, offset 240 of `_ZZ10sum_of_allE4tile`"), "{finding}");
    assert!(finding.to_string().contains("\n  the value was read in line "), "{finding}");
    unwritten(UNOPTIMISED, "sum_of_all", 64, 256, 60);
    clean(OPTIMISED, "sum_of_all", 64, 256, Some(64));
    let finding = unwritten(OPTIMISED, "warp_sum", 32, 4, 31);
    assert_eq!(finding.other.as_ref().and_then(|read| read.at.lane), Some(31), "{finding}");
    clean(OPTIMISED, "warp_sum", 32, 4, Some(32));
}

#[test]
fn a_decision_and_an_address_depend_on_nothing() {
    // -O3 knows that the flag is 1 whenever it was written.
    let finding = unwritten(UNOPTIMISED, "flag_never_set", 64, 256, 5);
    assert!(finding.at.instruction.contains("bra"), "{finding}");
    clean(UNOPTIMISED, "flag_never_set", 64, 256, Some(101));
    for text in [OPTIMISED, UNOPTIMISED] {
        let finding = unwritten(text, "index_never_set", 8, 256, 6);
        assert!(finding.at.instruction.contains("st."), "{finding}");
        assert_eq!(finding.lanes.iter().map(|lane| lane.lane).collect::<Vec<u32>>(), [6, 7], "{finding}");
    }
}

/// Lane `i` reads word `i` of `tile`, which is unwritten from lane 30 on, to `%r2`; then `body`.
fn tail(body: &str) -> Kernel {
    Kernel::new(&format!(
        ".shared .align 16 .b8 tile[256]; shl.b32 %r0, %lane, 2; mov.u32 %r1, tile; add.u32 %r1, %r1, %r0;\n\
         setp.lt.u32 %p0, %lane, 30; @%p0 st.shared.u32 [%r1], 1; bar.warp.sync -1; mul.wide.u32 %rd0, %lane, 4;\n\
         add.u64 %rd0, %rd0, %output; ld.shared.u32 %r2, [%r1];\n{body}"
    ))
    .with_output_bytes(1024)
}

#[test]
fn what_makes_a_value_matter() {
    for body in [
        "st.global.u32 [%rd0], %r2;",
        "add.u32 %r3, %r2, 1; st.global.u32 [%rd0], %r3;",
        "add.u32 %r3, %r2, %r1; ld.shared.u8 %r4, [%r3];",
        "setp.eq.u32 %p1, %r2, 77; @%p1 bra out; out:",
        "setp.eq.u32 %p1, %r2, 77; @%p1 mov.u32 %r4, 1;",
        "red.global.add.u32 [%input], %r2;",
        "mov.b64 %rd1, {%r2, %r2}; cvt.u32.u64 %r3, %rd1; st.global.u32 [%rd0], %r3;",
        "cvt.rn.f32.u32 %f0, %r2; mul.f32 %f1, %f0, %f0; st.global.f32 [%rd0], %f1;",
        "st.shared.u32 [%r1+128], %r2; ld.shared.u32 %r3, [%r1+128]; st.global.u32 [%rd0], %r3;",
    ] {
        let finding = tail(body).run_faulty(FindingClass::Uninitialised);
        assert_eq!(finding.lanes.iter().map(|lane| lane.lane).collect::<Vec<u32>>(), [30, 31], "{body}: {finding}");
        assert!(
            finding.message.contains("in line 18 of the PTX, of shared memory that was never written"),
            "{finding}"
        );
        assert!(finding.message.contains("offset 120 of `tile`"), "{finding}");
    }
}

#[test]
fn what_makes_no_value_matter() {
    for body in [
        "add.u32 %r3, %r2, 1; mul.lo.u32 %r3, %r3, %r3;",
        "selp.u32 %r3, %r2, 5, %p0; st.global.u32 [%rd0], %r3;",
        "@%p0 st.global.u32 [%rd0], %r2;",
        "and.b32 %r3, %r2, 0; st.global.u32 [%rd0], %r3;",
        "shfl.sync.idx.b32 %r3, %r2, 3, 31, -1; st.global.u32 [%rd0], %r3;",
        "setp.gt.u32 %p1, %r2, 7; and.pred %p1, %p1, %p0; @%p1 bra out; out:",
        "setp.gt.u32 %p1, %r2, 0; vote.sync.any.pred %p2, %p1, -1; @%p2 bra out; out:",
        "setp.gt.u32 %p1, %r2, 0; vote.sync.ballot.b32 %r3, %p1, -1; and.b32 %r3, %r3, 0xff; st.global.u32 [%rd0], %r3;",
        "st.shared.u32 [%r1+128], %r2; st.shared.u32 [%r1+128], 4; ld.shared.u32 %r3, [%r1+128]; st.global.u32 [%rd0], %r3;",
        "sub.u32 %r3, %r2, %r2; st.global.u32 [%rd0], %r3;",
    ] {
        tail(body).run_clean();
    }
}

#[test]
fn votes_and_reductions_of_missing_lanes() {
    for body in [
        "setp.eq.u32 %p1, %r2, 1; vote.sync.all.pred %p2, %p1, -1; @%p2 bra out; out:",
        "setp.eq.u32 %p1, %r2, 1; vote.sync.ballot.b32 %r3, %p1, -1; st.global.u32 [%rd0], %r3;",
        "redux.sync.add.u32 %r3, %r2, -1; st.global.u32 [%rd0], %r3;",
        "match.sync.any.b32 %r3, %r2, -1; st.global.u32 [%rd0], %r3;",
        "shfl.sync.idx.b32 %r3, %r2, 31, 31, -1; st.global.u32 [%rd0], %r3;",
    ] {
        let finding = tail(body).run_faulty(FindingClass::Uninitialised);
        assert_eq!(finding.lanes.len(), 32, "{body}: {finding}");
    }
}

#[test]
fn a_part_of_a_word_alone_may_be_padding() {
    let half = ".shared .align 4 .b8 tile[4]; st.shared.u16 [tile], 1; ld.shared.u32 %r2, [tile];";
    let run = |rest: &str| Kernel::new(&format!("{half} {rest}")).with_threads(1);
    run("st.global.u32 [%output], %r2;").run_clean();
    run("and.b32 %r3, %r2, 0xffff; st.global.u32 [%output], %r3;").run_clean();
    run("shr.u32 %r3, %r2, 16; st.global.u32 [%output], %r3;").run_faulty(FindingClass::Uninitialised);
    run("add.u32 %r3, %r2, 0x10000; st.global.u32 [%output], %r3;").run_faulty(FindingClass::Uninitialised);
    // A copy of unwritten bytes is unwritten.
    let twice = "st.global.u32 [%output], %r2; ld.global.u16 %r4, [%output+2]; st.global.u32 [%output+8], %r4;";
    run(twice).run_faulty(FindingClass::Uninitialised);
}

#[test]
fn rows_of_a_product_are_for_themselves() {
    // Row 7 of A was not written.
    let body = ".shared .align 16 .b8 tile[256]; shl.b32 %r0, %lane, 4; mov.u32 %r1, tile; add.u32 %r1, %r1, %r0;\n\
        setp.lt.u32 %p0, %lane, 7; mov.u32 %r9, 0; @%p0 st.shared.v4.u32 [%r1], {%r9, %r9, %r9, %r9};\n\
        setp.gt.u32 %p1, %lane, 7; setp.lt.and.u32 %p1, %lane, 16, %p1; @%p1 st.shared.v4.u32 [%r1], {%r9, %r9, %r9, %r9};\n\
        bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r2, %r3}, [%r1];\n\
        mov.b32 %r4, 0; mov.f32 %f0, 0f00000000;\n\
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r2, %r3}, {%r4}, {%f0, %f0, %f0, %f0};\n\
        mul.wide.u32 %rd0, %lane, 16; add.u64 %rd0, %rd0, %output; shr.u32 %r5, %lane, 2; setp.ne.u32 %p2, %r5, 7;\n";
    let kernel = |store: &str| Kernel::new(&format!("{body}{store}")).with_output_bytes(512);
    kernel("@%p2 st.global.v4.f32 [%rd0], {%f1, %f2, %f3, %f4}; @!%p2 st.global.v2.f32 [%rd0+8], {%f3, %f4};")
        .run_clean();
    let finding = kernel("st.global.v4.f32 [%rd0], {%f1, %f2, %f3, %f4};").run_faulty(FindingClass::Uninitialised);
    assert_eq!(finding.lanes.iter().map(|lane| lane.lane).collect::<Vec<u32>>(), [28, 29, 30, 31], "{finding}");
}

#[test]
fn registers_that_nothing_wrote() {
    let finding = Kernel::new(
        "setp.lt.u32 %p0, %lane, 16; @%p0 mov.u32 %r0, 1; add.u32 %r1, %r0, 1; red.global.add.u32 [%input], %r1;",
    )
    .run_faulty(FindingClass::Uninitialised);
    assert!(finding.message.contains("`%r0`") && finding.message.contains("lanes 16-31"), "{finding}");
    Kernel::new("mov.u32 %r1, %r0; add.u32 %r2, %r1, 1;").run_clean();
    Kernel::new("@%p3 mov.u32 %r1, 1;").run_faulty(FindingClass::Uninitialised);
}

#[test]
fn bytes_that_nothing_wrote_reach_global_memory() {
    let body = "ld.global.u32 %r2, [%output+8]; red.global.add.u32 [%input], %r2;";
    let finding = Kernel::new(body).run_faulty(FindingClass::Uninitialised);
    assert!(finding.message.contains("offset 8 of buffer `output` (256 bytes)"), "{finding}");
}

#[test]
fn a_race_matters_if_its_value_does() {
    // Thread 32 replaces what all others have, or will have, read.
    let body = ".shared .align 4 .b8 seed[4]; setp.eq.u32 %p0, %lane, 0; setp.ne.u32 %p1, %lane, 0;\n\
        @%p0 st.shared.u32 [seed], 5;\nld.shared.u32 %r2, [seed];\n add.u32 %r3, %r2, 1;";
    Kernel::new(&format!("{body} @%p0 st.global.u32 [%output], %r3;")).with_threads(64).run_clean();
    let finding = Kernel::new(&format!("{body} @%p1 red.global.add.u32 [%input], %r3;"))
        .with_threads(64)
        .run_faulty(FindingClass::Race);
    assert!(finding.at.instruction.contains("ld.shared"), "{finding}");
    assert_eq!(finding.occurrences, 63, "{finding}");
}

#[test]
fn copies_carry_what_is_not_known() {
    let copy = ".shared .align 16 .b8 tile[512]; shl.b32 %r0, %lane, 4; mov.u32 %r1, tile; add.u32 %r1, %r1, %r0;\n\
        mul.wide.u32 %rd0, %lane, 16; add.u64 %rd0, %rd0, %output;\n\
        setp.lt.u32 %p0, %lane, 20; @%p0 st.global.u32 [%rd0], 1;\n\
        cp.async.ca.shared.global [%r1], [%rd0], 4; cp.async.wait_all; ld.shared.u32 %r2, [%r1];";
    let run = |rest: &str| Kernel::new(&format!("{copy} {rest}")).with_output_bytes(512);
    run("@%p0 red.global.add.u32 [%input], %r2;").with_input(bytes(&[0])).run_clean();
    let finding = run("red.global.add.u32 [%input], %r2;").run_faulty(FindingClass::Uninitialised);
    assert!(finding.other.as_ref().is_some_and(|read| read.at.instruction.contains("cp.async")), "{finding}");
    assert!(finding.message.contains("buffer `output`"), "{finding}");
}
