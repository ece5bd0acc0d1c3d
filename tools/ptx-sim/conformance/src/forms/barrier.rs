//! Barriers, fences, mbarriers, clusters of one block, control flow. What can be seen of them is that they let values pass
//! and which results they give.

use ptx_sim::expand_forms;

use crate::case::Case;
use crate::kernel::Kernel;
use crate::values::Values;

const THREADS: usize = 128;
/// A word of shared memory for each thread, with its word of the input; `%r0` is its address, `%rd2` its part of the
/// output, 16 bytes.
const SETUP: &str = ".shared .align 16 .b8 tile[512];\nmov.u32 %r0, tile;\nmad.lo.u32 %r0, %thread, 4, %r0;\n\
    mad.wide.u32 %rd1, %thread, 4, %input;\nmad.wide.u32 %rd2, %thread, 16, %output;\nld.global.u32 %r1, [%rd1];\n\
    st.shared.u32 [%r0], %r1;\n";
/// Stores the word of the thread `distance` further on.
const NEIGHBOUR: &str = "add.u32 %r2, %thread, 32;\nand.b32 %r2, %r2, 127;\nmov.u32 %r3, tile;\nmad.lo.u32 %r3, %r2, 4, %r3;\n\
    ld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd2], %r4;\n";

fn kernel(name: &str, body: &str) -> Case {
    Kernel::new(name, format!("{SETUP}{body}"))
        .threads(THREADS as u32)
        .input(Values::of(name).bytes(4 * THREADS))
        .output(16 * THREADS)
        .finish()
}

/// The cases of this class.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for barrier in [
        "bar.sync 0",
        "bar.sync 3, 128",
        "bar.cta.sync 1",
        "barrier.sync 0",
        "barrier.sync.aligned 2, 128",
        "barrier.cta.sync.aligned 2",
        "barrier.cluster.arrive; barrier.cluster.wait",
        "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned",
        "bar.sync 0; barrier.cluster.arrive.relaxed; barrier.cluster.wait",
    ] {
        cases.push(kernel(barrier, &format!("{barrier};\n{NEIGHBOUR}")));
    }
    cases.push(arrivals());
    for form in expand_forms("{bar,barrier}{,.cta}.red.{popc.u32,and.pred,or.pred}") {
        cases.push(reduction(&form));
    }
    cases.push(fences());
    cases.push(kernel(
        "bar.warp.sync",
        "bar.warp.sync 0xffffffff;\nxor.b32 %r2, %thread, 1;\nmov.u32 %r3, tile;\n\
        mad.lo.u32 %r3, %r2, 4, %r3;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd2], %r4;\n",
    ));
    cases.push(cluster());
    cases.extend(mbarriers());
    cases.extend(control());
    cases
}

/// Half of the warps arrive, the other half waits for them.
fn arrivals() -> Case {
    let body = "setp.lt.u32 %p1, %thread, 64;\n@%p1 bra first;\nbar.arrive 1, 128;\nbra done;\nfirst: bar.sync 1, 128;\nadd.u32 %r2, %thread, 64;\n\
         mov.u32 %r3, tile;\nmad.lo.u32 %r3, %r2, 4, %r3;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd2], %r4;\ndone:\n";
    kernel("bar.arrive", body)
}

fn reduction(form: &str) -> Case {
    let aligned = if form.starts_with("barrier") { form.replace(".red", ".red.aligned") } else { form.to_owned() };
    let mut body = "and.b32 %r2, %r1, 1;\nsetp.ne.u32 %p1, %r2, 0;\nsetp.lt.u32 %p2, %thread, 1000;\n".to_owned();
    // Whole block and the first 64 threads; mixed, all and no true predicates.
    for (index, predicate) in ["%p1", "%p2", "!%p2"].into_iter().enumerate() {
        let instruction = match form.contains("popc") {
            true => format!("{aligned} %r3, {}, {predicate};\n", index + 1),
            false => format!("{aligned} %p3, {}, {predicate};\nselp.u32 %r3, 1, 0, %p3;\n", index + 1),
        };
        body.push_str(&format!("{instruction}st.global.u32 [%rd2+{}], %r3;\n", 4 * index));
    }
    let partial = match form.contains("popc") {
        true => format!("{aligned} %r3, 5, 64, %p1;\n"),
        false => format!("{aligned} %p3, 5, 64, %p1;\nselp.u32 %r3, 1, 0, %p3;\n"),
    };
    body.push_str(&format!(
        "setp.ge.u32 %p4, %thread, 64;\n@%p4 bra done;\n{partial}st.global.u32 [%rd2+12], %r3;\ndone:\n"
    ));
    kernel(&aligned, &body)
}

fn fences() -> Case {
    let fences = [
        "membar.{cta,gl,sys}",
        "fence.{sc,acq_rel}.{cta,cluster,gpu,sys}",
        "fence.proxy.{alias,async,async.global,async.shared::cta,async.shared::cluster}",
        "fence.mbarrier_init.release.cluster",
    ];
    let all: String =
        fences.iter().flat_map(|pattern| expand_forms(pattern)).map(|fence| format!("{fence};\n")).collect();
    kernel("fences", &format!("{all}bar.sync 0;\n{NEIGHBOUR}"))
}

fn cluster() -> Case {
    let body = "mov.u32 %r2, 0;\nmapa.shared::cluster.u32 %r3, %r0, %r2;\nld.shared::cluster.u32 %r4, [%r3];\nst.global.u32 [%rd2], %r4;\n\
        getctarank.shared::cluster.u32 %r5, %r3;\nst.global.u32 [%rd2+4], %r5;\ncvt.u64.u32 %rd3, %r0;\ncvta.shared.u64 %rd3, %rd3;\n\
        mapa.u64 %rd4, %rd3, %r2;\nld.u32 %r4, [%rd4];\nst.global.u32 [%rd2+8], %r4;\ngetctarank.u64 %r5, %rd4;\n\
        st.global.u32 [%rd2+12], %r5;\n";
    kernel("mapa and getctarank", body)
}

/// An mbarrier at `%r5` for `count` arrivals; `%p2` holds in one thread.
fn gate(count: u32) -> String {
    format!(
        ".shared .align 8 .b64 gate;\nmov.u32 %r5, gate;\nsetp.eq.u32 %p2, %thread, 0;\n\
         @%p2 mbarrier.init.shared::cta.b64 [%r5], {count};\nbar.sync 0;\n"
    )
}

/// Waits with `instruction`, whose operand is `operand`; gives up after a while.
fn wait(label: &str, instruction: &str, operand: &str) -> String {
    format!(
        "mov.u32 %r6, 0;\n{label}: add.u32 %r6, %r6, 1;\nsetp.gt.u32 %p3, %r6, 100000;\n@%p3 trap;\n\
         {instruction} %p1, [%r5], {operand};\n@!%p1 bra {label};\n"
    )
}

fn mbarriers() -> Vec<Case> {
    let mut cases = Vec::new();
    for arrive in expand_forms("mbarrier.arrive{,.release.cta,.release.cluster}.shared{,::cta}.b64") {
        for test in expand_forms("mbarrier.{test_wait,try_wait}{,.acquire.cta}.shared{,::cta}.b64") {
            let body = format!("{}{arrive} %rd5, [%r5];\n{}{NEIGHBOUR}", gate(128), wait("loop", &test, "%rd5"));
            cases.push(kernel(&format!("{arrive} and {test}"), &body));
        }
    }
    // Two phases; after each, what waiting for either parity says.
    for test in expand_forms("mbarrier.{test_wait,try_wait}.parity{,.acquire.cta,.acquire.cluster}.shared{,::cta}.b64")
    {
        let arrive = "mbarrier.arrive.shared::cta.b64 _, [%r5];\n";
        let body = format!(
            "{}{test} %p4, [%r5], 1;\nselp.u32 %r7, 1, 0, %p4;\nst.global.u32 [%rd2+4], %r7;\n{arrive}{}{NEIGHBOUR}bar.sync 0;\n\
             {test} %p4, [%r5], 0;\nselp.u32 %r7, 1, 0, %p4;\nst.global.u32 [%rd2+8], %r7;\n{arrive}{}\
             {test} %p4, [%r5], 1;\nselp.u32 %r7, 1, 0, %p4;\nst.global.u32 [%rd2+12], %r7;\n",
            gate(128),
            wait("first", &test, "0"),
            wait("second", &test, "1"),
        );
        cases.push(kernel(&test, &body));
    }
    // A phase that is not over.
    for test in ["test_wait", "try_wait"] {
        let body = format!(
            "{}mbarrier.{test}.parity.shared::cta.b64 %p4, [%r5], 0{};\nselp.u32 %r7, 1, 0, %p4;\nst.global.u32 [%rd2], %r7;\n",
            gate(129),
            if test == "try_wait" { ", 1000" } else { "" }
        );
        cases.push(kernel(&format!("mbarrier.{test} of a phase that goes on"), &body));
    }
    let counts = format!(
        "{}@!%p2 bra done;\nmbarrier.arrive.shared::cta.b64 %rd5, [%r5], 3;\nmbarrier.pending_count.b64 %r2, %rd5;\nst.global.u32 [%rd2], %r2;\n\
         mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd5, [%r5], 2;\nmbarrier.pending_count.b64 %r2, %rd5;\nst.global.u32 [%rd2+4], %r2;\n\
         mbarrier.arrive_drop.shared::cta.b64 %rd5, [%r5];\nmbarrier.pending_count.b64 %r2, %rd5;\nst.global.u32 [%rd2+8], %r2;\n\
         mbarrier.arrive_drop.noComplete.release.cta.shared::cta.b64 %rd5, [%r5], 1;\nmbarrier.pending_count.b64 %r2, %rd5;\nst.global.u32 [%rd2+12], %r2;\n\
         mbarrier.inval.shared::cta.b64 [%r5];\ndone:\n",
        gate(10)
    );
    cases.push(kernel("mbarrier.pending_count", &counts));
    // The second phase waits for one arrival less.
    let dropped = format!(
        "{}@%p2 mbarrier.arrive_drop.shared::cta.b64 _, [%r5];\n@!%p2 mbarrier.arrive.shared::cta.b64 _, [%r5];\n{}\
         @!%p2 mbarrier.arrive.shared::cta.b64 _, [%r5];\n{}{NEIGHBOUR}",
        gate(128),
        wait("first", "mbarrier.test_wait.parity.shared::cta.b64", "0"),
        wait("second", "mbarrier.test_wait.parity.shared::cta.b64", "1"),
    );
    cases.push(kernel("mbarrier.arrive_drop", &dropped));
    for (name, arrive) in [
        (
            "mbarrier.expect_tx",
            "@%p2 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r5], 64;\n@%p2 mbarrier.arrive.shared::cta.b64 _, [%r5];\n",
        ),
        ("mbarrier.arrive.expect_tx", "@%p2 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r5], 64;\n"),
        (
            "mbarrier.arrive_drop.expect_tx",
            "@%p2 mbarrier.arrive_drop.expect_tx.release.cta.shared::cta.b64 _, [%r5], 64;\n",
        ),
    ] {
        let body = format!(
            "{}{arrive}bar.sync 0;\nmbarrier.test_wait.parity.shared::cta.b64 %p4, [%r5], 0;\nselp.u32 %r7, 1, 0, %p4;\nst.global.u32 [%rd2+4], %r7;\n\
             bar.sync 0;\n@%p2 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r5], 64;\n{}{NEIGHBOUR}",
            gate(1),
            wait("loop", "mbarrier.try_wait.parity.shared::cta.b64", "0")
        );
        cases.push(kernel(name, &body));
    }
    for (form, count) in [
        ("cp.async.mbarrier.arrive.noinc.shared::cta.b64", 128),
        ("cp.async.mbarrier.arrive.shared.b64", 1),
        ("cp.async.mbarrier.arrive.noinc.b64", 128),
    ] {
        let generic = !form.contains("shared");
        let address = if generic { "[%rd6]" } else { "[%r5]" };
        let own =
            if form.contains("noinc") { "" } else { "bar.sync 0;\n@%p2 mbarrier.arrive.shared::cta.b64 _, [%r5];\n" };
        let body = format!(
            ".shared .align 16 .b8 copies[512];\nmov.u32 %r8, copies;\nmad.lo.u32 %r8, %thread, 4, %r8;\n{}cvt.u64.u32 %rd6, %r5;\n\
             cvta.shared.u64 %rd6, %rd6;\ncp.async.ca.shared.global [%r8], [%rd1], 4;\n{form} {address};\n{own}{}\
             mov.u32 %r3, copies;\nxor.b32 %r2, %thread, 127;\nmad.lo.u32 %r3, %r2, 4, %r3;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd2], %r4;\n",
            gate(count),
            wait("loop", "mbarrier.try_wait.parity.shared::cta.b64", "0")
        );
        cases.push(kernel(form, &body));
    }
    cases
}

fn control() -> Vec<Case> {
    let branches = "mov.u32 %r2, 0;\nand.b32 %r3, %r1, 3;\nlist: .branchtargets zero, one, two, three;\nbrx.idx %r3, list;\n\
        three: add.u32 %r2, %r2, 1000;\ntwo: add.u32 %r2, %r2, 100;\none: add.u32 %r2, %r2, 10;\nzero: st.global.u32 [%rd2], %r2;\n\
        mov.u32 %r4, 0;\nagain: add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, %r3;\n@%p1 bra again;\nst.global.u32 [%rd2+4], %r4;\n\
        setp.lt.u32 %p2, %r4, 1000;\n@%p2 bra.uni onward;\nmov.u32 %r4, 77;\nonward: st.global.u32 [%rd2+8], %r4;\n\
        nanosleep.u32 100;\ngriddepcontrol.launch_dependents;\ngriddepcontrol.wait;\n\
        setp.eq.u32 %p3, %r3, 2;\n@%p3 exit;\nsetp.eq.u32 %p3, %r3, 1;\n@%p3 ret;\nst.global.u32 [%rd2+12], %r3;\n";
    // All warps of the warpgroup, as setmaxnreg wants it.
    let registers = "setmaxnreg.dec.sync.aligned.u32 40;\nsetmaxnreg.inc.sync.aligned.u32 48;\n";
    vec![kernel("branches and ends", branches), kernel("setmaxnreg", &format!("{registers}bar.sync 0;\n{NEIGHBOUR}"))]
}
