//! Threads that wait for each other get on, whatever the number of host threads, and however long the loop is in which they wait.

use crate::common::{Kernel, words};
use ptx_sim::{Finding, FindingClass, Options};

const HOST_THREADS: [usize; 3] = [1, 2, 16];

/// Runs a kernel of two blocks on each number of host threads and in two schedules; all give the same findings and output.
fn run_everywhere(kernel: impl Fn() -> Kernel) -> (Vec<u32>, Vec<Finding>) {
    let runs = HOST_THREADS.iter().flat_map(|threads| [0, 3].map(|schedule| (*threads, schedule)));
    let mut results = runs.map(|(threads, schedule)| {
        let options = Options { threads, schedule, instructions_per_warp: 3_000_000, ..Options::default() };
        let outcome = kernel().with_options(options).run();
        (words(&outcome.output), outcome.report.findings)
    });
    let first = results.next().expect("a run");
    for other in results {
        assert_eq!(other.0, first.0);
        let classes = |findings: &[Finding]| findings.iter().map(|finding| finding.class).collect::<Vec<_>>();
        assert_eq!(classes(&other.1), classes(&first.1), "{:#?}", other.1);
    }
    first
}

/// Lane 0 of each block counts itself and waits for the others, in a loop with `idle` in it; the others wait for lane 0.
fn meeting(wait: &str, idle: &str) -> Kernel {
    Kernel::new(&format!(
        "setp.ne.u32 %p0, %lane, 0; @%p0 bra met; mov.u32 %r9, 0; atom.acq_rel.gpu.global.add.u32 %r1, [%input], 1;\n\
         spin: {idle} {wait} setp.lt.u32 %p1, %r2, 2; @%p1 bra spin;\n\
         met: bar.sync 0; mov.u32 %r3, %ctaid.x; mul.wide.u32 %rd0, %r3, 4; add.u64 %rd0, %rd0, %output;\n\
         st.global.u32 [%rd0], 7;"
    ))
    .with_blocks(2)
    .with_output_bytes(8)
}

#[test]
fn blocks_that_wait_in_loops_of_any_length() {
    let acquire = "ld.acquire.gpu.global.u32 %r2, [%input];";
    let waits = [
        acquire.to_owned(),
        format!("ld.acquire.gpu.global.u32 %r4, [%input+64]; {acquire}"),
        format!("ld.volatile.global.u32 %r4, [%input+64]; ld.volatile.global.u32 %r5, [%input+128]; {acquire}"),
        "atom.acquire.gpu.global.or.b32 %r2, [%input], 0;".to_owned(),
    ];
    for wait in &waits {
        for length in [0, 20, 200, 3000] {
            let idle = "xor.b32 %r8, %lane, 1; ".repeat(length);
            let (output, findings) = run_everywhere(|| meeting(wait, &idle));
            assert!(findings.is_empty() && output == [7, 7], "{length} instructions, {wait}: {findings:#?}");
        }
    }
}

#[test]
fn a_warp_that_waits_for_another_one_which_waits_for_a_block() {
    let body = "setp.eq.u32 %p2, %lane, 0; @%p2 st.shared.u32 [flag], 0; bar.sync 0; setp.eq.u32 %p2, %lane, 32; @%p2 bra inside;\n\
         setp.ne.u32 %p0, %lane, 0; @%p0 bra met; atom.acq_rel.gpu.global.add.u32 %r1, [%input], 1;\n\
         spin: ld.acquire.gpu.global.u32 %r2, [%input]; setp.lt.u32 %p1, %r2, 2; @%p1 bra spin;\n\
         st.release.cta.shared.u32 [flag], 1; bra met;\n\
         inside: ld.acquire.cta.shared.u32 %r2, [flag]; setp.eq.u32 %p1, %r2, 0; @%p1 bra inside;\n\
         met: bar.sync 0; mov.u32 %r3, %ctaid.x; mul.wide.u32 %rd0, %r3, 4; add.u64 %rd0, %rd0, %output;\n\
         st.global.u32 [%rd0], 7;";
    let kernel = || {
        Kernel::new(&format!(".shared .align 4 .b8 flag[4]; {body}"))
            .with_threads(64)
            .with_blocks(2)
            .with_output_bytes(8)
    };
    let (output, findings) = run_everywhere(kernel);
    assert!(findings.is_empty() && output == [7, 7], "{findings:#?}");
}

/// Each lane of two blocks takes a lock and counts.
fn lock_of_lanes(take: &str) -> Kernel {
    Kernel::new(&format!(
        "{take} membar.gl; ld.volatile.global.u32 %r2, [%input+64]; add.u32 %r2, %r2, 1;\n\
         st.volatile.global.u32 [%input+64], %r2; membar.gl; atom.global.exch.b32 %r3, [%input], 0;\n\
         mov.u32 %r9, 1; bra again; out: atom.global.add.u32 %r4, [%input+128], 1; setp.ne.u32 %p3, %r4, 63; @%p3 bra end;\n\
         membar.gl; ld.volatile.global.u32 %r5, [%input+64]; st.global.u32 [%output], %r5; end:"
    ))
    .with_blocks(2)
    .with_output_bytes(4)
}

#[test]
fn lanes_that_take_one_lock_in_two_blocks() {
    let spins = "mov.u32 %r9, 0; again: setp.ne.u32 %p2, %r9, 0; @%p2 bra out;\n\
        take: atom.global.cas.b32 %r1, [%input], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra take;";
    let tries = "mov.u32 %r9, 0; again: setp.ne.u32 %p2, %r9, 0; @%p2 bra out;\n\
        atom.global.cas.b32 %r1, [%input], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra again;";
    for take in [spins, tries] {
        let (output, findings) = run_everywhere(|| lock_of_lanes(take));
        assert!(findings.is_empty() && output == [64], "{output:?} {findings:#?}");
    }
}

#[test]
fn what_never_comes_is_a_deadlock_at_any_length_of_the_loop() {
    for idle in ["", "xor.b32 %r8, %lane, 1; ".repeat(200).as_str()] {
        let wait = format!("{idle} ld.acquire.gpu.global.u32 %r2, [%input+64];");
        let (_, findings) = run_everywhere(|| meeting(&wait, ""));
        assert_eq!(findings.iter().map(|finding| finding.class).collect::<Vec<_>>(), [FindingClass::Deadlock]);
    }
}

#[test]
fn a_loop_that_counts_ends_though_it_reads_the_same() {
    let wait =
        "add.u32 %r9, %r9, 1; atom.global.max.u32 %r4, [%input+64], 0; min.u32 %r2, %r9, 30000; shr.u32 %r2, %r2, 13;";
    let (output, findings) = run_everywhere(|| meeting(wait, ""));
    assert!(findings.is_empty() && output == [7, 7], "{findings:#?}");
}
