//! Clusters of two blocks: what they are called, how they reach each other's shared memory, and what one tells or sends another.

use ptx_sim::{Swizzle, TensorElement, TensorMap, expand_forms};

use crate::case::{Case, MapPlace};
use crate::kernel::Kernel;
use crate::values::Values;

const BLOCKS: u32 = 4;
const THREADS: u32 = 32;
/// Bytes of the output of one thread.
const RESULTS: u32 = 16;

/// `gate` at `%r1`, for one arrival, and `tile` at `%r2` of every block, of which `%r3` is the thread's word, with that of the input;
/// `%r4`, `%r5` and `%r6` are the three in the other block; `%rd2` is the thread's part of the output; `%p2` holds in thread 0, `%p4`
/// in thread 0 of the first block. Ends with a barrier of the cluster.
const SETUP: &str = ".shared .align 1024 .b8 tile[1024];\n.shared .align 8 .b64 gate;\nmov.u32 %r1, gate;\nmov.u32 %r2, tile;\n\
    mad.lo.u32 %r3, %thread, 4, %r2;\nmov.u32 %r10, %cluster_ctarank;\nxor.b32 %r11, %r10, 1;\n\
    mapa.shared::cluster.u32 %r4, %r1, %r11;\nmapa.shared::cluster.u32 %r5, %r2, %r11;\nmapa.shared::cluster.u32 %r6, %r3, %r11;\n\
    mov.u32 %r12, %ctaid.x;\nmad.lo.u32 %r12, %r12, 32, %thread;\nmad.wide.u32 %rd1, %r12, 4, %input;\n\
    mad.wide.u32 %rd2, %r12, 16, %output;\nld.global.u32 %r7, [%rd1];\nst.shared.u32 [%r3], %r7;\nsetp.eq.u32 %p2, %thread, 0;\n\
    setp.eq.and.u32 %p4, %r10, 0, %p2;\n@%p2 mbarrier.init.shared::cta.b64 [%r1], 1;\nfence.mbarrier_init.release.cluster;\n\
    fence.proxy.async;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n";
const BARRIER: &str = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
/// Gives up after a while, so that a wrong case does not hang a GPU.
const WAIT: &str = "mov.u32 %r8, 0;\nwait: add.u32 %r8, %r8, 1;\nsetp.gt.u32 %p3, %r8, 100000;\n@%p3 trap;\n\
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0;\n@!%p1 bra wait;\n";
/// Stores the thread's word of the own tile, and the one 128 bytes behind it.
const STORE: &str = "ld.shared.u32 %r9, [%r3];\nst.global.u32 [%rd2], %r9;\nld.shared.u32 %r9, [%r3+128];\nst.global.u32 [%rd2+4], %r9;\n";
fn kernel(name: &str, body: &str) -> Kernel {
    let inputs = (BLOCKS * THREADS) as usize;
    Kernel::new(name, format!("{SETUP}{body}"))
        .threads(THREADS)
        .clusters(BLOCKS, 2)
        .input(Values::of(name).bytes(4 * inputs))
        .output(inputs * RESULTS as usize)
}

fn case(name: &str, body: &str) -> Case {
    kernel(name, body).finish()
}

/// The cases of this class.
pub fn cases() -> Vec<Case> {
    let mut cases = registers();
    cases.push(addresses());
    cases.extend(accesses());
    cases.extend(barriers());
    cases.extend(arrivals());
    cases.extend(asynchronous_stores());
    cases.extend(asynchronous_reductions());
    cases.push(bulk_copy());
    cases.extend(bulk_reductions());
    cases.extend(multicasts());
    cases
}

fn registers() -> Vec<Case> {
    let words = [
        "%clusterid.x",
        "%clusterid.y",
        "%nclusterid.x",
        "%nclusterid.z",
        "%cluster_ctaid.x",
        "%cluster_ctaid.y",
        "%cluster_nctaid.x",
        "%cluster_nctaid.z",
        "%cluster_ctarank",
        "%cluster_nctarank",
    ];
    let name = |register: &str| format!("{register} of a cluster");
    let one = |register: &str| {
        case(&name(register), &format!("mov.u32 %r9, {register};\nst.global.u32 [%rd2], %r9;\n{BARRIER}"))
    };
    let explicit = "mov.pred %p5, %is_explicit_cluster;\nselp.u32 %r9, 1, 0, %p5;\nst.global.u32 [%rd2], %r9;\n";
    words.into_iter().map(one).chain([case(&name("%is_explicit_cluster"), explicit)]).collect()
}

/// How far the blocks' own addresses lie apart, and what the spaces of addresses are.
fn addresses() -> Case {
    let body = "sub.u32 %r9, %r6, %r3;\nst.global.u32 [%rd2], %r9;\ncvt.u64.u32 %rd3, %r3;\ncvta.shared.u64 %rd3, %rd3;\n\
        mapa.u64 %rd4, %rd3, %r11;\nsub.u64 %rd5, %rd4, %rd3;\nst.global.u32 [%rd2+4], %rd5;\ngetctarank.u64 %r9, %rd4;\n\
        isspacep.shared::cta %p5, %rd3;\n@%p5 add.u32 %r9, %r9, 16;\nisspacep.shared::cta %p5, %rd4;\n@%p5 add.u32 %r9, %r9, 32;\n\
        isspacep.shared::cluster %p5, %rd3;\n@%p5 add.u32 %r9, %r9, 64;\nisspacep.shared::cluster %p5, %rd4;\n\
        @%p5 add.u32 %r9, %r9, 128;\nst.global.u32 [%rd2+8], %r9;\ngetctarank.shared::cluster.u32 %r9, %r6;\n\
        st.global.u32 [%rd2+12], %r9;\n";
    case("addresses in a cluster", &format!("{body}{BARRIER}"))
}

/// Accesses to the memory of the other block.
fn accesses() -> Vec<Case> {
    let store = "st.global.u32 [%rd2], %r9;\n";
    let generic = "cvt.u64.u32 %rd3, %r3;\ncvta.shared.u64 %rd3, %rd3;\nmapa.u64 %rd4, %rd3, %r11;\n";
    let mut cases = vec![
        case(
            "ld.shared::cluster.u32 of another block",
            &format!("ld.shared::cluster.u32 %r9, [%r6];\n{store}{BARRIER}"),
        ),
        case("ld.u32 of another block", &format!("{generic}ld.u32 %r9, [%rd4];\n{store}{BARRIER}")),
        case(
            "ld.shared::cluster.v4.u32 of another block",
            &format!(
                "and.b32 %r9, %thread, 7;\nmad.lo.u32 %r9, %r9, 16, %r5;\nld.shared::cluster.v4.u32 {{%r20, %r21, %r22, %r23}}, [%r9];\n\
                 st.global.v4.u32 [%rd2], {{%r20, %r21, %r22, %r23}};\n{BARRIER}"
            ),
        ),
        case(
            "st.shared::cluster.u32 to another block",
            &format!("st.shared::cluster.u32 [%r6+128], %r7;\n{BARRIER}{STORE}"),
        ),
    ];
    for form in expand_forms("{atom,red}{,.relaxed.cluster}.shared::cluster.{add,max,xor}.{u32,b32}") {
        if form.contains("xor") != form.ends_with("b32") {
            continue;
        }
        let to = if form.starts_with("atom") { "%r9, " } else { "" };
        let body = format!("{form} {to}[%r5], %thread;\n{BARRIER}ld.shared.u32 %r9, [%r2];\n{store}");
        cases.push(case(&format!("{form} to another block"), &body));
    }
    cases
}

fn barriers() -> Vec<Case> {
    let read = "ld.shared::cluster.u32 %r9, [%r6];\nst.global.u32 [%rd2], %r9;\n";
    let write = "add.u32 %r7, %r7, 1;\nst.shared.u32 [%r3], %r7;\n";
    let one = |form: &String| {
        let fence = if form.contains("relaxed") { "fence.acq_rel.cluster;\n" } else { "" };
        let wait = form.replace("arrive", "wait").replace("release", "acquire").replace(".relaxed", "");
        case(&format!("{form} between blocks"), &format!("{BARRIER}{write}{fence}{form};\n{wait};\n{read}{BARRIER}"))
    };
    expand_forms("barrier.cluster.arrive{,.release,.relaxed}{,.aligned}").iter().map(one).collect()
}

fn arrivals() -> Vec<Case> {
    let write = "st.shared::cluster.u32 [%r6+128], %r7;\nbar.warp.sync 0xffffffff;\n";
    let forms = expand_forms("mbarrier.{arrive,arrive_drop}{,.release.cluster}.shared::cluster.b64");
    let mut cases: Vec<Case> = forms
        .iter()
        .map(|form| {
            let body = format!("{write}@%p2 {form} _, [%r4];\n{WAIT}{STORE}{BARRIER}");
            case(&format!("{form} in another block"), &body)
        })
        .collect();
    let counted = "mbarrier.arrive.release.cluster.shared::cluster.b64";
    cases.push(case(
        &format!("{counted} with a count in another block"),
        &format!("{write}@%p2 {counted} _, [%r4], 1;\n{WAIT}{STORE}{BARRIER}"),
    ));
    let expect = "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64";
    let complete = "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64";
    cases.push(case(
        &format!("{expect} and {complete} in another block"),
        &format!("{write}@%p2 {expect} _, [%r4], 64;\n@%p2 {complete} [%r4], 64;\n{WAIT}{STORE}{BARRIER}"),
    ));
    let relaxed = "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64";
    cases.push(case(
        &format!("{relaxed} in another block"),
        &format!("{write}@%p2 {relaxed} [%r4], 64;\n@%p2 {complete} [%r4], 64;\n@%p2 {counted} _, [%r4];\n{WAIT}{STORE}{BARRIER}"),
    ));
    cases
}

/// Makes the own mbarrier expect so many bytes.
fn expect(bytes: u32) -> String {
    format!("@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {bytes};\n")
}

fn asynchronous_stores() -> Vec<Case> {
    let values = [
        (".b32", 1, "%r7"),
        (".u32", 1, "%r7"),
        (".s32", 1, "%r7"),
        (".f32", 1, "%f1"),
        (".b64", 2, "%rd6"),
        (".u64", 2, "%rd6"),
        (".s64", 2, "%rd6"),
        (".v2.b32", 2, "{%r7, %thread}"),
        (".v4.b32", 4, "{%r7, %thread, %r12, %r10}"),
        (".v2.b64", 4, "{%rd6, %rd7}"),
        (".v2.f32", 2, "{%f1, %f1}"),
    ];
    let one = |(kind, words, value): (&str, u32, &str)| {
        let form = format!("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{kind}");
        let bytes = 4 * words;
        let body = format!(
            "mov.b32 %f1, %r7;\nmov.b64 %rd6, {{%r7, %thread}};\nmov.b64 %rd7, {{%r12, %r10}};\n{}mad.lo.u32 %r13, %thread, {bytes}, %r5;\n\
             {form} [%r13+256], {value}, [%r4];\n{WAIT}mad.lo.u32 %r13, %thread, {bytes}, %r2;\n{}{BARRIER}",
            expect(THREADS * bytes),
            (0..words)
                .map(|word| format!(
                    "ld.shared.u32 %r9, [%r13+{}];\nst.global.u32 [%rd2+{}], %r9;\n",
                    256 + 4 * word,
                    4 * word
                ))
                .collect::<String>(),
        );
        case(&form, &body)
    };
    values.into_iter().map(one).collect()
}

fn asynchronous_reductions() -> Vec<Case> {
    let forms = [
        "inc.u32", "dec.u32", "min.u32", "min.s32", "max.u32", "max.s32", "add.u32", "add.s32", "and.b32", "or.b32",
        "xor.b32", "add.u64",
    ];
    let one = |operation: &str| {
        let form = format!("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation}");
        let (value, bytes) = if operation.ends_with("64") { ("%rd6", 8) } else { ("%r7", 4) };
        let body = format!(
            "mov.b64 %rd6, {{%r7, %thread}};\n{}and.b32 %r13, %thread, 3;\nmad.lo.u32 %r13, %r13, 8, %r5;\n\
             {form} [%r13], {value}, [%r4];\n{WAIT}{STORE}{BARRIER}",
            expect(THREADS * bytes)
        );
        case(&form, &format!("st.shared.u32 [%r3+128], 0;\n{BARRIER}{body}"))
    };
    forms.into_iter().map(one).collect()
}

fn bulk_copy() -> Case {
    let form = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes";
    let body = format!("{}@%p2 {form} [%r5+128], [%r2], 128, [%r4];\n{WAIT}{STORE}{BARRIER}", expect(128));
    case(form, &body)
}

fn bulk_reductions() -> Vec<Case> {
    let forms = ["{and,or,xor}.b32", "add.{u32,s32,u64}", "{inc,dec}.u32", "{min,max}.{u32,s32}"];
    let one = |operation: String| {
        let form = format!("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation}");
        let body = format!(
            "st.shared.u32 [%r3+128], %r12;\nfence.proxy.async;\n{BARRIER}{}@%p2 {form} [%r5+128], [%r2], 128, [%r4];\n{WAIT}{STORE}\
             {BARRIER}",
            expect(128)
        );
        case(&form, &body)
    };
    forms.into_iter().flat_map(expand_forms).map(one).collect()
}

fn multicasts() -> Vec<Case> {
    let form = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster";
    let copy = |bytes: u32| format!("@%p4 {form} [%r2+128], [%input+16], {bytes}, [%r1], %h1;\n");
    let to_all = format!("mov.u16 %h1, 3;\n{}{}{WAIT}{STORE}{BARRIER}", expect(128), copy(128));
    // The block that nothing is copied to keeps its zeros.
    let to_one = format!(
        "mov.u16 %h1, 2;\nst.shared.u32 [%r3+128], 0;\nfence.proxy.async;\n{BARRIER}{}setp.eq.u32 %p5, %r10, 0;\n@%p5 bra done;\n\
         {}{WAIT}done:\n{STORE}{BARRIER}",
        copy(64),
        expect(64)
    );
    let mut cases = vec![case(&format!("{form} to all"), &to_all), case(&format!("{form} to one"), &to_one)];
    for (rank, origin) in [(1, "{4}"), (2, "{4, 1}"), (3, "{4, 1, 1}")] {
        let form = format!(
            "cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        );
        let body = format!("mov.u16 %h1, 3;\n{}@%p4 {form} [%r2], [%map, {origin}], [%r1], %h1;\n{WAIT}", expect(128));
        let read = "ld.shared.u32 %r9, [%r3];\nst.global.u32 [%rd2], %r9;\n";
        cases
            .push(kernel(&form, &format!("{body}{read}{BARRIER}")).tensor_map(map(rank), MapPlace::Parameter).finish());
    }
    cases
}

/// A tensor of 128 words, with boxes of 32.
fn map(rank: usize) -> TensorMap {
    let (sizes, box_sizes): (&[u64], &[u32]) = match rank {
        1 => (&[128], &[32]),
        2 => (&[16, 8], &[8, 4]),
        _ => (&[8, 4, 4], &[4, 4, 2]),
    };
    let pitches = sizes.iter().scan(4, |pitch, size| {
        *pitch *= size;
        Some(*pitch)
    });
    TensorMap {
        element: TensorElement::U32,
        address: 0,
        sizes: sizes.to_vec(),
        strides: pitches.take(rank - 1).collect(),
        box_sizes: box_sizes.to_vec(),
        element_strides: vec![1; rank],
        swizzle: Swizzle::None,
    }
}
