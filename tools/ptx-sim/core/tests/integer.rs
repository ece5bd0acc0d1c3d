//! Integer arithmetic, logic and shifts against values worked out from the PTX ISA.

use crate::common::check;

const M1_16: u64 = 0xffff;
const M1: u64 = 0xffff_ffff;
const M1_64: u64 = u64::MAX;

#[test]
fn addition_and_subtraction_wrap() {
    check("b32", &["b32", "b32"], "add.s32 d, a, b;", &[&[M1, 1, 0], &[7, 8, 15], &[0x7fff_ffff, 1, 0x8000_0000]]);
    check("b32", &["b32", "b32"], "sub.u32 d, a, b;", &[&[0, 1, M1], &[9, 4, 5]]);
    check("b16", &["b16", "b16"], "add.u16 d, a, b;", &[&[M1_16, 2, 1]]);
    check("b64", &["b64", "b64"], "add.s64 d, a, b;", &[&[M1_64, 1, 0], &[1 << 40, 5, (1 << 40) + 5]]);
    check(
        "b32",
        &["b32", "b32"],
        "add.sat.s32 d, a, b;",
        &[&[0x7fff_ffff, 1, 0x7fff_ffff], &[0x8000_0000, M1, 0x8000_0000], &[3, 4, 7]],
    );
}

#[test]
fn carries_join_two_words() {
    let chain = ".reg .b32 lo, hi, x, y; mov.b64 {lo, hi}, a; mov.b64 {x, y}, b;\n\
                 add.cc.u32 lo, lo, x; addc.u32 hi, hi, y; mov.b64 d, {lo, hi};";
    check("b64", &["b64", "b64"], chain, &[&[M1, 1, 1 << 32], &[M1_64, 1, 0], &[5, 6, 11]]);
    let borrow = chain.replace("add.cc", "sub.cc").replace("addc", "subc");
    check("b64", &["b64", "b64"], &borrow, &[&[1 << 32, 1, M1], &[0, 1, M1_64]]);
    let mixed = ".reg .b32 x; sub.cc.u32 x, a, b; addc.u32 d, 0, 0;";
    check("b32", &["b32", "b32"], mixed, &[&[5, 3, 1], &[3, 3, 1], &[3, 5, 0]]);
    let mixed = ".reg .b32 x; add.cc.u32 x, a, b; subc.u32 d, 7, 0;";
    check("b32", &["b32", "b32"], mixed, &[&[M1, 1, 7], &[1, 1, 6]]);
    let product = ".reg .b32 lo, hi; mul.lo.u32 lo, a, b; mul.hi.u32 hi, a, b;\n\
                   mad.lo.cc.u32 lo, a, b, lo; madc.hi.u32 hi, a, b, hi; mov.b64 d, {lo, hi};";
    check(
        "b64",
        &["b32", "b32"],
        product,
        &[&[M1, M1, (M1 * M1).wrapping_mul(2)], &[0x1_0001, 0xffff, 0xffff_ffff * 2]],
    );
}

#[test]
fn products() {
    check("b32", &["b32", "b32"], "mul.lo.s32 d, a, b;", &[&[M1, 5, M1 - 4], &[0x1_0000, 0x1_0000, 0]]);
    check("b32", &["b32", "b32"], "mul.hi.u32 d, a, b;", &[&[M1, M1, M1 - 1], &[0x1_0000, 0x1_0000, 1]]);
    check("b32", &["b32", "b32"], "mul.hi.s32 d, a, b;", &[&[M1, M1, 0], &[M1, 1, M1]]);
    check("b64", &["b32", "b32"], "mul.wide.s32 d, a, b;", &[&[M1, 2, M1_64 - 1]]);
    check("b64", &["b32", "b32"], "mul.wide.u32 d, a, b;", &[&[M1, 2, 2 * M1]]);
    check("b64", &["b64", "b64"], "mul.hi.u64 d, a, b;", &[&[M1_64, M1_64, M1_64 - 1]]);
    check("b64", &["b64", "b64"], "mul.hi.s64 d, a, b;", &[&[M1_64, 3, M1_64]]);
    check("b32", &["b16", "b16"], "mul.wide.s16 d, a, b;", &[&[M1_16, 3, M1 - 2]]);
    check("b32", &["b32", "b32", "b32"], "mad.lo.s32 d, a, b, c;", &[&[3, 4, 5, 17]]);
    check("b64", &["b32", "b32", "b64"], "mad.wide.s32 d, a, b, c;", &[&[M1, 4, 5, 1]]);
    check("b64", &["b64", "b64", "b64"], "mad.lo.s64 d, a, b, c;", &[&[1 << 33, 4, 5, (1 << 35) + 5]]);
    check("b32", &["b32", "b32"], "mul24.lo.u32 d, a, b;", &[&[0xff00_0003, 5, 15]]);
}

#[test]
fn quotients_and_remainders() {
    check("b32", &["b32", "b32"], "div.s32 d, a, b;", &[&[M1 - 6, 2, M1 - 2], &[7, 2, 3]]);
    check("b32", &["b32", "b32"], "rem.s32 d, a, b;", &[&[M1 - 6, 2, M1], &[7, 2, 1]]);
    check("b32", &["b32", "b32"], "div.u32 d, a, b;", &[&[M1, 2, 0x7fff_ffff]]);
    check("b64", &["b64", "b64"], "rem.u64 d, a, b;", &[&[M1_64, 10, 5]]);
    check("b16", &["b16", "b16"], "div.s16 d, a, b;", &[&[M1_16, 1, M1_16]]);
}

#[test]
fn signs_and_extrema() {
    check("b32", &["b32"], "abs.s32 d, a;", &[&[M1, 1], &[5, 5], &[0x8000_0000, 0x8000_0000]]);
    check("b32", &["b32"], "neg.s32 d, a;", &[&[1, M1], &[0, 0]]);
    check("b32", &["b32", "b32"], "min.s32 d, a, b;", &[&[M1, 1, M1]]);
    check("b32", &["b32", "b32"], "min.u32 d, a, b;", &[&[M1, 1, 1]]);
    check("b64", &["b64", "b64"], "max.s64 d, a, b;", &[&[M1_64, 1, 1]]);
    check("b32", &["b32", "b32", "b32"], "sad.s32 d, a, b, c;", &[&[M1, 2, 10, 13]]);
}

#[test]
fn logic() {
    check("b32", &["b32", "b32"], "and.b32 d, a, b;", &[&[12, 10, 8]]);
    check("b32", &["b32", "b32"], "or.b32 d, a, b;", &[&[12, 10, 14]]);
    check("b64", &["b64", "b64"], "xor.b64 d, a, b;", &[&[12, 10, 6]]);
    check("b16", &["b16"], "not.b16 d, a;", &[&[1, 0xfffe]]);
    check("b32", &["b32"], "cnot.b32 d, a;", &[&[0, 1], &[7, 0]]);
    let (a, b, c) = (0xf0f0_f0f0_u64, 0xcccc_cccc_u64, 0xaaaa_aaaa_u64);
    check("b32", &["b32", "b32", "b32"], "lop3.b32 d, a, b, c, 0x96;", &[&[a, b, c, a ^ b ^ c]]);
    check("b32", &["b32", "b32", "b32"], "lop3.b32 d, a, b, c, 0xca;", &[&[a, b, c, a & b | !a & M1 & c]]);
}

#[test]
fn shift_amounts_are_clamped() {
    check("b32", &["b32", "b32"], "shl.b32 d, a, b;", &[&[1, 4, 16], &[1, 32, 0], &[1, 200, 0]]);
    check("b32", &["b32", "b32"], "shr.u32 d, a, b;", &[&[M1, 31, 1], &[M1, 32, 0]]);
    check(
        "b32",
        &["b32", "b32"],
        "shr.s32 d, a, b;",
        &[&[M1, 100, M1], &[0x4000_0000, 100, 0], &[0x8000_0000, 4, 0xf800_0000]],
    );
    check("b64", &["b64", "b32"], "shl.b64 d, a, b;", &[&[1, 63, 1 << 63], &[1, 64, 0]]);
    check("b16", &["b16", "b32"], "shr.s16 d, a, b;", &[&[0x8000, 3, 0xf000]]);
    check("b32", &["b32", "b32", "b32"], "shf.l.wrap.b32 d, a, b, c;", &[&[0x8000_0000, 1, 33, 3]]);
    check("b32", &["b32", "b32", "b32"], "shf.r.clamp.b32 d, a, b, c;", &[&[2, 1, 1, 0x8000_0001], &[2, 1, 40, 1]]);
    check("b32", &["b32", "b32", "b32"], "shf.l.clamp.b32 d, a, b, c;", &[&[0x1234, 1, 32, 0x1234]]);
}

#[test]
fn bit_fields() {
    check("b32", &["b32"], "popc.b32 d, a;", &[&[0xff, 8]]);
    check("b32", &["b64"], "clz.b64 d, a;", &[&[1, 63], &[0, 64]]);
    check("b32", &["b32"], "clz.b32 d, a;", &[&[1, 31], &[0, 32]]);
    check("b32", &["b32"], "brev.b32 d, a;", &[&[1, 0x8000_0000]]);
    check("b32", &["b32"], "bfind.u32 d, a;", &[&[0x10, 4], &[0, M1]]);
    check("b32", &["b32"], "bfind.s32 d, a;", &[&[M1, M1], &[M1 - 1, 0]]);
    check("b32", &["b32"], "bfind.shiftamt.u32 d, a;", &[&[0x10, 27]]);
    check(
        "b32",
        &["b32", "b32", "b32"],
        "bfe.u32 d, a, b, c;",
        &[&[0xabcd_1234, 8, 8, 0x12], &[M1, 28, 8, 0xf], &[M1, 4, 0, 0]],
    );
    check(
        "b32",
        &["b32", "b32", "b32"],
        "bfe.s32 d, a, b, c;",
        &[&[0x80, 4, 4, M1 - 7], &[0x8000_0000, 28, 8, M1 - 7]],
    );
    check(
        "b32",
        &["b32", "b32", "b32", "b32"],
        "bfi.b32 d, a, b, c, e;",
        &[&[0xf, 0, 8, 4, 0xf00], &[M1, 0, 28, 8, 0xf000_0000]],
    );
    check("b32", &["b32", "b32"], "bmsk.clamp.b32 d, a, b;", &[&[4, 8, 0xff0], &[0, 40, M1]]);
}

#[test]
fn permutation_of_bytes() {
    let (a, b) = (0x3322_1180, 0x7766_5544);
    check(
        "b32",
        &["b32", "b32", "b32"],
        "prmt.b32 d, a, b, c;",
        &[&[a, b, 0x7531, 0x7755_3311], &[a, b, 0x5410, 0x5544_1180]],
    );
    check("b32", &["b32", "b32", "b32"], "prmt.b32 d, a, b, c;", &[&[a, b, 0x8888, M1]]);
    check("b32", &["b32", "b32", "b32"], "prmt.b32.f4e d, a, b, c;", &[&[a, b, 1, 0x4433_2211]]);
    check("b32", &["b32", "b32", "b32"], "prmt.b32.b4e d, a, b, c;", &[&[a, b, 1, 0x6677_8011]]);
}

#[test]
fn dot_products() {
    check("b32", &["b32", "b32", "b32"], "dp4a.u32.u32 d, a, b, c;", &[&[0x0102_0304, 0x0101_0101, 5, 15]]);
    check("b32", &["b32", "b32", "b32"], "dp4a.s32.s32 d, a, b, c;", &[&[0xff, 2, 5, 3]]);
    check("b32", &["b32", "b32", "b32"], "dp2a.lo.s32.s32 d, a, b, c;", &[&[0x0002_0003, 0x0909_0201, 1, 8]]);
}

#[test]
fn comparisons_and_selections() {
    let select = |test: &str| format!("{test} p, a, b; selp.b32 d, 1, 0, p;");
    check("b32", &["b32", "b32"], &select("setp.lt.s32"), &[&[M1, 0, 1], &[0, 0, 0]]);
    check("b32", &["b32", "b32"], &select("setp.lt.u32"), &[&[M1, 0, 0], &[0, 1, 1]]);
    check("b32", &["b32", "b32"], &select("setp.hs.u32"), &[&[M1, 0, 1], &[0, 1, 0]]);
    let both = "setp.eq.and.s32 p|q, a, b, 1; selp.b32 d, 1, 0, p; @q add.u32 d, d, 2;";
    let combined = format!("setp.ne.s32 p, a, 0; {}", both.replace(", 1;", ", p;"));
    check("b32", &["b32", "b32"], &combined, &[&[0, 0, 0], &[4, 4, 1], &[4, 5, 2]]);
    check("b32", &["b32", "b32"], "set.le.u32.s32 d, a, b;", &[&[1, 2, M1], &[2, 1, 0]]);
    check("b32", &["b32", "b32"], "set.gt.f32.s32 d, a, b;", &[&[2, 1, 0x3f80_0000]]);
    check("b32", &["b32", "b32", "b32"], "slct.u32.s32 d, a, b, c;", &[&[1, 2, 0, 1], &[1, 2, M1, 2]]);
}
