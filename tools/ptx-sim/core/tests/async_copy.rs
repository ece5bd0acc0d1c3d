//! `cp.async`: destination and time of copies.

use crate::common::{Kernel, bytes, words};
use ptx_sim::FindingClass;

/// `%r1` = tile + 16·lane, `%rd1` = input + 16·lane, `%rd0` = output + 16·lane.
const SETUP: &str = ".shared .align 16 .b8 tile[1024]; mov.u32 %r0, tile; shl.b32 %r2, %lane, 4; add.u32 %r1, %r0, %r2;\n\
    mul.wide.u32 %rd2, %lane, 16; add.u64 %rd1, %rd2, %input; add.u64 %rd0, %rd2, %output;\n";
const STORE: &str = "ld.shared.v4.u32 {%r3,%r4,%r5,%r6}, [%r1]; st.global.v4.u32 [%rd0], {%r3,%r4,%r5,%r6};";

fn kernel(body: &str) -> Kernel {
    let input: Vec<u32> = (1..=128).collect();
    Kernel::new(&format!("{SETUP}{body}{STORE}")).with_input(bytes(&input)).with_output_bytes(512)
}

#[test]
fn a_copy_lands_when_its_group_is_waited_for() {
    let copy = "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group; cp.async.wait_group 0;";
    assert_eq!(words(&kernel(copy).run_clean()), (1..=128).collect::<Vec<u32>>());
    let all = "cp.async.ca.shared.global.L2::128B [%r1], [%rd1], 16; cp.async.wait_all;";
    assert_eq!(words(&kernel(all).run_clean()), (1..=128).collect::<Vec<u32>>());
}

#[test]
fn older_groups_land_first() {
    let body = "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group;\n\
        cp.async.cg.shared.global [%r1+512], [%rd1], 16; cp.async.commit_group; cp.async.wait_group 1;";
    let kernel = Kernel::new(&format!("{SETUP}{body}{STORE} cp.async.wait_all;")).with_input(bytes(&[7; 128]));
    assert_eq!(words(&kernel.with_output_bytes(512).run_clean()), [7; 128]);
}

#[test]
fn the_rest_of_a_short_source_becomes_zeros() {
    let body = "mov.u32 %r7, 8; cp.async.cg.shared.global [%r1], [%rd1], 16, %r7; cp.async.wait_all;";
    assert_eq!(words(&kernel(body).run_clean())[4..8], [5, 6, 0, 0]);
    let none = "cp.async.cg.shared.global [%r1], [0], 16, 0; cp.async.wait_all;".replace("[0]", "[%rd9]");
    let body = format!("mov.u64 %rd9, 16; {none}");
    assert_eq!(words(&kernel(&body).run_clean()), [0; 128]);
    let ignored = "setp.lt.u32 %p0, %lane, 1; cp.async.cg.shared.global [%r1], [%rd1], 16, %p0; cp.async.wait_all;";
    assert_eq!(words(&kernel(ignored).run_clean())[..8], [0, 0, 0, 0, 5, 6, 7, 8]);
}

#[test]
fn small_copies() {
    let body = "cp.async.ca.shared.global [%r1], [%rd1], 4; cp.async.ca.shared.global [%r1+8], [%rd1+8], 8;\n\
        st.shared.u32 [%r1+4], 99; cp.async.wait_all;";
    assert_eq!(words(&kernel(body).run_clean())[..4], [1, 99, 3, 4]);
}

#[test]
fn reading_before_waiting() {
    let body = "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group;";
    let text = format!("{SETUP}{body}{STORE} cp.async.wait_all;");
    let finding = Kernel::new(&text).with_input(bytes(&[7; 128])).with_output_bytes(512);
    let finding = finding.run_faulty(FindingClass::AsyncCopyNotWaited);
    assert!(finding.at.instruction.contains("ld.shared.v4"), "{finding}");
    assert_eq!(finding.occurrences, 32);
}

#[test]
fn waiting_for_one_group_too_few() {
    let body = "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group; cp.async.wait_group 1;";
    let text = format!("{SETUP}{body}{STORE} cp.async.wait_all;");
    let kernel = Kernel::new(&text).with_input(bytes(&[7; 128])).with_output_bytes(512);
    assert!(kernel.run_faulty(FindingClass::AsyncCopyNotWaited).message.contains("not yet waited for"));
}

#[test]
fn a_copy_nobody_waits_for() {
    let body = format!("{SETUP} cp.async.cg.shared.global [%r1], [%rd1], 16;");
    let finding = Kernel::new(&body).with_input(bytes(&[7; 128])).run_faulty(FindingClass::AsyncCopyNotWaited);
    assert!(finding.at.instruction.contains("cp.async"), "{finding}");
    assert!(finding.message.contains("ends without having waited"), "{finding}");
}

#[test]
fn a_body_that_ends_without_ret_is_checked_too() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.entry test(.param .u64 input)\n{\n.reg .b64 %rd<1>;\n\
        .shared .align 16 .b8 tile[16];\n.reg .b32 %r<1>;\nld.param.u64 %rd0, [input];\nmov.u32 %r0, tile;\n\
        cp.async.cg.shared.global [%r0], [%rd0], 16;\n}\n";
    let module = ptx_sim::Module::parse(text, "test.ptx").expect("parsing");
    let mut memory = ptx_sim::GlobalMemory::new();
    let input = memory.allocate("input", 16).expect("allocating");
    memory.write(input, &[1; 16]).expect("writing");
    let launch = ptx_sim::Launch {
        entry: "test",
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared_bytes: 0,
        params: &[&input.to_le_bytes()],
        architecture: 80,
    };
    let report = ptx_sim::run(&module, &mut memory, &launch, &ptx_sim::Options::default()).expect("running");
    let lines: Vec<u32> = report.findings.iter().map(|finding| finding.at.ptx_line).collect();
    assert_eq!(lines, [11], "{:?}", report.findings);
}

#[test]
fn writing_over_a_copy_in_flight() {
    let copy = "cp.async.cg.shared.global [%r1], [%rd1], 16;";
    let twice = format!("{SETUP}{copy} {copy} cp.async.wait_all;");
    let finding = Kernel::new(&twice).with_input(bytes(&[7; 128])).run_faulty(FindingClass::AsyncCopyNotWaited);
    assert!(finding.message.contains("overlaps"), "{finding}");
    let store = format!("{SETUP}{copy} st.shared.u32 [%r1], 0; cp.async.wait_all;");
    let finding = Kernel::new(&store).with_input(bytes(&[7; 128])).run_faulty(FindingClass::AsyncCopyNotWaited);
    assert!(finding.message.contains("write"), "{finding}");
}

#[test]
fn another_threads_copy_needs_its_own_wait() {
    // Lanes 0-15 copy and wait for nothing; a barrier alone does not make their copies visible.
    let body = format!(
        "{SETUP} setp.lt.u32 %p0, %lane, 16; @%p0 cp.async.cg.shared.global [%r1], [%rd1], 16;\n\
         bar.sync 0; and.b32 %r8, %lane, 15; shl.b32 %r8, %r8, 4; add.u32 %r8, %r8, %r0; ld.shared.u32 %r9, [%r8];\n\
         cp.async.wait_all;"
    );
    Kernel::new(&body).with_input(bytes(&[7; 128])).run_faulty(FindingClass::AsyncCopyNotWaited);
}
