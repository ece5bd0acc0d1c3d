//! After a race the program goes on with the values that memory holds, wherever they go: a finding changes no result.

use crate::common::{Kernel, words};
use ptx_sim::{FindingClass, Options};

/// Each lane writes to a word of shared memory and reads that of its neighbour, in `%r5`, without an order. Then `body`, and
/// `%r6` goes to its word of the output.
fn neighbours(body: &str) -> Kernel {
    Kernel::new(&format!(
        ".shared .align 16 .b8 tile[256]; .local .align 8 .b8 own[16]; mov.u32 %r0, tile; shl.b32 %r1, %lane, 2;\n\
         add.u32 %r1, %r1, %r0; xor.b32 %r3, %lane, 1; shl.b32 %r2, %r3, 2; add.u32 %r2, %r2, %r0;\n\
         mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output; add.u64 %rd1, %rd0, 128;\n\
         add.u32 %r4, %lane, 100; st.shared.u32 [%r1], %r4; ld.shared.u32 %r5, [%r2];\n\
         {body}\n st.global.u32 [%rd0], %r6;"
    ))
    .with_variables(
        ".func (.param .b32 result) twice(.param .b32 x)\n{ .reg .b32 %a; ld.param.b32 %a, [x]; add.u32 %a, %a, %a;\n\
         st.param.b32 [result], %a; ret; }\n",
    )
}

/// The ways of a value from `%r5` to `%r6`, and whether they are reported.
const WAYS: [&str; 16] = [
    "mov.u32 %r6, %r5;",
    "mad.lo.u32 %r6, %r5, 3, 1;",
    "st.local.u32 [own+4], %r5; ld.local.u32 %r6, [own+4];",
    "st.local.u16 [own+4], %r5; ld.local.u16 %r6, [own+4];",
    "bar.warp.sync -1; st.shared.u32 [%r2], %r5; bar.warp.sync -1; ld.shared.u32 %r6, [%r1];",
    "bar.warp.sync -1; st.shared.u32 [%r2], %r5; ld.shared.u32 %r6, [%r2];",
    "st.shared.u32 [%r2], %r5; ld.shared.u32 %r6, [%r1];",
    "st.shared.u32 [%r2+128], %r5; atom.shared.add.u32 %r6, [%r2+128], 5;",
    "st.shared.u32 [%r2+128], %r5; atom.shared.add.u32 %r7, [%r2+128], 5; ld.shared.u32 %r6, [%r2+128];",
    "st.shared.u32 [%r1+128], %r5; red.shared.add.u32 [%r1+128], %r5; ld.shared.u32 %r6, [%r1+128];",
    "st.global.u32 [%rd1], %r5; ld.global.u32 %r6, [%rd1];",
    "st.global.u32 [%rd1], %r5; atom.global.add.u32 %r7, [%rd1], %r5; ld.global.u32 %r6, [%rd1];",
    "{ .param .b32 p; st.param.b32 [p], %r5; .param .b32 q; call.uni (q), twice, (p); ld.param.b32 %r6, [q]; }",
    "call.uni (%r6), twice, (%r5);",
    "shfl.sync.idx.b32 %r6, %r5, %lane, 31, -1;",
    "setp.gt.u32 %p1, %r5, 110; mov.u32 %r6, 1; @%p1 mov.u32 %r6, 2;",
];

#[test]
fn a_race_changes_no_value_on_any_way() {
    for way in WAYS {
        let kernel = || neighbours(way).with_output_bytes(256);
        let outcome = kernel().run();
        let classes: Vec<FindingClass> = outcome.report.findings.iter().map(|finding| finding.class).collect();
        assert!(!classes.is_empty() && classes.iter().all(|class| *class == FindingClass::Race), "{way}: {classes:?}");
        let options = Options { races: false, ..Options::default() };
        assert_eq!(words(&outcome.output), words(&kernel().with_options(options).run_clean()), "{way}");
    }
}

#[test]
fn atomic_operations_take_effect_on_memory_that_was_never_written() {
    let body = ".shared .align 4 .b8 sum[4]; atom.shared.add.u32 %r1, [sum], 1; bar.sync 0; ld.shared.u32 %r2, [sum];\n\
        st.global.u32 [%output], %r2;";
    let outcome = Kernel::new(body).run();
    assert_eq!(outcome.report.findings.len(), 1, "{:#?}", outcome.report.findings);
    assert_eq!(outcome.report.findings[0].class, FindingClass::Uninitialised);
    assert_eq!(words(&outcome.output)[0], 32, "no update is lost");
}
