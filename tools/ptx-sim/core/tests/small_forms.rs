//! Forms that compilers emit now and then.

use crate::common::{Kernel, check, words};
use ptx_sim::FindingClass;

fn double(value: f64) -> u64 {
    value.to_bits()
}

fn single(value: f32) -> u64 {
    u64::from(value.to_bits())
}

#[test]
fn doubles_in_directed_roundings() {
    let third = 1.0 / 3.0;
    let above = f64::next_up;
    // A third is rounded down to nearest.
    check("b64", &["b64", "b64"], "div.rp.f64 d, a, b;", &[&[double(1.0), double(3.0), double(above(third))]]);
    check("b64", &["b64", "b64"], "div.rz.f64 d, a, b;", &[&[double(-1.0), double(3.0), double(-third)]]);
    check("b64", &["b64"], "rcp.rm.f64 d, a;", &[&[double(-3.0), double(-above(third))]]);
    let tiny = 2.0_f64.powi(-80);
    check("b64", &["b64", "b64"], "add.rz.f64 d, a, b;", &[&[double(1.0), double(-tiny), double(1.0_f64.next_down())]]);
    check("b64", &["b64", "b64"], "sub.rm.f64 d, a, b;", &[&[double(1.0), double(tiny), double(1.0_f64.next_down())]]);
    check("b64", &["b64", "b64"], "mul.rp.f64 d, a, b;", &[&[double(5e-324), double(0.25), double(5e-324)]]);
    check("b64", &["b64", "b64"], "mul.rz.f64 d, a, b;", &[&[double(1e300), double(1e300), double(f64::MAX)]]);
    check("b64", &["b64"], "sqrt.rp.f64 d, a;", &[&[double(3.0), double(above(3.0_f64.sqrt()))]]);
    let fused = "fma.rp.f64 d, a, b, c;";
    check(
        "b64",
        &["b64", "b64", "b64"],
        fused,
        &[&[double(0.1), double(10.0), double(-1.0), double(2.0_f64.powi(-54))]],
    );
}

#[test]
fn approximations_of_doubles_keep_the_upper_half() {
    let cases: [(&str, f64, f64); 4] = [
        ("rcp", 3.0, 1.0 / 3.0),
        ("rcp", -0.0, f64::NEG_INFINITY),
        ("rsqrt", 0.25, 2.0),
        ("rsqrt", f64::INFINITY, 0.0),
    ];
    for (opcode, value, expected) in cases {
        let expected = double(expected) & 0xffff_ffff_0000_0000;
        check("b64", &["b64"], &format!("{opcode}.approx.ftz.f64 d, a;"), &[&[double(value), expected]]);
    }
}

#[test]
fn numbers_of_8_bits() {
    // 448 is the largest number of .e4m3, 57344 that of .e5m2.
    let to = |kind: &str| format!("cvt.rn.satfinite.{kind}x2.f32 d, a, b;");
    let cases: &[&[u64]] = &[
        &[single(1.0), single(-2.0), 0x38c0],
        &[single(1e9), single(f32::NEG_INFINITY), 0x7efe],
        &[single(f32::NAN), single(0.001), 0x7f01],
        // Ties to even.
        &[single(17.0), single(19.0), 0x585a],
    ];
    check("b16", &["b32", "b32"], &to("e4m3"), cases);
    let cases: &[&[u64]] = &[&[single(1.0), single(-2.0), 0x3cc0], &[single(1e9), single(-1e9), 0x7bfb]];
    check("b16", &["b32", "b32"], &to("e5m2"), cases);
    check("b16", &["b32"], "cvt.rn.satfinite.relu.e4m3x2.f16x2 d, a;", &[&[0x3c00_c000, 0x3800]]);
    check("b32", &["b16"], "cvt.rn.f16x2.e4m3x2 d, a;", &[&[0x38c0, 0x3c00_c000], &[0x7f01, 0x7fff_1800]]);
    check("b32", &["b16"], "cvt.rn.relu.f16x2.e5m2x2 d, a;", &[&[0x3cc0, 0x3c00_0000], &[0x7c01, 0x7c00_0100]]);
}

#[test]
fn tf32() {
    let half_ulp = 0x3f80_1000;
    check("b32", &["b32"], "cvt.rna.tf32.f32 d, a;", &[&[half_ulp, 0x3f80_2000], &[half_ulp - 1, 0x3f80_0000]]);
    check("b32", &["b32"], "cvt.rna.tf32.f32 d, a;", &[&[single(f32::INFINITY), single(f32::INFINITY)]]);
    let on_hopper = |form: &str, value: u64| {
        let body = format!("mov.b32 %f0, {value:#x}; {form} %r0, %f0; st.global.u32 [%output], %r0;");
        u64::from(words(&Kernel::new(&body).on_hopper().with_threads(1).run_clean())[0])
    };
    assert_eq!(on_hopper("cvt.rn.tf32.f32", half_ulp), 0x3f80_0000);
    assert_eq!(on_hopper("cvt.rn.tf32.f32", half_ulp + 0x2000), 0x3f80_4000);
    assert_eq!(on_hopper("cvt.rz.relu.tf32.f32", half_ulp | 0x8000_0000), 0);
}

#[test]
fn the_smaller_magnitude_with_the_sign_of_the_product() {
    let form = "min.xorsign.abs.f32 d, a, b;";
    check("b32", &["b32", "b32"], form, &[&[single(-2.0), single(3.0), single(-2.0)]]);
    check("b32", &["b32", "b32"], form, &[&[single(-3.0), single(-2.0), single(2.0)]]);
    let form = "max.NaN.xorsign.abs.f16x2 d, a, b;";
    check("b32", &["b32", "b32"], form, &[&[0x3c00_c000, 0xc000_3c00, 0xc000_c000], &[0x7e00_3c00, 0, 0x7fff_3c00]]);
}

#[test]
fn comparisons_of_two_halves() {
    // 1 and 2 against 2 and 1.
    let (a, b) = (0x3c00_4000, 0x4000_3c00);
    check("b32", &["b32", "b32"], "set.gt.f16x2.f16x2 d, a, b;", &[&[a, b, 0x0000_3c00]]);
    check("b32", &["b32", "b32"], "set.lt.u32.f16x2 d, a, b;", &[&[a, b, 0xffff_0000]]);
    let both = |form: &str| format!("{form} p|q, a, b; selp.b32 d, 1, 0, p; @q or.b32 d, d, 2;");
    check("b32", &["b32", "b32"], &both("setp.gt.f16x2"), &[&[a, b, 1], &[b, a, 2], &[a, a, 0]]);
    check("b32", &["b32", "b32"], &both("setp.le.bf16x2"), &[&[a, b, 2], &[b, a, 1], &[a, a, 3]]);
}

#[test]
fn bits_and_bytes() {
    check(
        "b32",
        &["b32", "b32"],
        "szext.clamp.s32 d, a, b;",
        &[&[0x88, 8, 0xffff_ff88], &[0x88, 99, 0x88], &[5, 0, 0]],
    );
    check("b32", &["b32", "b32"], "szext.wrap.u32 d, a, b;", &[&[0xff88, 40, 0x88]]);
    let find = "fns.b32 d, a, b, c;";
    let cases: &[&[u64]] = &[
        &[0b1011_0010, 0, 2, 4],
        &[0b1011_0010, 4, 0, 4],
        &[0b1011_0010, 3, 0, 0xffff_ffff],
        &[0b1011_0010, 7, 0xffff_fffe, 5],
        &[0b1011_0010, 0, 9, 0xffff_ffff],
    ];
    check("b32", &["b32", "b32", "b32"], find, cases);
    let bytes: &[&[u64]] = &[&[0x01ff_8010, 0x0201_7f20, 0, 0x01fe_0110]];
    check("b32", &["b32", "b32", "b32"], "vabsdiff4.u32.u32.u32 d, a, b, c;", bytes);
    let sum: &[&[u64]] = &[&[0x01ff_8010, 0x0201_7f20, 5, 1 + 0xfe + 1 + 0x10 + 5]];
    check("b32", &["b32", "b32", "b32"], "vabsdiff4.u32.u32.u32.add d, a, b, c;", sum);
    let clamped: &[&[u64]] = &[&[0x7f80_0102, 0x0180_0304, 0, 0x7f80_0406]];
    check("b32", &["b32", "b32", "b32"], "vadd4.s32.s32.s32.sat d, a, b, c;", clamped);
    let average: &[&[u64]] = &[&[0x0003_fffd, 0x0002_ffff, 0, 0x0003_fffe]];
    check("b32", &["b32", "b32", "b32"], "vavrg2.s32.s32.s32 d, a, b, c;", average);
}

#[test]
fn atomic_operations_on_halves_and_vectors() {
    // Two lanes add 1 and 2 to halves: what was there, and the sums.
    let body = "mov.b32 %r0, 0x40003c00; mov.b32 %r1, 0; st.global.u32 [%output], %r1;
        atom.global.add.noftz.f16x2 %r2, [%output], %r0; atom.global.add.noftz.f16x2 %r3, [%output], %r0;
        st.global.u32 [%output+4], %r3; mov.b16 %h0, 7; mov.b16 %h1, 9; st.global.u16 [%output+8], %h0;
        atom.global.cas.b16 %h2, [%output+8], %h0, %h1; st.global.u16 [%output+10], %h2;";
    assert_eq!(words(&Kernel::new(body).with_threads(1).run_clean())[..3], [0x4400_4000, 0x4000_3c00, 0x0007_0009]);
    let body = "mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f40000000; mov.f32 %f2, 0f00000000;
        st.global.v2.f32 [%output], {%f1, %f2}; atom.global.add.v2.f32 {%f3, %f4}, [%output], {%f0, %f1};
        st.global.v2.f32 [%output+8], {%f3, %f4}; red.global.add.v2.f32 [%output], {%f0, %f1};";
    let output = words(&Kernel::new(body).on_hopper().with_threads(1).run_clean());
    let values: Vec<f32> = output[..4].iter().map(|word| f32::from_bits(*word)).collect();
    assert_eq!(values, [4.0, 4.0, 2.0, 0.0]);
    let misaligned = body.replace("red.global.add.v2.f32 [%output]", "red.global.add.v2.f32 [%output+4]");
    Kernel::new(&misaligned).on_hopper().with_threads(1).run_faulty(FindingClass::Misaligned);
}

#[test]
fn values_of_128_bits() {
    // Lane by lane: who finds what the one before left, leaves its own.
    let body = ".reg .b128 %q<4>; .reg .b64 %next, %last; cvt.u64.u32 %last, %lane; add.u64 %next, %last, 1;
        mov.b64 %rd1, 77; mov.b128 %q0, {%last, %rd1}; mov.b128 %q1, {%next, %rd1};
        mov.b64 %rd2, 0; setp.ne.u32 %p1, %lane, 0; @!%p1 st.global.v2.b64 [%output], {%rd2, %rd1};
        bar.warp.sync -1; atom.global.cas.b128 %q2, [%output], %q0, %q1;
        mov.b128 %q3, %q2; mov.b128 {%rd3, %rd4}, %q3; sub.u64 %rd3, %rd3, %last; add.u64 %rd3, %rd3, %rd4;
        mul.wide.u32 %rd5, %lane, 8; add.u64 %rd5, %output, %rd5; st.global.u64 [%rd5+16], %rd3;";
    let output = words(&Kernel::new(body).with_output_bytes(16 + 256).run_clean());
    assert_eq!(output[..4], [32, 0, 77, 0]);
    assert!(output[4..].chunks_exact(2).all(|value| value == [77, 0]), "{output:?}");
    let body =
        ".reg .b128 %q<4>; mov.b64 %rd1, 5; mov.b64 %rd2, 6; mov.b128 %q0, {%rd1, %rd2}; mov.b128 %q1, {%rd2, %rd1};
        st.global.b128 [%output], %q0; atom.global.exch.b128 %q2, [%output], %q1; ld.global.b128 %q3, [%output];
        st.global.b128 [%output+16], %q2; st.global.b128 [%output+32], %q3;";
    let output = words(&Kernel::new(body).with_threads(1).run_clean());
    assert_eq!(output[..12], [6, 0, 5, 0, 5, 0, 6, 0, 6, 0, 5, 0]);
    let misaligned = body.replace("exch.b128 %q2, [%output]", "exch.b128 %q2, [%output+8]");
    Kernel::new(&misaligned).with_threads(1).run_faulty(FindingClass::Misaligned);
}

#[test]
fn discarded_bytes_hold_nothing() {
    let body = |offset: u32| {
        format!(
            "mov.u32 %r0, 1; st.global.u32 [%output], %r0; st.global.u32 [%output+128], %r0;
             discard.global.L2 [%output], 128; ld.global.u32 %r1, [%output+{offset}];
             setp.eq.u32 %p0, %r1, 1; @%p0 exit;"
        )
    };
    Kernel::new(&body(128)).with_threads(1).run_clean();
    Kernel::new(&body(0)).with_threads(1).run_faulty(FindingClass::Uninitialised);
    let body = body(128).replace("[%output], 128", "[%output+64], 128");
    Kernel::new(&body).with_threads(1).run_faulty(FindingClass::Misaligned);
}

#[test]
fn a_break_point_ends_the_kernel() {
    let finding = Kernel::new("setp.eq.u32 %p0, %lane, 3; @%p0 brkpt;").run_faulty(FindingClass::Trap);
    assert!(finding.message.contains("brkpt"), "{finding}");
}

#[test]
fn managed_variables_are_global_ones() {
    let body = "ld.global.u32 %r0, [counter]; st.global.u32 [%output], %r0;";
    let declared = ".visible .global .attribute(.managed) .align 4 .u32 counter = 3;\n";
    assert_eq!(words(&Kernel::new(body).with_variables(declared).with_threads(1).run_clean())[0], 3);
}
