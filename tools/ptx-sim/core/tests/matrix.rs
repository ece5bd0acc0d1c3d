//! Matrix instructions against a plain matrix product, with the fragment layouts of the PTX ISA.

use crate::common::{Kernel, bytes, words};

/// Small numbers as halves: index i stands for (i mod 7) − 3.
fn small(index: usize) -> f32 {
    (index % 7) as f32 - 3.0
}

/// An f16 with a small integer value.
fn half_bits(value: f32) -> u32 {
    let magnitude = match value.abs() as u32 {
        0 => 0,
        1 => 0x3c00,
        2 => 0x4000,
        _ => 0x4200,
    };
    magnitude | if value < 0.0 { 0x8000 } else { 0 }
}

fn bfloat_bits(value: f32) -> u32 {
    value.to_bits() >> 16
}

/// The registers of one lane: A row-major 16×k, B k×8, each pair of neighbours in one register.
fn fragments(lane: usize, depth: usize, bits: fn(f32) -> u32) -> (Vec<u32>, Vec<u32>) {
    let pair = |value: &dyn Fn(usize) -> f32| bits(value(0)) | bits(value(1)) << 16;
    let (group, thread) = (lane / 4, lane % 4);
    let a = |row: usize, column: usize| pair(&|half| small(row * 31 + (column + half) * 5));
    let b = |row: usize| pair(&|half| small((row + half) * 17 + group * 3));
    let mut a_registers = vec![a(group, thread * 2), a(group + 8, thread * 2)];
    let mut b_registers = vec![b(thread * 2)];
    if depth == 16 {
        a_registers.extend([a(group, thread * 2 + 8), a(group + 8, thread * 2 + 8)]);
        b_registers.push(b(thread * 2 + 8));
    }
    (a_registers, b_registers)
}

fn product(row: usize, column: usize, depth: usize) -> f32 {
    let addend = small(row + column);
    (0..depth).map(|k| small(row * 31 + k * 5) * small(k * 17 + column * 3)).sum::<f32>() + addend
}

fn multiply(kind: &str, depth: usize, bits: fn(f32) -> u32) {
    let mut input = Vec::new();
    for lane in 0..32 {
        let (mut a, mut b) = fragments(lane, depth, bits);
        a.resize(4, 0);
        b.resize(4, 0);
        let (group, thread) = (lane / 4, lane % 4);
        let c = |row: usize, column: usize| small(row + column).to_bits();
        let columns = [thread * 2, thread * 2 + 1];
        input.extend(a);
        input.extend(b);
        input.extend(columns.map(|column| c(group, column)));
        input.extend(columns.map(|column| c(group + 8, column)));
        input.extend([0; 4]);
    }
    let (a, b) = if depth == 16 { ("{%r0,%r1,%r2,%r3}", "{%r4,%r5}") } else { ("{%r0,%r1}", "{%r4}") };
    let body = format!(
        "mul.wide.u32 %rd0, %lane, 64; add.u64 %rd0, %rd0, %input; ld.global.v4.u32 {{%r0,%r1,%r2,%r3}}, [%rd0];\n\
         ld.global.v4.u32 {{%r4,%r5,%r6,%r7}}, [%rd0+16]; ld.global.v4.f32 {{%f0,%f1,%f2,%f3}}, [%rd0+32];\n\
         mma.sync.aligned.m16n8k{depth}.row.col.f32.{kind}.{kind}.f32 {{%f0,%f1,%f2,%f3}}, {a}, {b}, {{%f0,%f1,%f2,%f3}};\n\
         mul.wide.u32 %rd1, %lane, 16; add.u64 %rd1, %rd1, %output; st.global.v4.f32 [%rd1], {{%f0,%f1,%f2,%f3}};"
    );
    let output = words(&Kernel::new(&body).with_input(bytes(&input)).with_output_bytes(512).run_clean());
    for lane in 0..32 {
        let (group, thread) = (lane / 4, lane % 4);
        for index in 0..4 {
            let (row, column) = (group + 8 * (index / 2), thread * 2 + index % 2);
            let got = f32::from_bits(output[lane * 4 + index]);
            assert_eq!(got, product(row, column, depth), "{kind} k{depth}, row {row}, column {column}");
        }
    }
}

#[test]
fn products_of_halves_and_bfloats() {
    multiply("f16", 16, half_bits);
    multiply("f16", 8, half_bits);
    multiply("bf16", 16, bfloat_bits);
    multiply("bf16", 8, bfloat_bits);
}

#[test]
fn half_accumulators() {
    let body = "mov.b32 %r0, 0x3c003c00; mov.b32 %r1, 0x40003c00;\n\
        mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r2,%r3}, {%r0,%r0,%r0,%r0}, {%r0,%r0}, {%r1,%r1};\n\
        mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output; st.global.u32 [%rd0], %r2;";
    // 16 + 1 and 16 + 2.
    assert_eq!(words(&Kernel::new(body).with_output_bytes(128).run_clean()), [0x4c80_4c40; 32]);
}

#[test]
fn sums_of_a_product_are_rounded_once() {
    // 2^24 + 16 · 1 would lose every 1 if each sum were rounded to f32 in turn from a 24-bit mantissa start.
    let body = "mov.b32 %r0, 0x3c003c00; mov.f32 %f0, 0f4B800000;\n\
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r0,%r0,%r0,%r0}, {%r0,%r0}, {%f0,%f0,%f0,%f0};\n\
        st.global.f32 [%output], %f1;";
    let output = words(&Kernel::new(body).with_output_bytes(4).run_clean());
    assert_eq!(f32::from_bits(output[0]), 16_777_232.0);
}

/// Fills 1 KiB of shared memory with halves 0, 1, 2 …; loads or stores with lane l's row at 16·l.
const FILL: &str = ".shared .align 16 .b8 tile[1024]; mov.u32 %r20, tile; mul.lo.u32 %r21, %lane, 16; add.u32 %r22, %r20, %r21;\n\
    mul.lo.u32 %r23, %lane, 8; mov.u32 %r24, 0;\n\
    fill: mad.lo.u32 %r25, %r24, 2, %r23; shl.b32 %r26, %r24, 2; add.u32 %r26, %r26, %r22; add.u32 %r27, %r25, 1;\n\
    shl.b32 %r27, %r27, 16; or.b32 %r25, %r25, %r27; st.shared.u32 [%r26], %r25; add.u32 %r24, %r24, 1;\n\
    setp.lt.u32 %p0, %r24, 4; @%p0 bra fill; bar.warp.sync -1;";

fn loaded(modifiers: &str) -> Vec<u32> {
    let body = format!(
        "{FILL} ldmatrix.sync.aligned.m8n8.x4{modifiers}.shared.b16 {{%r0,%r1,%r2,%r3}}, [%r22];\n\
         mul.wide.u32 %rd0, %lane, 16; add.u64 %rd0, %rd0, %output; st.global.v4.u32 [%rd0], {{%r0,%r1,%r2,%r3}};"
    );
    words(&Kernel::new(&body).with_output_bytes(512).run_clean())
}

#[test]
fn loads_of_matrices() {
    let (plain, transposed) = (loaded(""), loaded(".trans"));
    let element = |matrix: usize, row: usize, column: usize| (matrix * 64 + row * 8 + column) as u32;
    for lane in 0..32 {
        let (slow, fast) = (lane / 4, lane % 4 * 2);
        for matrix in 0..4 {
            let expected = element(matrix, slow, fast) | element(matrix, slow, fast + 1) << 16;
            assert_eq!(plain[lane * 4 + matrix], expected, "lane {lane}, matrix {matrix}");
            let expected = element(matrix, fast, slow) | element(matrix, fast + 1, slow) << 16;
            assert_eq!(transposed[lane * 4 + matrix], expected, "lane {lane}, matrix {matrix}, transposed");
        }
    }
}

#[test]
fn rows_of_a_single_matrix_come_from_the_first_lanes() {
    let body = format!(
        "{FILL} setp.ge.u32 %p1, %lane, 8; @%p1 mov.u32 %r22, 3; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r0}}, [%r22];\n\
         mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output; st.global.u32 [%rd0], %r0;"
    );
    let output = words(&Kernel::new(&body).with_output_bytes(128).run_clean());
    assert_eq!(output[5], 10 | 11 << 16);
}
