//! `wgmma` of numbers of 19 and 8 bits, of integers and of single bits, against plain sums.

use crate::common::{Kernel, words};

/// Bytes of a row of A and of a column of B.
const ROW: usize = 32;
/// Where B begins in shared memory.
const B: usize = 2048;

/// A type: its name, its elements of a row, and the bytes of one that stands for a small integer.
struct Kind {
    name: &'static str,
    elements: usize,
    encode: fn(i32) -> Vec<u8>,
}

const TF32: Kind = Kind { name: "tf32", elements: 8, encode: |value| (value as f32).to_le_bytes().to_vec() };
const E4M3: Kind = Kind { name: "e4m3", elements: 32, encode: |value| vec![small(value, 3, 7)] };
const E5M2: Kind = Kind { name: "e5m2", elements: 32, encode: |value| vec![small(value, 2, 15)] };
const S8: Kind = Kind { name: "s8", elements: 32, encode: |value| vec![value as i8 as u8] };
const U8: Kind = Kind { name: "u8", elements: 32, encode: |value| vec![value as u8] };

/// −3 to 3 in a format of 8 bits.
fn small(value: i32, fraction_bits: u32, bias: u32) -> u8 {
    let magnitude = value.unsigned_abs();
    let sign: u32 = if value < 0 { 0x80 } else { 0 };
    if magnitude == 0 {
        return sign as u8;
    }
    let exponent = magnitude.ilog2();
    let fraction = (magnitude - (1 << exponent)) << fraction_bits >> exponent;
    (sign | (bias + exponent) << fraction_bits | fraction) as u8
}

/// Shared memory with 64 rows of A and `columns` columns of B, each in core matrices of eight rows of 16 bytes.
fn operands(columns: usize, a: impl Fn(usize) -> Vec<u8>, b: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let mut data = vec![0; 16384];
    let mut put = |first: usize, row: usize, bytes: Vec<u8>| {
        assert_eq!(bytes.len(), ROW);
        for (index, byte) in bytes.into_iter().enumerate() {
            data[first + row / 8 * 256 + index / 16 * 128 + row % 8 * 16 + index % 16] = byte;
        }
    };
    (0..64).for_each(|row| put(0, row, a(row)));
    (0..columns).for_each(|column| put(B, column, b(column)));
    data
}

/// The words that each of the 128 threads has of the product of `form`, whose accumulators begin as `start`. `a` is `%rd1`, or the
/// registers of fragments.
fn run(form: &str, a: &str, rest: &str, count: usize, start: u32, input: Vec<u8>) -> Vec<u32> {
    let names: Vec<String> = (0..count).map(|index| format!("%acc{index}")).collect();
    let clear: String = names.iter().map(|name| format!("mov.b32 {name}, {start};\n")).collect();
    let store: String = (0..count).map(|index| format!("st.global.b32 [%rd5+{}], %acc{index};\n", 4 * index)).collect();
    // Register r of a fragment: bytes 4 (lane % 4) + 16 (r / 2) of row lane / 4 + 8 (r % 2) of the warp's 16.
    let fragments: String = (0..4)
        .map(|register| {
            format!("ld.shared.b32 %r{}, [%r20+{}];\n", 30 + register, register % 2 * 256 + register / 2 * 128)
        })
        .collect();
    let body = format!(
        ".shared .align 1024 .b8 tile[16384]; .reg .b32 %acc<{count}>; mov.u32 %r1, tile; shl.b32 %r2, %lane, 4;\n\
         fill: cvt.u64.u32 %rd3, %r2; add.u64 %rd3, %rd3, %input; ld.global.v4.u32 {{%r4,%r5,%r6,%r7}}, [%rd3];\n\
         add.u32 %r3, %r1, %r2; st.shared.v4.u32 [%r3], {{%r4,%r5,%r6,%r7}}; add.u32 %r2, %r2, 2048;\n\
         setp.lt.u32 %p0, %r2, 16384; @%p0 bra fill; fence.proxy.async; bar.sync 0;\n\
         shr.u32 %r20, %lane, 5; shl.b32 %r20, %r20, 9; and.b32 %r21, %lane, 31; shl.b32 %r21, %r21, 2; and.b32 %r22, %r21, 112;\n\
         and.b32 %r21, %r21, 15; add.u32 %r20, %r20, %r1; add.u32 %r20, %r20, %r21; add.u32 %r20, %r20, %r22;\n{fragments}\
         shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd1, %r1; add.u64 %rd2, %rd1, {}; or.b64 %rd1, %rd1, {descriptor};\n\
         or.b64 %rd2, %rd2, {descriptor}; mul.wide.u32 %rd5, %lane, {}; add.u64 %rd5, %rd5, %output; setp.eq.u32 %p1, 1, 1;\n{clear}\
         wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.{form} {{{}}}, {a}, %rd2, %p1{rest};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n{store}",
        B / 16,
        4 * count,
        names.join(","),
        descriptor = 8_u64 << 16 | 16 << 32,
    );
    let kernel = Kernel::new(&body).on_hopper().with_threads(128).with_input(input);
    words(&kernel.with_output_bytes(128 * 4 * count as u64).run_clean())
}

/// Row and column of the `index`-th accumulator of a thread.
fn place(thread: usize, index: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    (16 * warp + lane / 4 + index / 2 % 2 * 8, lane % 4 * 2 + index % 2 + index / 4 * 8)
}

fn a(row: usize, k: usize) -> i32 {
    ((row * 31 + k * 5) % 7) as i32 - 3
}

fn b(column: usize, k: usize) -> i32 {
    ((column * 3 + k * 17) % 5) as i32 - 2
}

/// The same without negative numbers where the type has none.
fn of(kind: &Kind, value: i32) -> i32 {
    if kind.name == "u8" { value + 3 } else { value }
}

fn input(first: &Kind, second: &Kind, columns: usize) -> Vec<u8> {
    let row = |kind: &Kind, value: &dyn Fn(usize) -> i32| {
        (0..kind.elements).flat_map(|k| (kind.encode)(of(kind, value(k)))).collect::<Vec<u8>>()
    };
    operands(columns, |index| row(first, &|k| a(index, k)), |index| row(second, &|k| b(index, k)))
}

fn product(first: &Kind, second: &Kind, row: usize, column: usize) -> i32 {
    (0..first.elements).map(|k| of(first, a(row, k)) * of(second, b(column, k))).sum()
}

const FRAGMENTS: &str = "{%r30, %r31, %r32, %r33}";

#[test]
fn numbers_of_19_and_8_bits() {
    for (first, second) in [(TF32, TF32), (E4M3, E4M3), (E5M2, E5M2), (E4M3, E5M2), (E5M2, E4M3)] {
        for (columns, from, rest, sign) in
            [(8, "%rd1", ", 1, 1", 1), (24, "%rd1", ", -1, 1", -1), (64, FRAGMENTS, ", 1, 1", 1)]
        {
            let depth = first.elements;
            let form = format!("m64n{columns}k{depth}.f32.{}.{}", first.name, second.name);
            let found = run(&form, from, rest, columns / 2, 1.0_f32.to_bits(), input(&first, &second, columns));
            for (position, word) in found.into_iter().enumerate() {
                let (row, column) = place(position / (columns / 2), position % (columns / 2));
                let expected = 1.0 + (sign * product(&first, &second, row, column)) as f32;
                assert_eq!(f32::from_bits(word), expected, "{form} {from}, row {row}, column {column}");
            }
        }
    }
}

#[test]
fn halves_of_numbers_of_8_bits() {
    let found = run("m64n16k32.f16.e4m3.e4m3", "%rd1", ", 1, 1", 4, 0, input(&E4M3, &E4M3, 16));
    for (position, word) in found.into_iter().enumerate() {
        for half in 0..2 {
            let (row, column) = place(position / 4, position % 4 * 2 + half);
            let bits = (word >> (16 * half) & 0xffff) as u16;
            let expected = product(&E4M3, &E4M3, row, column) as f32;
            // Integers up to 2^11 are exact.
            let magnitude = f32::from_bits((u32::from(bits & 0x7fff) << 13) + (112 << 23));
            let value = if bits & 0x7fff == 0 { 0.0 } else { magnitude } * if bits >> 15 == 1 { -1.0 } else { 1.0 };
            assert_eq!(value, expected, "row {row}, column {column}");
        }
    }
}

#[test]
fn sums_of_8_bits_keep_few_places() {
    // 2^10 · 1 + 31 products of 2^-4: each is 14 places below the largest, and lost.
    let encode =
        |first: i32| -> Vec<u8> { (0..32).map(|k| if k == 0 { (E5M2.encode)(first)[0] } else { 0x34 }).collect() };
    // 0x34 of e5m2 is 2^-2; 0x64 is 2^10.
    let a: Vec<u8> = encode(1).into_iter().enumerate().map(|(k, byte)| if k == 0 { 0x64 } else { byte }).collect();
    let found = run("m64n8k32.f32.e5m2.e5m2", "%rd1", ", 1, 1", 4, 0, operands(8, |_| a.clone(), |_| encode(1)));
    assert_eq!(f32::from_bits(found[0]), 1024.0);
    // An addend with more bits than the accumulator has loses them.
    let found =
        run("m64n8k32.f32.e5m2.e5m2", "%rd1", ", 1, 1", 4, 0x3f80_03ff, operands(8, |_| vec![0; 32], |_| vec![0; 32]));
    assert_eq!(found[0], 0x3f80_0000);
}

#[test]
fn integers() {
    for (first, second) in [(S8, S8), (U8, S8), (S8, U8), (U8, U8)] {
        for (columns, from) in [(8, "%rd1"), (24, FRAGMENTS), (48, "%rd1")] {
            let form = format!("m64n{columns}k32.s32.{}.{}", first.name, second.name);
            let found = run(&form, from, "", columns / 2, 5, input(&first, &second, columns));
            for (position, word) in found.into_iter().enumerate() {
                let (row, column) = place(position / (columns / 2), position % (columns / 2));
                assert_eq!(
                    word as i32,
                    5 + product(&first, &second, row, column),
                    "{form}, row {row}, column {column}"
                );
            }
        }
    }
    let clamped = run("m64n8k32.satfinite.s32.u8.u8", "%rd1", "", 4, i32::MAX as u32, input(&U8, &U8, 8));
    assert_eq!(clamped, [i32::MAX as u32; 512]);
}

#[test]
fn single_bits() {
    let bits = |index: usize, factor: u32| -> Vec<u8> {
        (0..8_u32).flat_map(|word| (word * factor + index as u32).wrapping_mul(0x9e37_79b9).to_le_bytes()).collect()
    };
    let data = operands(16, |row| bits(row, 3), |column| bits(column, 7));
    let found = run("m64n16k256.s32.b1.b1.and.popc", "%rd1", "", 8, 100, data);
    for (position, word) in found.into_iter().enumerate() {
        let (row, column) = place(position / 8, position % 8);
        let ones: u32 = bits(row, 3).iter().zip(bits(column, 7)).map(|(a, b)| (a & b).count_ones()).sum();
        assert_eq!(word, 100 + ones, "row {row}, column {column}");
    }
}

#[test]
fn what_there_is_not_is_refused() {
    for form in [
        "m64n8k16.f32.tf32.tf32",
        "m64n8k32.f16.tf32.tf32",
        "m64n40k32.s32.s8.s8",
        "m64n8k32.s32.s8.e4m3",
        "m64n8k256.s32.b1.b1.xor.popc",
        "m64n8k256.s32.b1.b1",
        "m64n8k32.satfinite.f32.e4m3.e4m3",
    ] {
        let body = format!("wgmma.mma_async.sync.aligned.{form} {{%r0, %r1, %r2, %r3}}, %rd1, %rd2, %p1;");
        let Err(error) = Kernel::new(&body).on_hopper().with_threads(128).try_run() else { panic!("{form} ran") };
        assert!(error.to_string().contains(form), "{error}");
    }
}
