//! Floating-point arithmetic and conversions: exact results, flushing, rounding, NaN.

use crate::common::{check, check_f32, evaluate};

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;
/// A subnormal.
const TINY: f32 = 1e-40;
/// Half a unit in the last place of 1.
const HALF_ULP: f32 = 1.0 / (1 << 24) as f32;
const ULP: f32 = 2.0 * HALF_ULP;

const CANONICAL_NAN: u64 = 0x7fff_ffff;

fn bits(value: f32) -> u64 {
    u64::from(value.to_bits())
}

#[test]
fn single_precision_is_ieee() {
    check_f32(
        2,
        "add.f32 d, a, b;",
        &[&[1.5, 2.25, 3.75], &[1.0, HALF_ULP, 1.0], &[TINY, 0.0, TINY], &[INF, 1.0, INF]],
    );
    check_f32(2, "sub.rn.f32 d, a, b;", &[&[1.0, 3.0, -2.0]]);
    check_f32(2, "mul.rn.f32 d, a, b;", &[&[1.1, 1.1, 1.1 * 1.1], &[1e30, 1e30, INF]]);
    check_f32(3, "fma.rn.f32 d, a, b, c;", &[&[1.0 + ULP, 1.0 + ULP, -1.0, (1.0 + ULP).mul_add(1.0 + ULP, -1.0)]]);
    check_f32(2, "div.rn.f32 d, a, b;", &[&[1.0, 3.0, 1.0 / 3.0], &[1.0, 0.0, INF]]);
    check_f32(1, "rcp.rn.f32 d, a;", &[&[3.0, 1.0 / 3.0]]);
    check_f32(1, "sqrt.rn.f32 d, a;", &[&[2.0, std::f32::consts::SQRT_2], &[16.0, 4.0]]);
    check("b32", &["b32", "b32"], "sub.f32 d, a, b;", &[&[bits(INF), bits(INF), CANONICAL_NAN]]);
}

#[test]
fn two_packed_singles_are_computed_each_as_one() {
    let values = [1.0 + ULP, -3.5, TINY, INF, NAN, 1e30, 0.1];
    let packed = |low: f32, high: f32| bits(low) | bits(high) << 32;
    for rounding in ["rn", "rz", "rm", "rp"] {
        for flush in ["", ".ftz"] {
            for (opcode, operands) in [("add", "a, b"), ("sub", "a, b"), ("mul", "a, b"), ("fma", "a, b, c")] {
                let form = format!("{opcode}.{rounding}{flush}");
                let cases: Vec<Vec<u64>> =
                    values.iter().map(|value| vec![bits(*value), bits(1.5), bits(0.3)]).collect();
                let single = evaluate("b32", &["b32"; 3], &format!("{form}.f32 d, {operands};"), &cases);
                let cases: Vec<Vec<u64>> = (0..values.len() - 1)
                    .map(|index| vec![packed(values[index], values[index + 1]), packed(1.5, 1.5), packed(0.3, 0.3)])
                    .collect();
                let both = evaluate("b64", &["b64"; 3], &format!("{form}.f32x2 d, {operands};"), &cases);
                for (index, result) in both.into_iter().enumerate() {
                    assert_eq!(result, single[index] | single[index + 1] << 32, "{form} of {:?}", values[index]);
                }
            }
        }
    }
}

#[test]
fn directed_rounding() {
    check_f32(2, "add.rz.f32 d, a, b;", &[&[1.0, HALF_ULP * 1.5, 1.0], &[-1.0, -HALF_ULP, -1.0]]);
    check_f32(2, "add.rp.f32 d, a, b;", &[&[1.0, 1e-30, 1.0 + ULP], &[-1.0, -1e-30, -1.0]]);
    check_f32(2, "add.rm.f32 d, a, b;", &[&[-1.0, -1e-30, -1.0 - ULP], &[1.0, 1e-30, 1.0]]);
    check_f32(2, "mul.rz.f32 d, a, b;", &[&[1.0 + ULP, 1.0 + ULP, 1.0 + 2.0 * ULP], &[1e30, 1e30, f32::MAX]]);
    check_f32(2, "mul.rp.f32 d, a, b;", &[&[1.0 + ULP, 1.0 + ULP, 1.0 + 3.0 * ULP]]);
    check_f32(3, "fma.rm.f32 d, a, b, c;", &[&[1.0, 1.0, -1e-30, 1.0 - HALF_ULP]]);
    check_f32(2, "div.rp.f32 d, a, b;", &[&[1.0, 3.0, f32::from_bits(0x3eaa_aaab)], &[6.0, 3.0, 2.0]]);
    check_f32(2, "div.rz.f32 d, a, b;", &[&[1.0, 3.0, f32::from_bits(0x3eaa_aaaa)]]);
    check_f32(1, "sqrt.rz.f32 d, a;", &[&[2.0, f32::from_bits(0x3fb5_04f3)]]);
    check_f32(1, "sqrt.rp.f32 d, a;", &[&[2.0, f32::from_bits(0x3fb5_04f4)]]);
}

#[test]
fn flushing_and_saturation() {
    check_f32(2, "add.ftz.f32 d, a, b;", &[&[TINY, TINY, 0.0], &[-TINY, 0.0, 0.0], &[1.0, TINY, 1.0]]);
    check_f32(2, "mul.ftz.f32 d, a, b;", &[&[1e-20, 1e-20, 0.0], &[-1e-20, 1e-20, -0.0]]);
    check_f32(
        2,
        "add.sat.f32 d, a, b;",
        &[&[0.75, 0.75, 1.0], &[-1.0, 0.5, 0.0], &[INF, -INF, 0.0], &[0.25, 0.25, 0.5]],
    );
    check_f32(1, "abs.ftz.f32 d, a;", &[&[-TINY, 0.0], &[-2.0, 2.0]]);
    check_f32(1, "neg.f32 d, a;", &[&[0.0, -0.0], &[TINY, -TINY]]);
}

#[test]
fn saturated_results_are_flushed() {
    check_f32(2, "mul.ftz.sat.f32 d, a, b;", &[&[1e-20, 1e-20, 0.0], &[0.5, 0.5, 0.25]]);
    check(
        "b32",
        &["b64"],
        "cvt.rn.ftz.sat.f32.f64 d, a;",
        &[&[1e-40_f64.to_bits(), 0], &[0.5_f64.to_bits(), bits(0.5)]],
    );
    check("b32", &["b32", "b32"], "mul.rn.ftz.sat.f16x2 d, a, b;", &[&[0x0400_3c00, 0x3800_3c00, 0x0000_3c00]]);
}

#[test]
fn zero_has_the_sign_of_the_rounding() {
    check_f32(2, "add.rm.f32 d, a, b;", &[&[1.0, -1.0, -0.0], &[0.0, 0.0, 0.0], &[-0.0, 0.0, -0.0]]);
    check_f32(2, "add.rp.f32 d, a, b;", &[&[1.0, -1.0, 0.0], &[-0.0, -0.0, -0.0]]);
    check_f32(3, "fma.rm.f32 d, a, b, c;", &[&[-2.0, 0.0, 0.0, -0.0]]);
}

#[test]
fn nan_payloads() {
    check("b32", &["b32"], "neg.f32 d, a;", &[&[0x7fc0_0000, CANONICAL_NAN]]);
    check("b32", &["b32"], "abs.f16x2 d, a;", &[&[0xfe00_bc00, 0x7fff_3c00]]);
    check("b32", &["b64"], "cvt.rn.f32.f64 d, a;", &[&[0xfff5_89aa_1f43_ddaa, 0xffec_4d50]]);
    check("b64", &["b32"], "cvt.f64.f32 d, a;", &[&[0x7f80_0001, 0x7ff8_0000_2000_0000]]);
    check("b64", &["b32"], "cvt.ftz.f64.f32 d, a;", &[&[0x7f80_0001, 0x7fff_ffff_e000_0000]]);
    check("b32", &["b16"], "cvt.f32.f16 d, a;", &[&[0x7e00, CANONICAL_NAN]]);
}

#[test]
fn approximate_division_by_large_numbers_is_zero() {
    check_f32(2, "div.approx.f32 d, a, b;", &[&[1e38, 1.5e38, 0.0], &[-1.0, 1.5e38, -0.0], &[6.0, 3.0, 2.0]]);
    check_f32(2, "div.full.f32 d, a, b;", &[&[1.5e38, 1.5e38, 1.0]]);
}

#[test]
fn extrema_treat_nan_and_zero_as_ptx_says() {
    check_f32(
        2,
        "max.f32 d, a, b;",
        &[&[NAN, 1.0, 1.0], &[2.0, NAN, 2.0], &[-0.0, 0.0, 0.0], &[0.0, -0.0, 0.0], &[-INF, 3.0, 3.0]],
    );
    check_f32(2, "min.f32 d, a, b;", &[&[0.0, -0.0, -0.0], &[-0.0, 0.0, -0.0], &[1.0, 2.0, 1.0]]);
    check(
        "b32",
        &["b32", "b32"],
        "max.NaN.f32 d, a, b;",
        &[&[bits(NAN), bits(1.0), CANONICAL_NAN], &[bits(1.0), bits(2.0), bits(2.0)]],
    );
    check("b32", &["b32", "b32"], "max.f32 d, a, b;", &[&[bits(NAN), bits(NAN), CANONICAL_NAN]]);
}

#[test]
fn approximations_are_rounded_once() {
    check_f32(
        1,
        "ex2.approx.ftz.f32 d, a;",
        &[&[3.0, 8.0], &[-1.0, 0.5], &[-INF, 0.0], &[0.5, std::f32::consts::SQRT_2], &[-140.0, 0.0]],
    );
    check_f32(1, "ex2.approx.f32 d, a;", &[&[-140.0, f32::from_bits(1 << 9)]]);
    check_f32(1, "lg2.approx.ftz.f32 d, a;", &[&[8.0, 3.0], &[0.0, -INF], &[TINY, -INF]]);
    check_f32(1, "rcp.approx.ftz.f32 d, a;", &[&[4.0, 0.25], &[0.0, INF], &[-0.0, -INF]]);
    check_f32(1, "rsqrt.approx.f32 d, a;", &[&[4.0, 0.5]]);
    check_f32(1, "sin.approx.f32 d, a;", &[&[0.0, 0.0]]);
    check_f32(1, "tanh.approx.f32 d, a;", &[&[0.0, 0.0], &[INF, 1.0]]);
    check_f32(2, "div.approx.f32 d, a, b;", &[&[1.0, 4.0, 0.25]]);
    check_f32(2, "div.full.f32 d, a, b;", &[&[3.0, 4.0, 0.75]]);
}

#[test]
fn double_precision() {
    let cases = |a: f64, b: f64, r: f64| [a.to_bits(), b.to_bits(), r.to_bits()];
    check("b64", &["b64", "b64"], "add.f64 d, a, b;", &[&cases(0.1, 0.2, 0.1 + 0.2)]);
    check("b64", &["b64", "b64"], "div.rn.f64 d, a, b;", &[&cases(1.0, 3.0, 1.0 / 3.0)]);
    check("b64", &["b64", "b64"], "max.f64 d, a, b;", &[&cases(1.0, f64::NAN, 1.0)]);
}

#[test]
fn packed_halves() {
    // 1.5 and 2.0 above 0.5 and -1.0.
    let (a, b) = (0x3e00_3800, 0x4000_bc00);
    check("b32", &["b32", "b32"], "add.rn.f16x2 d, a, b;", &[&[a, b, 0x4300_b800]]);
    check("b32", &["b32", "b32"], "mul.f16x2 d, a, b;", &[&[a, b, 0x4200_b800]]);
    check("b32", &["b32", "b32", "b32"], "fma.rn.f16x2 d, a, b, c;", &[&[a, b, 0x3c00_3c00, 0x4400_3800]]);
    check("b32", &["b32", "b32", "b32"], "fma.rn.relu.f16x2 d, a, b, c;", &[&[a, b, 0, 0x4200_0000]]);
    check(
        "b32",
        &["b32", "b32"],
        "max.f16x2 d, a, b;",
        &[&[a, b, 0x4000_3800], &[0x7e00_7e00, 0x3c00_7e00, 0x3c00_7fff]],
    );
    check("b16", &["b16", "b16"], "add.f16 d, a, b;", &[&[0x3c00, 0x3c00, 0x4000], &[0x7bff, 0x7bff, 0x7c00]]);
    check(
        "b32",
        &["b32", "b32", "b32"],
        "fma.rn.bf16x2 d, a, b, c;",
        &[&[0x3f80_4000, 0x4000_4000, 0x3f80_3f80, 0x4040_40a0]],
    );
    check("b32", &["b32"], "neg.f16x2 d, a;", &[&[a, 0xbe00_b800]]);
    check("b32", &["b32"], "ex2.approx.f16x2 d, a;", &[&[0x4000_0000, 0x4400_3c00]]);
}

#[test]
fn fused_multiply_add_of_halves_rounds_once() {
    // (1 + 2^-10)² = 1 + 2^-9 + 2^-20: the nearest half is 1 + 2^-9.
    check("b16", &["b16", "b16", "b16"], "fma.rn.f16 d, a, b, c;", &[&[0x3c01, 0x3c01, 0, 0x3c02]]);
    // 3 · 683 = 2049 is a tie between 2048 and 2050; the smallest subnormal breaks it.
    let tie = [(0, 0x6800), (1, 0x6801), (0x8001, 0x6800)];
    for (addend, sum) in tie {
        check("b16", &["b16", "b16", "b16"], "fma.rn.f16 d, a, b, c;", &[&[0x4200, 0x6156, addend, sum]]);
    }
    // 7 · 37 = 259 is a tie between 258 and 260; ±2^-100, far below the last place of an f64, breaks it.
    let tie = [(0, 0x4382), (0x0d80, 0x4382), (0x8d80, 0x4381)];
    for (addend, sum) in tie {
        check("b32", &["b32", "b32", "b32"], "fma.rn.bf16x2 d, a, b, c;", &[&[0x40e0, 0x4214, addend, sum]]);
    }
}

#[test]
fn comparisons_know_unordered() {
    let select = |test: &str| format!("{test} p, a, b; selp.b32 d, 1, 0, p;");
    let cases = |a: f32, b: f32, holds: u64| [bits(a), bits(b), holds];
    check(
        "b32",
        &["b32", "b32"],
        &select("setp.lt.f32"),
        &[&cases(1.0, 2.0, 1), &cases(NAN, 2.0, 0), &cases(0.0, -0.0, 0)],
    );
    check("b32", &["b32", "b32"], &select("setp.neu.f32"), &[&cases(1.0, 1.0, 0), &cases(NAN, 1.0, 1)]);
    check("b32", &["b32", "b32"], &select("setp.ne.f32"), &[&cases(NAN, 1.0, 0), &cases(2.0, 1.0, 1)]);
    check("b32", &["b32", "b32"], &select("setp.num.f32"), &[&cases(NAN, 1.0, 0), &cases(2.0, 1.0, 1)]);
    check("b32", &["b32", "b32"], &select("setp.eq.ftz.f32"), &[&cases(TINY, 0.0, 1)]);
    check("b32", &["b16", "b16"], &select("setp.gt.f16"), &[&[0x4000, 0x3c00, 1]]);
    check("b32", &["b32"], "testp.normal.f32 p, a; selp.b32 d, 1, 0, p;", &[&[bits(TINY), 0], &[bits(0.0), 1]]);
    check("b32", &["b32"], "testp.subnormal.f32 p, a; selp.b32 d, 1, 0, p;", &[&[bits(TINY), 1], &[bits(1.0), 0]]);
}

#[test]
fn float_to_float_conversions() {
    check(
        "b16",
        &["b32"],
        "cvt.rn.f16.f32 d, a;",
        &[
            &[bits(1.0), 0x3c00],
            &[bits(65519.0), 0x7bff],
            &[bits(65520.0), 0x7c00],
            &[bits(1.0 + 1.0 / 2048.0), 0x3c00],
            &[bits(1.0 + 3.0 / 2048.0), 0x3c02],
            &[bits(2.0_f32.powi(-24)), 1],
            &[bits(2.0_f32.powi(-25)), 0],
            &[bits(2.0_f32.powi(-25) * 1.5), 1],
            &[bits(NAN), 0x7fff],
            &[bits(-INF), 0xfc00],
        ],
    );
    check("b16", &["b32"], "cvt.rz.f16.f32 d, a;", &[&[bits(65520.0), 0x7bff], &[bits(1.9999), 0x3fff]]);
    check(
        "b16",
        &["b32"],
        "cvt.rn.bf16.f32 d, a;",
        &[&[bits(1.0), 0x3f80], &[bits(NAN), 0x7fff], &[0x3f80_8000, 0x3f80], &[0x3f81_8000, 0x3f82]],
    );
    check(
        "b32",
        &["b16"],
        "cvt.f32.f16 d, a;",
        &[&[1, bits(2.0_f32.powi(-24))], &[0x7c00, bits(INF)], &[0xc000, bits(-2.0)]],
    );
    check("b32", &["b32", "b32"], "cvt.rn.f16x2.f32 d, a, b;", &[&[bits(1.0), bits(2.0), 0x3c00_4000]]);
    check("b32", &["b32", "b32"], "cvt.rn.bf16x2.f32 d, a, b;", &[&[bits(1.0), bits(2.0), 0x3f80_4000]]);
    check("b32", &["b32", "b32"], "cvt.rn.relu.f16x2.f32 d, a, b;", &[&[bits(-1.0), bits(2.0), 0x0000_4000]]);
    check(
        "b32",
        &["b64"],
        "cvt.rn.f32.f64 d, a;",
        &[&[0.1_f64.to_bits(), bits(0.1)], &[1e300_f64.to_bits(), bits(INF)]],
    );
    check("b32", &["b64"], "cvt.rp.f32.f64 d, a;", &[&[(1.0_f64 + 1e-12).to_bits(), bits(1.0 + ULP)]]);
    check("b64", &["b32"], "cvt.f64.f32 d, a;", &[&[bits(0.5), 0.5_f64.to_bits()]]);
    check("b32", &["b32"], "cvt.rni.f32.f32 d, a;", &[&[bits(2.5), bits(2.0)], &[bits(3.5), bits(4.0)]]);
    check("b32", &["b32"], "cvt.sat.f32.f32 d, a;", &[&[bits(2.5), bits(1.0)], &[bits(NAN), 0]]);
}

#[test]
fn float_to_integer_conversions_clamp() {
    check(
        "b32",
        &["b32"],
        "cvt.rzi.s32.f32 d, a;",
        &[
            &[bits(-2.9), (-2_i32) as u32 as u64],
            &[bits(1e20), 0x7fff_ffff],
            &[bits(-1e20), 0x8000_0000],
            &[bits(NAN), 0],
        ],
    );
    check("b32", &["b32"], "cvt.rni.u32.f32 d, a;", &[&[bits(2.5), 2], &[bits(-3.0), 0]]);
    check("b32", &["b32"], "cvt.rpi.s32.f32 d, a;", &[&[bits(2.1), 3]]);
    check("b32", &["b32"], "cvt.rmi.s32.f32 d, a;", &[&[bits(-2.1), (-3_i32) as u32 as u64]]);
    check(
        "b64",
        &["b32"],
        "cvt.rzi.s64.f32 d, a;",
        &[&[bits(-1e10), (-1e10_f32 as i64) as u64], &[bits(NAN), 1 << 63]],
    );
    check("b16", &["b16"], "cvt.rzi.u16.f16 d, a;", &[&[0x4500, 5]]);
}

#[test]
fn integer_conversions() {
    check("b32", &["b32"], "cvt.rn.f32.s32 d, a;", &[&[0xffff_ffff, bits(-1.0)], &[0x0100_0001, bits(16_777_216.0)]]);
    check(
        "b32",
        &["b64"],
        "cvt.rn.f32.u64 d, a;",
        &[
            &[u64::MAX, bits(u64::MAX as f32)],
            &[(1 << 40) + (1 << 16) + 1, bits(((1_u64 << 40) + (1 << 16) + 1) as f32)],
        ],
    );
    check("b32", &["b64"], "cvt.rz.f32.s64 d, a;", &[&[u64::MAX >> 1, 0x5eff_ffff]]);
    let large = 0x3b42_9a38_0625_d059_u64;
    check("b64", &["b64"], "cvt.rn.f64.u64 d, a;", &[&[large, (large as f64).to_bits()]]);
    check("b64", &["b64"], "cvt.rz.f64.s64 d, a;", &[&[large.wrapping_neg(), 0xc3cd_a14d_1c03_12e8]]);
    check("b64", &["b64"], "cvt.rp.f64.u64 d, a;", &[&[large, 0x43cd_a14d_1c03_12e9]]);
    check("b16", &["b32"], "cvt.rn.f16.u32 d, a;", &[&[2049, 0x6800], &[100_000, 0x7c00]]);
    check("b64", &["b32"], "cvt.s64.s32 d, a;", &[&[0xffff_ffff, u64::MAX]]);
    check("b64", &["b32"], "cvt.u64.u32 d, a;", &[&[0xffff_ffff, 0xffff_ffff]]);
    check("b32", &["b64"], "cvt.u32.u64 d, a;", &[&[0x1_2345_6789, 0x2345_6789]]);
    check("b32", &["b32"], "cvt.s32.s8 d, a;", &[&[0x1ff, 0xffff_ffff]]);
    check("b32", &["b32"], "cvt.u32.u8 d, a;", &[&[0x1ff, 0xff]]);
    check("b32", &["b32"], "cvt.sat.u32.s32 d, a;", &[&[0xffff_ffff, 0], &[7, 7]]);
    check("b16", &["b32"], "cvt.sat.s16.s32 d, a;", &[&[70_000, 0x7fff], &[0x8000_0000, 0x8000]]);
}
