//! Volatile accesses are neither atomic nor ordered. A volatile store races with volatile and atomic accesses of other warps,
//! unless the thread that reads tests the value: it waits for a flag, or takes a lock.

use crate::common::Kernel;
use ptx_sim::FindingClass;

/// What one of two threads does with the word at `[%input]`.
#[derive(Clone, Copy, Debug)]
struct Access {
    text: &'static str,
    then: &'static str,
    is_volatile: bool,
    writes: bool,
    is_tested: bool,
}

const fn write(text: &'static str, is_volatile: bool) -> Access {
    Access { text, then: "", is_volatile, writes: true, is_tested: false }
}

const fn update(text: &'static str, then: &'static str, is_tested: bool) -> Access {
    Access { text, then, is_volatile: false, writes: true, is_tested }
}

const fn read(text: &'static str, is_volatile: bool, then: &'static str, is_tested: bool) -> Access {
    Access { text, then, is_volatile, writes: false, is_tested }
}

/// `%rd2` is the thread's own part of the output.
const USED: &str = "st.global.u32 [%rd2], %r5;";
const COMPUTED: &str = "mad.lo.u32 %r6, %r5, 3, 1; st.global.u32 [%rd2], %r6;";
const INDEX: &str =
    "and.b32 %r6, %r5, 1; mul.wide.u32 %rd3, %r6, 4; add.u64 %rd3, %rd2, %rd3; st.global.u32 [%rd3], 1;";
const TESTED: &str = "setp.ne.u32 %p2, %r5, 1; @%p2 st.global.u32 [%rd2], 1;";
/// As unoptimised code does it.
const TESTED_LATER: &str = "st.local.u32 [kept], %r5; ld.local.u32 %r6, [kept]; setp.ne.u32 %p2, %r6, 1;\n\
    @%p2 st.global.u32 [%rd2], 1;";
const TESTED_BY_LANES: &str = "mov.u32 %r7, %laneid; activemask.b32 %r8;\n\
    shfl.sync.idx.b32 %r6, %r5, %r7, 31, %r8; setp.ne.u32 %p2, %r6, 1; @%p2 st.global.u32 [%rd2], 1;";
const TESTED_BY_SWAP: &str = "add.u32 %r6, %r5, 1; atom.global.cas.b32 %r7, [%input+128], %r5, %r6;";

const VOLATILE_READ: &str = "ld.volatile.global.u32 %r5, [%input];";
const RELAXED_READ: &str = "ld.relaxed.gpu.global.u32 %r5, [%input];";
const EXCHANGE: &str = "atom.global.exch.b32 %r5, [%input], 9;";

const ACCESSES: [Access; 14] = [
    write("st.volatile.global.u32 [%input], %r9;", true),
    write("st.relaxed.gpu.global.u32 [%input], 6;", false),
    update("red.global.add.u32 [%input], 3;", "", false),
    update(EXCHANGE, USED, false),
    update(EXCHANGE, TESTED, true),
    read(RELAXED_READ, false, USED, false),
    read(RELAXED_READ, false, TESTED, true),
    read(VOLATILE_READ, true, USED, false),
    read(VOLATILE_READ, true, COMPUTED, false),
    read(VOLATILE_READ, true, INDEX, false),
    read(VOLATILE_READ, true, TESTED, true),
    read(VOLATILE_READ, true, TESTED_LATER, true),
    read(VOLATILE_READ, true, TESTED_BY_LANES, true),
    read(VOLATILE_READ, true, TESTED_BY_SWAP, true),
];

/// Threads 0 and `other` of two warps, or the first threads of two blocks, that each execute one access.
fn pair(one: Access, two: Access, other: &str) -> Kernel {
    let (who, are_blocks) = if other == "block" { ("%ctaid.x", true) } else { ("%lane", false) };
    let second = if are_blocks { "1" } else { other };
    let (first_text, second_text) = (format!("{}\n{}", one.text, one.then), format!("{}\n{}", two.text, two.then));
    let body = format!(
        ".local .align 4 .b8 kept[4]; .reg .u32 %who; mov.u32 %who, {who}; add.u32 %r9, %who, 5;\n\
         mul.wide.u32 %rd2, %who, 8; add.u64 %rd2, %rd2, %output; add.u64 %rd2, %rd2, 8; setp.eq.u32 %p0, %who, 0;\n\
         setp.eq.u32 %p1, %who, {second}; @%p0 bra first; @%p1 bra second; bra out;\n\
         first: {first_text} bra out;\nsecond: {second_text}\nout:"
    );
    let kernel = Kernel::new(&body).with_output_bytes(1024);
    let (blocks, threads) = if are_blocks { (2, 1) } else { (1, 64) };
    kernel.with_blocks(blocks).with_threads(threads)
}

fn must_race(one: Access, two: Access) -> bool {
    let is_excused = match (one.writes, two.writes) {
        (true, true) => one.is_tested || two.is_tested,
        (true, false) => two.is_tested,
        (false, true) => one.is_tested,
        (false, false) => true,
    };
    let stores = |access: Access| access.is_volatile && access.writes;
    (stores(one) || stores(two)) && !is_excused
}

#[test]
fn any_two_strong_accesses_of_which_one_is_volatile() {
    let mut races = 0;
    for (one, two) in ACCESSES.iter().flat_map(|one| ACCESSES.iter().map(move |two| (*one, *two))) {
        for other in ["32", "block"] {
            let kernel = pair(one, two, other);
            if must_race(one, two) {
                let findings = kernel.run_faults_of(FindingClass::VolatileRace);
                assert!(
                    findings[0].message.contains("volatile makes them neither atomic nor ordered"),
                    "{findings:#?}"
                );
                races += 1;
            } else {
                kernel.run_clean();
            }
        }
        // Lanes of one warp.
        pair(one, two, "1").run_clean();
    }
    assert_eq!(races, 30);
}

#[test]
fn two_volatile_stores_of_the_same_value() {
    let same = write("st.volatile.global.u32 [%input], 5;", true);
    for other in ["32", "block"] {
        pair(same, same, other).run_clean();
    }
}

/// Two blocks that pass a word from one to the other.
fn published(write: &str, wait: &str) -> Kernel {
    Kernel::new(&format!(
        "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p0, %r4, 0; @%p0 bra write;\n\
         spin: ld.volatile.global.u32 %r5, [%input]; setp.eq.u32 %p1, %r5, 0; @%p1 bra spin; {wait}\n\
         ld.volatile.global.u32 %r6, [%input+64]; st.global.u32 [%output], %r6; bra out;\n\
         write: st.volatile.global.u32 [%input+64], 42; {write} st.volatile.global.u32 [%input], 1; out:"
    ))
    .with_blocks(2)
    .with_threads(1)
}

#[test]
fn a_flag_orders_what_lies_behind_a_fence_on_both_sides() {
    let output = published("membar.gl;", "membar.gl;").run_clean();
    assert_eq!(output[0], 42);
    for kernel in [published("", "membar.gl;"), published("membar.gl;", ""), published("membar.cta;", "membar.gl;")] {
        let finding = kernel.run_faulty(FindingClass::VolatileRace);
        let lines = [finding.at.ptx_line, finding.other.as_ref().expect("a race has two sides").at.ptx_line];
        assert_eq!(lines, [18, 19], "{finding}\n{}", kernel.text());
    }
}

#[test]
fn an_unwritten_value_is_found_beside_a_volatile_race() {
    let body = ".shared .align 4 .b8 total[4]; setp.eq.u32 %p0, %lane, 63; @%p0 st.volatile.shared.u32 [total], 7;\n\
        ld.volatile.shared.u32 %r5, [total]; mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output;\n\
        st.global.u32 [%rd0], %r5;";
    let findings = Kernel::new(body).with_threads(64).with_output_bytes(256).run().report.findings;
    let classes: Vec<FindingClass> = findings.iter().map(|finding| finding.class).collect();
    assert_eq!(classes, [FindingClass::VolatileRace, FindingClass::Uninitialised], "{findings:#?}");
    let ordered = body.replace("ld.volatile", "bar.sync 0; ld.volatile");
    Kernel::new(&ordered).with_threads(64).with_output_bytes(256).run_clean();
}
