//! The executed forms of arithmetic, logic, conversion and comparison. Decoders accept modifiers in any combination, of
//! which PTX has only some; exactly the forms listed here have been compared with a GPU.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::parse::Type;

/// Opcodes with their modifiers; `{a,b}` lists alternatives.
const FORMS: &[&str] = &[
    // Integers.
    "{add,sub,min,max}.{u16,u32,u64,s16,s32,s64}",
    "{add,sub}.sat.s32",
    "mul.{lo,hi}.{u16,u32,u64,s16,s32,s64}",
    "mul.wide.{u16,u32,s16,s32}",
    "mad.{lo,hi}.{u16,u32,u64,s16,s32,s64}",
    "mad.wide.{u16,u32,s16,s32}",
    "mad.hi.sat.s32",
    "{mul24,mad24}.{lo,hi}.{u32,s32}",
    "{div,rem,sad}.{u16,u32,u64,s16,s32,s64}",
    "{abs,neg}.{s16,s32,s64}",
    "{popc,clz}.{b32,b64}",
    "bfind{,.shiftamt}.{u32,u64,s32,s64}",
    "brev.{b32,b64}",
    "bfe.{u32,u64,s32,s64}",
    "bfi.{b32,b64}",
    "bmsk.{clamp,wrap}.b32",
    "szext.{clamp,wrap}.{u32,s32}",
    "fns.b32",
    "{vadd4,vsub4,vavrg4,vabsdiff4,vmin4,vmax4}.{u32,s32}.{u32,s32}.{u32,s32}{,.sat,.add}",
    "{vadd2,vsub2,vavrg2,vabsdiff2,vmin2,vmax2}.{u32,s32}.{u32,s32}.{u32,s32}{,.sat,.add}",
    "prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}",
    "dp4a.{u32,s32}.{u32,s32}",
    "dp2a.{lo,hi}.{u32,s32}.{u32,s32}",
    "{and,or,xor,not}.{pred,b16,b32,b64}",
    "cnot.{b16,b32,b64}",
    "lop3.b32",
    "shl.{b16,b32,b64}",
    "shr.{b16,b32,b64,u16,u32,u64,s16,s32,s64}",
    "shf.{l,r}.{clamp,wrap}.b32",
    "{add,sub}.cc.{u32,s32,u64,s64}",
    "{addc,subc}{,.cc}.{u32,s32,u64,s64}",
    "mad.{lo,hi}.cc.{u32,s32,u64,s64}",
    "madc.{lo,hi}{,.cc}.{u32,s32,u64,s64}",
    // Floating point.
    "{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32",
    "{add,sub,mul}{,.rn,.rz,.rm,.rp}.f64",
    "{add,sub,mul}{,.rn}{,.ftz}{,.sat}.{f16,f16x2}",
    "{add,sub,mul}{,.rn}.{bf16,bf16x2}",
    "{fma,mad}.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32",
    "{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}.f32x2",
    "fma.{rn,rz,rm,rp}{,.ftz}.f32x2",
    "{fma,mad}.{rn,rz,rm,rp}.f64",
    "fma.rn{,.ftz}{,.sat,.relu}.{f16,f16x2}",
    "fma.rn{,.relu}.{bf16,bf16x2}",
    "{min,max}{,.ftz}{,.NaN}.{f32,f16,f16x2}",
    "{min,max}.f64",
    "{min,max}{,.NaN}.{bf16,bf16x2}",
    "{min,max}{,.ftz}{,.NaN}.xorsign.abs.{f32,f16,f16x2}",
    "{min,max}{,.NaN}.xorsign.abs.{bf16,bf16x2}",
    "{abs,neg}{,.ftz}.{f32,f16,f16x2}",
    "{abs,neg}.{f64,bf16,bf16x2}",
    "copysign.{f32,f64}",
    "testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64}",
    "div.{rn,rz,rm,rp,approx,full}{,.ftz}.f32",
    "{rcp,sqrt}.{rn,rz,rm,rp,approx}{,.ftz}.f32",
    "{div,rcp,sqrt}.{rn,rz,rm,rp}.f64",
    "{rcp,rsqrt}.approx.ftz.f64",
    "{rsqrt,lg2,sin,cos,ex2}.approx{,.ftz}.f32",
    "rsqrt.approx.f64",
    "ex2.approx.{f16,f16x2}",
    "ex2.approx.ftz.{bf16,bf16x2}",
    "tanh.approx.{f32,f16,f16x2,bf16,bf16x2}",
    // Conversion.
    "cvt.{u8,u16,u32,u64,s8,s16,s32,s64}.{u8,u16,u32,u64,s8,s16,s32,s64}",
    "cvt.sat.u8.{s8,u16,s16,u32,s32,u64,s64}",
    "cvt.sat.s8.{u8,u16,s16,u32,s32,u64,s64}",
    "cvt.sat.u16.{s8,s16,u32,s32,u64,s64}",
    "cvt.sat.s16.{u16,u32,s32,u64,s64}",
    "cvt.sat.u32.{s8,s16,s32,u64,s64}",
    "cvt.sat.s32.{u32,u64,s64}",
    "cvt.sat.u64.{s8,s16,s32,s64}",
    "cvt.sat.s64.u64",
    "cvt.{rn,rz,rm,rp}{,.sat}.{f16,f64}.{u8,u16,u32,u64,s8,s16,s32,s64}",
    "cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32.{u8,u16,u32,u64,s8,s16,s32,s64}",
    "cvt.{rn,rz,rm,rp}.bf16.{u16,u32,u64,s16,s32,s64}",
    "cvt.{rni,rzi,rmi,rpi}{,.sat}.{u8,u16,u32,u64,s8,s16,s32,s64}.{f16,f32,f64}",
    "cvt.{rni,rzi,rmi,rpi}.{u16,u32,u64,s16,s32,s64}.bf16",
    "cvt.{rni,rzi,rmi,rpi}.ftz{,.sat}.{u8,u16,u32,u64,s8,s16,s32,s64}.f32",
    "cvt.{f32.bf16,f64.f16,f64.bf16}",
    "cvt{,.ftz}{,.sat}.f64.f32",
    "cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32.f64",
    "cvt.{rn,rz,rm,rp}{,.sat}.f16.{f32,f64}",
    "cvt.{rn,rz,rm,rp}.ftz{,.sat}.f16.f32",
    "cvt.{rn,rz}.relu.{f16,bf16}.f32",
    "cvt.{rn,rz,rm,rp}.bf16.{f16,f32,f64}",
    "cvt.{rn,rz,rm,rp}.f16.bf16",
    "cvt{,.rni,.rzi,.rmi,.rpi}{,.ftz}{,.sat}.f32.f32",
    "cvt{,.rni,.rzi,.rmi,.rpi}{,.sat}.{f16.f16,f64.f64}",
    "cvt{,.rni,.rzi,.rmi,.rpi}.bf16.bf16",
    "cvt{,.ftz}{,.sat}.f32.f16",
    "cvt.{rn,rz}{,.relu}.{f16x2,bf16x2}.f32",
    "cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.{f32,f16x2}",
    "cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2}",
    "cvt.rna.tf32.f32",
    "cvt.{rn,rz}{,.relu}.tf32.f32",
    // Comparison and selection.
    "setp.{eq,ne}{,.and,.or,.xor}.{b16,b32,b64}",
    "setp.{eq,ne,lt,le,gt,ge}{,.and,.or,.xor}.{u16,u32,u64,s16,s32,s64}",
    "setp.{lo,ls,hi,hs}{,.and,.or,.xor}.{u16,u32,u64}",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.and,.or,.xor}.{f16,bf16,f32,f64}",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.and,.or,.xor}.ftz.{f16,f32}",
    "set.{eq,ne}.{u32,s32,f32}.{b16,b32,b64}",
    "set.{eq,ne,lt,le,gt,ge}.{u32,s32,f32}.{u16,u32,u64,s16,s32,s64}",
    "set.{lo,ls,hi,hs}.{u32,s32,f32}.{u16,u32,u64}",
    "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{u32,s32,f32}.{f32,f64}",
    "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.ftz.{u32,s32,f32}.f32",
    "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.{f16,u16,s16,u32,s32}.f16",
    "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{bf16,u16,s16,u32,s32}.bf16",
    "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.{f16x2,u32,s32}.f16x2",
    "set.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{bf16x2,u32,s32}.bf16x2",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.and,.or,.xor}{,.ftz}.f16x2",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.and,.or,.xor}.bf16x2",
    "selp.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}",
    "slct.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}.{s32,f32}",
    "slct.ftz.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}.f32",
];

/// Opcode and modifiers of every form of arithmetic, logic, conversion and comparison that is executed.
pub fn lanewise_forms() -> impl Iterator<Item = String> {
    FORMS.iter().flat_map(|pattern| expand_forms(pattern))
}

/// Expands a pattern into its forms: `{a,b}` lists alternatives, which may be empty.
///
/// ```
/// assert_eq!(ptx_sim::expand_forms("add{,.sat}.{s16,s32}"), ["add.s16", "add.s32", "add.sat.s16", "add.sat.s32"]);
/// ```
pub fn expand_forms(pattern: &str) -> Vec<String> {
    let Some((before, (alternatives, after))) =
        pattern.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![pattern.to_owned()];
    };
    let tails = expand_forms(after);
    let texts = alternatives.split(',').flat_map(|alternative| {
        let head = format!("{before}{alternative}");
        tails.iter().map(move |tail| format!("{head}{tail}"))
    });
    texts.collect()
}

/// Whether a form is in the list, with its modifiers (except types) in any order.
pub(super) fn is_known(name: &str) -> bool {
    static KNOWN: OnceLock<HashSet<String>> = OnceLock::new();
    KNOWN.get_or_init(|| lanewise_forms().map(|form| ordered(&form)).collect()).contains(&ordered(name))
}

/// The form with its modifiers sorted, followed by its types in their order.
fn ordered(name: &str) -> String {
    let mut parts = name.split('.');
    let opcode = parts.next().unwrap_or_default();
    let (types, mut others): (Vec<&str>, Vec<&str>) = parts.partition(|part| Type::parse(part).is_some());
    others.sort_unstable();
    [&[opcode], others.as_slice(), types.as_slice()].concat().join(".")
}
