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

/// Names of cases that have no result yet, with alternatives in braces.
const WAITING: &[&str] = &[
    "{add,sub,mul,fma,mad,div,rcp,sqrt}.{rz,rm,rp}.f64",
    "{rcp,rsqrt}.approx.ftz.f64",
    "{min,max}{,.ftz}{,.NaN}.xorsign.abs.{f32,f16,f16x2}",
    "{min,max}{,.NaN}.xorsign.abs.{bf16,bf16x2}",
    "szext.{clamp,wrap}.{u32,s32}",
    "fns.b32",
    "{vadd,vsub,vavrg,vabsdiff,vmin,vmax}{2,4}.{u32,s32}.{u32,s32}.{u32,s32}{,.sat,.add}",
    "cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.{f32,f16x2}",
    "cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2}",
    "cvt.rna.tf32.f32",
    "cvt.{rn,rz}{,.relu}.tf32.f32",
    "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.{f16x2,u32,s32}.f16x2",
    "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{bf16x2,u32,s32}.bf16x2",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.and,.or,.xor}{,.ftz}.f16x2",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.and,.or,.xor}.bf16x2",
    "call.uni",
    "call{ of different functions, of itself, with arrays}",
    "alloca",
    "atom{,.global,.shared}.cas.b16",
    "atom.global.{cas,exch}.b128",
    "{atom,red}{,.global,.shared}.add.noftz.{f16,f16x2,bf16,bf16x2}",
    "{atom,red}.global.add.{v2,v4}.f32",
    "{atom,red}.global.{add,min,max}.noftz.{v2,v4,v8}.{f16,bf16}",
    "{atom,red}.global.{add,min,max}.noftz.{v2,v4}.{f16x2,bf16x2}",
    "movmatrix.sync.aligned.m8n8.trans.b16",
    "mma.sync.aligned.m16n8{k4,k8}.row.col.f32.tf32.tf32.f32 NUMBERS",
    "mma.sync.aligned.{m8n8k16,m16n8k16,m16n8k32}.row.col{,.satfinite}.s32.{s8,u8}.{s8,u8}.s32 special",
    "mma.sync.aligned.{m8n8k32,m16n8k32,m16n8k64}.row.col{,.satfinite}.s32.{s4,u4}.{s4,u4}.s32 special",
    "mma.sync.aligned.{m8n8k128,m16n8k128,m16n8k256}.row.col.s32.b1.b1.s32.{xor,and}.popc special",
    "mma.sync.aligned.{m8n8k4,m16n8k4,m16n8k8,m16n8k16}.row.col.f64.f64.f64.f64 NUMBERS",
    "mma.sync.aligned.m8n8k4.row.col.rn.f64.f64.f64.f64 NUMBERS",
    "mma.sync.aligned.m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32 NUMBERS",
    "wmma.mma.sync.aligned.{row.col,col.row}.{m16n16k16.f32.f32,m32n8k16.f16.f16}",
    "wmma.mma.sync.aligned.{row.col,col.row}.m8n32k16.f32.bf16.bf16.f32",
    "wmma.mma.sync.aligned.{row.col,col.row}.m16n16k8.f32.tf32.tf32.f32",
    "wmma.mma.sync.aligned.{row.col,col.row}.{m16n16k16.s32.s8.s8.s32,m32n8k16.s32.u8.u8.s32}",
    "wmma.mma.sync.aligned.{row.col,col.row}.m8n8k4.rn.f64.f64.f64.f64",
];

/// Why a case has no result, if there is a reason.
pub fn waits(case: &str) -> Option<&'static str> {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| waiting().collect());
    NAMES.contains(case).then_some(NO_GPU)
}

/// Every case that is said to have no result.
pub fn waiting() -> impl Iterator<Item = String> {
    WAITING.iter().flat_map(|pattern| ptx_sim::expand_forms(&pattern.replace("NUMBERS", NUMBERS)))
}

/// Why no recorded instruction has a word of a decoder, if there is a reason.
pub fn reason(file: &str, word: &str) -> Option<&'static str> {
    WORDS
        .iter()
        .find(|(in_file, known, _)| *in_file == file && (*known == word || *known == "*"))
        .map(|(.., reason)| *reason)
}
