//! Matrix instructions of a warp.

use ptx_sim::expand_forms;

use crate::case::Case;
use crate::kernel::Kernel;
use crate::values::{Domain, Values};

/// Products of one case.
const PRODUCTS: usize = 4;

/// Numbers that matrices are made of.
#[derive(Clone, Copy, Debug)]
pub enum Numbers {
    /// Small integers, whose sums are exact.
    Exact,
    /// Magnitudes within a few powers of two.
    Similar,
    /// Magnitudes far apart, so that most of a small one is lost beside a large one.
    Spread,
    /// Sums of which the large parts cancel.
    Cancelling,
    /// Subnormals, infinities, NaN among others.
    Special,
    /// Several NaN in one sum, of `f64` only.
    Nan,
}

impl Numbers {
    /// All but NaN.
    pub const ALL: [Numbers; 5] =
        [Numbers::Exact, Numbers::Similar, Numbers::Spread, Numbers::Cancelling, Numbers::Special];

    /// For the names of cases.
    pub fn name(self) -> &'static str {
        match self {
            Numbers::Exact => "exact",
            Numbers::Similar => "similar",
            Numbers::Spread => "spread",
            Numbers::Cancelling => "cancelling",
            Numbers::Special => "special",
            Numbers::Nan => "NaN",
        }
    }

    /// An element of A (`index` below 8) or B, as `.f16` or `.bf16`.
    pub fn half(self, values: &mut Values, index: usize, is_bfloat: bool) -> u16 {
        match self {
            Numbers::Exact => {
                let integers = if is_bfloat {
                    [0, 0x3f80, 0xbf80, 0x4000, 0xc000, 0x4040, 0x4080, 0x3f00]
                } else {
                    [0, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4200, 0x4400, 0x3800]
                };
                integers[values.below(8) as usize]
            }
            Numbers::Similar => values.half(is_bfloat, -2..2),
            Numbers::Spread => values.half(is_bfloat, -9..9),
            // Large numbers of A and B with the signs of A alternating.
            Numbers::Cancelling => {
                let magnitude = values.half(is_bfloat, 3..5) & 0x7fff;
                if index < 8 && index % 2 == 1 { magnitude | 0x8000 } else { magnitude }
            }
            Numbers::Special | Numbers::Nan => {
                let kind = if is_bfloat { "bf16" } else { "f16" };
                match values.below(12) {
                    0 => values.operands(99, &[(kind.to_owned(), Domain::Any)])[0] as u16,
                    1 | 2 => values.below(1 << 7) as u16 | (values.below(2) << 15) as u16,
                    3 => values.half(is_bfloat, 12..15),
                    _ => values.half(is_bfloat, -3..3),
                }
            }
        }
    }

    /// The bits of an addend, `.f32`.
    pub fn single(self, values: &mut Values) -> u32 {
        let bits = values.below(1 << 32) as u32;
        let scaled = |exponent: u64| bits & 0x807f_ffff | ((exponent + 127 - 40) as u32) << 23;
        match self {
            Numbers::Exact => ((bits % 64) as f32 - 32.0).to_bits(),
            Numbers::Similar => scaled(40 + values.below(4)),
            Numbers::Spread | Numbers::Cancelling => scaled(20 + values.below(40)),
            Numbers::Special | Numbers::Nan => match values.below(4) {
                0 => values.operands(99, &[("f32".to_owned(), Domain::Any)])[0] as u32,
                _ => scaled(40 + values.below(4)),
            },
        }
    }
}

/// The cases of this class.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for form in expand_forms("ldmatrix.sync.aligned.m8n8.{x1,x2,x4}{,.trans}.{shared,shared::cta}.b16") {
        cases.push(load(&form));
    }
    for form in expand_forms("stmatrix.sync.aligned.m8n8.{x1,x2,x4}{,.trans}.{shared,shared::cta}.b16") {
        cases.push(store(&form));
    }
    let multiplications = [
        "mma.sync.aligned.{m16n8k8,m16n8k16}.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.{m16n8k8,m16n8k16}.row.col.f16.f16.f16.f16",
        "mma.sync.aligned.{m16n8k8,m16n8k16}.row.col.f32.bf16.bf16.f32",
    ];
    for form in multiplications.iter().flat_map(|pattern| expand_forms(pattern)) {
        cases.extend(Numbers::ALL.map(|numbers| multiply(&form, numbers)));
    }
    cases
}

fn count(form: &str) -> usize {
    [1, 2, 4].into_iter().find(|count| form.contains(&format!(".x{count}"))).unwrap_or(1)
}

fn registers(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|index| format!("%r{}", 4 + index)).collect();
    format!("{{{}}}", names.join(", "))
}

/// A tile of 1024 bytes in shared memory, filled with the input; `%r1` is the address of the row that follows from the
/// thread by an odd factor, so that rows are used in another order than they lie in.
const TILE: &str = ".shared .align 16 .b8 tile[1024];\nmov.u32 %r0, tile;\nmad.lo.u32 %r2, %thread, 32, %r0;\n\
    mad.wide.u32 %rd1, %thread, 32, %input;\nld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd1];\nst.shared.v4.b32 [%r2], {%r4, %r5, %r6, %r7};\n\
    ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd1+16];\nst.shared.v4.b32 [%r2+16], {%r4, %r5, %r6, %r7};\nbar.sync 0;\n\
    mul.lo.u32 %r1, %thread, 11;\nadd.u32 %r1, %r1, 5;\nand.b32 %r1, %r1, 63;\nmad.lo.u32 %r1, %r1, 16, %r0;\n";

fn load(form: &str) -> Case {
    let stores: String =
        (0..count(form)).map(|index| format!("st.global.b32 [%rd2+{}], %r{};\n", 4 * index, 4 + index)).collect();
    let body =
        format!("{TILE}{form} {}, [%r1];\nmad.wide.u32 %rd2, %thread, 16, %output;\n{stores}", registers(count(form)));
    Kernel::new(form, body).input(Values::of(form).bytes(1024)).output(512).finish()
}

fn store(form: &str) -> Case {
    let body = format!(
        "{TILE}mad.wide.u32 %rd2, %thread, 16, %input;\nld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd2+1024];\n\
         {form} [%r1], {};\nbar.sync 0;\nmad.wide.u32 %rd2, %thread, 32, %output;\n\
         ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r2];\nst.global.v4.b32 [%rd2], {{%r4, %r5, %r6, %r7}};\n\
         ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r2+16];\nst.global.v4.b32 [%rd2+16], {{%r4, %r5, %r6, %r7}};\n",
        registers(count(form))
    );
    Kernel::new(form, body).input(Values::of(form).bytes(1536)).output(1024).finish()
}

/// Products of fragments; each thread has 64 bytes of input for each: A, B from 16, C from 32.
fn multiply(form: &str, numbers: Numbers) -> Case {
    let depth = if form.contains("k16") { 16 } else { 8 };
    let kinds: Vec<&str> = form.rsplit('.').take(4).collect();
    let (addend, input_kind, result) = (kinds[0], kinds[1], kinds[3]);
    let is_bfloat = input_kind == "bf16";
    let name = format!("{form} {}", numbers.name());
    let mut values = Values::of(&name);
    let mut input = Vec::new();
    for _ in 0..PRODUCTS * 32 {
        for index in 0..16 {
            input.extend(numbers.half(&mut values, index, is_bfloat).to_le_bytes());
        }
        for index in 0..4 {
            match addend {
                "f32" => input.extend(numbers.single(&mut values).to_le_bytes()),
                _ => {
                    let pair = [numbers.half(&mut values, index, false), numbers.half(&mut values, index, false)];
                    input.extend(pair.into_iter().flat_map(u16::to_le_bytes));
                }
            }
        }
        input.extend([0; 16]);
    }
    let accumulators = |kind: &str| if kind == "f32" { 4 } else { 2 };
    let list = |letter: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|index| format!("{letter}{index}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let mut body = ".reg .b32 a<4>, b<4>, c<4>, d<4>;\nmad.wide.u32 %rd1, %thread, 64, %input;\nmad.wide.u32 %rd2, %thread, 16, %output;\n".to_owned();
    for product in 0..PRODUCTS {
        let (from, to) = (2048 * product, 512 * product);
        body.push_str(&format!(
            "ld.global.v4.b32 {{a0, a1, a2, a3}}, [%rd1+{from}];\nld.global.v4.b32 {{b0, b1, b2, b3}}, [%rd1+{}];\n\
             ld.global.v4.b32 {{c0, c1, c2, c3}}, [%rd1+{}];\n{form} {}, {}, {}, {};\n",
            from + 16,
            from + 32,
            list("d", accumulators(result)),
            list("a", depth / 4),
            list("b", depth / 8),
            list("c", accumulators(addend)),
        ));
        for index in 0..accumulators(result) {
            body.push_str(&format!("st.global.b32 [%rd2+{}], d{index};\n", to + 4 * index));
        }
    }
    Kernel::new(name, body).input(input).output(512 * PRODUCTS).finish()
}
