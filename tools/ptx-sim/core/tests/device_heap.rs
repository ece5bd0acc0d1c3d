//! `malloc` and `free` of kernels.

use crate::common::{Kernel, words};
use ptx_sim::{Finding, FindingClass};

const DECLARED: &str = "
.extern .func (.param .b64 r) malloc(.param .b64 bytes);
.extern .func free(.param .b64 address);
";

fn kernel(body: &str) -> Kernel {
    let body = format!("setp.ne.u32 %p0, %lane, 0; @%p0 exit;\n{body}\nst.global.u32 [%output], %r0;");
    Kernel::new(&body).with_variables(DECLARED)
}

fn faulty(body: &str, class: FindingClass) -> Finding {
    kernel(body).run_faulty(class)
}

#[test]
fn blocks_are_as_large_as_asked_for_and_hold_nothing() {
    let body = |access: &str| format!("call (%rd1), malloc, (24); mov.u32 %r0, 5; {access}");
    assert_eq!(
        words(&kernel(&body("st.u32 [%rd1+20], %r0; ld.u32 %r0, [%rd1+20]; call free, (%rd1);")).run_clean())[0],
        5
    );
    let finding = faulty(&body("ld.u32 %r0, [%rd1+4];"), FindingClass::Uninitialised);
    assert!(finding.message.contains("offset 4 of a block of 24 bytes that malloc gave"), "{finding}");
    let finding = faulty(&body("st.u32 [%rd1+24], %r0;"), FindingClass::OutOfBounds);
    assert!(finding.message.contains("0 bytes past the end of a block of 24 bytes"), "{finding}");
}

#[test]
fn freed_blocks_are_nobodys() {
    let free = "call (%rd1), malloc, (8); mov.u32 %r0, 5; call free, (%rd1);";
    let finding = faulty(&format!("{free} st.u32 [%rd1], %r0;"), FindingClass::OutOfBounds);
    assert!(finding.message.contains("which was freed"), "{finding}");
    let finding = faulty(&format!("{free} call free, (%rd1);"), FindingClass::HeapMisuse);
    assert!(finding.message.contains("freed before"), "{finding}");
    // Nothing is done for a null pointer.
    kernel(&format!("{free} mov.u64 %rd2, 0; call free, (%rd2);")).run_clean();
    let inside = "call (%rd1), malloc, (8); mov.u32 %r0, 5; add.u64 %rd1, %rd1, 4; call free, (%rd1);";
    assert!(faulty(inside, FindingClass::HeapMisuse).message.contains("malloc never gave"));
    let buffer = "mov.u32 %r0, 5; call (%rd1), malloc, (8); call free, (%rd1); call free, (%output);";
    assert!(faulty(buffer, FindingClass::HeapMisuse).message.contains("buffer `output`"));
}

#[test]
fn a_full_heap_gives_null_and_freed_blocks_are_used_again() {
    let is_null = "setp.eq.u64 %p1, %rd1, 0; selp.u32 %r0, 1, 0, %p1;";
    assert_eq!(words(&kernel(&format!("call (%rd1), malloc, (8388609); {is_null}")).run_clean())[0], 1);
    assert_eq!(words(&kernel(&format!("call (%rd1), malloc, (8388608); {is_null}")).run_clean())[0], 0);
    // 100 times as much as there is at a time, one after the other; what is used again holds nothing.
    let body = "mov.u32 %r1, 0;
        again: call (%rd1), malloc, (8388608); st.u32 [%rd1], %r1; ld.u32 %r0, [%rd1]; call free, (%rd1);
        add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 100; @%p1 bra again;";
    assert_eq!(words(&kernel(body).run_clean())[0], 99);
    faulty(&body.replace("st.u32 [%rd1], %r1;", ""), FindingClass::Uninitialised);
}

#[test]
fn threads_have_blocks_of_their_own() {
    let body = "call (%rd1), malloc, (4); st.u32 [%rd1], %lane; ld.u32 %r0, [%rd1]; call free, (%rd1);
        mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %output, %rd0; st.global.u32 [%rd0], %r0;";
    let output = Kernel::new(body).with_variables(DECLARED).with_threads(64).run_clean();
    assert_eq!(words(&output), (0..64).collect::<Vec<u32>>());
}
