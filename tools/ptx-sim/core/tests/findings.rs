//! Kernels with one planted bug each, and their expected reports.

use crate::common::{Kernel, bytes, words};
use ptx_sim::{FindingClass, Options};

#[test]
fn rows_130_bytes_apart_misalign_async_copies() {
    // Each lane copies the first 16 bytes of a row of 65 halves.
    let body = "mul.lo.u32 %r0, %lane, 130; mul.wide.u32 %rd0, %lane, 128; add.u64 %rd0, %rd0, %input;\n\
        mov.u32 %r1, dynamic; add.u32 %r1, %r1, %r0; cp.async.cg.shared.global [%r1], [%rd0], 16; cp.async.wait_all;";
    let kernel = Kernel::new(body).with_dynamic_shared(65 * 130).with_input(vec![0; 4096]);
    let finding = kernel.run_faulty(FindingClass::Misaligned);
    let first: Vec<(u32, Option<u64>)> = finding.lanes.iter().take(3).map(|lane| (lane.lane, lane.address)).collect();
    assert_eq!(first, [(1, Some(0x482)), (2, Some(0x504)), (3, Some(0x586))]);
    // Every eighth row is aligned.
    assert_eq!(finding.lanes.len(), 28);
    assert!(finding.message.contains("16-byte cp.async"), "{finding}");
    assert!(finding.message.contains("lane 1 at 0x482, lane 2 at 0x504, lane 3 at 0x586"), "{finding}");
}

#[test]
fn one_row_too_many() {
    let body = "shl.b32 %r0, %lane, 4; mul.wide.u32 %rd0, %lane, 128; add.u64 %rd0, %rd0, %input;\n\
        ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd0];";
    let finding = Kernel::new(body).with_input(vec![0; 31 * 128]).run_faulty(FindingClass::OutOfBounds);
    assert_eq!((finding.at.lane, finding.occurrences), (Some(31), 1));
    assert!(finding.message.contains("0 bytes past the end of buffer `input` (3968 bytes)"), "{finding}");
}

#[test]
fn an_address_cut_to_32_bits() {
    let body = "cvt.u32.u64 %r0, %input; cvt.u64.u32 %rd0, %r0; ld.global.u32 %r1, [%rd0];";
    let finding = Kernel::new(body).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("cut to 32 bits"), "{finding}");
}

#[test]
fn shared_memory_beyond_the_launch() {
    let body = "mov.u32 %r0, dynamic; add.u32 %r0, %r0, 1020; shl.b32 %r1, %lane, 2; add.u32 %r0, %r0, %r1; st.shared.u32 [%r0], 1;";
    let finding = Kernel::new(body).with_dynamic_shared(1024).run_faulty(FindingClass::OutOfBounds);
    assert_eq!((finding.at.lane, finding.address, finding.occurrences), (Some(1), Some(2048), 31));
    assert!(finding.message.contains("its 1024 bytes, offset 1024 of `dynamic`"), "{finding}");
}

#[test]
fn a_shared_address_without_its_base() {
    let finding = Kernel::new("shl.b32 %r0, %lane, 2; st.shared.u32 [%r0], 1;")
        .with_dynamic_shared(4096)
        .run_faulty(FindingClass::OutOfBounds);
    assert_eq!((finding.at.lane, finding.address, finding.occurrences), (Some(0), Some(0), 32));
    assert!(finding.message.contains("1024 bytes before the first of its 4096 bytes"), "{finding}");
}

#[test]
fn misaligned_vector_access() {
    let finding = Kernel::new("ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%input+8];").run_faulty(FindingClass::Misaligned);
    assert!(finding.message.contains("multiple of 16"), "{finding}");
}

#[test]
fn misaligned_rows_of_ldmatrix() {
    let body = "mov.u32 %r0, dynamic; mul.lo.u32 %r1, %lane, 72; add.u32 %r1, %r1, %r0; st.shared.u32 [dynamic], 0;\n\
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];";
    let findings = Kernel::new(body).with_dynamic_shared(4096).run().report.findings;
    let misaligned = findings.iter().find(|finding| finding.class == FindingClass::Misaligned).expect("a finding");
    let lanes: Vec<u32> = misaligned.lanes.iter().map(|lane| lane.lane).collect();
    assert_eq!(lanes, [1, 3, 5, 7]);
}

#[test]
fn a_barrier_some_lanes_skip() {
    let body = "setp.lt.u32 %p0, %lane, 48; @!%p0 bra out; bar.sync 0;\nout: bar.sync 1;";
    let findings = Kernel::new(body).with_threads(64).run().report.findings;
    let finding = &findings[0];
    assert_eq!((finding.class, finding.at.warp, finding.at.ptx_line), (FindingClass::BarrierDivergence, 1, 16));
    assert!(finding.message.contains("lanes 16-31 took another path, to line 17 of the PTX"), "{finding}");
}

#[test]
fn a_barrier_after_some_lanes_exited() {
    let body = "setp.ge.u32 %p0, %lane, 20; @%p0 exit; bar.sync 0;";
    let finding = Kernel::new(body).run_faulty(FindingClass::BarrierDivergence);
    assert!(finding.message.contains("lanes 20-31 exited"), "{finding}");
}

#[test]
fn a_barrier_after_a_warp_exited() {
    let body = "setp.ge.u32 %p0, %lane, 32; @%p0 exit; bar.sync 0;";
    // The exit of the last threads that are missing releases a barrier for all, but not one for a number of threads.
    Kernel::new(body).with_threads(64).run_clean();
    let counted = body.replace("bar.sync 0", "bar.sync 0, 64");
    let finding = Kernel::new(&counted).with_threads(64).run_faulty(FindingClass::BarrierDivergence);
    assert!(finding.message.contains("warp 1 of the block ended without reaching barrier 0"), "{finding}");
}

#[test]
fn warps_at_different_barriers() {
    let body = "setp.ge.u32 %p0, %lane, 32; @%p0 bra other; bar.sync 1; bra out;\nother: bar.sync 2;\nout:";
    let finding = Kernel::new(body).with_threads(64).run_faulty(FindingClass::Deadlock);
    assert!(finding.message.contains("warp 0 lanes 0-31 waits at barrier 1 (32 of 64 threads arrived)"), "{finding}");
    assert!(finding.message.contains("warp 1 lanes 0-31 waits at barrier 2"), "{finding}");
}

#[test]
fn contradicting_and_impossible_thread_counts() {
    let body = "setp.ge.u32 %p0, %lane, 32; @%p0 bra other; bar.sync 1, 64; bra out;\nother: bar.sync 1, 96;\nout: bar.sync 0;";
    let findings = Kernel::new(body).with_threads(96).run().report.findings;
    assert!(findings.iter().any(|finding| finding.class == FindingClass::BarrierDivergence), "{findings:?}");
    let finding = Kernel::new("mov.u32 %r0, 40; bar.sync 1, %r0;").run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("40 threads"), "{finding}");
}

#[test]
fn collectives_with_lanes_missing() {
    let branch = |instruction: &str| {
        format!("mov.b32 %r0, 0; setp.lt.u32 %p0, %lane, 16; @!%p0 bra out; {instruction}\nout: bar.warp.sync -1;")
    };
    let mma = "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r1,%r2}, {%r0,%r0}, {%r0}, {%r0,%r0};";
    let finding = Kernel::new(&branch(mma)).run_faulty(FindingClass::CollectiveLanesMissing);
    assert!(finding.message.contains("executed by lanes 0-15 only"), "{finding}");
    Kernel::new(&branch("shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;")).run_faulty(FindingClass::CollectiveLanesMissing);
    Kernel::new(&branch("bar.warp.sync 0xff;")).run_faulty(FindingClass::CollectiveLanesMissing);
    let partial = Kernel::new(&format!("mov.b32 %r0, 0; {mma}")).with_threads(24);
    assert!(partial.run_faulty(FindingClass::CollectiveLanesMissing).message.contains("have no thread"));
}

#[test]
fn lanes_that_give_contradicting_masks() {
    // Lane 1 is named by lane 0, but does not name it: only lane 0 waits in vain.
    let body = "mov.u32 %r1, %lanemask_eq; setp.eq.u32 %p0, %lane, 0; @%p0 mov.u32 %r1, 3;\n\
        shfl.sync.idx.b32 %r2, %lane, %lane, 31, %r1;\nbar.warp.sync -1;";
    let finding = Kernel::new(body).run_faulty(FindingClass::CollectiveLanesMissing);
    let lanes: Vec<u32> = finding.lanes.iter().map(|lane| lane.lane).collect();
    assert_eq!(lanes, [1], "{finding}");
    assert!(finding.message.contains("lane 0 only: lane 1 took another path, to line 18 of the PTX"), "{finding}");
    // Neither of the two can go on.
    let finding = Kernel::new(&body.replace("%lanemask_eq", "-1")).run_faulty(FindingClass::CollectiveLanesMissing);
    assert!(finding.message.contains("lane 0 only: another mask given by lane 1"), "{finding}");
}

#[test]
fn a_missing_lane_is_a_finding_of_its_own_tile_only() {
    let body = "and.b32 %r1, %lane, 16; mov.u32 %r2, 0xffff; shl.b32 %r1, %r2, %r1; setp.eq.u32 %p0, %lane, 20;\n\
        @%p0 bra out; redux.sync.add.u32 %r0, %lane, %r1; mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output;\n\
        st.global.u32 [%rd0], %r0;\nout: bar.warp.sync -1;";
    let outcome = Kernel::new(body).run();
    let [finding] = outcome.report.findings.as_slice() else { panic!("one finding: {:#?}", outcome.report.findings) };
    assert_eq!(finding.class, FindingClass::CollectiveLanesMissing, "{finding}");
    assert!(finding.message.contains("lane 20 took another path"), "{finding}");
    let sums = words(&outcome.output);
    assert_eq!((sums[0], sums[15], sums[16]), (120, 120, 376 - 20), "each tile adds up the lanes it has");
}

#[test]
fn a_lane_outside_its_own_mask() {
    let body = "mov.u32 %r1, 0xffff; setp.ge.u32 %p0, %lane, 16; @%p0 mov.u32 %r1, 0x7fff0000;\n\
        vote.sync.any.pred %p1, %p0, %r1;";
    let finding = Kernel::new(body).run_faulty(FindingClass::CollectiveLanesMissing);
    assert!(finding.message.contains("lane 31 execute this but are not in its mask 0x7fff0000"), "{finding}");
}

#[test]
fn traps_and_endless_loops_end_the_run() {
    let finding = Kernel::new("setp.eq.u32 %p0, %lane, 3; @%p0 trap;").run_faulty(FindingClass::Trap);
    assert!(finding.message.contains("lane 3 executed trap"), "{finding}");
    let finding = Kernel::new("loop: bra loop;").run_faulty(FindingClass::InstructionLimit);
    assert!(finding.at.instruction.contains("bra loop"), "{finding}");
}

#[test]
fn a_lock_that_is_never_released() {
    let body = ".shared .align 4 .u32 lock; setp.eq.u32 %p0, %lane, 0; @%p0 st.shared.u32 [lock], 0; bar.sync 0;\n\
        take: atom.shared.cas.b32 %r0, [lock], 0, 1; setp.ne.u32 %p1, %r0, 0; @%p1 bra take;\nbar.warp.sync -1;";
    let finding = Kernel::new(body).run_faulty(FindingClass::Deadlock);
    assert!(finding.message.contains("waits for a value in memory that nobody changes any more"), "{finding}");
}

#[test]
fn a_uniform_branch_that_is_not() {
    let body = "setp.eq.u32 %p0, %lane, 3; @%p0 bra.uni out; mov.u32 %r0, 1;\nout:";
    assert!(Kernel::new(body).run_faulty(FindingClass::InvalidOperand).message.contains("bra.uni"));
}

#[test]
fn a_branch_target_beyond_the_list() {
    let body = "add.u32 %r0, %lane, 0; ts: .branchtargets out, out; brx.idx %r0, ts;\nout:";
    assert!(Kernel::new(body).run_faulty(FindingClass::InvalidOperand).message.contains("target 2 of a list of 2"));
}

#[test]
fn use_after_free() {
    let kernel = Kernel::new("mov.u32 %r0, 0; st.global.u32 [%output], %r0;");
    let module = ptx_sim::Module::parse(&kernel.text(), "test.ptx").expect("parsing");
    let mut memory = ptx_sim::GlobalMemory::new();
    let freed = memory.allocate("scratch", 64).expect("allocating");
    memory.free(freed).expect("freeing");
    let launch = ptx_sim::Launch {
        entry: "test",
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared_bytes: 0,
        params: &[&freed.to_le_bytes(), &0_u64.to_le_bytes()],
        architecture: 80,
    };
    let report = ptx_sim::run(&module, &mut memory, &launch, &Options::default()).expect("running");
    assert!(report.findings[0].message.contains("`scratch`, which was freed"), "{}", report.findings[0]);
}

#[test]
fn findings_are_merged_by_line_and_limited() {
    let body = "ld.global.u32 %r0, [%output]; red.global.add.u32 [%input], %r0;\n\
        ld.global.u32 %r1, [%output+4]; red.global.add.u32 [%input], %r1;";
    let kernel = || Kernel::new(body).with_blocks(10);
    let findings = kernel().run().report.findings;
    assert_eq!(findings.len(), 2);
    assert_eq!((findings[0].occurrences, findings[0].at.block), (320, [0, 0, 0]));
    let limited = kernel().with_options(Options { max_findings: 1, ..Options::default() }).run().report.findings;
    assert_eq!(limited.len(), 1);
}

#[test]
fn a_faulty_access_is_dropped_and_execution_goes_on() {
    let body = "mov.u32 %r0, 5; ld.global.u32 %r0, [%input+1]; add.u32 %r0, %r0, 1; st.global.u32 [%output], %r0;";
    let outcome = Kernel::new(body).with_input(bytes(&[7; 8])).with_threads(1).run();
    assert_eq!((outcome.report.findings.len(), words(&outcome.output)[0]), (1, 1));
}

#[test]
fn reports_name_the_source_line_and_the_inlining_calls() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry test(.param .u64 p)\n{\n.reg .b64 %rd<2>;\n\
        .loc 1 10 5\nld.param.u64 %rd0, [p];\n.loc 1 20 9\nadd.u64 %rd0, %rd0, 1;\n\
        .loc 2 7 3, function_name $L__info_string0, inlined_at 1 20 9\nst.global.u32 [%rd0], 1;\nret;\n}\n\
        .file 1 \"src/kernel.rs\"\n.file 2 \"src/store.rs\"\n.section .debug_str\n{\n$L__info_string0:\n.b8 115,0\n}\n";
    let module = ptx_sim::Module::parse(text, "kernel.ptx").expect("parsing");
    let mut memory = ptx_sim::GlobalMemory::new();
    let buffer = memory.allocate("buffer", 64).expect("allocating");
    let launch = ptx_sim::Launch {
        entry: "test",
        grid: [2, 1, 1],
        block: [32, 1, 1],
        dynamic_shared_bytes: 0,
        params: &[&buffer.to_le_bytes()],
        architecture: 80,
    };
    let report = ptx_sim::run(&module, &mut memory, &launch, &Options::default()).expect("running");
    let expected = "misaligned access: a 4-byte write in global memory needs an address that is a multiple of 4, offset 1 of buffer `buffer` (64 bytes): \
        lane 0 at 0x700000001, lane 1 at 0x700000001, lane 2 at 0x700000001, lane 3 at 0x700000001 and 28 more lanes\n  \
        --> kernel.ptx:12: st.global.u32 [%rd0], 1;\n  from src/store.rs:7:3\n  inlined at src/kernel.rs:20:9\n  \
        block (0, 0, 0), warp 0, lane 0, address 0x700000001; 64 occurrences";
    assert_eq!(report.findings[0].to_string(), expected);
}

/// The last 16 lanes of a block of 48 threads are not there; `%r1` is what lane `lane + 16` holds.
fn shuffled(then: &str) -> Kernel {
    Kernel::new(&format!(
        "mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output; and.b32 %r2, %lane, 31; setp.lt.u32 %p0, %lane, 32;\n\
         setp.lt.and.u32 %p0, %r2, 16, %p0; shfl.sync.down.b32 %r1, %lane, 16, 31, -1;\n{then}"
    ))
    .with_threads(48)
}

#[test]
fn a_shuffle_from_an_absent_lane_matters_with_its_value() {
    let unused = [
        "",
        "add.u32 %r3, %r1, 1;",
        "selp.b32 %r3, %r1, 7, %p0; st.global.u32 [%rd0], %r3;",
        "@%p0 st.global.u32 [%rd0], %r1;",
        "and.b32 %r3, %r1, 0; st.global.u32 [%rd0], %r3;",
        "shfl.sync.idx.b32 %r3, %r1, 3, 31, -1; @%p0 st.global.u32 [%rd0], %r3;",
    ];
    for then in unused {
        shuffled(then).run_clean();
    }
    let used = [
        "st.global.u32 [%rd0], %r1;",
        "add.u32 %r3, %r1, 1; st.global.u32 [%rd0], %r3;",
        "setp.eq.u32 %p1, %r1, 3; @%p1 st.global.u32 [%output], 1;",
        "shfl.sync.idx.b32 %r3, %r1, 3, 31, -1; st.global.u32 [%rd0], %r3;",
        "red.global.add.u32 [%input], %r1;",
    ];
    for then in used {
        let finding = shuffled(then).run_faulty(FindingClass::CollectiveLanesMissing);
        assert!(finding.at.instruction.contains("shfl.sync.down"), "{then}: {finding}");
        assert_eq!(
            (finding.at.warp, finding.lanes[0].lane),
            (1, if then.contains(", 3, 31") { 3 } else { 0 }),
            "{finding}"
        );
    }
}
