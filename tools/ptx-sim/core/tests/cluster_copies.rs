//! Asynchronous operations between blocks of a cluster: remote mbarriers, `st.async`, `red.async`, bulk copies between blocks, and
//! multicast.

use crate::common::{Kernel, OUTPUT_WORD, bytes, eight_by_eight, words};
use ptx_sim::{Finding, FindingClass, TensorElement};

/// `gate` at `%r1`, for one arrival, and `tile` at `%r2` of every block; `%r3` is the rank and `%r4` that of the other block of two;
/// `%r5` and `%r6` are `gate` and `tile` of the other one; `%leader` is thread 0. Ends with a barrier of the cluster.
const SETUP: &str = ".shared .align 8 .b64 gate; .shared .align 1024 .b8 tile[512]; .reg .pred %leader, %first;\n\
    mov.u32 %r1, gate; mov.u32 %r2, tile; setp.eq.u32 %leader, %lane, 0; mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1;\n\
    setp.eq.and.u32 %first, %r3, 0, %leader; mapa.shared::cluster.u32 %r5, %r1, %r4; mapa.shared::cluster.u32 %r6, %r2, %r4;\n\
    shl.b32 %r11, %lane, 2; mov.u32 %r7, 0;\n\
    @%leader mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster;\n\
    barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;\n";
const BARRIER: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
const WAIT: &str = "wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra wait;\n";
/// The thread's word of the own tile.
const READ: &str = "add.u32 %r12, %r2, %r11; ld.shared.u32 %r7, [%r12];\n";
const STORE: &str = "st.global.u32 [%rd1], %r7;\n";

/// A grid of one cluster of two blocks of one warp.
fn kernel(parts: &[&str]) -> Kernel {
    let kernel = Kernel::new(&format!("{OUTPUT_WORD}{SETUP}{}", parts.concat())).on_hopper().with_output_bytes(256);
    kernel.with_clusters([2, 1, 1], [2, 1, 1]).with_input(bytes(&(0..128).collect::<Vec<u32>>()))
}

/// The final values of `%r7` in the threads of both blocks; there must be no findings.
fn results(parts: &[&str]) -> Vec<u32> {
    words(&kernel(&[&parts.concat(), STORE]).run_clean())
}

/// The first finding.
fn first(parts: &[&str]) -> Finding {
    kernel(&[&parts.concat(), STORE]).first_finding()
}

/// Makes the mbarrier of every block expect a number of bytes.
fn expect(bytes: u32) -> String {
    format!("@%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {bytes};\n")
}

#[test]
fn arriving_at_the_mbarrier_of_another_block() {
    let write = "add.u32 %r12, %r6, %r11; st.shared::cluster.u32 [%r12], %index; bar.warp.sync 0xffffffff;\n";
    let arrive = "@%leader mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];\n";
    let expected: Vec<u32> = (0..64).map(|thread| thread ^ 32).collect();
    assert_eq!(results(&[write, arrive, WAIT, READ, BARRIER]), expected);
    let counted = arrive.replace("[%r5]", "[%r5], 1");
    assert_eq!(results(&[write, &counted, WAIT, READ, BARRIER]), expected);
    let relaxed = arrive.replace(".release", ".relaxed");
    assert_eq!(first(&[write, &relaxed, WAIT, READ, BARRIER]).class, FindingClass::Race);
    let weak_wait = WAIT.replace(".acquire", ".relaxed");
    assert_eq!(first(&[write, arrive, &weak_wait, READ, BARRIER]).class, FindingClass::Race);
    let fenced = format!("{weak_wait}fence.acq_rel.cluster;\n");
    assert_eq!(results(&[write, arrive, &fenced, READ, BARRIER]), expected);
}

#[test]
fn mbarriers_of_other_blocks_are_not_waited_for() {
    let remote = WAIT.replace("[%r1]", "[%r5]");
    let finding = first(&[&remote, BARRIER]);
    assert_eq!(finding.class, FindingClass::OutOfBounds, "{finding}");
    let Err(error) = kernel(&[&remote.replace("shared::cta", "shared::cluster")]).try_run() else { panic!("it ran") };
    assert!(error.to_string().contains("only arrivals and bytes can be counted"), "{error}");
    let with_state = "mbarrier.arrive.shared::cluster.b64 %rd2, [%r5];";
    let Err(error) = kernel(&[with_state]).try_run() else { panic!("it ran") };
    assert!(error.to_string().contains("gives no state"), "{error}");
}

#[test]
fn a_block_that_ends_before_the_arrival() {
    let arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];\n";
    let finding = first(&["@%leader ", arrive]);
    assert_eq!(finding.class, FindingClass::BlockLifetime, "{finding}");
    assert_eq!(results(&["@%leader ", arrive, WAIT]), [0; 64]);
}

#[test]
fn asynchronous_stores() {
    let store = |vector: &str, value: &str, bytes: u32| {
        format!(
            "mul.lo.u32 %r12, %lane, {bytes}; add.u32 %r12, %r12, %r6; add.u32 %r13, %index, 100; cvt.u64.u32 %rd2, %index;\n\
             st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vector} [%r12], {value}, [%r5];\n"
        )
    };
    let expected: Vec<u32> = (0..64).map(|thread| thread ^ 32).collect();
    let words = store(".b32", "%index", 4);
    assert_eq!(results(&[&expect(128), &words, WAIT, READ, BARRIER]), expected);
    assert_eq!(results(&[&words, &expect(128), WAIT, READ]), expected, "the wait is enough for both");
    let pairs = store(".v2.b32", "{%index, %r13}", 8);
    let read = READ.replace("add.u32 %r12, %r2, %r11;", "add.u32 %r12, %r2, %r11; add.u32 %r12, %r12, %r11;");
    let second = read.replace("[%r12]", "[%r12+4]");
    assert_eq!(results(&[&expect(256), &pairs, WAIT, &read, BARRIER]), expected);
    let plus: Vec<u32> = expected.iter().map(|value| value + 100).collect();
    assert_eq!(results(&[&expect(256), &pairs, WAIT, &second, BARRIER]), plus);
    assert_eq!(results(&[&expect(256), &store(".u64", "%rd2", 8), WAIT, &read, BARRIER]), expected);
    let early = first(&[&expect(128), &words, BARRIER, READ, WAIT, BARRIER]);
    assert_eq!(early.class, FindingClass::AsyncCopyNotWaited, "{early}");
    let forgotten = first(&[&expect(128), &words, BARRIER]);
    assert!(forgotten.message.contains("without anybody having waited"), "{forgotten}");
    let apart = first(&[&words.replace("[%r5]", "[%r1]"), BARRIER]);
    assert_eq!(apart.class, FindingClass::InvalidOperand, "{apart}");
    assert!(apart.message.contains("have to be in the same one"), "{apart}");
}

#[test]
fn asynchronous_reductions() {
    let begin = format!("add.u32 %r12, %r2, %r11; st.shared.u32 [%r12], 0; {BARRIER}");
    let add = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r6], %lane, [%r5];\n";
    let read = "ld.shared.u32 %r7, [%r2];\n";
    assert_eq!(results(&[&begin, &expect(128), add, WAIT, read, BARRIER]), [496; 64]);
    let largest = add.replace(".add.", ".max.");
    assert_eq!(results(&[&begin, &expect(128), &largest, WAIT, read, BARRIER]), [31; 64]);
    let early = first(&[&begin, &expect(128), add, read, WAIT, BARRIER]);
    assert_eq!(early.class, FindingClass::Race, "{early}");
    let Err(error) = kernel(&[&add.replace(".add.u32", ".add.f32")]).try_run() else { panic!("it ran") };
    assert!(error.to_string().contains("red.async") && error.to_string().contains("add.f32"), "{error}");
}

const SEND: &str =
    "@%leader cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6+256], [%r2], 128, [%r5];\n";

/// Every thread writes its index in the grid to the own tile, so that bulk copies see it.
const FILL: &str =
    "add.u32 %r12, %r2, %r11; st.shared.u32 [%r12], %index; fence.proxy.async.shared::cta; bar.sync 0;\n";

#[test]
fn bulk_copies_between_blocks() {
    let read = "ld.shared.u32 %r7, [%r12+256];\n";
    let expected: Vec<u32> = (0..64).map(|thread| thread ^ 32).collect();
    assert_eq!(results(&[FILL, &expect(128), SEND, WAIT, read, BARRIER]), expected);
    let unfenced = FILL.replace("fence.proxy.async.shared::cta;", "");
    let finding = first(&[&unfenced, &expect(128), SEND, WAIT, read, BARRIER]);
    assert_eq!(finding.class, FindingClass::MissingProxyFence, "{finding}");
    let reused = "st.shared.u32 [%r12], 7;\n";
    let finding = first(&[FILL, &expect(128), SEND, reused, WAIT, read, BARRIER]);
    assert_eq!(finding.class, FindingClass::Race, "{finding}");
    assert_eq!(results(&[FILL, &expect(128), SEND, WAIT, BARRIER, reused, read]), expected);
    let remote_source = SEND.replace("[%r2]", "[%r6]");
    let finding = first(&[FILL, &expect(128), &remote_source, BARRIER]);
    assert_eq!(finding.class, FindingClass::OutOfBounds, "{finding}");
}

#[test]
fn a_source_that_ends_before_it_was_read() {
    // Only the second block waits; the first one is gone.
    let send = SEND.replace("@%leader", "@%first");
    let second_waits = format!("setp.eq.u32 %p2, %r3, 0; @%p2 bra done; {}{WAIT}", expect(128));
    let finding = first(&[FILL, &send, &second_waits, "done:"]);
    assert_eq!(finding.class, FindingClass::BlockLifetime, "{finding}");
    assert!(finding.message.contains("a read in the shared memory of the block of rank 0"), "{finding}");
}

#[test]
fn one_copy_for_several_blocks() {
    let load = "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster\n\
        [%r2], [%input], 128, [%r1], 3;\n";
    let expected: Vec<u32> = (0..64).map(|thread| thread % 32).collect();
    assert_eq!(results(&[&expect(128), load, WAIT, READ, BARRIER]), expected);
    let one = load.replace(", 3;", ", 2;");
    let second_waits = format!("setp.eq.u32 %p2, %r3, 0; @%p2 bra done; {}{WAIT}{READ}done:", expect(128));
    let output = results(&[&one, &second_waits, BARRIER]);
    assert_eq!((&output[..32], &output[32..]), (&[0; 32][..], &expected[32..]));
    let beyond = first(&[&expect(128), &load.replace(", 3;", ", 7;"), WAIT, READ, BARRIER]);
    assert_eq!(beyond.class, FindingClass::InvalidOperand, "{beyond}");
    assert!(beyond.message.contains("the mask 0x7, of a cluster that has 2"), "{beyond}");
    let overwritten = first(&[FILL, BARRIER, &expect(128), load, "st.shared.u32 [%r12], 7;", WAIT, BARRIER]);
    assert_eq!(overwritten.class, FindingClass::AsyncCopyNotWaited, "{overwritten}");
}

#[test]
fn one_box_for_several_blocks() {
    let load = "@%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster\n\
        [%r2], [%map, {0, 1}], [%r1], 3;\n";
    let kernel =
        kernel(&[&expect(128), load, WAIT, READ, BARRIER, STORE]).with_tensor_map(eight_by_eight(TensorElement::U32));
    assert_eq!(words(&kernel.run_clean()), (0..64).map(|thread| thread % 32 + 8).collect::<Vec<u32>>());
}

#[test]
fn a_copy_to_an_mbarrier_that_was_not_initialised_there() {
    let setup = "@%first mbarrier.init.shared::cta.b64 [%r1+0], 1;";
    let body = format!("{OUTPUT_WORD}{SETUP}{}", [&expect(128), "", WAIT, BARRIER].concat());
    let body = body.replace("@%leader mbarrier.init.shared::cta.b64 [%r1], 1;", setup);
    let load = "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster\n\
        [%r2], [%input], 128, [%r1], 3;\n";
    let body = body.replace("wait:", &format!("{load}wait:"));
    let kernel = Kernel::new(&body).on_hopper().with_clusters([2, 1, 1], [2, 1, 1]);
    let findings = kernel.with_input(vec![0; 128]).run().report.findings;
    assert!(findings.iter().any(|finding| finding.class == FindingClass::MbarrierMisuse), "{findings:#?}");
}
