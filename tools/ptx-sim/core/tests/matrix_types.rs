//! Products of matrices of the types that `mma` and `wmma` have besides f16 and bf16.

use crate::common::{Kernel, words};

/// Bytes of a row of A and of a column of B in the widest shapes.
const LINE: usize = 32;
const ROWS: usize = 16;
const COLUMNS: usize = 8;

/// A, row after row, and then B, column after column, of pseudo-random bytes.
fn lines(keep: impl Fn(u8) -> u8) -> Vec<u8> {
    let mut state = 0x1234_5678_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        keep((state >> 24) as u8)
    };
    (0..(ROWS + COLUMNS) * LINE).map(|_| next()).collect()
}

/// Executes `form` on fragments that `ldmatrix` makes of `input`, and a C of zeros; D, row after row.
fn multiply(form: &str, input: &[u8]) -> Vec<u32> {
    let body = format!(
        ".shared .align 16 .b8 tile[{}];
         mov.u32 %r0, tile;
         mul.lo.u32 %r1, %lane, 24; cvt.u64.u32 %rd1, %r1; add.u64 %rd1, %input, %rd1; add.u32 %r1, %r0, %r1;
         ld.global.b64 %rd2, [%rd1]; st.shared.b64 [%r1], %rd2; ld.global.b64 %rd2, [%rd1+8]; st.shared.b64 [%r1+8], %rd2;
         ld.global.b64 %rd2, [%rd1+16]; st.shared.b64 [%r1+16], %rd2;
         bar.sync 0;
         and.b32 %r2, %lane, 15; shr.u32 %r3, %lane, 4; mad.lo.u32 %r2, %r2, 32, %r0; mad.lo.u32 %r2, %r3, 16, %r2;
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r2];
         and.b32 %r2, %lane, 7; shr.u32 %r3, %lane, 3; and.b32 %r3, %r3, 1; mad.lo.u32 %r2, %r2, 32, %r0; mad.lo.u32 %r2, %r3, 16, %r2;
         ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r14, %r15}}, [%r2+{}];
         {form};
         shr.u32 %r2, %lane, 2; and.b32 %r3, %lane, 3; mul.lo.u32 %r2, %r2, 32; mad.lo.u32 %r2, %r3, 8, %r2;
         cvt.u64.u32 %rd1, %r2; add.u64 %rd1, %output, %rd1;",
        (ROWS + COLUMNS) * LINE,
        ROWS * LINE
    );
    let (results, kind) =
        if form.contains(".f32") { ("%f0 %f1 %f2 %f3", "f32") } else { ("%r20 %r21 %r22 %r23", "u32") };
    let stores =
        results.split(' ').zip([0, 4, 256, 260]).map(|(name, at)| format!("st.global.{kind} [%rd1+{at}], {name};"));
    let body = body + &stores.collect::<String>();
    words(&Kernel::new(&body).with_input(input).with_output_bytes(512).on_hopper().run_clean())
}

/// Rows of A and columns of B as numbers, `bits` wide.
fn expected(input: &[u8], bits: usize, number: impl Fn(u64) -> f64) -> Vec<f64> {
    let line = |index: usize| -> Vec<f64> {
        let bytes = &input[index * LINE..][..LINE];
        let value = |element: usize| {
            let first = element * bits;
            let mut word = [0; 8];
            let count = bits.div_ceil(8);
            word[..count].copy_from_slice(&bytes[first / 8..][..count]);
            number(u64::from_le_bytes(word) >> (first % 8) & ((1 << bits) - 1))
        };
        (0..8 * LINE / bits).map(value).collect()
    };
    let products = (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| (row, column)));
    products.map(|(row, column)| line(row).iter().zip(line(ROWS + column)).map(|(a, b)| a * b).sum()).collect()
}

fn signed(bits: u32) -> impl Fn(u64) -> f64 {
    move |value| ((value << (64 - bits)) as i64 >> (64 - bits)) as f64
}

const INTEGERS: &str = "{%r20, %r21, %r22, %r23}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {0, 0, 0, 0}";
const FLOATS: &str =
    "{%f0, %f1, %f2, %f3}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {0f00000000, 0f00000000, 0f00000000, 0f00000000}";

fn integers(values: &[f64]) -> Vec<u32> {
    values.iter().map(|value| *value as i64 as u32).collect()
}

fn singles(values: &[f64]) -> Vec<u32> {
    values.iter().map(|value| (*value as f32).to_bits()).collect()
}

#[test]
fn integers_of_8_and_4_bits() {
    let input = lines(|byte| byte);
    let product = |form: &str| multiply(&format!("mma.sync.aligned.{form} {INTEGERS}"), &input);
    assert_eq!(product("m16n8k32.row.col.s32.s8.s8.s32"), integers(&expected(&input, 8, signed(8))));
    assert_eq!(product("m16n8k32.row.col.s32.u8.u8.s32"), integers(&expected(&input, 8, |value| value as f64)));
    assert_eq!(product("m16n8k64.row.col.s32.s4.s4.s32"), integers(&expected(&input, 4, signed(4))));
    assert_eq!(product("m16n8k64.row.col.s32.u4.u4.s32"), integers(&expected(&input, 4, |value| value as f64)));
}

#[test]
fn sums_of_integers_wrap_or_are_clamped() {
    let input = lines(|_| 0x7f);
    let product = |form: &str| {
        let full = INTEGERS.replace("{0, 0, 0, 0}", "{0x7fffffff, 0, 5, -1}");
        multiply(&format!("mma.sync.aligned.m16n8k32.row.col{form}.s32.s8.s8.s32 {full}"), &input)
    };
    let sum = 127 * 127 * 32_i32;
    assert_eq!(product("")[..2], [i32::MAX.wrapping_add(sum) as u32, sum as u32]);
    assert_eq!(product(".satfinite")[..2], [i32::MAX as u32, sum as u32]);
    assert_eq!(product("")[64..66], [sum as u32 + 5, sum as u32 - 1]);
}

#[test]
fn single_bits() {
    let input = lines(|byte| byte);
    let counts = |and: bool| {
        let bit = |index: usize| (0..LINE * 8).map(move |bit| (index * LINE + bit / 8, bit % 8));
        let count = |row: usize, column: usize| {
            let bits = bit(row).zip(bit(ROWS + column));
            bits.filter(|((a, shift), (b, _))| {
                let (a, b) = (input[*a] >> shift & 1, input[*b] >> shift & 1);
                if and { a & b == 1 } else { a != b }
            })
            .count() as u32
        };
        (0..ROWS * COLUMNS).map(|place| count(place / COLUMNS, place % COLUMNS)).collect::<Vec<u32>>()
    };
    for (name, and) in [("xor", false), ("and", true)] {
        let form = format!("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.{name}.popc {INTEGERS}");
        assert_eq!(multiply(&form, &input), counts(and), "{name}");
    }
}

#[test]
fn floats_of_8_bits() {
    // Small numbers, whose sums are exact.
    let e4m3 = |bits: u64| {
        let magnitude = match bits >> 3 & 15 {
            0 => (bits & 7) as f64 / 512.0,
            exponent => (8 + (bits & 7)) as f64 * 2.0_f64.powi(exponent as i32 - 10),
        };
        if bits & 0x80 == 0 { magnitude } else { -magnitude }
    };
    let input = lines(|byte| byte & 0x9f | 0x20);
    let form = format!("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {FLOATS}");
    assert_eq!(multiply(&form, &input), singles(&expected(&input, 8, e4m3)));
    // Sums of `.f16`, widened to be looked at.
    let form = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {%r20, %r21}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {0, 0};
                mov.b32 {%h0, %h1}, %r20; mov.b32 {%h2, %h3}, %r21; cvt.f32.f16 %f0, %h0; cvt.f32.f16 %f1, %h1;
                cvt.f32.f16 %f2, %h2; cvt.f32.f16 %f3, %h3";
    let small = lines(|byte| byte & 0x83 | 0x38);
    assert_eq!(multiply(form, &small), singles(&expected(&small, 8, e4m3)));
    // The first half of the depth.
    let mut half = input.clone();
    half.chunks_exact_mut(LINE).for_each(|line| line[16..].fill(0));
    let form = "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r10, %r11}, {%r14}, \
                {0f00000000, 0f00000000, 0f00000000, 0f00000000}";
    assert_eq!(multiply(form, &half), singles(&expected(&half, 8, e4m3)));
    let e5m2 = |bits: u64| {
        let magnitude = (4 + (bits & 3)) as f64 * 2.0_f64.powi((bits >> 2 & 31) as i32 - 17);
        if bits & 0x80 == 0 { magnitude } else { -magnitude }
    };
    let input = lines(|byte| byte & 0x87 | 0x38);
    let form = format!("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {FLOATS}");
    assert_eq!(multiply(&form, &input), singles(&expected(&input, 8, e5m2)));
}

#[test]
fn tf32() {
    let mut input = lines(|byte| byte);
    for (index, value) in input.chunks_exact_mut(4).enumerate() {
        // Whole numbers, and below the tenth place what does not count.
        let number = ((index * 37 % 64) as f32 - 31.0).to_bits() | 0x1fff;
        value.copy_from_slice(&number.to_le_bytes());
    }
    let number = |bits: u64| f64::from(f32::from_bits(bits as u32 & !0x1fff));
    let form = format!("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {FLOATS}");
    assert_eq!(multiply(&form, &input), singles(&expected(&input, 32, number)));
    // The first half of the depth.
    for line in input.chunks_exact_mut(LINE) {
        line[16..].fill(0);
    }
    let form = "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r10, %r11}, {%r14}, \
                {0f00000000, 0f00000000, 0f00000000, 0f00000000}";
    assert_eq!(multiply(form, &input), singles(&expected(&input, 32, number)));
}

#[test]
fn narrow_shapes_are_parts_of_wide_ones() {
    let mut input = lines(|byte| byte);
    for line in input.chunks_exact_mut(LINE) {
        line[16..].fill(0);
    }
    let half = "{%r20, %r21, %r22, %r23}, {%r10, %r11}, {%r14}, {0, 0, 0, 0}";
    for (wide, narrow) in [
        ("m16n8k32.row.col.s32.s8.u8.s32", "m16n8k16.row.col.s32.s8.u8.s32"),
        ("m16n8k64.row.col.s32.u4.s4.s32", "m16n8k32.row.col.s32.u4.s4.s32"),
        ("m16n8k256.row.col.s32.b1.b1.s32.and.popc", "m16n8k128.row.col.s32.b1.b1.s32.and.popc"),
    ] {
        let whole = multiply(&format!("mma.sync.aligned.{wide} {INTEGERS}"), &input);
        assert_eq!(multiply(&format!("mma.sync.aligned.{narrow} {half}"), &input), whole, "{narrow}");
        // The upper eight rows alone.
        let upper = narrow.replace("m16n8", "m8n8");
        let body = format!(
            "mov.b32 %r22, 0; mov.b32 %r23, 0; mma.sync.aligned.{upper} {{%r20, %r21}}, {{%r10}}, {{%r14}}, {{0, 0}}"
        );
        assert_eq!(multiply(&body, &input)[..64], whole[..64], "{upper}");
    }
}

#[test]
fn doubles() {
    // A is 8×4, B 4×8; a lane has one element of each.
    let number = |row: usize, column: usize| (row * 3 + column) as f64 * 0.5 - 2.0;
    let body = "mul.wide.u32 %rd1, %lane, 16; add.u64 %rd1, %input, %rd1;
        .reg .f64 a, b, d<2>; ld.global.f64 a, [%rd1]; ld.global.f64 b, [%rd1+8];
        mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {d0, d1}, {a}, {b}, {0d3FF0000000000000, 0d0000000000000000};
        mul.wide.u32 %rd1, %lane, 16; add.u64 %rd1, %output, %rd1; st.global.f64 [%rd1], d0; st.global.f64 [%rd1+8], d1;";
    let lane = |lane: usize| [number(lane / 4, lane % 4), number(lane % 4, lane / 4)];
    let input: Vec<u8> = (0..32).flat_map(lane).flat_map(f64::to_le_bytes).collect();
    let output = Kernel::new(body).with_input(input).with_output_bytes(512).run_clean();
    let results = output.chunks_exact(8).map(|value| f64::from_le_bytes(value.try_into().expect("eight bytes")));
    for (place, result) in results.enumerate() {
        let (row, column) = (place / 8, place % 8);
        let sum: f64 = (0..4).map(|depth| number(row, depth) * number(depth, column)).sum();
        assert_eq!(result, sum + if column % 2 == 0 { 1.0 } else { 0.0 }, "row {row}, column {column}");
    }
}

#[test]
fn movmatrix_transposes() {
    let body = "mul.lo.u32 %r0, %lane, 2; add.u32 %r1, %r0, 1; shl.b32 %r1, %r1, 16; or.b32 %r0, %r0, %r1;
        movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r0;
        mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %output, %rd0; st.global.u32 [%rd0], %r0;";
    let expected = (0..32_u32).map(|lane| {
        let place = |row: u32, column: u32| row * 8 + column;
        place(lane % 4 * 2, lane / 4) | place(lane % 4 * 2 + 1, lane / 4) << 16
    });
    assert_eq!(words(&Kernel::new(body).run_clean())[..32], expected.collect::<Vec<u32>>());
}

/// Loads A and B of small whole numbers, multiplies, stores; D row after row.
fn wmma(shape: [usize; 3], layouts: [&str; 2], kind: &str, sum: &str, element: usize, input: Vec<u8>) -> Vec<u8> {
    let [m, n, k] = shape;
    let registers = |prefix: &str, elements: usize, f16: bool| {
        let count = if f16 { 8 } else { (elements * element / (32 * element.max(4))).max(1) };
        (0..count).map(|index| format!("{prefix}{index}")).collect::<Vec<_>>().join(", ")
    };
    let (a, b) = (registers("a", m * k, kind == "f16"), registers("b", n * k, kind == "f16"));
    let width = match sum {
        "f64" => 8,
        "f16" => 2,
        _ => 4,
    };
    let count = m * n / 32 * width / width.max(4);
    let list = |prefix: &str| (0..count).map(|index| format!("{prefix}{index}")).collect::<Vec<_>>().join(", ");
    let (c, d) = (list("c"), list("d"));
    let register = |kind: &str| match kind {
        "f32" => ".f32",
        "f64" => ".f64",
        _ => ".b32",
    };
    let shape = format!("m{m}n{n}k{k}");
    let [rows, columns] = layouts;
    let types = if kind == "f16" { format!("{sum}.{sum}") } else { format!("{sum}.{kind}.{kind}.{sum}") };
    let body = format!(
        ".reg {} a<8>, b<8>; .reg {} c<8>, d<8>;
         wmma.load.a.sync.aligned.{rows}.{shape}.global.{kind} {{{a}}}, [%input];
         wmma.load.b.sync.aligned.{columns}.{shape}.global.{kind} {{{b}}}, [%input+{}];
         wmma.load.c.sync.aligned.row.{shape}.global.{sum} {{{c}}}, [%input+2048];
         wmma.mma.sync.aligned.{rows}.{columns}.{shape}.{types} {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};
         wmma.store.d.sync.aligned.row.{shape}.global.{sum} [%output], {{{d}}}, {n};",
        register(if kind == "f64" { kind } else { "b32" }),
        register(sum),
        m * k * element,
    );
    Kernel::new(&body).with_input(input).with_output_bytes((m * n * width) as u64).run_clean()
}

#[test]
fn wmma_of_bytes_in_every_shape_and_layout() {
    let number = |index: usize| (index * 29 % 17) as i32 - 8;
    for shape in [[16, 16, 16], [32, 8, 16], [8, 32, 16]] {
        let [m, n, k] = shape;
        for layouts in [["row", "col"], ["col", "row"], ["row", "row"], ["col", "col"]] {
            let bytes = (0..m * k + n * k).map(|index| number(index) as i8 as u8).collect::<Vec<u8>>();
            let mut input = vec![0; 4096];
            input[..bytes.len()].copy_from_slice(&bytes);
            for place in 0..m * n {
                input[2048 + 4 * place..][..4].copy_from_slice(&(place as i32).to_le_bytes());
            }
            let output = wmma(shape, layouts, "s8", "s32", 1, input);
            let a =
                |row: usize, depth: usize| number(if layouts[0] == "row" { row * k + depth } else { depth * m + row });
            let b = |depth: usize, column: usize| {
                number(m * k + if layouts[1] == "row" { depth * n + column } else { column * k + depth })
            };
            for (place, result) in words(&output).into_iter().enumerate() {
                let (row, column) = (place / n, place % n);
                let sum: i32 = (0..k).map(|depth| a(row, depth) * b(depth, column)).sum();
                assert_eq!(result as i32, sum + place as i32, "{shape:?} {layouts:?}: row {row}, column {column}");
            }
        }
    }
}

#[test]
fn wmma_of_halves_doubles_and_tf32() {
    let number = |index: usize| (index * 29 % 17) as f64 - 8.0;
    let half = |value: f64| {
        let bits = (value as f32).to_bits();
        if value == 0.0 {
            0
        } else {
            (bits >> 16 & 0x8000 | ((bits >> 23 & 0xff) - 112) << 10 | bits >> 13 & 0x3ff) as u16
        }
    };
    let cases: [([usize; 3], &str, &str, usize); 5] = [
        ([16, 16, 16], "f16", "f32", 2),
        ([32, 8, 16], "f16", "f16", 2),
        ([8, 32, 16], "bf16", "f32", 2),
        ([16, 16, 8], "tf32", "f32", 4),
        ([8, 8, 4], "f64", "f64", 8),
    ];
    for (shape, kind, sum, element) in cases {
        let [m, n, k] = shape;
        let encode = |value: f64| match kind {
            "f16" => half(value).to_le_bytes().to_vec(),
            "bf16" => (value as f32).to_le_bytes()[2..].to_vec(),
            "tf32" => (value as f32).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        };
        let mut input: Vec<u8> = (0..m * k + n * k).flat_map(|index| encode(number(index))).collect();
        input.resize(4096, 0);
        let output = wmma(shape, ["row", "col"], kind, sum, element, input);
        for place in 0..m * n {
            let total: f64 =
                (0..k).map(|depth| number(place / n * k + depth) * number(m * k + place % n * k + depth)).sum();
            let expected = match sum {
                "f16" => half(total).to_le_bytes().to_vec(),
                "f32" => (total as f32).to_le_bytes().to_vec(),
                _ => total.to_le_bytes().to_vec(),
            };
            assert_eq!(output[place * expected.len()..][..expected.len()], expected, "{shape:?} {kind}: {place}");
        }
    }
}

#[test]
fn wmma_of_4_bits() {
    let input = (0..4096_usize).map(|index| (index * 73 % 251) as u8).collect::<Vec<u8>>();
    let body = "wmma.load.a.sync.aligned.row.m8n8k32.global.s4 {%r0}, [%input];
        wmma.load.b.sync.aligned.col.m8n8k32.global.s4 {%r1}, [%input+128], 32;
        wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32 {%r2, %r3}, {%r0}, {%r1}, {0, 0};
        wmma.store.d.sync.aligned.col.m8n8k32.global.s32 [%output], {%r2, %r3}, 8;";
    let output = Kernel::new(body).with_input(input.clone()).run_clean();
    let number =
        |line: usize, index: usize| i32::from((input[line * 16 + index / 2] >> (4 * (index % 2)) << 4) as i8 >> 4);
    for (place, result) in words(&output).into_iter().enumerate() {
        let (column, row) = (place / 8, place % 8);
        let sum: i32 = (0..32).map(|depth| number(row, depth) * number(8 + column, depth)).sum();
        assert_eq!(result as i32, sum, "row {row}, column {column}");
    }
}
