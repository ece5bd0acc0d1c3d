//! What no GPU has given a result for, and why: words of the simulator's decoders that no recorded instruction has, and cases
//! that wait to be recorded.

use std::collections::HashSet;
use std::sync::LazyLock;

/// File, word or `*` for all of them, reason.
const WORDS: &[(&str, &str, &str)] = &[
    ("memory", "v8", "accesses of 32 bytes need sm_100"),
    ("memory", "L2::evict_first", "on ld and st only with .v8.b32 and .v4.b64, which need sm_100"),
    ("memory", "L2::evict_normal", "on ld and st only with .v8.b32 and .v4.b64, which need sm_100"),
    ("memory", "L2::evict_last", "on ld and st only with .v8.b32 and .v4.b64, which need sm_100"),
    ("bulk_copy", "overwritten", "a word of a message"),
    ("bulk_reduce", "overwritten", "a word of a message"),
    ("wgmma", "read", "a word of a message"),
    ("control", "trap", "ends the launch: there is no result"),
    ("wgmma", "m64n", "a part of the shape, which the decoder takes apart"),
    ("cache_policy", "L2", "a hint: no result depends on it"),
    ("cache_policy", "L2::cache_hint", "a hint: no result depends on it"),
    ("cache_policy", "L2::evict_first", "a hint: no result depends on it"),
    ("cache_policy", "L2::evict_last", "a hint: no result depends on it"),
    ("cache_policy", "L2::evict_normal", "a hint: no result depends on it"),
    ("cache_policy", "L2::evict_unchanged", "a hint: no result depends on it"),
    ("cache_policy", "createpolicy", "a hint: no result depends on it"),
    ("cache_policy", "fractional", "a hint: no result depends on it"),
    ("cache_policy", "range", "a hint: no result depends on it"),
    ("memory", "applypriority", "a hint: no result depends on it"),
    ("control", "pmevent", "seen by profilers only: there is no result"),
    ("control", "mask", "of pmevent, which has no result"),
    ("convert", "isspacep", "its operands are addresses, which differ from launch to launch"),
    ("operation", "isspacep", "its operands are addresses, which differ from launch to launch"),
    ("control", "brkpt", "ends the launch: there is no result"),
    ("memory", "discard", "leaves memory with any contents: there is no result"),
    ("product", "*", "types, which the decoders of mma and wmma take"),
    ("system", "*", "functions of the system, whose results are texts, addresses, or the end of the launch"),
    ("wgmma", "k16", "a part of the shape, which the decoder takes apart"),
];

/// Why those cases wait that no GPU was there for.
const NO_GPU: &str = "to be recorded; accepted by ptxas, and tested against other computations in ptx-sim";
/// How the products are called that are made of every kind of numbers.
const NUMBERS: &str = "{exact,similar,spread,cancelling,special}";

/// How the boxes are called that are reduced into a tensor.
const BOXES: &str = "tensor [60, 15] box [24, 8] None at [{0,40}, {0,12}] to 0";

/// Names of cases that have no result yet, with alternatives in braces.
const WAITING: &[&str] = &[
    "wgmma.mma_async.sync.aligned.m64n{8k8.f32.tf32.tf32 a registers,64k8.f32.tf32.tf32 a shared} {similar,spread,special}",
    "wgmma.mma_async.sync.aligned.m64n8k32.{f32,f16}.{e4m3,e5m2}.{e4m3,e5m2} a registers {similar,spread,special}",
    "wgmma.mma_async.sync.aligned.m64n64k32.{f32,f16}.{e4m3,e5m2}.{e4m3,e5m2} a shared {similar,spread,special}",
    "wgmma.mma_async.sync.aligned.m64n8k32{,.satfinite}.s32.{s8,u8}.{s8,u8} a registers any",
    "wgmma.mma_async.sync.aligned.m64n64k32{,.satfinite}.s32.{s8,u8}.{s8,u8} a shared any",
    "wgmma.mma_async.sync.aligned.m64n{8k256.s32.b1.b1.and.popc a registers,64k256.s32.b1.b1.and.popc a shared} any",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.{and,or,xor}.{b32,b64} wait_group",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add{.u32,.s32,.u64,.f32,.f64,.noftz.f16,.noftz.bf16} wait_group",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.{inc,dec}.u32 wait_group",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.{min,max}.{u32,s32,u64,s64,f16,bf16} wait_group",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{add,inc,dec}.tile.bulk_group U32 BOX",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group F16 BOX",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group Bf16 BOX",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{min,and}.tile.bulk_group S32 BOX",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.xor.tile.bulk_group U64 BOX",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.or.tile.bulk_group S64 BOX",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{and,or,xor}.b32",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{add.u32,add.s32,add.u64,inc.u32,dec.u32}",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{min,max}.{u32,s32}",
    "tensormap.replace of a map of {u8,u16,u32,s64,f16,f32,f64,bf16}",
    "%{clusterid.x,clusterid.y,nclusterid.x,nclusterid.z,cluster_ctaid.x,cluster_ctaid.y} of a cluster",
    "%{cluster_nctaid.x,cluster_nctaid.z,cluster_ctarank,cluster_nctarank,is_explicit_cluster} of a cluster",
    "addresses in a cluster",
    "{ld.shared::cluster.u32,ld.u32,ld.shared::cluster.v4.u32} of another block",
    "st.shared::cluster.u32 to another block",
    "{atom,red}{,.relaxed.cluster}.shared::cluster.{add.u32,max.u32,xor.b32} to another block",
    "barrier.cluster.arrive{,.release,.relaxed}{,.aligned} between blocks",
    "mbarrier.{arrive,arrive_drop}{,.release.cluster}.shared::cluster.b64 in another block",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 with a count in another block",
    "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 and mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 in \
     another block",
    "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 in another block",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{b32,u32,s32,f32,b64,u64,s64,v2.b32,v4.b32,v2.b64,v2.f32}",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{inc,dec,min,max,add}.u32",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{min.s32,max.s32,add.s32,add.u64}",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{and,or,xor}.b32",
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster to {all,one}",
    "cp.async.bulk.tensor.{1d,2d,3d}.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster",
];
/// Why a case has no result, if there is a reason.
pub fn waits(case: &str) -> Option<&'static str> {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| waiting().collect());
    NAMES.contains(case).then_some(NO_GPU)
}

/// Every case that is said to have no result.
pub fn waiting() -> impl Iterator<Item = String> {
    WAITING.iter().flat_map(|pattern| ptx_sim::expand_forms(&pattern.replace("NUMBERS", NUMBERS).replace("BOX", BOXES)))
}

/// Why no recorded instruction has a word of a decoder, if there is a reason.
pub fn reason(file: &str, word: &str) -> Option<&'static str> {
    WORDS
        .iter()
        .find(|(in_file, known, _)| *in_file == file && (*known == word || *known == "*"))
        .map(|(.., reason)| *reason)
}
