//! Functions and calls.

use crate::common::{Kernel, words};
use ptx_sim::{FindingClass, LaunchError};

/// `store` is `%output[lane] = %r0`.
const STORE: &str = "mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %output, %rd0; st.global.u32 [%rd0], %r0;";

fn kernel(functions: &str, body: &str) -> Kernel {
    Kernel::new(&format!("{body}\n{STORE}")).with_variables(functions)
}

/// The values that the 32 threads store.
fn results(functions: &str, body: &str) -> Vec<u32> {
    words(&kernel(functions, body).run_clean())[..32].to_vec()
}

const SQUARE: &str = "
.func (.param .b32 result) square(.param .b32 x)
{
    .reg .b32 %a;
    ld.param.b32 %a, [x];
    mul.lo.u32 %a, %a, %a;
    st.param.b32 [result], %a;
    ret;
}
";

const CALL_SQUARE: &str = "{ .param .b32 p; st.param.b32 [p+0], %lane; .param .b32 q;
    call.uni (q), square, (p);
    ld.param.b32 %r0, [q+0]; }";

#[test]
fn a_function_takes_and_returns_values() {
    assert_eq!(results(SQUARE, CALL_SQUARE), (0..32).map(|lane| lane * lane).collect::<Vec<u32>>());
    // Declared before, called by another name, with registers and literals as arguments.
    let declared = format!(".func (.param .b32 result) square(.param .b32 x);\n{SQUARE}.alias other, square;\n");
    assert_eq!(results(&declared, "call.uni (%r0), other, (7);"), [49; 32]);
}

#[test]
fn formal_parameters_may_be_registers() {
    let function = "
.func (.reg .u32 sum) add(.reg .u32 a, .reg .u32 b)
{
    add.u32 sum, a, b;
    ret;
}";
    let expected: Vec<u32> = (0..32).map(|lane| lane + 5).collect();
    assert_eq!(results(function, "call (%r0), add, (%lane, 5);"), expected);
}

#[test]
fn a_function_without_ret_returns_at_its_end() {
    let function = ".func (.param .b32 result) three() { st.param.b32 [result], 3; }";
    assert_eq!(results(function, "call (%r0), three;"), [3; 32]);
}

#[test]
fn arrays_are_passed_with_what_was_not_written_of_them() {
    let function = "
.func (.param .align 8 .b8 out[16]) swap(.param .align 8 .b8 in[16])
{
    .reg .b64 %a, %b;
    .reg .b16 %h<4>;
    ld.param.b64 %a, [in+0];
    ld.param.v4.b8 {%h0, %h1, %h2, %h3}, [in+8];
    st.param.b64 [out+8], %a;
    st.param.v4.b8 [out], {%h0, %h1, %h2, %h3};
    ret;
}";
    let call = |tail: &str| {
        format!(
            "cvt.u64.u32 %rd1, %lane;
             {{ .param .align 8 .b8 p[16]; st.param.b64 [p], %rd1; st.param.b16 [p+8], 515; st.param.b8 [p+10], 4;
             .param .align 8 .b8 q[16];
             call.uni (q), swap, (p);
             ld.param.b32 %r0, [q+8]; ld.param.u8 %r1, [q+1]; ld.param.u8 %r2, [q+2]; ld.param.u8 %r3, [q+3]; }}
             mad.lo.u32 %r0, %r0, 100, %r1; add.u32 %r0, %r0, %r2; {tail}"
        )
    };
    assert_eq!(results(function, &call("")), (0..32).map(|lane| 100 * lane + 2 + 4).collect::<Vec<u32>>());
    // The fourth byte was copied, which is no error; using it is.
    kernel(function, &call("add.u32 %r0, %r0, %r3;")).run_faulty(FindingClass::Uninitialised);
}

const FACTORIAL: &str = "
.func (.param .b32 result) factorial(.param .b32 n)
{
    .reg .b32 %n, %m, %r;
    .reg .pred %p;
    ld.param.b32 %n, [n];
    setp.gt.u32 %p, %n, 1;
    @%p bra more;
    st.param.b32 [result], 1;
    ret;
more:
    sub.u32 %m, %n, 1;
    { .param .b32 p; st.param.b32 [p], %m; .param .b32 q;
    call.uni (q), factorial, (p);
    ld.param.b32 %r, [q]; }
    mul.lo.u32 %r, %r, %n;
    st.param.b32 [result], %r;
    ret;
}
";

#[test]
fn each_call_of_a_recursion_has_its_own_registers() {
    let body = "and.b32 %r1, %lane, 7; call (%r0), factorial, (%r1);";
    let expected = (0..32).map(|lane| (1..=lane % 8).product()).collect::<Vec<u32>>();
    assert_eq!(results(FACTORIAL, body), expected);
}

#[test]
fn an_endless_recursion_is_found() {
    let function = ".func forever() { call forever; ret; }";
    let finding = kernel(function, "mov.u32 %r0, 0; call forever;").run_faulty(FindingClass::StackOverflow);
    assert_eq!(finding.at.called_from.len(), 16, "the innermost calls are shown");
}

const PAIR: &str = "
.func (.param .b32 result) plus(.param .b32 x)
{
    .reg .b32 %a;
    ld.param.b32 %a, [x];
    add.u32 %a, %a, 1000;
    st.param.b32 [result], %a;
    ret;
}
.func (.param .b32 result) minus(.param .b32 x)
{
    .reg .b32 %a;
    ld.param.b32 %a, [x];
    sub.u32 %a, 1000, %a;
    st.param.b32 [result], %a;
    ret;
}
.global .u64 functions[2] = {plus, minus};
";

/// Calls the function with the index in %r1 of the list.
const CALL_BY_INDEX: &str = "mov.u64 %rd1, functions; mul.wide.u32 %rd2, %r1, 8; add.u64 %rd1, %rd1, %rd2;
    ld.global.u64 %rd1, [%rd1];
    { .param .b32 p; st.param.b32 [p], %lane; .param .b32 q;
    shape: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (q), %rd1, (p), shape;
    ld.param.b32 %r0, [q]; }";

#[test]
fn lanes_call_different_functions_and_meet_again() {
    let body = format!("and.b32 %r1, %lane, 1;\n{CALL_BY_INDEX}\nshfl.sync.bfly.b32 %r0, %r0, 1, 31, -1;");
    let expected = (0..32_u32).map(|lane| lane ^ 1).map(|lane| if lane % 2 == 0 { lane + 1000 } else { 1000 - lane });
    assert_eq!(results(PAIR, &body), expected.collect::<Vec<u32>>());
    // The list of what may be called says what that takes, too.
    let body =
        body.replace("shape: .callprototype (.param .b32 _) _ (.param .b32 _)", "shape: .calltargets plus, minus");
    assert!(body.contains("calltargets"));
    results(PAIR, &body);
}

#[test]
fn lanes_that_do_not_call_wait_for_those_that_do() {
    // Who is here does not depend on where the function stands.
    let body = format!(
        "mov.u32 %r0, 0; setp.lt.u32 %p0, %lane, 5; @!%p0 bra join;
         {CALL_SQUARE}
         join: activemask.b32 %r0;"
    );
    assert_eq!(results(SQUARE, &body), [u32::MAX; 32]);
}

#[test]
fn lanes_return_to_where_each_was_called() {
    let body = "setp.lt.u32 %p0, %lane, 16; @%p0 bra low;
        call (%r0), join, (%lane); add.u32 %r0, %r0, 100; bra.uni done;
        low: call (%r0), join, (%lane); add.u32 %r0, %r0, 200;
        done:";
    // Both halves execute the same instruction, called from two places.
    let function = "
.func (.param .b32 result) join(.param .b32 x)
{
    .reg .b32 %a;
    ld.param.b32 %a, [x];
    bar.warp.sync -1;
    shfl.sync.idx.b32 %a, %a, 31, 31, -1;
    st.param.b32 [result], %a;
    ret;
}";
    let expected: Vec<u32> = (0..32).map(|lane| if lane < 16 { 231 } else { 131 }).collect();
    assert_eq!(results(function, body), expected);
}

#[test]
fn what_is_called_has_to_be_a_function_of_that_kind() {
    let body = format!("mov.u32 %r1, 0; {}", CALL_BY_INDEX.replace("ld.global.u64 %rd1, [%rd1];", "mov.u64 %rd1, 0;"));
    let finding = kernel(PAIR, &body).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("null pointer"), "{finding}");
    let body = "mov.u64 %rd1, square; shape: .callprototype _ (.param .b64 _); call %rd1, (5), shape; mov.u32 %r0, 0;";
    let finding = kernel(SQUARE, body).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("`square`"), "{finding}");
}

#[test]
fn calls_that_cannot_be_are_refused() {
    let refused = |functions: &str, body: &str| {
        let error = kernel(functions, body).try_run().err().unwrap_or_else(|| panic!("{body} must be refused"));
        let (LaunchError::Unsupported { what, .. } | LaunchError::Invalid { what, .. }) = error else {
            panic!("{body}: {error}");
        };
        what
    };
    let foreign = ".extern .func elsewhere(.param .b32 x);";
    assert!(refused(foreign, "call elsewhere, (5);").contains("`elsewhere`, which the module declares"));
    assert!(refused("", "call nothing;").contains("`nothing` is not declared"));
    assert!(refused(SQUARE, "call (%r0), square;").contains("0 arguments of a function with 1"));
    let wide = "{ .param .b64 p; st.param.b64 [p], 5; call (%r0), square, (p); }";
    assert!(refused(SQUARE, wide).contains("argument of 8 bytes where the function has 4"));
    assert!(refused(SQUARE, "{ .param .b32 p; st.param.b64 [p], 5; }").contains("8 bytes at offset 0 of `p`"));
    assert!(refused(SQUARE, "call (%r0), %rd1, (5);").contains("a prototype"));
    // The contents of a function that is never called do not matter.
    results(&format!("{foreign}\n.func odd() {{ frobnicate.b32 %r0; }}"), "mov.u32 %r0, 0;");
}

#[test]
fn exit_in_a_function_ends_the_thread() {
    let function = ".func leave(.param .b32 x)
{
    .reg .b32 %a; .reg .pred %p;
    ld.param.b32 %a, [x];
    setp.lt.u32 %p, %a, 8;
    @%p exit;
    ret;
}";
    let body = "mov.u32 %r0, 1; call leave, (%lane);";
    let output = words(&kernel(function, body).run_clean());
    assert_eq!(output[..32].iter().sum::<u32>(), 24);
}

const FILL: &str = "
.func fill(.param .b64 where, .param .b32 count)
{
    .reg .b64 %at; .reg .b32 %i, %n; .reg .pred %p;
    ld.param.b64 %at, [where];
    ld.param.b32 %n, [count];
    mov.u32 %i, 0;
more:
    st.u32 [%at], %i;
    add.u64 %at, %at, 4;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, %n;
    @%p bra more;
    ret;
}
.func (.param .b64 result) dangling()
{
    .local .align 8 .b8 own[8];
    .reg .b64 %a;
    mov.u64 %a, own;
    cvta.local.u64 %a, %a;
    st.param.b64 [result], %a;
    ret;
}
";

#[test]
fn functions_reach_the_local_memory_of_those_who_call_them() {
    let body = |count: u32| {
        format!(
            ".local .align 16 .b8 array[16]; mov.u64 %rd1, array; cvta.local.u64 %rd2, %rd1;
             call fill, (%rd2, {count});
             ld.local.u32 %r0, [%rd1+12];"
        )
    };
    assert_eq!(results(FILL, &body(4)), [3; 32]);
    let finding = kernel(FILL, &body(5)).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("local memory"), "{finding}");
    let callers: Vec<&str> = finding.at.called_from.iter().map(|call| call.function.as_str()).collect();
    assert_eq!(callers, ["fill"], "{finding}");
    assert!(finding.to_string().contains("`fill` is called in line"), "{finding}");
}

#[test]
fn local_memory_ends_with_its_function() {
    let body = "call (%rd1), dangling; mov.u32 %r0, 0; st.u32 [%rd1], %r0;";
    kernel(FILL, body).run_faulty(FindingClass::OutOfBounds);
}

#[test]
fn the_local_memory_of_each_call_is_its_own() {
    // Sums the numbers up to n through pointers to the frames of all calls.
    let function = "
.func (.param .b32 result) sum(.param .b32 n, .param .b64 above)
{
    .local .align 4 .b8 own[4];
    .reg .b64 %mine, %above; .reg .b32 %n, %m, %r; .reg .pred %p;
    ld.param.b32 %n, [n];
    ld.param.b64 %above, [above];
    mov.u64 %mine, own;
    st.local.u32 [own], %n;
    cvta.local.u64 %mine, %mine;
    setp.eq.u32 %p, %n, 0;
    @%p bra last;
    sub.u32 %m, %n, 1;
    call (%r), sum, (%m, %mine);
last:
    ld.local.u32 %r, [own];
    ld.u32 %m, [%above];
    add.u32 %m, %m, %r;
    st.u32 [%above], %m;
    st.param.b32 [result], %m;
    ret;
}";
    let body = ".local .align 4 .b8 total[4]; mov.u64 %rd1, total; st.local.u32 [total], 0; cvta.local.u64 %rd1, %rd1;
        and.b32 %r1, %lane, 15; call (%r0), sum, (%r1, %rd1); ld.local.u32 %r0, [total];";
    let expected = (0..32).map(|lane| (0..=lane % 16).sum()).collect::<Vec<u32>>();
    assert_eq!(results(function, body), expected);
}

#[test]
fn memory_is_allocated_on_the_stack() {
    let body = |offset: u32| {
        format!(
            "alloca.u64 %rd1, 16, 8; cvta.local.u64 %rd2, %rd1; stacksave.u64 %rd3; alloca.u64 %rd4, 64, 16;
             st.local.u32 [%rd1+{offset}], %lane; ld.u32 %r0, [%rd2+{offset}];
             st.local.u32 [%rd4+60], 1; stackrestore.u64 %rd3;"
        )
    };
    assert_eq!(results("", &body(12)), (0..32).collect::<Vec<u32>>());
    let after = body(12) + "\nld.local.u32 %r0, [%rd4+60];";
    kernel("", &after).run_faulty(FindingClass::OutOfBounds);
}

#[test]
fn barriers_and_shared_variables_of_functions() {
    let function = "
.func (.param .b32 result) exchange(.param .b32 x)
{
    .shared .align 4 .b8 cells[256];
    .reg .b32 %a, %t; .reg .b64 %at;
    ld.param.b32 %a, [x];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %at, %t, 4;
    mov.u64 %cells, cells;
    add.u64 %at, %at, %cells;
    st.shared.u32 [%at], %a;
    bar.sync 0;
    xor.b32 %t, %t, 63;
    mul.wide.u32 %at, %t, 4;
    add.u64 %at, %at, %cells;
    ld.shared.u32 %a, [%at];
    st.param.b32 [result], %a;
    ret;
}"
    .replacen(".reg .b64 %at;", ".reg .b64 %at, %cells;", 1);
    let kernel = kernel(&function, "call (%r0), exchange, (%lane);").with_threads(64);
    assert_eq!(words(&kernel.run_clean()), (0..64).rev().collect::<Vec<u32>>());
    // Without the barrier it is a race, found inside the function.
    let racing = function.replace("bar.sync 0;", "");
    let kernel =
        Kernel::new(&format!("call (%r0), exchange, (%lane);\n{STORE}")).with_variables(&racing).with_threads(64);
    let findings = kernel.run().report.findings;
    let race = findings.iter().find(|finding| finding.class == FindingClass::Race).expect("a race");
    assert_eq!(race.at.called_from[0].function, "exchange");
}
