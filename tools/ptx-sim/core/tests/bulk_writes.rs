//! Writes of bulk copies and bulk reductions to global memory, which only a full `cp.async.bulk.wait_group` waits for.

use crate::common::{Kernel, bytes, eight_by_eight};
use ptx_sim::{Engine, Finding, FindingClass, TensorElement};

/// Every way to write 128 bytes from `%r1` to the beginning of the input.
const COPIES: [&str; 4] = [
    "cp.async.bulk.global.shared::cta.bulk_group [%input], [%r1], 128;\n",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {0, 0}], [%r1];\n",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%input], [%r1], 128;\n",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%map, {0, 0}], [%r1];\n",
];
/// What may stand behind a copy that does not wait for its writes.
const TOO_WEAK: [&str; 6] = [
    "",
    "COMMIT WAIT.read 0;\n",
    "COMMIT WAIT 1;\n",
    "WAIT 0; COMMIT\n",
    "COMMIT COMMIT WAIT.read 1; WAIT.read 0;\n",
    "COMMIT WAIT.read 0; COMMIT WAIT 2;\n",
];
/// What does.
const ENOUGH: [&str; 4] = [
    "COMMIT WAIT 0;\n",
    "COMMIT WAIT.read 0; WAIT 0;\n",
    "COMMIT COMMIT WAIT 1;\n",
    "COMMIT WAIT 1; WAIT.read 0; COMMIT WAIT 1;\n",
];
/// Fills 256 bytes at `%r1`, 128 of which a copy takes; `%flag` is a word of zero; `%leader` is thread 0, `%block` the block.
const SETUP: &str = ".shared .align 128 .b8 tile[256]; .reg .pred %leader; .reg .b64 %flag; .reg .b32 %block;\n\
    mov.u32 %block, %ctaid.x; add.u64 %flag, %input, 256; mov.u32 %r1, tile; shl.b32 %r2, %lane, 2;\n\
    add.u32 %r3, %r1, %r2; add.u32 %r4, %lane, %block; st.shared.u32 [%r3], %r4; st.shared.u32 [%r3+128], 1000;\n\
    setp.eq.u32 %leader, %lane, 0; fence.proxy.async; bar.sync 0;\n";
const READ: &str = "ld.global.u32 %r5, [%input+64]; st.global.u32 [%output], %r5;\n";
/// The end of what thread 0 alone does: it waits for everything that it has not waited for.
const END: &str = "COMMIT WAIT 0;\n";
/// Every way to tell another block.
const SIGNALS: [&str; 4] = [
    "st.release.gpu.global.u32 [%flag], 1;\n",
    "red.release.gpu.global.add.u32 [%flag], 1;\n",
    "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%flag], 1;\n",
    "fence.acq_rel.gpu; fence.proxy.async; red.relaxed.gpu.global.add.u32 [%flag], 1;\n",
];
/// Waits until another block has told.
const TURN: &str = "turn: ld.acquire.gpu.global.u32 %r6, [%flag]; setp.ne.u32 %p2, %r6, 1; @%p2 bra turn;\n";

/// A kernel with these parts behind the setup.
fn kernel(parts: &[&str]) -> Kernel {
    let body = format!("{SETUP}{}", parts.concat());
    let body = body.replace("COMMIT", "cp.async.bulk.commit_group;").replace("WAIT", "cp.async.bulk.wait_group");
    let input: Vec<u32> = [vec![7; 64], vec![0; 64]].concat();
    let map = eight_by_eight(TensorElement::U32);
    Kernel::new(&body).on_hopper().with_input(bytes(&input)).with_tensor_map(map)
}

/// What thread 0 alone does.
fn by_leader(parts: &[&str]) -> Kernel {
    kernel(&["@!%leader bra done;\n", &parts.concat(), END, "done:"])
}

/// Two blocks: the first copies, waits and tells; the second waits for that and goes on.
fn in_turn(copy: &str, wait: &str, signal: &str, then: &str) -> Kernel {
    let first = format!("setp.eq.u32 %p1, %block, 1; @%p1 bra second;\n{copy}{wait}{signal}bra end;\n");
    by_leader(&[&first, "second:", TURN, then, "end:"]).with_blocks(2)
}

/// Checks that a race has the copy on one side, and says which wait does not do.
fn check(finding: &Finding, copy: &str) {
    let other = finding.other.as_ref().expect("a race has two accesses");
    let has_copy = [&finding.at, &other.at].iter().any(|at| at.instruction.trim() == copy.trim());
    assert!(has_copy && finding.message.contains("wait_group.read does not wait"), "{copy}{finding}");
}

/// The only finding, a race with the copy.
fn raced(kernel: &Kernel, copy: &str) -> Finding {
    let finding = kernel.run_faulty(FindingClass::Race);
    check(&finding, copy);
    finding
}

/// Runs a kernel for each copy behind each wait: those that are too weak race.
fn of_each(kernel: impl Fn(&str, &str) -> Kernel) {
    for copy in COPIES {
        for wait in TOO_WEAK {
            raced(&kernel(copy, wait), copy);
        }
        for wait in ENOUGH {
            kernel(copy, wait).run_clean();
        }
    }
}

#[test]
fn its_thread_reads() {
    of_each(|copy, wait| by_leader(&[copy, wait, READ]));
    let finding = raced(&by_leader(&[COPIES[0], TOO_WEAK[1], READ]), COPIES[0]);
    let other = finding.other.as_ref().expect("the copy");
    assert!(other.writes && other.engine == Engine::BulkWrites, "{finding}");
    assert!(finding.message.contains("races with the write by a bulk copy in line"), "{finding}");
    assert!(finding.message.contains("the thread has to wait for its copy in between"), "{finding}");
}

#[test]
fn its_thread_writes() {
    of_each(|copy, wait| by_leader(&[copy, wait, "st.global.u32 [%input+64], 5;\n"]));
}

#[test]
fn its_thread_copies_to_the_same_place() {
    // The sources differ, and so do the groups.
    let second = COPIES[0].replace("[%r1]", "[%r1+128]");
    of_each(|copy, wait| by_leader(&[copy, wait, &second]));
    let second = COPIES[1].replace("[%r1]", "[%r1+128]");
    of_each(|copy, wait| by_leader(&[copy, wait, &second]));
}

#[test]
fn another_thread_reads_behind_a_barrier() {
    of_each(|copy, wait| {
        let by_first = format!("@!%leader bra others;\n{copy}{wait}others: bar.sync 0;\n");
        let read = "ld.global.u32 %r5, [%input]; setp.eq.u32 %p3, %lane, 9; @%p3 st.global.u32 [%output], %r5;\n";
        kernel(&[&by_first, read, "@!%leader bra done;\n", END, "done:"])
    });
}

#[test]
fn another_block_reads_when_it_is_told() {
    for signal in SIGNALS {
        of_each(|copy, wait| in_turn(copy, wait, signal, READ));
    }
}

#[test]
fn another_block_writes_when_it_is_told() {
    of_each(|copy, wait| in_turn(copy, wait, SIGNALS[0], "st.global.u32 [%input+64], 5;\n"));
    let second = COPIES[0].replace("[%r1]", "[%r1+128]");
    of_each(|copy, wait| in_turn(copy, wait, SIGNALS[0], &second));
}

#[test]
fn a_block_of_the_cluster_reads_behind_its_barrier() {
    of_each(|copy, wait| {
        let first = format!("setp.eq.u32 %p1, %block, 1; @!%leader bra meet; @%p1 bra meet;\n{copy}{wait}");
        let second = format!(
            "meet: barrier.cluster.arrive; barrier.cluster.wait; @!%leader bra done;\n@!%p1 bra end;\n{READ}end:"
        );
        kernel(&[&first, &second, END, "done:"]).with_clusters([2, 1, 1], [2, 1, 1])
    });
}

#[test]
fn a_block_adds_to_what_another_one_stores() {
    // The first addend of an ordered sum is stored, the others are added.
    for (store, add) in [(COPIES[0], COPIES[2]), (COPIES[1], COPIES[3])] {
        for wait in TOO_WEAK {
            let finding = raced(&in_turn(store, wait, SIGNALS[1], add), store);
            assert!(finding.message.contains("has to wait for its bulk copies"), "{finding}");
        }
        for wait in ENOUGH {
            in_turn(store, wait, SIGNALS[1], add).run_clean();
        }
    }
}

#[test]
fn the_wait_is_that_of_the_thread_that_copied() {
    // The groups are those of a thread: the wait of another one covers nothing.
    let wait = "@%leader cp.async.bulk.commit_group; @!%leader cp.async.bulk.wait_group 0;\n";
    for copy in COPIES {
        let body = format!("@%leader {copy}{wait}bar.sync 0; @!%leader bra end; {READ}");
        raced(&kernel(&[&body, END, "end:"]), &format!("@%leader {copy}"));
    }
}

#[test]
fn reductions_are_atomic_with_each_other() {
    // Unordered sums, of one thread and of several blocks, and those of single words.
    for copy in &COPIES[2..] {
        by_leader(&[copy, copy, TOO_WEAK[1], copy, "red.global.add.u32 [%input], 1;\n"]).with_blocks(4).run_clean();
        in_turn(copy, TOO_WEAK[1], SIGNALS[0], copy).run_clean();
    }
}

#[test]
fn a_reduction_acquires_nothing_for_its_thread() {
    // The second block adds when the first one long has, and reads the sum: nobody has told it that the first one has added.
    let late = "setp.eq.u32 %p1, %block, 0; @%p1 bra add; mov.u32 %r9, 0;\n\
        spin: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 5000; @%p2 bra spin;\nadd: fence.acq_rel.gpu;\n";
    for copy in &COPIES[2..] {
        let read = format!("@%p1 bra end;\n{READ}end:");
        raced(&by_leader(&[late, copy, ENOUGH[0], &read]).with_blocks(2), copy);
    }
}

#[test]
fn what_needs_no_full_wait() {
    for copy in COPIES {
        // The source may be overwritten and copied elsewhere, and the kernel may end.
        let again = "st.shared.u32 [%r1], 3; fence.proxy.async;\n";
        let elsewhere = "cp.async.bulk.global.shared::cta.bulk_group [%output], [%r1], 128;\n";
        by_leader(&[copy, TOO_WEAK[1], again, elsewhere]).run_clean();
        // What was read before the copy was issued.
        kernel(&[
            READ.replace("%output", "%output+128").as_str(),
            "bar.sync 0; @!%leader bra done;\n",
            copy,
            END,
            "done:",
        ])
        .run_clean();
        // A thread may read what it does not write.
        by_leader(&[copy, TOO_WEAK[1], &READ.replace("[%input+64]", "[%input+128]")]).run_clean();
    }
    // Copies that store the same.
    for copy in &COPIES[..2] {
        by_leader(&[copy, copy]).run_clean();
    }
}

#[test]
fn one_of_two_groups() {
    let other = COPIES[0].replace("[%input]", "[%output]").replace("[%r1]", "[%r1+128]");
    let read = |place: &str| READ.replace("[%output]", "[%output+128]").replace("[%input+64]", place);
    for copy in COPIES {
        let two = format!("{copy}COMMIT\n{other}COMMIT WAIT.read 0; WAIT 1;\n");
        by_leader(&[&two, &read("[%input]")]).run_clean();
        raced(&by_leader(&[&two, &read("[%output]")]), &other);
    }
}
