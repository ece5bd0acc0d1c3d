//! Matrix products of a warpgroup.

use super::matrix::Numbers;
use crate::case::Case;
use crate::kernel::Kernel;
use crate::values::Values;

/// Bytes of the operand A in shared memory; B follows.
const A_BYTES: usize = 8192;
/// Most bytes of B.
const B_BYTES: usize = 16384;
/// Depth of a product.
const DEPTH: usize = 16;

/// How an operand lies in shared memory (PTX ISA, "Shared Memory Matrix Layout").
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Bytes of a swizzled row; 16 for no swizzle.
    row_bytes: usize,
    /// Rows are contiguous along M or N instead of along K.
    transposed: bool,
    /// Where the second panel of a transposed operand begins, if not behind the first.
    second_panel: Option<usize>,
}

impl Layout {
    /// Leading and stride byte offsets.
    fn offsets(self) -> (usize, usize) {
        match (self.row_bytes, self.transposed) {
            (16, _) => (128, 256),
            (row, false) => (16, 8 * row),
            (row, true) => (self.second_panel.unwrap_or(DEPTH * row), 8 * row),
        }
    }

    /// The fields of a matrix descriptor but its address (PTX ISA, "Matrix Descriptor Format").
    fn descriptor(self) -> u64 {
        let mode = match self.row_bytes {
            128 => 1,
            64 => 2,
            32 => 3,
            _ => 0,
        };
        let (leading, stride) = self.offsets();
        (leading as u64 >> 4) << 16 | (stride as u64 >> 4) << 32 | mode << 62
    }

    /// Where an element lies.
    fn place(self, row: usize, k: usize) -> usize {
        let (leading, stride) = self.offsets();
        let width = self.row_bytes;
        let linear = match (width, self.transposed) {
            (16, false) => row / 8 * stride + k / 8 * leading + row % 8 * 16 + k % 8 * 2,
            (16, true) => row / 8 * stride + k / 8 * leading + k % 8 * 16 + row % 8 * 2,
            (_, false) => row * width + k * 2,
            (_, true) => row * 2 / width * leading + k * width + row * 2 % width,
        };
        linear ^ (linear / 128 % (width / 16) * 16)
    }
}

/// One product.
#[derive(Clone, Copy, Debug)]
struct Product {
    columns: usize,
    /// `.f16` or `.bf16`.
    input: &'static str,
    /// `.f32` or `.f16`.
    result: &'static str,
    layouts: [Layout; 2],
    /// Whether A lies in registers.
    fragments: bool,
    /// `imm-scale-a`, `imm-scale-b`.
    signs: [i32; 2],
    /// Whether the old accumulators are added.
    adds: bool,
    numbers: Numbers,
    /// Instructions in a row, on the same operands.
    times: usize,
}

const PLAIN: Layout = Layout { row_bytes: 128, transposed: false, second_panel: None };
/// Rows no longer than a product is deep.
const NARROW: Layout = Layout { row_bytes: 32, ..PLAIN };
const USUAL: Product = Product {
    columns: 8,
    input: "f16",
    result: "f32",
    layouts: [PLAIN; 2],
    fragments: false,
    signs: [1, 1],
    adds: true,
    numbers: Numbers::Similar,
    times: 1,
};

/// The cases of this class.
pub fn cases() -> Vec<Case> {
    let mut products = Vec::new();
    for row_bytes in [16, 32, 64, 128] {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            let layouts = transposed.map(|transposed| Layout { row_bytes, transposed, second_panel: None });
            products.push(Product { columns: 72, layouts, numbers: Numbers::Exact, ..USUAL });
        }
    }
    for columns in (8..=256).step_by(8) {
        products.push(Product { columns, layouts: [NARROW; 2], numbers: Numbers::Exact, ..USUAL });
    }
    for columns in [16, 64, 128, 256] {
        let layouts = [NARROW; 2];
        products.push(Product { columns, layouts, input: "bf16", ..USUAL });
        products.push(Product { columns, layouts, fragments: true, ..USUAL });
        products.push(Product { columns, layouts, result: "f16", ..USUAL });
    }
    // V in rows of 64 and 128 bytes beside a panel of ones somewhere else: how the kernels sum P.
    for (columns, row_bytes) in [(40, 64), (72, 128)] {
        let values = Layout { row_bytes, transposed: true, second_panel: Some(8192) };
        for input in ["f16", "bf16"] {
            products.push(Product { columns, layouts: [PLAIN, values], fragments: true, input, ..USUAL });
        }
    }
    for numbers in Numbers::ALL {
        for (input, result) in [("f16", "f32"), ("bf16", "f32"), ("f16", "f16")] {
            products.push(Product { input, result, numbers, ..USUAL });
            products.push(Product { input, result, numbers, times: 3, ..USUAL });
            products.push(Product { input, result, numbers, fragments: true, ..USUAL });
        }
    }
    for signs in [[1, -1], [-1, 1], [-1, -1]] {
        for fragments in [false, true] {
            products.push(Product { signs, fragments, ..USUAL });
            products.push(Product { signs, fragments, result: "f16", ..USUAL });
        }
    }
    for (input, result) in [("f16", "f32"), ("bf16", "f32"), ("f16", "f16")] {
        products.push(Product { input, result, adds: false, ..USUAL });
    }
    let mut cases: Vec<Case> = products.into_iter().map(Product::case).collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases.dedup_by(|a, b| a.name == b.name);
    cases
}

impl Product {
    fn instruction(self) -> String {
        let Product { columns, input, result, .. } = self;
        format!("wgmma.mma_async.sync.aligned.m64n{columns}k16.{result}.{input}.{input}")
    }

    fn name(self) -> String {
        let Product { layouts, fragments, signs: [a, b], adds, numbers, times, .. } = self;
        let layout = |Layout { row_bytes, transposed, second_panel }: Layout| {
            let transposed = if transposed { "t" } else { "" };
            let second_panel = second_panel.map(|begin| format!(" second panel {begin}")).unwrap_or_default();
            format!("{row_bytes}{transposed}{second_panel}")
        };
        let a_place = if fragments { "registers".to_owned() } else { layout(layouts[0]) };
        let adds = if adds { "add" } else { "replace" };
        format!(
            "{} {} a {a_place} b {} scales {a} {b} {adds} times {times}",
            self.instruction(),
            numbers.name(),
            layout(layouts[1])
        )
    }

    /// Both operands as they lie in shared memory, then four words of fragments and one of accumulators for each thread.
    fn input(self, values: &mut Values) -> Vec<u8> {
        let is_bfloat = self.input == "bf16";
        let mut data = vec![0; A_BYTES + B_BYTES];
        for k in 0..DEPTH {
            for row in 0..64 {
                let place = self.layouts[0].place(row, k);
                let element = self.numbers.half(values, k % 8, is_bfloat);
                data[place..place + 2].copy_from_slice(&element.to_le_bytes());
            }
            for column in 0..self.columns {
                let place = A_BYTES + self.layouts[1].place(column, k);
                let element = self.numbers.half(values, 8 + k % 8, is_bfloat);
                data[place..place + 2].copy_from_slice(&element.to_le_bytes());
            }
        }
        for _ in 0..128 {
            for index in 0..8 {
                data.extend(self.numbers.half(values, index, is_bfloat).to_le_bytes());
            }
            for _ in 0..4 {
                let accumulator = match self.result {
                    "f32" => self.numbers.single(values),
                    _ => {
                        let [low, high] = [0, 0].map(|_| self.numbers.half(values, 8, false));
                        u32::from(low) | u32::from(high) << 16
                    }
                };
                data.extend(accumulator.to_le_bytes());
            }
        }
        data
    }

    fn case(self) -> Case {
        let name = self.name();
        let input = self.input(&mut Values::of(&name));
        let accumulators = if self.result == "f32" { self.columns / 2 } else { self.columns / 4 };
        let names: Vec<String> = (0..accumulators).map(|index| format!("d{index}")).collect();
        let [first, second] = self.layouts.map(Layout::descriptor);
        let initial: String = (0..accumulators).map(|index| format!("mov.b32 d{index}, c{};\n", index % 4)).collect();
        let [a, b] = if self.fragments { ["{a0, a1, a2, a3}", "%rd2"] } else { ["%rd1", "%rd2"] };
        let transposed = self.layouts.map(|layout| u32::from(layout.transposed));
        let transposed = match self.fragments {
            true => transposed[1].to_string(),
            false => format!("{}, {}", transposed[0], transposed[1]),
        };
        let [scale_a, scale_b] = self.signs;
        let multiply = format!(
            "{} {{{}}}, {a}, {b}, %p1, {scale_a}, {scale_b}, {transposed};\n",
            self.instruction(),
            names.join(", ")
        )
        .repeat(self.times);
        let adds = if self.adds { "%thread, 1024" } else { "1024, %thread" };
        let body = format!(
            ".shared .align 1024 .b8 tile[{total}];\n.reg .b32 a<4>, c<4>, d<{accumulators}>;\nmov.u32 %r1, tile;\n\
             shl.b32 %r2, %thread, 4;\nfill: cvt.u64.u32 %rd3, %r2;\nadd.u64 %rd3, %rd3, %input;\n\
             ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd3];\nadd.u32 %r3, %r1, %r2;\n\
             st.shared.v4.u32 [%r3], {{%r4, %r5, %r6, %r7}};\nadd.u32 %r2, %r2, 2048;\nsetp.lt.u32 %p0, %r2, {total};\n\
             @%p0 bra fill;\nmad.wide.u32 %rd3, %thread, 32, %input;\n\
             ld.global.v4.b32 {{a0, a1, a2, a3}}, [%rd3+{total}];\nld.global.v4.b32 {{c0, c1, c2, c3}}, [%rd3+{}];\n\
             {initial}setp.lt.u32 %p1, {adds};\nfence.proxy.async;\nbar.sync 0;\nshr.u32 %r1, %r1, 4;\n\
             cvt.u64.u32 %rd1, %r1;\nadd.u64 %rd2, %rd1, {};\nor.b64 %rd1, %rd1, {first};\nor.b64 %rd2, %rd2, {second};\n\
             wgmma.fence.sync.aligned;\n{multiply}wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n{}",
            A_BYTES + B_BYTES + 16,
            A_BYTES / 16,
            store(accumulators),
            total = A_BYTES + B_BYTES,
        );
        let words = if accumulators <= WHOLE { accumulators } else { 1 };
        Kernel::new(name, body).threads(128).input(input).output(128 * 4 * words).finish()
    }
}

/// Accumulators of a thread that are stored one by one; more of them are folded into one word.
pub(super) const WHOLE: usize = 4;

pub(super) fn store(accumulators: usize) -> String {
    if accumulators <= WHOLE {
        let stores = (0..accumulators).map(|index| format!("st.global.b32 [%rd4+{}], d{index};\n", 4 * index));
        return format!("mad.wide.u32 %rd4, %thread, {}, %output;\n", 4 * accumulators) + &stores.collect::<String>();
    }
    let fold =
        (0..accumulators).map(|index| format!("shf.l.wrap.b32 %r8, %r8, %r8, 5;\nxor.b32 %r8, %r8, d{index};\n"));
    let fold: String = fold.collect();
    format!("mov.b32 %r8, 0;\n{fold}mad.wide.u32 %rd4, %thread, 4, %output;\nst.global.b32 [%rd4], %r8;\n")
}
