//! `mbarrier`: phases, who waits for them, and what is wrong with using one.

use crate::common::{Kernel, bytes, words};
use ptx_sim::FindingClass;

/// An mbarrier `gate` that waits for `count` arrivals, visible to all threads; its address is in `%r1`.
fn gate(count: u32) -> String {
    format!(
        ".shared .align 8 .b64 gate; .shared .align 16 .b8 tile[1024]; .reg .pred %leader;\n\
         mov.u32 %r1, gate; mov.u32 %r2, tile; setp.eq.u32 %leader, %lane, 0;\n\
         @%leader mbarrier.init.shared::cta.b64 [%r1], {count}; fence.mbarrier_init.release.cluster; bar.sync 0;\n"
    )
}

/// Waits in a loop for the end of a phase of `gate`.
fn wait(label: &str, parity: u32) -> String {
    format!("{label}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], {parity}; @!%p1 bra {label};\n")
}

/// Stores a word of each thread, left in `%r0`.
const STORE: &str = "mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output; st.global.u32 [%rd0], %r0;";

fn kernel(body: &str) -> Kernel {
    Kernel::new(body).on_hopper().with_threads(64).with_output_bytes(256)
}

#[test]
fn consumers_wait_for_producers() {
    // The second warp writes, the first one reads; both go through two phases.
    let arrive = "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1];";
    let body = format!(
        "{}mov.u32 %r0, 0; setp.ge.u32 %p0, %lane, 32; @%p0 bra producer;\n{arrive}{}ld.shared.u32 %r0, [%r2];\n\
         {arrive}{}ld.shared.u32 %r3, [%r2+4]; add.u32 %r0, %r0, %r3; bra done;\n\
         producer: st.shared.u32 [%r2], 5; mbarrier.arrive.shared::cta.b64 %rd5, [%r1];\n\
         {}st.shared.u32 [%r2+4], 6; {arrive}\ndone: {STORE}",
        gate(64),
        wait("first", 0),
        wait("second", 1),
        wait("third", 0),
    );
    let output = words(&kernel(&body).run_clean());
    assert_eq!(output[..32], [11; 32]);
}

#[test]
fn the_phase_before_the_first_counts_as_over() {
    let body = format!("{}{}mov.u32 %r0, 3; {STORE}", gate(1), wait("free", 1));
    assert_eq!(words(&kernel(&body).run_clean()), [3; 64]);
}

#[test]
fn states_name_phases() {
    let body = format!(
        "{}mbarrier.arrive.shared::cta.b64 %rd5, [%r1];\n\
         again: mbarrier.try_wait.shared::cta.b64 %p1, [%r1], %rd5; @!%p1 bra again;\n\
         mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd6, [%r1], 1; mov.u32 %r0, 4;\n\
         mbarrier.test_wait.shared::cta.b64 %p2, [%r1], %rd5; @%p2 add.u32 %r0, %r0, 1; {STORE}",
        gate(65)
    )
    .replace("again:", "@%leader mbarrier.arrive.shared::cta.b64 _, [%r1];\nagain:");
    assert_eq!(words(&kernel(&body).run_clean()), [5; 64]);
}

#[test]
fn pending_counts() {
    let body = format!(
        "{}mov.u32 %r0, 0; @!%leader bra done; mbarrier.arrive.shared::cta.b64 %rd5, [%r1], 3;\n\
         mbarrier.pending_count.b64 %r0, %rd5; mbarrier.arrive.shared::cta.b64 %rd5, [%r1];\n\
         mbarrier.pending_count.b64 %r3, %rd5; mul.lo.u32 %r3, %r3, 100; add.u32 %r0, %r0, %r3;\ndone: {STORE}",
        gate(10)
    );
    assert_eq!(words(&kernel(&body).run_clean())[0], 710);
}

#[test]
fn dropped_arrivals_are_not_waited_for_again() {
    let body = format!(
        "{}@%leader mbarrier.arrive_drop.shared::cta.b64 _, [%r1]; setp.eq.u32 %p2, %lane, 32;\n\
         @%p2 mbarrier.arrive.shared::cta.b64 _, [%r1];\n{}@%p2 mbarrier.arrive.shared::cta.b64 _, [%r1];\n{}\
         mov.u32 %r0, 8; {STORE}",
        gate(2),
        wait("first", 0),
        wait("second", 1)
    );
    assert_eq!(words(&kernel(&body).run_clean()), [8; 64]);
}

#[test]
fn phases_wait_for_bytes_too() {
    let body = format!(
        "{}@%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64; setp.ge.u32 %p0, %lane, 32; @%p0 bra second;\n\
         {}bra done;\nsecond: setp.eq.u32 %p2, %lane, 40;\n\
         @%p2 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 64;\ndone: mov.u32 %r0, 2; {STORE}",
        gate(1),
        wait("first", 0)
    );
    assert_eq!(words(&kernel(&body).run_clean()), [2; 64]);
}

#[test]
fn a_wait_may_time_out() {
    // Whoever arrives does so only after its own wait returned false.
    let body = format!(
        "{}mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n\
         mbarrier.arrive.shared::cta.b64 _, [%r1];\n{}mov.u32 %r0, 1; {STORE}",
        gate(64),
        wait("wait", 0)
    );
    assert_eq!(words(&kernel(&body).run_clean()), [1; 64]);
}

#[test]
fn an_mbarrier_can_wait_for_cp_async() {
    for modifier in ["", ".noinc"] {
        // Without .noinc the arrival is one more than those expected.
        let arrive = if modifier.is_empty() { "mbarrier.arrive.shared::cta.b64 _, [%r1];" } else { "" };
        let body = format!(
            "{}mul.wide.u32 %rd1, %lane, 16; add.u64 %rd1, %rd1, %input; shl.b32 %r3, %lane, 4; add.u32 %r3, %r3, %r2;\n\
             cp.async.cg.shared.global [%r3], [%rd1], 16; cp.async.mbarrier.arrive{modifier}.shared::cta.b64 [%r1]; {arrive}\n\
             {}xor.b32 %r4, %r3, 528; ld.shared.u32 %r0, [%r4]; {STORE}",
            gate(64),
            wait("wait", 0)
        );
        let input: Vec<u32> = (0..256).collect();
        let body = body
            .replace("xor.b32 %r4, %r3, 528", "sub.u32 %r4, %r3, %r2; xor.b32 %r4, %r4, 528; add.u32 %r4, %r4, %r2");
        let kernel = kernel(&body).with_input(bytes(&input));
        let expected: Vec<u32> = (0..64).map(|thread| (thread ^ 33) * 4).collect();
        assert_eq!(words(&kernel.run_clean()), expected, "{modifier}");
        let unread = body.replace(&wait("wait", 0), "");
        let finding = crate::common::Kernel::new(&unread).on_hopper().with_threads(64).with_input(bytes(&input)).run();
        let classes: Vec<FindingClass> = finding.report.findings.iter().map(|finding| finding.class).collect();
        assert!(classes.contains(&FindingClass::AsyncCopyNotWaited), "{classes:?}");
    }
}

fn misuse(body: &str, said: &str) {
    let finding = kernel(body).run_faulty(FindingClass::MbarrierMisuse);
    assert!(finding.message.contains(said), "{finding}");
}

#[test]
fn mbarriers_have_to_be_initialised() {
    misuse(
        ".shared .align 8 .b64 gate; mov.u32 %r1, gate; mbarrier.arrive.shared.b64 _, [%r1];",
        "there is no mbarrier",
    );
    let ended = format!(
        "{}@%leader mbarrier.inval.shared.b64 [%r1]; bar.sync 0; mbarrier.arrive.shared.b64 _, [%r1];",
        gate(64)
    );
    misuse(&ended, "of `gate`: there is no mbarrier");
    let twice = format!("{}@%leader mbarrier.init.shared.b64 [%r1], 4;", gate(64));
    misuse(&twice, "a second time without mbarrier.inval");
    misuse(
        &gate(0)
            .replace(" 0;", " %r0;")
            .replace("mov.u32 %r1", "mov.u32 %r0, 0; mov.u32 %r1")
            .replace("bar.sync %r0", "bar.sync 0")
            .replace("%lane, %r0", "%lane, 0"),
        "for 0 arrivals",
    );
}

#[test]
fn beginnings_and_ends_race_with_other_uses() {
    let unordered = gate(64).replace("bar.sync 0;", "") + "mbarrier.arrive.shared.b64 _, [%r1];";
    let findings = kernel(&unordered).run_faults_of(FindingClass::Race);
    assert!(findings[0].message.contains("offset 0 of `gate` races with"), "{}", findings[0]);
    // The second warp may still wait when the first one ends the mbarrier.
    let used = format!("{}@%leader mbarrier.arrive.shared.b64 _, [%r1];\n{}", gate(1), wait("wait", 0));
    let end = "@%leader mbarrier.inval.shared.b64 [%r1];";
    kernel(&format!("{used}bar.sync 0; {end}")).run_clean();
    let finding = kernel(&format!("{used}{end}")).run().report.findings.remove(0);
    assert_eq!(finding.class, FindingClass::Race, "{finding}");
}

#[test]
fn ordinary_accesses_to_mbarriers() {
    misuse(&format!("{}@%leader st.shared.u32 [%r1+4], 0;", gate(1)), "a 4-byte write touches the mbarrier");
    misuse(
        &format!("{}mbarrier.inval.shared.b64 [%r2];", gate(1))
            .replace("mbarrier.inval.shared.b64 [%r2]", "ld.shared.b64 %rd5, [%r1]"),
        "a 8-byte read touches",
    );
}

#[test]
fn impossible_counts() {
    misuse(
        &format!("{}mov.u32 %r0, 2; @%leader mbarrier.arrive.shared.b64 _, [%r1], %r0;", gate(1)),
        "2 more arrivals",
    );
    let twice = format!("{}@%leader mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 1048575;", gate(1));
    misuse(&format!("{twice} @%leader mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 1;"), "1048576 bytes");
    misuse(&format!("{}mov.u32 %r0, 2; mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r0;", gate(1)), "parity of 2");
}

/// The second warp ends two phases, of which the first warp waits for the second; between the two, `between`.
fn second_phase_alone(between: &str) -> Kernel {
    kernel(&format!(
        "{}mov.u32 %r0, 0; setp.eq.u32 %p2, %lane, 32; setp.lt.u32 %p3, %lane, 32;\n\
         @%p2 mbarrier.arrive.shared::cta.b64 _, [%r1];\n\
         @%p3 bra between;\n{}between: {between}\n\
         @%p2 mbarrier.arrive.shared::cta.b64 _, [%r1];\n@!%p3 bra done;\n{}done: {STORE}",
        gate(1),
        wait("first", 0),
        wait("second", 1)
    ))
}

#[test]
fn a_phase_is_waited_for_by_those_who_know_the_end_of_the_one_before() {
    second_phase_alone("bar.sync 0;").run_clean();
}

#[test]
fn a_phase_is_waited_for_by_those_who_come_after_all_arrivals_of_the_one_before() {
    let after = |between: &str| {
        kernel(&format!(
            "{}mov.u32 %r0, 0; setp.eq.u32 %p2, %lane, 32; setp.lt.u32 %p3, %lane, 32;\n\
             @%p2 mbarrier.arrive.shared::cta.b64 _, [%r1];\n{between}\n\
             @%p2 mbarrier.arrive.shared::cta.b64 _, [%r1];\n@!%p3 bra done;\n{}done: {STORE}",
            gate(1),
            wait("second", 1)
        ))
    };
    after("bar.sync 0;").run_clean();
    after("").run_faulty(FindingClass::MbarrierMisuse);
}

#[test]
fn a_parity_that_may_be_of_an_earlier_phase() {
    let finding = second_phase_alone("").run_faulty(FindingClass::MbarrierMisuse);
    assert!(finding.message.contains("nothing says that phase 0 has ended"), "{finding}");
}

#[test]
fn misaligned_and_outside() {
    let finding =
        kernel(&format!("{}mbarrier.arrive.shared.b64 _, [%r1+4];", gate(1))).run_faulty(FindingClass::Misaligned);
    assert!(finding.message.contains("an mbarrier"), "{finding}");
    let finding = kernel(&format!("{}mbarrier.arrive.b64 _, [%input];", gate(1))).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("global"), "{finding}");
}

#[test]
fn a_phase_that_never_ends_is_a_deadlock() {
    let body = format!("{}@%leader mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 96;\n{}", gate(2), wait("wait", 0));
    let finding = kernel(&body).run_faulty(FindingClass::Deadlock);
    let said =
        "warp 1 lanes 0-31 waits at the mbarrier at 0x400 (phase 0, parity 0: 1 of 2 arrivals and 96 bytes pending)";
    assert!(finding.message.contains(said), "{finding}");
    assert!(finding.at.instruction.contains("try_wait"), "{finding}");
}

#[test]
fn tests_in_a_loop_deadlock_too() {
    let body = format!("{}{}", gate(2), wait("wait", 0).replace("try_wait", "test_wait"));
    kernel(&body).run_faulty(FindingClass::Deadlock);
}
