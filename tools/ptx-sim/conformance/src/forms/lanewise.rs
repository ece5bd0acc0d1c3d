//! Operands of the forms that work on each lane alone, and how their results are compared. The forms themselves are those
//! that the simulator executes ([`ptx_sim::lanewise_forms`]).
//!
//! Bounds of approximations are those that the PTX ISA states for the instruction; where it states none, the row says so.

use crate::case::Case;
use crate::exempt;
use crate::lanewise::{Row, exact, sequence};
use crate::rule::{Bound, Format, Rule};

const fn within(form: &'static str, types: &'static str, format: Format, bound: Bound) -> Row {
    Row { form, types, code: "", rule: Rule::Within { format, bound } }
}

/// Each form has the operands of the first row that it has the opcode and the modifiers of.
const ROWS: &[Row] = &[
    // With the carry flag, which another instruction shows or sets.
    sequence("add.cc", "T T T = T T T", "$ d0, a0, a1;\naddc.cc.$T d1, a1, a2;\naddc.$T d2, a0, a2;"),
    sequence("sub.cc", "T T T = T T T", "$ d0, a0, a1;\nsubc.cc.$T d1, a1, a2;\nsubc.$T d2, a0, a2;"),
    sequence("addc.cc", "T T T = T T T", "add.cc.$T d0, a0, a1;\n$ d1, a1, a2;\naddc.$T d2, a0, a2;"),
    sequence("addc", "T T = T T T", "add.cc.$T d0, a0, a1;\n$ d1, a1, a2;"),
    sequence("subc.cc", "T T T = T T T", "sub.cc.$T d0, a0, a1;\n$ d1, a1, a2;\nsubc.$T d2, a0, a2;"),
    sequence("subc", "T T = T T T", "sub.cc.$T d0, a0, a1;\n$ d1, a1, a2;"),
    sequence("mad.cc", "T T = T T T", "$ d0, a0, a1, a2;\naddc.$T d1, a0, a2;"),
    sequence("madc.cc", "T T T = T T T", "add.cc.$T d0, a0, a1;\n$ d1, a0, a1, a2;\naddc.$T d2, a0, a2;"),
    sequence("madc", "T T = T T T", "add.cc.$T d0, a0, a1;\n$ d1, a0, a1, a2;"),
    // Approximations. The PTX ISA states no bound for `rsqrt.approx.f64`: it is made from the one for `.f32`. That of
    // `tanh` for halves is stated as an absolute one.
    // Those of `.f64` that keep the upper half.
    within("{rcp,rsqrt}.approx.ftz.f64", "T = T", Format::F64, Bound::Relative(-19.0)),
    within("div{.approx,.full}", "T = T T", Format::F32, Bound::Ulps(2)),
    within("rcp.approx", "T = T", Format::F32, Bound::Ulps(1)),
    within("sqrt.approx", "T = T", Format::F32, Bound::Relative(-23.0)),
    within("rsqrt.approx.f32", "T = T", Format::F32, Bound::Relative(-22.4)),
    within("rsqrt.approx.f64", "T = T", Format::F64, Bound::Relative(-22.4)),
    within("lg2.approx", "T = T", Format::F32, Bound::Either(-22.0, -22.0)),
    within("{sin,cos}.approx", "T = T:angle", Format::F32, Bound::Absolute(-14.7)),
    within("ex2.approx.f32", "T = T", Format::F32, Bound::Relative(-22.0)),
    // Relative, and of subnormals the last place.
    within("ex2.approx{.f16,.f16x2}", "T = T", Format::F16, Bound::Either(-24.0, -9.9)),
    within("ex2.approx{.bf16,.bf16x2}", "T = T", Format::Bf16, Bound::Relative(-7.0)),
    within("tanh.approx.f32", "T = T", Format::F32, Bound::Relative(-11.0)),
    within("tanh.approx{.f16,.f16x2}", "T = T", Format::F16, Bound::Absolute(-10.987)),
    within("tanh.approx{.bf16,.bf16x2}", "T = T", Format::Bf16, Bound::Absolute(-8.0)),
    // Conversions. ptxas does not flush operands of these two roundings to `.f16`, although PTX says so.
    exact("cvt{.rm,.rp}.ftz.f16.f32", "T = U:normal"),
    exact("cvt.satfinite{.e4m3x2,.e5m2x2}.f32", "b16 = f32 f32"),
    exact("cvt.satfinite{.e4m3x2,.e5m2x2}.f16x2", "b16 = f16x2"),
    exact("cvt{.e4m3x2,.e5m2x2}", "b32 = b16"),
    exact("cvt.tf32", "b32 = f32"),
    exact("cvt{.f16x2,.bf16x2}", "b32 = f32 f32"),
    exact("cvt", "T = U"),
    // Comparisons; of halves without the second result.
    sequence("setp{.and,.or,.xor}{.f16x2,.bf16x2}", "pred pred = T T pred", "$ d0|d1, a0, a1, a2;"),
    sequence("setp{.f16x2,.bf16x2}", "pred pred = T T", "$ d0|d1, a0, a1;"),
    sequence("setp{.and,.or,.xor}{.f16,.bf16}", "pred pred = T T pred", "$ d0, a0, a1, a2;\n$ d1, a0, a1, !a2;"),
    sequence("setp{.and,.or,.xor}", "pred pred pred = T T pred", "$ d0|d1, a0, a1, a2;\n$ d2, a0, a1, !a2;"),
    exact("setp", "pred = T T"),
    exact("set", "T = U U"),
    sequence(
        "selp",
        "T T = T T pred",
        "$ d0, a0, a1, a2;\n.reg .pred flipped;\nnot.pred flipped, a2;\n$ d1, a0, a1, flipped;",
    ),
    exact("slct", "T = T T U"),
    // Integers of several widths. Of 64 bits, what ptxas makes of positions above 255 is not what PTX says.
    exact("mul.wide", "W = T T"),
    exact("mad.wide", "W = T T W"),
    exact("{popc,clz,bfind}", "u32 = T"),
    exact("bfe{.u32,.s32}", "T = T u32:position u32:position"),
    exact("bfe", "T = T u32:byte u32:byte"),
    exact("bfi.b32", "T = T T u32:position u32:position"),
    exact("bfi", "T = T T u32:byte u32:byte"),
    exact("szext", "T = T u32:shift"),
    sequence("fns", "b32 = b32 b32 b32", "and.b32 a1, a1, 31;\nrem.s32 a2, a2, 9;\n$ d0, a0, a1, a2;"),
    exact("{vadd4,vsub4,vavrg4,vabsdiff4,vmin4,vmax4}", "b32 = b32 b32 b32"),
    exact("{vadd2,vsub2,vavrg2,vabsdiff2,vmin2,vmax2}", "b32 = b32 b32 b32"),
    exact("bmsk", "b32 = u32:shift u32:shift"),
    exact("{shl,shr}", "T = T u32:shift"),
    exact("shf", "b32 = b32 b32 u32:shift"),
    exact("{prmt,dp4a,dp2a}", "b32 = b32 b32 b32"),
    exact("lop3", "b32 = b32 b32 b32 #0x1b"),
    exact("testp", "pred = T"),
    // One, two and three operands of the same type. What dividing an integer by zero gives is left open.
    exact("{abs,neg,not,cnot,brev,rcp,sqrt}", "T = T"),
    exact("{div,rem}{.f32,.f64}", "T = T T"),
    exact("{div,rem}", "T = T T:nonzero"),
    exact("{add,sub,mul,mul24,min,max,and,or,xor,copysign}", "T = T T"),
    exact("{mad,mad24,fma,sad}", "T = T T T"),
];

/// More tables for `lop3`, whose table is part of the instruction.
const TABLES: &[Row] = &[
    exact("lop3.b32", "b32 = b32 b32 b32 #0x80"),
    exact("lop3.b32", "b32 = b32 b32 b32 #0x96"),
    exact("lop3.b32", "b32 = b32 b32 b32 #0xe4"),
    exact("lop3.b32", "b32 = b32 b32 b32 #0x6a"),
];

/// The row that says what a form takes.
fn row(form: &str) -> &'static Row {
    ROWS.iter().find(|row| row.describes(form)).unwrap_or_else(|| {
        panic!("`{form}` is new in the simulator: add a row to ptx-conformance that says what it takes")
    })
}

/// The class of a form.
fn class(form: &str) -> &'static str {
    let opcode = form.split('.').next().unwrap_or_default();
    let is_float = form.split('.').any(|part| crate::lanewise::TYPES.contains(&part) && part.contains('f'));
    match opcode {
        "cvt" => "convert",
        "set" | "setp" | "selp" | "slct" => "compare",
        _ if is_float => "float",
        _ => "integer",
    }
}

fn cases(wanted: &str) -> Vec<Case> {
    let forms = ptx_sim::lanewise_forms().filter(|form| class(form) == wanted && !exempt::needs_sm_100(form));
    // Of NaN only what computes with it; the rest takes it as bits or as a side of a comparison.
    let special = |form: &str| row(form).special_case(form).filter(|_| wanted == "float" || form.contains(".tf32."));
    forms.flat_map(|form| [Some(row(&form).case(&form)), special(&form)]).flatten().collect()
}

/// Cases of integer arithmetic, logic and shifts.
pub fn integer() -> Vec<Case> {
    let mut cases = cases("integer");
    cases.extend(TABLES.iter().flat_map(Row::cases));
    cases
}

/// Cases of floating-point arithmetic.
pub fn float() -> Vec<Case> {
    cases("float")
}

/// Cases of conversions between types.
pub fn convert() -> Vec<Case> {
    cases("convert")
}

/// Cases of comparison and selection.
pub fn compare() -> Vec<Case> {
    cases("compare")
}
