//! A racing read is a finding only if something depends on its value, whether it comes before the write or behind it.

use crate::common::Kernel;
use ptx_sim::FindingClass;

/// What the reader does with the value in `%r5`: before the write, and behind it. `%p2` is false, `%r6` not the value, and
/// `%rd2` the reader's word of the output.
struct Use {
    before: &'static str,
    behind: &'static str,
    matters: bool,
}

const fn unused(before: &'static str, behind: &'static str) -> Use {
    Use { before, behind, matters: false }
}

const fn used(before: &'static str, behind: &'static str) -> Use {
    Use { before, behind, matters: true }
}

const USES: [Use; 21] = [
    unused("", ""),
    unused("add.u32 %r7, %r5, 1;", ""),
    unused("add.u32 %r7, %r5, 1; @%p2 st.global.u32 [%rd2], %r7;", ""),
    unused("setp.eq.u32 %p3, %r5, 7; @%p2 bra.uni out;", ""),
    unused("selp.b32 %r7, %r5, %r6, %p2; st.global.u32 [%rd2], %r7;", ""),
    unused("selp.b32 %r7, %r5, 9, %p2; st.global.u32 [%rd2], %r7;", ""),
    unused("not.pred %p3, %p2; selp.b32 %r7, %r6, %r5, %p3; st.global.u32 [%rd2], %r7;", ""),
    unused("", "selp.b32 %r7, %r5, %r6, %p2; st.global.u32 [%rd2], %r7;"),
    unused("add.u32 %r7, %r5, 1; mov.u32 %r7, 3; st.global.u32 [%rd2], %r7;", "st.global.u32 [%rd2], %r7;"),
    unused("", "and.b32 %r7, %r5, 0; st.global.u32 [%rd2], %r7;"),
    used("st.global.u32 [%rd2], %r5;", ""),
    used("add.u32 %r7, %r5, 1; st.global.u32 [%rd2], %r7;", ""),
    used("selp.b32 %r7, %r6, %r5, %p2; st.global.u32 [%rd2], %r7;", ""),
    used("setp.eq.u32 %p3, %r5, 7; @%p3 st.global.u32 [%rd2], %r6;", ""),
    used("and.b32 %r7, %r5, 4; cvt.u64.u32 %rd4, %r7; add.u64 %rd4, %rd4, %rd2; st.global.u32 [%rd4], %r6;", ""),
    used(
        "mov.u32 %r8, %laneid; activemask.b32 %r10; shfl.sync.idx.b32 %r7, %r5, %r8, 31, %r10; st.global.u32 [%rd2], %r7;",
        "",
    ),
    used("red.global.add.u32 [%rd2], %r5;", ""),
    used("", "st.global.u32 [%rd2], %r5;"),
    used("add.u32 %r7, %r5, 1;", "st.global.u32 [%rd2], %r7;"),
    used("setp.eq.u32 %p3, %r5, 7;", "@%p3 st.global.u32 [%rd2], %r6;"),
    used("mov.b64 %rd4, {%r5, %r6};", "st.global.u64 [%rd2], %rd4;"),
];

/// How the thread 0 changes the word at `[%rd0]` without an order, and the reader reads it.
const ACCESSES: [(&str, &str); 5] = [
    ("st.global.u32 [%rd0], 7;", "ld.global.u32 %r5, [%rd0];"),
    ("red.global.add.u32 [%rd0], 7;", "ld.global.u32 %r5, [%rd0];"),
    ("st.global.u32 [%rd0], 7;", "ld.relaxed.gpu.global.u32 %r5, [%rd0];"),
    ("st.shared.u32 [word], 7;", "ld.shared.u32 %r5, [word];"),
    ("atom.shared.add.u32 %r9, [word], 7;", "ld.shared.u32 %r5, [word];"),
];

/// Thread 0 writes and thread `reader` of two warps reads, in that order of time or the other one, which nothing makes an
/// order of memory.
fn kernel(own: &Use, access: (&str, &str), reader: u32, reads_first: bool) -> Kernel {
    let text = if reader < 32 { in_one_warp(own, access, reads_first) } else { in_two_warps(own, access, reads_first) };
    Kernel::new(&format!(
        ".shared .align 4 .b8 word[4]; add.u64 %rd0, %input, 128; add.u64 %rd2, %output, 64; mov.u32 %r6, 5;\n\
         st.global.u64 [%rd2], %rd0; setp.eq.u32 %p0, %lane, 0; @%p0 st.shared.u32 [word], 1; bar.sync 0;\n\
         setp.eq.u32 %p1, %lane, {reader}; setp.ne.u32 %p2, %lane, %lane; {text}\nout:"
    ))
    .with_input(vec![0; 256])
    .with_output_bytes(256)
    .with_threads(64)
}

/// One path after the other.
fn in_one_warp(own: &Use, (write, read): (&str, &str), reads_first: bool) -> String {
    let Use { before, behind, .. } = own;
    let write = format!("@!%p0 bra written; {write}\nwritten:");
    let (first, second) = if reads_first { ("", write.as_str()) } else { (write.as_str(), "") };
    format!("{first} @!%p1 bra read; {read} {before}\nread: {second} @!%p1 bra out; {behind}")
}

/// A relaxed flag tells the time.
fn in_two_warps(own: &Use, (write, read): (&str, &str), reads_first: bool) -> String {
    let Use { before, behind, .. } = own;
    let wait = |name: &str, flag: u32| {
        format!("{name}: ld.relaxed.gpu.global.u32 %r1, [%input]; setp.lt.u32 %p4, %r1, {flag}; @%p4 bra {name};")
    };
    let signal = "red.relaxed.gpu.global.add.u32 [%input], 1;";
    let (reads, writes) = match reads_first {
        true => (
            format!("{read} {before} {signal} {} {behind}", wait("written", 2)),
            format!("{} {write} {signal}", wait("read", 1)),
        ),
        false => (format!("{} {read} {before} {behind}", wait("written", 1)), format!("{write} {signal}")),
    };
    format!("@%p0 bra writer; @%p1 bra reader; bra out;\nwriter: {writes} bra out;\nreader: {reads}")
}

#[test]
fn in_either_order_and_in_any_warp() {
    for own in &USES {
        for access in ACCESSES {
            for (reader, reads_first) in [(1, true), (1, false), (40, true), (40, false)] {
                let kernel = kernel(own, access, reader, reads_first);
                if own.matters {
                    kernel.run_faults_of(FindingClass::Race);
                } else {
                    kernel.run_clean();
                }
            }
        }
    }
}

#[test]
fn of_several_readers_one_that_uses_the_value_is_enough() {
    for user in [1, 17, 40, 63] {
        let body = format!(
            "ld.global.u32 %r5, [%input]; setp.eq.u32 %p1, %lane, {user}; add.u64 %rd2, %output, 64;\n\
             @%p1 st.global.u32 [%rd2], %r5; setp.eq.u32 %p0, %lane, 0; @%p0 st.global.u32 [%input], 7;"
        );
        let finding = Kernel::new(&body).with_threads(64).run_faulty(FindingClass::Race);
        let lane = finding.other.map_or(finding.at.lane, |other| other.at.lane);
        assert!(lane.is_some(), "it has a reader");
    }
    let body = "ld.global.u32 %r5, [%input]; setp.eq.u32 %p0, %lane, 0; @%p0 st.global.u32 [%input], 7;";
    Kernel::new(body).with_threads(64).run_clean();
}

#[test]
fn a_read_of_long_ago_counts_as_used() {
    let body = |count: u32| {
        format!(
            "ld.global.u32 %r5, [%input]; mov.u32 %r1, 0;\nloop: ld.global.u32 %r2, [%input+64]; add.u32 %r1, %r1, 1;\n\
             setp.lt.u32 %p1, %r1, {count}; @%p1 bra loop;\n\
             setp.eq.u32 %p0, %lane, 0; @%p0 st.global.u32 [%input], 7;"
        )
    };
    Kernel::new(&body(10)).run_clean();
    Kernel::new(&body(1000)).run_faulty(FindingClass::Race);
}
