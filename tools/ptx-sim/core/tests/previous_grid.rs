//! `griddepcontrol.wait`: grids that may begin before the previous one has ended.

use crate::common::{Kernel, bytes, words};
use ptx_sim::{FindingClass, Options};

/// Two warps, of which thread 0 is the `%leader`; `%rd0` and `%rd1` are the thread's words of input and output, `%r1` its
/// word of `tile`, and `%r2` that of the thread in the other warp.
const SETUP: &str = ".shared .align 128 .b8 tile[256]; .reg .pred %leader; setp.eq.u32 %leader, %lane, 0;\n\
    mul.wide.u32 %rd1, %lane, 4; add.u64 %rd0, %input, %rd1; add.u64 %rd1, %output, %rd1;\n\
    mov.u32 %r0, tile; shl.b32 %r1, %lane, 2; add.u32 %r1, %r1, %r0; xor.b32 %r2, %r1, 128;\n";
const WAIT: &str = "griddepcontrol.wait;\n";
const LEADER_WAITS: &str = "@%leader griddepcontrol.wait;\n";
const COPY: &str = "ld.global.u32 %r5, [%rd0];\nst.global.u32 [%rd1], %r5;\n";

fn kernel(parts: &[&str]) -> Kernel {
    let input: Vec<u32> = (1..=64).collect();
    Kernel::new(&format!("{SETUP}{}", parts.concat())).on_hopper().with_threads(64).with_input(bytes(&input))
}

fn copies(parts: &[&str]) {
    assert_eq!(words(&kernel(parts).run_clean())[..64], (1..=64).collect::<Vec<u32>>());
}

/// Findings about accesses that may race with the previous grid.
fn meets(parts: &[&str]) -> Vec<String> {
    let findings = kernel(parts).run_faults_of(FindingClass::PreviousGridNotWaited);
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn an_access_before_the_wait_is_found() {
    copies(&[WAIT, COPY]);
    let found = meets(&["ld.global.u32 %r5, [%rd0];\n", WAIT, "st.global.u32 [%rd1], %r5;\n"]);
    assert_eq!(found.len(), 1, "the write comes behind the wait: {found:?}");
    assert!(found[0].contains("4-byte read of global memory") && found[0].contains("`input`"), "{found:?}");
    assert!(found[0].contains("the grid before this one may still write it"), "{found:?}");
    let found = meets(&["st.global.u32 [%rd1], %lane;\n", WAIT]);
    assert!(found[0].contains("write to global memory") && found[0].contains("may still use it"), "{found:?}");
}

#[test]
fn a_grid_that_never_waits_begins_when_the_one_before_has_ended() {
    copies(&[COPY]);
    copies(&["griddepcontrol.launch_dependents;\n", COPY]);
}

#[test]
fn a_launch_that_lets_it_begin_earlier_needs_a_wait() {
    let options = Options { overlaps_previous: Some(true), ..Options::default() };
    kernel(&[WAIT, COPY]).with_options(options.clone()).run_clean();
    let found = kernel(&[COPY]).with_options(options).run_faults_of(FindingClass::PreviousGridNotWaited);
    assert_eq!(found.len(), 2, "the read and the write: {found:?}");
    let alone = Options { overlaps_previous: Some(false), ..Options::default() };
    kernel(&[COPY, WAIT]).with_options(alone).run_clean();
}

#[test]
fn one_thread_may_wait_for_those_it_lets_go_on() {
    copies(&[LEADER_WAITS, "bar.sync 0;\n", COPY]);
    // The first warp alone meets at a barrier.
    let found = meets(&[LEADER_WAITS, "bar.warp.sync -1;\n", COPY]);
    assert!(found.iter().all(|finding| finding.contains("warp 1")), "{found:?}");
    // In the schedule that is executed the leader has waited before the others come here, and still nothing says so.
    assert!(!meets(&[LEADER_WAITS, COPY]).is_empty());
}

#[test]
fn copies_come_behind_the_wait_of_whoever_issues_them() {
    let copy = "@%leader cp.async.ca.shared.global [%r0], [%input], 16;\n";
    let landed = "cp.async.wait_all; bar.sync 0;\n";
    let rest = "ld.shared.u32 %r5, [tile]; st.global.u32 [%rd1], %r5;\n";
    kernel(&[LEADER_WAITS, copy, landed, rest]).run_clean();
    let found = meets(&[copy, LEADER_WAITS, landed, rest]);
    assert!(found.len() == 1 && found[0].contains("cp.async"), "{found:?}");
}

#[test]
fn an_mbarrier_passes_the_wait_on() {
    let gate = ".shared .align 8 .b64 gate; @%leader mbarrier.init.shared::cta.b64 [gate], 1; bar.sync 0;\n";
    let arrive = "@%leader mbarrier.arrive.shared::cta.b64 %rd2, [gate];\n";
    let pass = "again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [gate], 0; @!%p1 bra again;\n";
    copies(&[gate, LEADER_WAITS, arrive, pass, COPY]);
    assert!(!meets(&[gate, arrive, LEADER_WAITS, pass, COPY]).is_empty(), "it arrives before it has waited");
}

#[test]
fn shared_memory_and_prefetches_are_of_no_other_grid() {
    let before = "st.shared.u32 [%r1], %lane; prefetch.global.L2 [%rd0];\n";
    copies(&[before, WAIT, COPY]);
}

#[test]
fn nothing_is_said_where_races_are_not_looked_for() {
    let options = Options { races: false, ..Options::default() };
    kernel(&[COPY, WAIT]).with_options(options).run_clean();
}

#[test]
fn only_what_grids_before_have_used_is_met() {
    let before =
        |text: &str| kernel(&[text]).with_options(Options { accesses: true, ..Options::default() }).run().report;
    // The grid before wrote the first half of the output only.
    let report = before("@%leader st.global.u32 [%rd1], 7;\n");
    let unfinished = Some(std::sync::Arc::new(ptx_sim::Unfinished::new(report.accesses.iter())));
    let options = Options { overlaps_previous: Some(true), unfinished, ..Options::default() };
    kernel(&["ld.global.u32 %r5, [%rd0];\n", WAIT, "st.global.u32 [%rd1], %r5;\n"])
        .with_options(options.clone())
        .run_clean();
    let meets = kernel(&["st.global.u32 [%rd1], %lane;\n", WAIT]).with_options(options);
    assert_eq!(meets.run_faults_of(FindingClass::PreviousGridNotWaited).len(), 1);
}

#[test]
fn whether_the_next_grid_may_begin_before_the_previous_has_ended() {
    let early = |parts: &[&str]| {
        let options = Options { overlaps_previous: Some(true), ..Options::default() };
        kernel(parts).with_options(options).run().report.ends_before_previous
    };
    assert!(!early(&[WAIT, "griddepcontrol.launch_dependents;\n"]));
    assert!(!early(&[WAIT]));
    assert!(early(&["griddepcontrol.launch_dependents;\n", WAIT]));
    assert!(early(&[COPY]), "it ends, and has not waited");
}
