//! Loads from shared memory that a later copy by the async proxy may overtake.

use crate::common::{Kernel, bytes};
use ptx_sim::{Finding, FindingClass};

/// Warp 0 copies `tile` in, waits at `empty`, and copies again; warp 1 waits at `full`, reads and arrives at `empty`. `%leader` is the
/// first lane of each, and `%r3` the address of 16 bytes of each lane.
const SETUP: &str = ".shared .align 8 .b64 full, empty; .shared .align 128 .b8 tile[512]; .reg .pred %leader, %reader;\n\
    and.b32 %r0, %lane, 31; setp.eq.u32 %leader, %r0, 0; setp.ge.u32 %reader, %lane, 32; setp.eq.u32 %p0, %lane, 0;\n\
    shl.b32 %r0, %r0, 4; mov.u32 %r3, tile; add.u32 %r3, %r3, %r0; mov.u32 %r1, full; mov.u32 %r2, empty;\n\
    mul.wide.u32 %rd1, %r0, 1; add.u64 %rd1, %rd1, %output;\n\
    @%p0 mbarrier.init.shared.b64 [%r1], 1; @%p0 mbarrier.init.shared.b64 [%r2], 1;\n\
    fence.mbarrier_init.release.cluster; bar.sync 0;\n";
const COPY: &str = "@%leader mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 512; mov.u32 %r9, tile;\n\
    @%leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%input], 512, [%r1];\n";
const LDMATRIX: &str = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4,%r5,%r6,%r7}, [%r3];\n";
const VECTOR: &str = "ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r3];\n";
const GENERIC: &str = "cvt.u64.u32 %rd2, %r3; cvta.shared.u64 %rd2, %rd2; ld.v4.u32 {%r4,%r5,%r6,%r7}, [%rd2];\n";
const ARRIVE: &str = "bar.warp.sync -1; @%leader mbarrier.arrive.shared.b64 _, [%r2];\n";
const FENCE: &str = "fence.proxy.async.shared::cta;\n";
const USE: &str = "add.u32 %r6, %r6, 1;\n";
const STORE: &str = "st.global.v4.u32 [%rd1], {%r4,%r5,%r6,%r7};\n";

/// Waits for a phase of an mbarrier.
fn wait(label: &str, mbarrier: &str, parity: u32) -> String {
    format!("{label}: mbarrier.try_wait.parity.shared.b64 %p1, [{mbarrier}], {parity}; @!%p1 bra {label};\n")
}

/// `between` lies between the writer's wait and its second copy.
fn kernel_of(reader: &[&str], between: &str) -> Kernel {
    let (first, second, empty) = (wait("first", "%r1", 0), wait("second", "%r1", 1), wait("empty", "%r2", 0));
    let reader = reader.concat();
    let body = format!(
        "{SETUP}@%reader bra read;\n{COPY}{empty}{between}{COPY}bra done;\nread:\n{first}{reader}{second}done:"
    );
    Kernel::new(&body).on_hopper().with_threads(64).with_input(bytes(&[7; 128])).with_output_bytes(512)
}

fn kernel(reader: &[&str]) -> Kernel {
    kernel_of(reader, "")
}

fn overtaken(kernel: &Kernel) -> Finding {
    kernel.run_faulty(FindingClass::MissingProxyFence)
}

#[test]
fn a_load_whose_value_is_used_behind_the_arrival() {
    for load in [LDMATRIX, VECTOR, GENERIC] {
        let finding = overtaken(&kernel(&[load, ARRIVE, USE, STORE]));
        let instruction = load.split(';').rev().nth(1).expect("a load").trim();
        assert!(finding.at.instruction.contains(instruction), "{finding}");
        assert!(
            finding.message.starts_with("a 16-byte read of shared memory, offset 0 of `tile` may come"),
            "{finding}"
        );
        assert!(finding.message.contains("by warp 0, lane 0: a barrier orders the two only if"), "{finding}");
        let copy = finding.other.as_ref().expect("the copy");
        assert!(copy.writes && copy.at.instruction.starts_with("@%leader cp.async.bulk"), "{finding}");
        assert_eq!((finding.at.warp, finding.lanes.len()), (1, 32), "{finding}");
    }
}

#[test]
fn every_form_of_a_load() {
    let forms = ["ld.shared.u8 %r4", "ld.volatile.shared.u32 %r4", "ld.acquire.cta.shared.s16 %r4"];
    let matrices = ["x1.shared.b16 {%r4}", "x2.trans.shared.b16 {%r4,%r5}"];
    let matrices = matrices.map(|form| format!("ldmatrix.sync.aligned.m8n8.{form}"));
    for form in forms.into_iter().chain(matrices.iter().map(String::as_str)) {
        let (load, store) = (format!("{form}, [%r3];\n"), "st.global.u32 [%rd1], %r4;\n");
        overtaken(&kernel(&[&load, ARRIVE, store]));
        kernel(&[&load, FENCE, ARRIVE, store]).run_clean();
        kernel(&[&load, store, ARRIVE]).run_clean();
    }
}

#[test]
fn a_fence_or_a_use_before_the_arrival() {
    for load in [LDMATRIX, VECTOR, GENERIC] {
        kernel(&[load, FENCE, ARRIVE, USE, STORE]).run_clean();
        kernel(&[load, USE, ARRIVE, STORE]).run_clean();
        // Lanes that have met may still use it, or fence it.
        for late in [USE, FENCE] {
            kernel(&[load, &ARRIVE.replace("@%leader", &format!("{late}@%leader")), STORE]).run_clean();
        }
        // A load is complete for the warp when it is for a lane.
        let one = format!("@%leader {USE}");
        kernel(&[load, &one, ARRIVE, STORE]).run_clean();
    }
    kernel(&[VECTOR, "@%leader fence.proxy.async;", ARRIVE, STORE]).run_clean();
}

#[test]
fn other_fences_do_not_complete_a_load() {
    for fence in ["fence.acq_rel.cta;", "fence.sc.gpu;", "membar.cta;", "fence.proxy.async.global;"] {
        overtaken(&kernel(&[LDMATRIX, fence, ARRIVE, STORE]));
    }
}

#[test]
fn moves_use_nothing() {
    let moves = "mov.b64 %rd3, {%r4, %r5}; mov.b64 {%r10, %r11}, %rd3; mov.b32 %r12, %r11;\n";
    let stores = "st.global.u32 [%rd1], %r12;\n";
    overtaken(&kernel(&[VECTOR, moves, ARRIVE, stores]));
    kernel(&[VECTOR, moves, "add.u32 %r13, %r10, 1;", ARRIVE, stores]).run_clean();
}

#[test]
fn a_value_that_is_not_used() {
    kernel(&[LDMATRIX, ARRIVE]).run_clean();
    kernel(&[LDMATRIX, ARRIVE, "mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;", STORE]).run_clean();
}

#[test]
fn the_value_is_used_long_before_the_copy() {
    // What counts is the order of the use and the arrival, not the schedule.
    let spin = "mov.u32 %r9, 0; spin: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 5000; @%p2 bra spin;\n";
    overtaken(&kernel_of(&[LDMATRIX, ARRIVE, STORE], spin));
    let barrier = "bar.sync 1;\n";
    kernel_of(&[LDMATRIX, ARRIVE, STORE, barrier], barrier).run_clean();
}

#[test]
fn an_arrival_for_an_earlier_stage() {
    // The value is used before the arrival that releases its own stage.
    let first = "@%leader mbarrier.arrive.shared.b64 _, [%r10]; mov.u32 %r10, 0;\n";
    let other = ".shared .align 8 .b64 other; mov.u32 %r10, other;\n\
        @%leader mbarrier.init.shared.b64 [%r10], 1; bar.warp.sync -1;\n";
    kernel(&[other, LDMATRIX, first, USE, ARRIVE, STORE]).run_clean();
}

#[test]
fn barriers_of_the_block() {
    let barrier = "bar.sync 1;\n";
    let kernel =
        |reader: &[&str], behind: &str| kernel_of(&[&[ARRIVE], reader].concat(), &format!("{barrier}{behind}"));
    for load in [LDMATRIX, VECTOR] {
        overtaken(&kernel(&[load, barrier, STORE], ""));
        kernel(&[load, FENCE, barrier, STORE], "").run_clean();
        kernel(&[load, USE, barrier, STORE], "").run_clean();
        // The thread that copies may execute the fence as well, but only when it has met the reader.
        kernel(&[load, barrier, STORE], FENCE).run_clean();
        overtaken(&kernel_of(&[ARRIVE, load, barrier, STORE], &format!("{FENCE}{barrier}")));
    }
}

#[test]
fn a_warp_that_copies_over_its_own_loads() {
    let body = |between: &str| {
        let (first, second) = (wait("first", "%r1", 0), wait("second", "%r1", 1));
        let body = format!(
            "{SETUP}@%reader bra done;\n{COPY}{first}{VECTOR}{between}bar.warp.sync -1;\n{COPY}{STORE}{second}done:"
        );
        Kernel::new(&body).on_hopper().with_threads(64).with_input(bytes(&[7; 128])).with_output_bytes(512)
    };
    overtaken(&body(""));
    body(FENCE).run_clean();
    body(USE).run_clean();
}

#[test]
fn copies_of_other_bytes() {
    let half =
        |first: u32| format!("and.b32 %r3, %lane, 15; mad.lo.u32 %r3, %r3, 16, %r9; add.u32 %r3, %r3, {first};\n");
    let kernel = |first: u32| {
        let reader = ["mov.u32 %r9, tile;\n", &half(first), VECTOR, ARRIVE, STORE];
        kernel_of(&reader, &format!("{}bra done;\n", COPY.replace("512", "256")))
    };
    overtaken(&kernel(240));
    kernel(256).run_clean();
}

#[test]
fn a_race_is_a_race() {
    let arrival = ARRIVE.replace("bar.warp.sync -1;", "");
    let findings = kernel(&[LDMATRIX, &arrival, STORE]).run().report.findings;
    assert!(findings.iter().any(|finding| finding.class == FindingClass::Race), "{findings:#?}");
}

#[test]
fn loads_of_another_block() {
    // Block 1 reads the tile of block 0, which then copies over it.
    let kernel = |between: &str| {
        let (first, second) = (wait("first", "%r1", 0), wait("second", "%r1", 1));
        let cluster = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
        let body = format!(
            "{SETUP}mov.u32 %r8, %cluster_ctarank; setp.ne.u32 %reader, %r8, 0; @%reader bra read;\n{COPY}{first}{cluster}{cluster}\
             {COPY}{second}bra done;\nread: mov.u32 %r9, 0; mapa.shared::cluster.u32 %r3, %r3, %r9;\n{cluster}\
             ld.shared::cluster.v4.u32 {{%r4,%r5,%r6,%r7}}, [%r3];\n{between}{cluster}{STORE}done:"
        );
        let kernel = Kernel::new(&body).on_hopper().with_input(bytes(&[7; 128])).with_output_bytes(512);
        kernel.with_clusters([2, 1, 1], [2, 1, 1])
    };
    let finding = overtaken(&kernel(""));
    assert_eq!(finding.at.block, [1, 0, 0], "{finding}");
    assert!(finding.message.contains("by block (0, 0, 0), warp 0, lane 0"), "{finding}");
    kernel(FENCE).run_clean();
    kernel(USE).run_clean();
}
