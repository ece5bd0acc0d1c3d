//! `mma.sp` against dense products of the matrix that is meant, with metadata in the order in which PyTorch prepares it for CUTLASS.

use crate::common::{Kernel, bytes, words};
use ptx_sim::FindingClass;

const ROWS: usize = 16;
const COLUMNS: usize = 8;

/// A kind of element: its name, and how wide it is.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    bits: usize,
    /// The bits of a small integer.
    number: fn(i32) -> u32,
}

const F16: Kind =
    Kind { name: "f16", bits: 16, number: |value| [0xc000, 0xbc00, 0, 0x3c00, 0x4000][(value + 2) as usize] };
const BF16: Kind = Kind { name: "bf16", bits: 16, number: |value| (value as f32).to_bits() >> 16 };
const TF32: Kind = Kind { name: "tf32", bits: 32, number: |value| (value as f32).to_bits() };
const S8: Kind = Kind { name: "s8", bits: 8, number: |value| value as u32 & 0xff };
const S4: Kind = Kind { name: "s4", bits: 4, number: |value| value as u32 & 0xf };
const E4M3: Kind = Kind { name: "e4m3", bits: 8, number: |value| [0xc0, 0xb8, 0, 0x38, 0x40][(value + 2) as usize] };

/// Pseudo-random numbers.
struct Random(u32);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) as usize % end
    }

    fn small(&mut self) -> i32 {
        self.below(5) as i32 - 2
    }
}

/// Rows of A as they are meant, what is stored of them, and the four bits of each chunk.
struct Sparse {
    dense: Vec<Vec<i32>>,
    stored: Vec<Vec<i32>>,
    chunks: Vec<Vec<u32>>,
}

impl Sparse {
    fn new(random: &mut Random, kind: Kind, depth: usize) -> Sparse {
        const PLACES: [(usize, usize); 6] = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
        let mut made = Sparse { dense: Vec::new(), stored: Vec::new(), chunks: Vec::new() };
        let (chunk_columns, together) = match kind.bits {
            32 => (2, 1),
            4 => (8, 2),
            _ => (4, 1),
        };
        for _ in 0..ROWS {
            let (mut dense, mut stored, mut chunks) = (vec![0; depth], Vec::new(), Vec::new());
            for first in (0..depth).step_by(chunk_columns) {
                let (places, bits) = if kind.bits == 32 {
                    let place = random.below(2);
                    (vec![place], [0b0100, 0b1110][place])
                } else {
                    let (low, high) = PLACES[random.below(6)];
                    (vec![low, high], (low | high << 2) as u32)
                };
                chunks.push(bits);
                for column in places.iter().flat_map(|place| (0..together).map(move |part| place * together + part)) {
                    let value = random.small();
                    dense[first + column] = value;
                    stored.push(value);
                }
            }
            made.dense.push(dense);
            made.stored.push(stored);
            made.chunks.push(chunks);
        }
        made
    }

    /// The register of metadata of each lane: rows of words of 16 or 32 bits are put in the order of PyTorch's semi-structured
    /// tensors, and each lane takes the 32 bits of its number. Lanes that are not selected get what is wrong.
    fn metadata(&self, kind: Kind, selector: usize) -> Vec<u32> {
        let chunks = self.chunks[0].len();
        let width = if kind.bits >= 16 { 4 } else { 8 };
        let columns = chunks / width;
        // Rows that one selector is for lie behind those of the ones before.
        let (group, interweave) = if kind.bits >= 16 { (32, 4) } else { (16, 2) };
        let is_narrow = columns == 1;
        let mut ordered = vec![0_u32; 64];
        for (row, bits) in self.chunks.iter().enumerate() {
            for column in 0..columns {
                let word = (0..width).rev().fold(0, |word, chunk| word << 4 | bits[column * width + chunk]);
                // Of the least depth, a selector stands for a column of a matrix that is deeper, or for rows behind.
                let (row, column) = match (is_narrow, kind.bits >= 16) {
                    (false, _) => (row + 16 * selector, column),
                    (true, true) => (row + 16 * (selector / 2), selector % 2),
                    (true, false) => (row, selector),
                };
                let mut to = (row / group * group + row % 8 * interweave + row % group / 8, column);
                match (to.0 % 2, to.1 % 2) {
                    (0, 1) => to = (to.0 + 1, to.1 - 1),
                    (1, 0) => to = (to.0 - 1, to.1 + 1),
                    _ => {}
                }
                ordered[2 * to.0 + to.1] = word;
            }
        }
        match kind.bits >= 16 {
            true => ordered.chunks(2).map(|pair| pair[0] | pair[1] << 16).take(32).collect(),
            false => ordered[..32].to_vec(),
        }
    }
}

/// Elements packed into registers.
fn packed(kind: Kind, values: &[i32]) -> Vec<u32> {
    let pack = |part: &[i32]| {
        part.iter().rev().fold(0_u64, |word, value| word << kind.bits | u64::from((kind.number)(*value))) as u32
    };
    values.chunks(32 / kind.bits).map(pack).collect()
}

/// The registers of a lane, from neighbours of a line on: register by register, those `step` elements further on.
fn registers(kind: Kind, line: &[i32], lane: usize) -> Vec<u32> {
    let words = packed(kind, line);
    words.chunks(4).map(|four| four[lane % 4]).collect()
}

fn multiply(kind: Kind, depth: usize, selector: usize, sum: &str) {
    let mut random = Random(depth as u32 + selector as u32);
    let a = Sparse::new(&mut random, kind, depth);
    let b: Vec<Vec<i32>> = (0..COLUMNS).map(|_| (0..depth).map(|_| random.small()).collect()).collect();
    let metadata = a.metadata(kind, selector);
    let mut input = Vec::new();
    for lane in 0..32 {
        let upper = registers(kind, &a.stored[lane / 4], lane);
        let lower = registers(kind, &a.stored[lane / 4 + 8], lane);
        let mut part: Vec<u32> = upper.iter().zip(&lower).flat_map(|(upper, lower)| [*upper, *lower]).collect();
        part.resize(4, 0);
        part.extend(registers(kind, &b[lane / 4], lane));
        part.resize(8, 0);
        part.push(metadata[lane]);
        part.resize(16, 0);
        input.extend(part);
    }
    let count = a.stored[0].len() * kind.bits / 128 * 2;
    let list = |first: usize, count: usize| {
        let names: Vec<String> = (first..first + count).map(|number| format!("%r{number}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let (results, zero, store) = match sum {
        "s32" => ("{%r20, %r21, %r22, %r23}", "{0, 0, 0, 0}", "u32"),
        _ => ("{%f0, %f1, %f2, %f3}", "{0f00000000, 0f00000000, 0f00000000, 0f00000000}", "f32"),
    };
    let name = kind.name;
    let body = format!(
        "mul.wide.u32 %rd0, %lane, 64; add.u64 %rd0, %rd0, %input; ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%rd0];
         ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd0+16]; ld.global.u32 %r8, [%rd0+32];
         mma.sp::ordered_metadata.sync.aligned.m16n8k{depth}.row.col.{sum}.{name}.{name}.{sum} {results}, {}, {}, {zero}, %r8, {selector};
         mul.wide.u32 %rd1, %lane, 16; add.u64 %rd1, %rd1, %output; st.global.v4.{store} [%rd1], {results};",
        list(0, count),
        list(4, count)
    );
    let kernel = Kernel::new(&body).on_hopper().with_version("8.7").with_input(bytes(&input)).with_output_bytes(512);
    let output = words(&kernel.run_clean());
    for (place, found) in output.iter().enumerate() {
        let (lane, index) = (place / 4, place % 4);
        let (row, column) = (lane / 4 + 8 * (index / 2), lane % 4 * 2 + index % 2);
        let expected: i32 = a.dense[row].iter().zip(&b[column]).map(|(a, b)| a * b).sum();
        let found = if sum == "s32" { *found as i32 } else { f32::from_bits(*found) as i32 };
        assert_eq!(found, expected, "{name} k{depth} selector {selector}, row {row}, column {column}");
    }
}

#[test]
fn products_are_those_of_the_matrix_that_is_meant() {
    for (kind, depths, sum) in [
        (F16, [16, 32], "f32"),
        (BF16, [16, 32], "f32"),
        (TF32, [8, 16], "f32"),
        (S8, [32, 64], "s32"),
        (S4, [64, 128], "s32"),
    ] {
        let selectors = if kind.bits >= 16 { [4, 2] } else { [2, 1] };
        for (depth, selectors) in depths.into_iter().zip(selectors) {
            (0..selectors).for_each(|selector| multiply(kind, depth, selector, sum));
        }
    }
    multiply(E4M3, 64, 0, "f32");
}

/// A product of ones with this metadata in all lanes.
fn ones(metadata: u32, form: &str) -> Kernel {
    Kernel::new(&format!(
        "mov.b32 %r0, 0x3c003c00; mov.b32 %r1, {metadata};
         {form}.f16.f16.f16.f16 {{%r2, %r3}}, {{%r0, %r0}}, {{%r0, %r0}}, {{0, 0}}, %r1, 0; st.global.u32 [%output], %r2;"
    ))
    .on_hopper()
    .with_output_bytes(4)
}

#[test]
fn metadata_that_means_nothing_is_a_finding() {
    let form = "mma.sp.sync.aligned.m16n8k16.row.col";
    assert_eq!(words(&ones(0x4444_4444, form).run_clean()), [0x4800_4800], "eight ones");
    let findings = ones(0x4444_4404, form).run_faults_of(FindingClass::InvalidOperand);
    assert!(findings[0].message.contains("two different places, the lower one first"), "{}", findings[0]);
}

#[test]
fn what_there_is_not_is_refused() {
    let narrow = "mma.sp.sync.aligned.m16n8k64.row.col.f16.e4m3.e4m3.f16 {%r0, %r1}, {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, {%r0, %r1}, %r4, 0;";
    assert!(Kernel::new(narrow).on_hopper().try_run().is_err(), "ptxas refuses it for sm_90a");
    for form in [
        "mma.sp.sync.aligned.m16n8k8.row.col",
        "mma.sp.aligned.m16n8k16.row.col",
        "mma.sp.sync.aligned.m16n8k16.col.col",
    ] {
        let error = ones(0x4444_4444, form).try_run().err().expect("there is no such instruction").to_string();
        assert!(error.contains("unsupported"), "{error}");
    }
}
