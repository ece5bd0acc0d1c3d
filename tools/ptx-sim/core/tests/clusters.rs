//! Clusters of several blocks: special registers, access to each other's shared memory, and findings for wrong access.

use crate::common::{Kernel, OUTPUT_WORD, bytes, words};
use ptx_sim::{FindingClass, LaunchError};

/// `tile` at `%r1`, of which `%r2` is the thread's own word; `%r3` is the rank of the block and `%r4` that of the other one of
/// two.
const SETUP: &str = ".shared .align 16 .b8 tile[256]; mov.u32 %r1, tile; shl.b32 %r2, %lane, 2; add.u32 %r2, %r2, %r1;\n\
    mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1;\n";
/// Every thread writes its index in the grid to its word of the own block.
const WRITE: &str = "st.shared.u32 [%r2], %index;\n";
/// Every thread reads its word of the other block.
const READ: &str = "mapa.shared::cluster.u32 %r6, %r2, %r4; ld.shared::cluster.u32 %r7, [%r6];\n";
const STORE: &str = "st.global.u32 [%rd1], %r7;\n";
const BARRIER: &str = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n";

/// A grid of four blocks of one warp, in clusters of two.
fn kernel(parts: &[&str]) -> Kernel {
    let kernel = Kernel::new(&format!("{OUTPUT_WORD}{SETUP}{}", parts.concat())).on_hopper().with_output_bytes(512);
    kernel.with_clusters([4, 1, 1], [2, 1, 1])
}

/// The final values of `%r7` in the threads of the four blocks; there must be no findings.
fn results(parts: &[&str]) -> Vec<u32> {
    words(&kernel(&[&parts.concat(), STORE]).run_clean())
}

/// The index of the thread in the grid that has the same place in the other block of its cluster.
fn partner(thread: u32) -> u32 {
    thread ^ 32
}

#[test]
fn registers_name_the_cluster() {
    let registers = [
        "%clusterid.x",
        "%clusterid.y",
        "%nclusterid.x",
        "%nclusterid.y",
        "%cluster_ctaid.x",
        "%cluster_ctaid.y",
        "%cluster_nctaid.x",
        "%cluster_nctaid.z",
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%ctaid.x",
        "%ctaid.y",
    ];
    let stores = registers
        .iter()
        .enumerate()
        .map(|(index, register)| format!("mov.u32 %r1, {register}; st.global.u32 [%rd1+{}], %r1;\n", 4 * index));
    let body = format!(
        "mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %ctaid.x; mad.lo.u32 %r2, %r2, %r3, %r4;\n\
         mul.wide.u32 %rd1, %r2, 64; add.u64 %rd1, %rd1, %output;\n{}\
         mov.pred %p1, %is_explicit_cluster; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%rd1+48], %r1;",
        stores.collect::<String>()
    );
    let output = Kernel::new(&body).on_hopper().with_threads(1).with_output_bytes(24 * 64);
    let output = words(&output.with_clusters([6, 4, 1], [2, 2, 1]).run_clean());
    for (block, found) in output.chunks(16).enumerate() {
        let (x, y) = (block as u32 % 6, block as u32 / 6);
        let expected = [x / 2, y / 2, 3, 2, x % 2, y % 2, 2, 1, x % 2 + 2 * (y % 2), 4, x, y, 1];
        assert_eq!(found[..13], expected, "block ({x}, {y})");
    }
}

#[test]
fn blocks_read_each_others_memory() {
    let expected: Vec<u32> = (0..128).map(partner).collect();
    assert_eq!(results(&[WRITE, BARRIER, READ, BARRIER]), expected);
    let generic = "cvt.u64.u32 %rd2, %r2; cvta.shared.u64 %rd2, %rd2; mapa.u64 %rd3, %rd2, %r4; ld.u32 %r7, [%rd3];\n";
    assert_eq!(results(&[WRITE, BARRIER, generic, BARRIER]), expected);
}

#[test]
fn the_entry_may_demand_clusters() {
    let body = format!("{OUTPUT_WORD}{SETUP}{WRITE}{BARRIER}{READ}{BARRIER}{STORE}");
    let kernel = |directives: &str| {
        let kernel = Kernel::new(&body).on_hopper().with_output_bytes(512).with_blocks(4);
        kernel.with_directives(&format!(" {directives}"))
    };
    let output = kernel(".explicitcluster .reqnctapercluster 2, 1, 1").run_clean();
    assert_eq!(words(&output), (0..128).map(partner).collect::<Vec<u32>>());
    let refused = |kernel: Kernel, said: &str| {
        let Err(error) = kernel.try_run() else { panic!("it ran: {said}") };
        assert!(matches!(&error, LaunchError::Geometry(text) if text.contains(said)), "{error}");
    };
    refused(kernel(".explicitcluster"), "demands that the launch names the size");
    refused(kernel(".reqnctapercluster 3"), "not a multiple of clusters of [3, 1, 1]");
    refused(kernel(".reqnctapercluster 32"), "takes 1 to 16 together");
    refused(kernel(".maxclusterrank 2").with_clusters([4, 1, 1], [4, 1, 1]), "takes 1 to 2 together");
    refused(kernel(".reqnctapercluster 4").with_clusters([4, 1, 1], [2, 1, 1]), "demands [4, 1, 1]");
    refused(kernel("").with_clusters([4, 1, 1], [0, 1, 1]), "takes 1 to 16 together");
    refused(kernel("").with_clusters([4, 1, 1], [u32::MAX; 3]), "takes 1 to 16 together");
    let old = Kernel::new("").with_clusters([2, 1, 1], [2, 1, 1]);
    refused(old, "clusters need sm_90");
}

#[test]
fn addresses_say_whose_they_are() {
    let parts =
        "cvt.u64.u32 %rd2, %r2; cvta.shared.u64 %rd2, %rd2; mapa.u64 %rd3, %rd2, %r4; getctarank.u32 %r7, %rd3;\n";
    let rank = parts.replace("getctarank.u32", "getctarank.u64");
    assert_eq!(results(&[&rank]), (0..128).map(|thread| 1 - thread / 32 % 2).collect::<Vec<u32>>());
    let shared = "mapa.shared::cluster.u32 %r6, %r2, %r4; getctarank.shared::cluster.u32 %r7, %r6;\n";
    assert_eq!(results(&[shared]), (0..128).map(|thread| 1 - thread / 32 % 2).collect::<Vec<u32>>());
    let spaces = "mov.u32 %r7, 0; isspacep.shared::cta %p1, %rd2; @%p1 add.u32 %r7, %r7, 1;\n\
        isspacep.shared::cta %p1, %rd3; @%p1 add.u32 %r7, %r7, 2; isspacep.shared::cluster %p1, %rd2; @%p1 add.u32 %r7, %r7, 4;\n\
        isspacep.shared::cluster %p1, %rd3; @%p1 add.u32 %r7, %r7, 8; isspacep.shared::cluster %p1, %rd1; @%p1 add.u32 %r7, %r7, 16;\n";
    assert_eq!(results(&[&rank, spaces]), [13; 128]);
}

#[test]
fn blocks_add_in_one_of_them() {
    let begin = "setp.eq.u32 %p1, %lane, 0; @%p1 st.shared.u32 [%r1], 0;\n";
    let add = "mapa.shared::cluster.u32 %r6, %r1, 0; atom.shared::cluster.add.u32 %r8, [%r6], 1;\n";
    let read = "ld.shared::cluster.u32 %r7, [%r6];\n";
    assert_eq!(results(&[begin, BARRIER, add, BARRIER, read, BARRIER]), [64; 128]);
}

#[test]
fn a_rank_outside_the_cluster() {
    let read = READ.replace("%r4;", "2;");
    let finding = kernel(&[WRITE, BARRIER, &read, BARRIER, STORE]).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("outside the cluster, which has 2 blocks"), "{finding}");
    let beyond = "mov.u32 %r6, 0x5000400; ld.shared::cluster.u32 %r7, [%r6];\n";
    let finding = kernel(&[WRITE, BARRIER, beyond, BARRIER, STORE]).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("where a block of rank 5 would have its own"), "{finding}");
}

#[test]
fn plain_shared_memory_is_the_own() {
    let read = READ.replace("ld.shared::cluster", "ld.shared");
    let finding = kernel(&[WRITE, BARRIER, &read, BARRIER, STORE]).run_faulty(FindingClass::OutOfBounds);
    assert!(
        finding.message.contains("only instructions with .shared::cluster reach that of other blocks"),
        "{finding}"
    );
}

#[test]
fn reading_what_the_other_block_has_not_written() {
    let early = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
    let finding = kernel(&[early, WRITE, READ, BARRIER, STORE]).run().report.findings.remove(0);
    assert_eq!(finding.class, FindingClass::Race, "{finding}");
    assert!(
        finding.message.contains("by block (") && finding.message.contains("a barrier of the cluster"),
        "{finding}"
    );
    let other = finding.other.expect("the other access");
    assert_ne!(other.at.block, finding.at.block);
}

#[test]
fn arriving_without_releasing() {
    let relaxed = BARRIER.replace("arrive.release", "arrive.relaxed");
    let finding = kernel(&[WRITE, &relaxed, READ, BARRIER, STORE]).run().report.findings.remove(0);
    assert_eq!(finding.class, FindingClass::Race, "{finding}");
    let fenced = format!("fence.acq_rel.cluster; {relaxed}");
    assert_eq!(results(&[WRITE, &fenced, READ, BARRIER]), (0..128).map(partner).collect::<Vec<u32>>());
}

#[test]
fn a_block_that_ends_too_early() {
    let finding = kernel(&[WRITE, BARRIER, READ, STORE]).run_faulty(FindingClass::BlockLifetime);
    assert!(finding.message.contains("which may have ended before"), "{finding}");
    assert!(finding.at.instruction.contains("ld.shared::cluster"), "{finding}");
}

#[test]
fn a_block_that_has_ended() {
    let leave = "setp.eq.u32 %p1, %r3, 0; @%p1 bra done;\n";
    let finding = kernel(&[WRITE, BARRIER, leave, READ, STORE, "done:"]).run_faulty(FindingClass::BlockLifetime);
    assert!(finding.message.contains("rank 0"), "{finding}");
}

#[test]
fn a_block_that_may_not_have_begun() {
    let write = "mapa.shared::cluster.u32 %r6, %r2, %r4; st.shared::cluster.u32 [%r6], %index;\n";
    let read = "ld.shared.u32 %r7, [%r2];\n";
    let finding = kernel(&[write, BARRIER, read, STORE]).run_faulty(FindingClass::BlockLifetime);
    assert!(finding.message.contains("which may not have begun"), "{finding}");
    let begun = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;\n";
    assert_eq!(results(&[begun, write, BARRIER, read]), (0..128).map(partner).collect::<Vec<u32>>());
}

#[test]
fn arriving_twice() {
    let arrive = "barrier.cluster.arrive.aligned;\n";
    let finding = kernel(&[arrive, BARRIER, "mov.u32 %r7, 0;", STORE]).run().report.findings.remove(0);
    assert_eq!(finding.class, FindingClass::InvalidOperand, "{finding}");
    assert!(finding.message.contains("since they arrived last"), "{finding}");
}

#[test]
fn flags_are_seen_as_far_as_their_scope_reaches() {
    let run = |fence: &str, scope: &str| {
        let flag = format!(
            "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mapa.shared::cluster.u32 %r6, %r1, %r4;\n\
             setp.ne.u32 %p2, %lane, 0; @%p2 bra out; setp.eq.u32 %p1, %r3, 1; @%p1 bra reader;\n\
             st.shared.u32 [%r1+128], 7; fence.acq_rel.{fence}; st.relaxed.{scope}.shared::cluster.u32 [%r6+132], 1; bra out;\n\
             reader: ld.relaxed.{scope}.shared::cta.u32 %r8, [%r1+132]; setp.eq.u32 %p1, %r8, 0; @%p1 bra reader;\n\
             fence.acq_rel.{fence}; ld.shared::cluster.u32 %r7, [%r6+128]; st.global.u32 [%rd1], %r7;\n\
             out: {BARRIER}"
        );
        let begin = "setp.eq.u32 %p1, %lane, 0; @%p1 st.shared.u32 [%r1+132], 0;\n";
        kernel(&[begin, &flag]).run().report.findings
    };
    assert!(run("cluster", "cluster").is_empty(), "{:#?}", run("cluster", "cluster"));
    let narrow_fence = run("cta", "cluster");
    assert!(narrow_fence.iter().any(|finding| finding.class == FindingClass::Race), "{narrow_fence:#?}");
    let narrow_flag = run("cluster", "cta");
    assert!(narrow_flag.iter().any(|finding| finding.class == FindingClass::Race), "{narrow_flag:#?}");
}

#[test]
fn blocks_that_wait_for_each_other() {
    let gate = ".shared .align 8 .b64 gate; setp.eq.u32 %p1, %lane, 0; mov.u32 %r8, gate;\n\
        @%p1 mbarrier.init.shared::cta.b64 [%r8], 1; fence.mbarrier_init.release.cluster;\n";
    let wait = "wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0; @!%p2 bra wait;\n";
    let arrive =
        "mapa.shared::cluster.u32 %r9, %r8, %r4; @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];\n";
    let finding = kernel(&[gate, BARRIER, wait, arrive, BARRIER]).run_faulty(FindingClass::Deadlock);
    assert!(finding.message.contains("no warp of the cluster can go on: block (0, 0, 0) warp 0"), "{finding}");
    assert!(
        finding.message.contains("block (1, 0, 0) warp 0") && finding.message.contains("1 of 1 arrivals"),
        "{finding}"
    );
    let one_leaves = "setp.eq.u32 %p3, %r3, 0; @%p3 bra.uni other;\n";
    let finding = kernel(&[gate, BARRIER, one_leaves, wait, "other:", BARRIER]).run_faulty(FindingClass::Deadlock);
    assert!(finding.message.contains("waits at the cluster's barrier (32 of 64 threads arrived)"), "{finding}");
}

#[test]
fn an_input_is_shared_by_clusters_of_sixteen() {
    let body = format!(
        "{OUTPUT_WORD}{SETUP}ld.global.u32 %r8, [%input]; st.shared.u32 [%r2], %r8;\n{BARRIER}mov.u32 %r4, 15;\n{READ}{BARRIER}{STORE}"
    );
    let kernel = Kernel::new(&body).on_hopper().with_output_bytes(32 * 128).with_input(bytes(&[9, 9]));
    assert_eq!(words(&kernel.with_clusters([32, 1, 1], [16, 1, 1]).run_clean()), [9; 1024]);
}

#[test]
fn every_order_of_turns_gives_the_same() {
    let expected: Vec<u32> = (0..128).map(partner).collect();
    for schedule in 1..6 {
        let kernel = kernel(&[WRITE, BARRIER, READ, BARRIER, STORE]);
        let options =
            ptx_sim::Options { schedule, cluster: Some([2, 1, 1]), threads: 2, ..ptx_sim::Options::default() };
        assert_eq!(words(&kernel.with_options(options).run_clean()), expected, "schedule {schedule}");
    }
}

#[test]
fn named_barriers_and_reductions_belong_to_a_block() {
    // The blocks count different predicates at the same barrier.
    let body = "setp.eq.u32 %p1, %r3, 0; bar.red.popc.u32 %r7, 1, %p1; bar.sync 1;\n";
    let expected: Vec<u32> = (0..128).map(|thread| if thread / 32 % 2 == 0 { 32 } else { 0 }).collect();
    assert_eq!(results(&[body, BARRIER]), expected);
}

#[test]
fn without_race_checks_blocks_that_have_ended_are_found() {
    let leave = "setp.eq.u32 %p1, %r3, 1; @%p1 bra done; mov.u32 %r8, 0; spin: add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 100;\n\
        @%p2 bra spin;\n";
    let options =
        ptx_sim::Options { races: false, cluster: Some([2, 1, 1]), threads: 1, ..ptx_sim::Options::default() };
    let kernel = kernel(&[WRITE, BARRIER, leave, READ, STORE, "done:"]).with_options(options);
    let finding = kernel.run_faulty(FindingClass::BlockLifetime);
    assert!(finding.message.contains("rank 1, which may have ended before"), "{finding}");
}

#[test]
fn no_address_is_too_strange() {
    let instructions = [
        "ld.shared::cluster.u32 %r7, [%r20];",
        "st.shared::cluster.v4.u32 [%r20], {%index, %index, %index, %index};",
        "atom.shared::cluster.add.u32 %r7, [%r20], 1;",
        "mapa.shared::cluster.u32 %r7, %r20, %r20;",
        "getctarank.shared::cluster.u32 %r7, %r20;",
        "mapa.u64 %rd6, %rd20, %r20;",
        "ld.u32 %r7, [%rd20];",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r20];",
        "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r1], %r20;",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r20], %index, [%r20];",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %index, [%r20];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r20], %index, [%r20];",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r20], [%r20], %r20, [%r20];",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r20], [%r1], 16, [%r20];",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r20], [%r1], 16, [%r20];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r20], [%input], 16, [%r20], %h1;",
        "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r20], %r20;",
    ];
    for instruction in instructions {
        for address in ["0", "0xffffffff", "0xfffffff0", "0x1000400", "0x2000400", "0x10003f0", "0x1000480"] {
            let strange = format!(
                "mov.u32 %r20, {address}; cvt.u64.u32 %rd20, %r20; not.b64 %rd20, %rd20; mov.u16 %h1, 0xffff;\n{instruction}\n"
            );
            // Whatever is found, nothing breaks.
            kernel(&[WRITE, BARRIER, &strange, BARRIER]).with_input(vec![0; 64]).run();
        }
    }
}
