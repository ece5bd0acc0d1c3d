//! Functions, calls, memory on the stack.

use crate::case::Case;
use crate::kernel::Kernel;
use crate::values::Values;

/// A function that multiplies, one that adds, one that calls itself, and one with a local array.
const FUNCTIONS: &str = ".func (.param .b32 r) times(.param .b32 x, .param .b32 y)\n{\n.reg .b32 %a<3>;\n\
    ld.param.b32 %a0, [x];\nld.param::func.b32 %a1, [y];\nmul.lo.u32 %a2, %a0, %a1;\nst.param.b32 [r], %a2;\nret;\n}\n\
    .func (.param .b32 r) plus(.param .b32 x, .param .b32 y)\n{\n.reg .b32 %a<3>;\n\
    ld.param.b32 %a0, [x];\nld.param.b32 %a1, [y];\nadd.u32 %a2, %a0, %a1;\nst.param::func.b32 [r], %a2;\nret.uni;\n}\n\
    .func (.param .b32 r) digits(.param .b32 x)\n{\n.reg .b32 %a<4>;\n.reg .pred %q;\n\
    ld.param.b32 %a0, [x];\nsetp.lt.u32 %q, %a0, 10;\n@%q bra last;\ndiv.u32 %a1, %a0, 10;\n\
    { .param .b32 p;\nst.param.b32 [p], %a1;\n.param .b32 q;\ncall.uni (q), digits, (p);\nld.param.b32 %a2, [q]; }\n\
    rem.u32 %a1, %a0, 10;\nadd.u32 %a0, %a2, %a1;\nlast: st.param.b32 [r], %a0;\nret;\n}\n\
    .func (.param .align 8 .b8 r[16]) spread(.param .align 8 .b8 x[16])\n{\n.local .align 8 .b8 own[16];\n.reg .b64 %b<2>;\n\
    .reg .b16 %h<4>;\nld.param.b64 %b0, [x];\nld.param.v4.u8 {%h0, %h1, %h2, %h3}, [x+8];\nst.local.b64 [own+8], %b0;\n\
    st.local.v4.u8 [own], {%h3, %h2, %h1, %h0};\nld.local.b32 %b1, [own];\nst.param.b64 [r], %b1;\n\
    ld.local.b64 %b1, [own+8];\nst.param.b64 [r+8], %b1;\nret;\n}\n\
    .global .u64 list[2] = {times, plus};\n";

/// A case of 32 threads with two words each in `%r4` and `%r5`, which stores `%r6` and `%r7`.
fn case(name: &str, body: &str) -> Case {
    let body = format!(
        "mad.wide.u32 %rd1, %thread, 8, %input;\nld.global.v2.b32 {{%r4, %r5}}, [%rd1];\nmov.b32 %r7, 0;\n{body}\n\
         mad.wide.u32 %rd2, %thread, 8, %output;\nst.global.v2.b32 [%rd2], {{%r6, %r7}};\n"
    );
    Kernel::new(name, body).variables(FUNCTIONS).input(Values::of(name).bytes(256)).output(256).finish()
}

/// The cases of this class.
pub fn cases() -> Vec<Case> {
    vec![
        case(
            "call.uni",
            "{ .param .b32 p;\nst.param.b32 [p], %r4;\n.param .b32 q;\nst.param.b32 [q], %r5;\n.param .b32 r;\n\
             call.uni (r), times, (p, q);\nld.param.b32 %r6, [r]; }",
        ),
        // A GPU does not bring the lanes together where they return to, nor for `activemask` behind a barrier; PTX leaves that open.
        case(
            "call of different functions",
            "and.b32 %r0, %r5, 1;\nmov.u64 %rd3, list;\nmad.wide.u32 %rd3, %r0, 8, %rd3;\nld.global.u64 %rd4, [%rd3];\n\
             { .param .b32 p;\nst.param.b32 [p], %r4;\n.param .b32 q;\nst.param.b32 [q], %r5;\n.param .b32 r;\n\
             kind: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);\n\
             call (r), %rd4, (p, q), kind;\nld.param.b32 %r6, [r]; }\nsetp.eq.u32 %p0, %r0, 1;\nvote.sync.ballot.b32 %r7, %p0, -1;",
        ),
        case(
            "call of itself",
            "{ .param .b32 p;\nst.param.b32 [p], %r4;\n.param .b32 q;\ncall (q), digits, (p);\nld.param.b32 %r6, [q]; }",
        ),
        case(
            "call with arrays",
            "{ .param .align 8 .b8 p[16];\nst.param.v2.b32 [p], {%r4, %r5};\nst.param.b32 [p+8], %r5;\nst.param.b32 [p+12], 0;\n\
             .param .align 8 .b8 q[16];\ncall.uni (q), spread, (p);\nld.param.b32 %r6, [q];\nld.param.b32 %r7, [q+12]; }",
        ),
        case(
            "alloca",
            "mov.u64 %rd3, 64;\nstacksave.u64 %rd5;\nalloca.u64 %rd4, %rd3, 16;\nand.b32 %r0, %r5, 15;\nmad.wide.u32 %rd6, %r0, 4, %rd4;\n\
             st.local.b32 [%rd6], %r4;\nld.local.b32 %r6, [%rd6];\nand.b64 %rd4, %rd4, 15;\ncvt.u32.u64 %r7, %rd4;\n\
             stackrestore.u64 %rd5;",
        ),
    ]
}
