//! Data races, each next to the same kernel with correct ordering.

use crate::common::{Kernel, bytes, words};
use ptx_sim::{Engine, Finding, FindingClass, Options};

/// `%r1` = the thread's word of `tile`, `%r2` = that of the thread in the next warp, `%r3` = that of the next lane.
const SETUP: &str = ".shared .align 16 .b8 tile[4096]; mov.u32 %r0, tile; shl.b32 %r1, %lane, 2; add.u32 %r1, %r1, %r0;\n\
    xor.b32 %r2, %lane, 32; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %r0;\n\
    xor.b32 %r3, %lane, 1; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r0;\n";

/// Something that depends on `%r5`.
const USE: &str = "red.global.add.u32 [%input+1020], %r5;";

/// Two warps.
fn kernel(body: &str) -> Kernel {
    Kernel::new(&format!("{SETUP}{body}")).with_threads(64).with_input(bytes(&[7; 256]))
}

/// The races of `body`, at least one.
fn races(body: &str) -> Vec<Finding> {
    let findings = kernel(body).run().report.findings;
    let races: Vec<Finding> = findings.iter().filter(|finding| finding.class == FindingClass::Race).cloned().collect();
    assert!(!races.is_empty(), "no race in\n{body}\nbut {findings:#?}");
    races
}

/// The first race of `body`, which goes away where `from` is replaced by `to`.
fn race_unless(body: &str, from: &str, to: &str) -> Finding {
    assert!(body.contains(from), "{body} lacks {from}");
    kernel(&body.replace(from, to)).run_clean();
    races(body).remove(0)
}

#[test]
fn a_missing_barrier_between_write_and_read_of_two_warps() {
    let body = format!("st.shared.u32 [%r1], %lane;\nbar.warp.sync -1;\nld.shared.u32 %r5, [%r2];\n{USE}");
    let finding = race_unless(&body, "bar.warp.sync -1", "bar.sync 0");
    // Warp 0 is executed first: it has read when warp 1 writes.
    assert_eq!((finding.at.warp, finding.at.ptx_line), (1, 19), "{finding}");
    let other = finding.other.as_ref().expect("a race has two sides");
    assert_eq!((other.writes, other.at.warp, other.at.lane, other.at.ptx_line), (false, 0, Some(0), 21), "{finding}");
    assert!(finding.message.contains("4-byte write to shared memory, offset 128 of `tile`"), "{finding}");
    assert!(finding.message.contains("read in line 21 of the PTX by warp 0, lane 0"), "{finding}");
    assert!(finding.message.contains("both warps have to pass a barrier"), "{finding}");
    assert!(finding.to_string().contains("races with line 21: ld.shared.u32"), "{finding}");
}

#[test]
fn a_race_is_found_in_either_order_of_the_warps() {
    let orders = ["lt", "ge"].map(|writers| {
        let body = format!(
            "st.shared.u32 [%r1], 0; bar.sync 0; setp.{writers}.u32 %p0, %lane, 32;\n\
             @%p0 st.shared.u32 [%r1], 5; /* here */ @!%p0 ld.shared.u32 %r5, [%r2]; @!%p0 {USE}"
        );
        race_unless(&body, "/* here */", "bar.sync 0;").other.map(|other| other.writes)
    });
    assert!(orders.contains(&Some(true)) && orders.contains(&Some(false)), "{orders:?}");
}

#[test]
fn a_missing_barrier_within_a_warp() {
    let body = &format!("st.shared.u32 [%r1], %lane; /* here */ ld.shared.u32 %r5, [%r3]; {USE}");
    let finding = race_unless(body, "/* here */", "bar.warp.sync -1;");
    assert!(finding.message.contains("bar.warp.sync"), "{finding}");
    // Exchanging registers does not order memory.
    race_unless(body, "/* here */", "shfl.sync.idx.b32 %r6, %lane, 0, 31, -1; bar.warp.sync -1;");
    races(&body.replace("/* here */", "shfl.sync.idx.b32 %r6, %lane, 0, 31, -1;"));
}

#[test]
fn a_warp_barrier_orders_only_the_lanes_of_its_mask() {
    let body = format!(
        "setp.lt.u32 %p0, %lane, 16; st.shared.u32 [%r1], %lane; and.b32 %r9, %lane, 16; setp.eq.u32 %p1, %r9, 0;\n\
        @%p1 bar.warp.sync 0xffff; @!%p1 bar.warp.sync 0xffff0000;\n\
        xor.b32 %r3, %lane, 1; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r0; ld.shared.u32 %r5, [%r3]; {USE}"
    );
    race_unless(&body.replace("%lane, 1;", "%lane, 16;"), "%lane, 16; shl", "%lane, 8; shl");
}

#[test]
fn one_instruction_that_stores_different_values_to_one_address() {
    let finding = race_unless("st.shared.u32 [tile], %lane;", "%lane", "5");
    assert!(finding.message.contains("races with the write"), "{finding}");
    // The bytes count, not the words.
    race_unless("add.u32 %r4, %r0, %lane; st.shared.u16 [tile], %lane;", "st.shared.u16 [tile]", "st.shared.u8 [%r4]");
}

#[test]
fn a_stage_reused_before_its_readers_are_done() {
    let copy = "mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %input;\n\
        cp.async.ca.shared.global [%r1], [%rd0], 4; cp.async.wait_all; bar.sync 0;";
    let body = format!("{copy} ld.shared.u32 %r5, [%r2]; /* here */ {copy} ld.shared.u32 %r5, [%r2];");
    race_unless(&body, "/* here */", "bar.sync 0;");
    let overwriting = races(&body).into_iter().find(|finding| finding.message.contains("write to"));
    let overwriting = overwriting.expect("the copy writes what was read");
    assert!(overwriting.at.instruction.contains("cp.async"), "{overwriting}");
    assert!(overwriting.message.contains("between the access and the issue of the copy"), "{overwriting}");
}

#[test]
fn a_copy_that_only_its_own_thread_has_waited_for() {
    let body = format!(
        "mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %input;\n\
        cp.async.ca.shared.global [%r1], [%rd0], 4; cp.async.wait_all;\n/* here */ ld.shared.u32 %r5, [%r3]; {USE}"
    );
    let finding = race_unless(&body, "/* here */", "bar.sync 0;");
    assert!(finding.other.as_ref().is_some_and(|other| other.engine == Engine::Copies), "{finding}");
    assert!(finding.message.contains("has to wait for it, and then both"), "{finding}");
    // Before the wait, a barrier orders nothing.
    race_unless(
        &body.replace("cp.async.wait_all;", "bar.sync 0; cp.async.wait_all;"),
        "/* here */",
        "bar.warp.sync -1;",
    );
}

#[test]
fn a_source_overwritten_while_it_is_being_copied() {
    let body = "mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %input;\n\
        cp.async.ca.shared.global [%r1], [%rd0], 4; /* here */ st.global.u32 [%rd0], 3; cp.async.wait_all;";
    let finding = race_unless(body, "/* here */", "cp.async.wait_all;");
    assert!(finding.message.contains("wait for its copy in between"), "{finding}");
}

#[test]
fn named_barriers_order_those_that_take_part() {
    let body = format!(
        "setp.lt.u32 %p0, %lane, 32; st.shared.u32 [%r1], %lane;\n\
         @%p0 bra first; bar.sync 1, 64; bra out;\nfirst: bar.sync 1, 64;\nout: ld.shared.u32 %r5, [%r2]; {USE}"
    );
    race_unless(&body.replace("bar.sync 1, 64", "bar.sync 1, 32"), "bar.sync 1, 32", "bar.sync 1, 64");
}

#[test]
fn arriving_releases_and_only_waiting_acquires() {
    let body = format!(
        "setp.lt.u32 %p0, %lane, 32; @%p0 bra produce;\n\
         bar.sync 1, 64; ld.shared.u32 %r5, [%r2]; {USE} bra out;\n\
         produce: st.shared.u32 [%r1], 1; bar.arrive 1, 64;\nout:"
    );
    kernel(&body).run_clean();
    let late = body.replace("st.shared.u32 [%r1], 1; bar.arrive 1, 64;", "bar.arrive 1, 64; st.shared.u32 [%r1], 1;");
    races(&late);
    let swapped = format!(
        "setp.lt.u32 %p0, %lane, 32; @%p0 bra produce;\n\
         st.shared.u32 [%r1], 1; bar.sync 1, 64; bra out;\n\
         produce: bar.arrive 1, 64; ld.shared.u32 %r5, [%r2]; {USE}\nout:"
    );
    races(&swapped);
}

#[test]
fn barriers_with_reductions_order_too() {
    let body = format!(
        "st.shared.u32 [%r1], %lane; setp.lt.u32 %p0, %lane, 7;\n\
         bar.red.popc.u32 %r6, 0, %p0; ld.shared.u32 %r5, [%r2]; {USE}"
    );
    race_unless(
        &body.replace("bar.red.popc.u32 %r6, 0, %p0;", "/* here */"),
        "/* here */",
        "bar.red.popc.u32 %r6, 0, %p0;",
    );
}

#[test]
fn atomic_operations_do_not_race_with_each_other() {
    let zero = "setp.eq.u32 %p0, %lane, 0; @%p0 st.shared.u32 [tile], 0; bar.sync 0;";
    kernel(&format!("{zero} red.shared.add.u32 [tile], 1; bar.sync 0; ld.shared.u32 %r5, [tile];")).run_clean();
    race_unless(
        &format!("{zero} red.shared.add.u32 [tile], 1; ld.shared.u32 %r5, [tile]; {USE}"),
        "; ld.shared",
        "; ld.volatile.shared",
    );
    races("st.shared.u32 [tile], 0; red.shared.add.u32 [tile], 1;");
}

#[test]
fn a_compare_and_swap_loop_that_begins_with_a_plain_read() {
    let body = "setp.eq.u32 %p0, %lane, 0; @%p0 st.shared.u32 [tile], 0; bar.sync 0;\n\
        ld.shared.u32 %r5, [tile];\n\
        again: mov.u32 %r6, %r5; add.u32 %r7, %r6, 1; atom.shared.cas.b32 %r5, [tile], %r6, %r7;\n\
        setp.ne.u32 %p1, %r5, %r6; @%p1 bra again;";
    let message = race_unless(body, "ld.shared", "ld.relaxed.cta.shared").message;
    assert!(
        message.contains("the value the loop begins with has to be read by a strong read (ld.relaxed"),
        "{message}"
    );
    kernel(&body.replace("ld.shared", "ld.volatile.shared")).run_clean();
    // The warp that comes second is the one that reads.
    let reversed = format!(
        "setp.eq.u32 %p0, %lane, 0; @%p0 st.shared.u32 [tile], 0; bar.sync 0; setp.lt.u32 %p1, %lane, 32;\n\
         @%p1 atom.shared.cas.b32 %r5, [tile], 0, 1;\n@!%p1 ld.shared.u32 %r5, [tile];\n{USE}"
    );
    let message = races(&reversed).remove(0).message;
    assert!(message.contains("no part of a compare-and-swap loop"), "{message}");
    // Other atomic operations, and plain writes, are ordinary races.
    let sum = reversed.replace("cas.b32 %r5, [tile], 0, 1", "add.u32 %r5, [tile], 1");
    let write = reversed.replace("ld.shared.u32 %r5, [tile]", "st.shared.u32 [tile], 5");
    for other in [sum, write] {
        let message = races(&other).remove(0).message;
        assert!(message.contains("both warps have to pass a barrier in between"), "{message}");
    }
}

/// Warp 0 writes data and then sets a flag; warp 1 waits for the flag and then reads the data.
fn message_passing(announce: &str, observe: &str) -> String {
    format!(
        "setp.eq.u32 %p0, %lane, 0; @%p0 st.shared.u32 [tile], 0; bar.sync 0;\n\
         setp.eq.u32 %p0, %lane, 32; setp.eq.u32 %p1, %lane, 0; @%p1 bra write; @!%p0 bra out;\n\
         spin: {observe} setp.eq.u32 %p2, %r5, 0; @%p2 bra spin; /* acquire */ ld.shared.u32 %r6, [tile+64]; st.global.u32 [%output], %r6; bra out;\n\
         write: st.shared.u32 [tile+64], 9; {announce}\nout:"
    )
}

#[test]
fn a_flag_with_fences_passes_messages() {
    let fenced =
        message_passing("membar.cta; st.volatile.shared.u32 [tile], 1;", "ld.volatile.shared.u32 %r5, [tile];");
    let fenced = fenced.replace("/* acquire */", "fence.acq_rel.cta;");
    race_unless(&fenced.replace("membar.cta;", "/* here */"), "/* here */", "membar.cta;");
    race_unless(&fenced.replace("fence.acq_rel.cta;", "/* here */"), "/* here */", "fence.acq_rel.cta;");
    race_unless(&fenced.replace("st.volatile", "st.weak"), "st.weak", "st.volatile");
}

#[test]
fn release_and_acquire_pass_messages() {
    let ordered = message_passing("st.release.cta.shared.u32 [tile], 1;", "ld.acquire.cta.shared.u32 %r5, [tile];");
    race_unless(&ordered.replace("st.release", "st.relaxed"), "st.relaxed", "st.release");
    race_unless(&ordered.replace("ld.acquire", "ld.relaxed"), "ld.relaxed", "ld.acquire");
    let atomic =
        message_passing("red.release.cta.shared.add.u32 [tile], 1;", "atom.acquire.cta.shared.or.b32 %r5, [tile], 0;");
    race_unless(&atomic.replace("red.release", "red.relaxed"), "red.relaxed", "red.release");
}

/// A warp, or a block, that reads data behind a flag which `observe` reads; the flag is set behind a fence of that scope.
fn handed_over(between: &str, scope: &str, observe: &str) -> Kernel {
    let (who, second, extent) = if between == "warps" { ("%lane", 32, (1, 64)) } else { ("%r4", 1, (2, 1)) };
    Kernel::new(&format!(
        "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p0, {who}, 0; setp.eq.u32 %p1, {who}, {second}; @%p0 bra write; @!%p1 bra out;\n\
         spin: {observe} setp.eq.u32 %p2, %r5, 0; @%p2 bra spin; /* acquire */\n\
         ld.global.u32 %r6, [%input+64]; st.global.u32 [%output], %r6; bra out;\n\
         write: st.global.u32 [%input+64], 9; membar.{scope}; atom.global.exch.b32 %r7, [%input], 1;\nout:"
    ))
    .with_blocks(extent.0)
    .with_threads(extent.1)
}

#[test]
fn an_atomic_operation_acquires_behind_a_fence_of_either_scope_unless_strict() {
    let strict = || Options { strict: true, threads: 2, ..Options::default() };
    for (between, scope) in [("warps", "cta"), ("warps", "gl"), ("blocks", "gl")] {
        for observe in ["atom.global.exch.b32 %r5, [%input], 0;", "atom.global.add.u32 %r5, [%input], 0;"] {
            let kernel = || handed_over(between, scope, observe);
            assert_eq!(kernel().run_clean()[0], 9, "{between}, {scope}, {observe}");
            let finding = kernel().with_options(strict()).run_faulty(FindingClass::Race);
            assert!(
                finding.message.contains("without `strict`, the atomic operation"),
                "{between}, {scope}: {finding}"
            );
            let acquires = observe.replace("atom", "atom.acquire.gpu");
            handed_over(between, scope, &acquires).with_options(strict()).run_clean();
            let fenced = format!("{observe} membar.gl;");
            handed_over(between, scope, &fenced).with_options(strict()).run_clean();
        }
        // A read that is not atomic needs the fence in any case.
        let finding =
            handed_over(between, scope, "ld.volatile.global.u32 %r5, [%input];").run_faulty(FindingClass::Race);
        assert!(!finding.message.contains("strict"), "{finding}");
    }
    let block_scope = handed_over("blocks", "cta", "atom.global.exch.b32 %r5, [%input], 0;");
    let message = block_scope.with_options(strict()).run_faulty(FindingClass::Race).message;
    assert!(!message.contains("strict"), "no liberty excuses a fence of the block: {message}");
}

#[test]
fn a_barrier_acquires_behind_a_fence_of_either_scope_unless_strict() {
    for scope in ["cta", "gl"] {
        let body = format!(
            "setp.eq.u32 %p0, %lane, 0; setp.eq.u32 %p1, %lane, 32; setp.ge.u32 %p3, %lane, 32; @%p0 bra write;\n\
             @!%p1 bra meet; spin: ld.volatile.global.u32 %r5, [%input]; setp.eq.u32 %p2, %r5, 0; @%p2 bra spin; bra meet;\n\
             write: st.global.u32 [%input+64], 9; membar.{scope}; st.volatile.global.u32 [%input], 1;\n\
             meet: @!%p3 bra out; bar.sync 1, 32; ld.global.u32 %r6, [%input+64]; @%p1 st.global.u32 [%output], %r6;\nout:"
        );
        assert_eq!(kernel(&body).with_input(bytes(&[0; 64])).run_clean()[0], 9, "{scope}");
        let options = Options { strict: true, ..Options::default() };
        kernel(&body).with_input(bytes(&[0; 64])).with_options(options).run_faulty(FindingClass::Race);
    }
}

#[test]
fn threads_of_a_block_race_in_global_memory_too() {
    let body = format!(
        "mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %input; xor.b32 %r4, %lane, 32;\n\
         mul.wide.u32 %rd1, %r4, 4; add.u64 %rd1, %rd1, %input;\n\
         st.global.u32 [%rd0], %lane; /* here */ ld.global.u32 %r5, [%rd1]; {USE}"
    );
    let finding = race_unless(&body, "/* here */", "bar.sync 0;");
    assert!(finding.message.contains("of buffer `input`"), "{finding}");
}

#[test]
fn races_are_not_looked_for_when_told_so() {
    let options = Options { races: false, ..Options::default() };
    kernel("st.shared.u32 [tile], %lane;").with_options(options).run_clean();
}

#[test]
fn schedules_differ_by_number_and_repeat() {
    // Each warp takes the next ticket.
    let body = "setp.eq.u32 %p0, %lane, 0; @%p0 st.shared.u32 [tile], 0; bar.sync 0; and.b32 %r4, %lane, 31;\n\
        setp.eq.u32 %p1, %r4, 0; @!%p1 bra out; atom.shared.add.u32 %r5, [tile], 1; shr.u32 %r6, %lane, 5;\n\
        mul.wide.u32 %rd0, %r6, 4; add.u64 %rd0, %rd0, %output; st.global.u32 [%rd0], %r5; out:";
    let tickets = |schedule: u64| {
        let options = Options { schedule, threads: 1, ..Options::default() };
        let kernel = kernel(body).with_threads(256).with_output_bytes(32).with_options(options);
        words(&kernel.run_clean())
    };
    let all: Vec<Vec<u32>> = (0..8).map(tickets).collect();
    assert!(all.iter().any(|order| *order != all[0]), "{all:?}");
    assert_eq!(all, (0..8).map(tickets).collect::<Vec<_>>());
}

/// Runs `body` in four blocks of one warp; `%r4` is the block.
fn blocks(body: &str) -> Kernel {
    Kernel::new(&format!("mov.u32 %r4, %ctaid.x; {body}")).with_blocks(4).with_input(bytes(&[0; 256]))
}

#[test]
fn two_blocks_that_write_one_address() {
    let finding = blocks("st.global.u32 [%output], %r4;").with_threads(1).run_faulty(FindingClass::Race);
    let other = finding.other.as_ref().expect("a race has two sides");
    assert_eq!((finding.at.block, other.at.block, other.writes), ([1, 0, 0], [0, 0, 0], true), "{finding}");
    assert!(finding.message.contains("offset 0 of buffer `output`"), "{finding}");
    assert!(finding.message.contains("block (0, 0, 0)"), "{finding}");
    assert_eq!(finding.occurrences, 3);
    let own = "mul.wide.u32 %rd0, %r4, 4; add.u64 %rd0, %rd0, %output; st.global.u32 [%rd0], %r4;";
    blocks(own).run_clean();
    blocks("st.global.u32 [%output], 7;").run_clean();
    blocks("red.global.add.u32 [%input], 1;").run_clean();
}

#[test]
fn a_block_that_reads_what_another_writes() {
    let body = "setp.eq.u32 %p0, %r4, 2; @%p0 st.global.u32 [%input+64], 1;\n@!%p0 ld.global.u32 %r5, [%input+64];";
    let findings = blocks(body).with_threads(1).run().report.findings;
    let sides: Vec<([u32; 3], bool)> = findings
        .iter()
        .filter_map(|finding| finding.other.as_ref())
        .map(|other| (other.at.block, other.writes))
        .collect();
    assert_eq!(sides, [([0, 0, 0], false), ([2, 0, 0], true)], "{findings:#?}");
    blocks(&body.replace("ld.global.u32 %r5, [%input+64]", "ld.global.u32 %r5, [%input+68]")).run_clean();
}

#[test]
fn the_last_block_may_read_what_all_wrote() {
    let body = "mul.wide.u32 %rd0, %r4, 4; add.u64 %rd0, %rd0, %input; st.global.u32 [%rd0+64], %r4; membar.gl;\n\
        atom.global.add.u32 %r5, [%input], 1; setp.ne.u32 %p0, %r5, 3; @%p0 bra out; membar.gl;\n\
        ld.global.v4.u32 {%r6,%r7,%r8,%r9}, [%input+64]; out:";
    blocks(body).with_threads(1).run_clean();
}

#[test]
fn findings_do_not_depend_on_the_number_of_threads() {
    let body = "st.global.u32 [%output], %r4; mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output;\n\
        st.global.u32 [%rd0+64], %r4; ld.global.u32 %r5, [%rd0+64];";
    let findings = |threads: usize, schedule: u64| {
        let options = Options { threads, schedule, ..Options::default() };
        blocks(body).with_options(options).run().report.findings
    };
    assert!(findings(1, 0).len() > 1);
    assert_eq!(findings(1, 0), findings(4, 0));
    assert_eq!(findings(1, 5), findings(4, 5));
}

/// All lanes write their numbers to `tile`, without order; then `body`.
fn written_by_all_lanes(body: &str) -> Kernel {
    Kernel::new(&format!(
        ".shared .align 4 .b8 tile[8]; st.shared.u32 [tile], %lane;\n bar.warp.sync -1; setp.eq.u32 %p0, %lane, 3; {body}"
    ))
}

#[test]
fn lanes_of_a_warp_may_write_to_one_place_that_nobody_reads() {
    written_by_all_lanes("").run_clean();
    written_by_all_lanes("ld.shared.u32 %r1, [tile]; add.u32 %r2, %r1, 1;").run_clean();
    let replaced =
        "@%p0 st.shared.u32 [tile], 5; bar.warp.sync -1; ld.shared.u32 %r1, [tile]; st.global.u32 [%output], %r1;";
    assert_eq!(written_by_all_lanes(&format!("{replaced} mov.u32 %r2, %r1;")).run_clean()[..4], [5, 0, 0, 0]);
}

#[test]
fn what_lanes_of_a_warp_write_to_one_place_is_a_race_for_who_reads_it() {
    for body in [
        "ld.shared.u32 %r1, [tile]; @%p0 st.global.u32 [%output], %r1;",
        "ld.shared.u32 %r1, [tile]; setp.eq.u32 %p1, %r1, 9; @%p1 st.global.u32 [%output], 1;",
        "@%p0 atom.shared.add.u32 %r1, [tile], 1;",
    ] {
        let finding = written_by_all_lanes(body).run_faulty(FindingClass::Race);
        assert!(finding.at.instruction.contains("st.shared.u32 [tile]"), "{body}: {finding}");
        assert!(finding.message.contains("a 4-byte write to shared memory, offset 0 of `tile`"), "{body}: {finding}");
        assert!(finding.message.contains("races with the write in line 16 of the PTX"), "{body}: {finding}");
    }
}

#[test]
fn warps_that_write_to_one_place_race_whoever_reads_it() {
    let finding = written_by_all_lanes("").with_threads(64).run_faulty(FindingClass::Race);
    assert!(finding.message.contains("races with the write in line 16 of the PTX by warp 0"), "{finding}");
}
