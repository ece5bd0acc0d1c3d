//! `mma` of types other than f16 and bf16, `wmma`, `movmatrix`.

use ptx_sim::expand_forms;

use super::matrix::Numbers;
use crate::case::Case;
use crate::kernel::Kernel;
use crate::values::Values;

/// Forms of `mma` with the registers of A and of B.
const FORMS: &[(&str, usize, usize)] = &[
    ("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 2, 1),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2),
    ("mma.sync.aligned.m8n8k16.row.col{,.satfinite}.s32.{s8,u8}.{s8,u8}.s32", 1, 1),
    ("mma.sync.aligned.m16n8k16.row.col{,.satfinite}.s32.{s8,u8}.{s8,u8}.s32", 2, 1),
    ("mma.sync.aligned.m16n8k32.row.col{,.satfinite}.s32.{s8,u8}.{s8,u8}.s32", 4, 2),
    ("mma.sync.aligned.m8n8k32.row.col{,.satfinite}.s32.{s4,u4}.{s4,u4}.s32", 1, 1),
    ("mma.sync.aligned.m16n8k32.row.col{,.satfinite}.s32.{s4,u4}.{s4,u4}.s32", 2, 1),
    ("mma.sync.aligned.m16n8k64.row.col{,.satfinite}.s32.{s4,u4}.{s4,u4}.s32", 4, 2),
    ("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.{xor,and}.popc", 1, 1),
    ("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.{xor,and}.popc", 2, 1),
    ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.{xor,and}.popc", 4, 2),
    ("mma.sync.aligned.m8n8k4.row.col{,.rn}.f64.f64.f64.f64", 1, 1),
    ("mma.sync.aligned.{m16n8k4,m16n8k8,m16n8k16}.row.col.f64.f64.f64.f64", 2, 1),
    ("mma.sync.aligned.m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32", 4, 2),
    ("mma.sync.aligned.m16n8k32.row.col.f16.{e4m3,e5m2}.{e4m3,e5m2}.f16", 4, 2),
    ("mma.sync.aligned.m16n8k16.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32", 2, 1),
    ("mma.sync.aligned.m16n8k16.row.col.f16.{e4m3,e5m2}.{e4m3,e5m2}.f16", 2, 1),
];

/// Forms of `mma.sp` with the registers of A and of B, and how many selectors there are.
const SPARSE: &[(&str, usize, usize, u32)] = &[
    (
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.{f32.f16.f16.f32,f16.f16.f16.f16,f32.bf16.bf16.f32}",
        2,
        2,
        4,
    ),
    (
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.{f32.f16.f16.f32,f16.f16.f16.f16,f32.bf16.bf16.f32}",
        4,
        4,
        2,
    ),
    ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 4, 4, 1),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 2, 2, 4),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32", 4, 4, 2),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col{,.satfinite}.s32.{s8,u8}.{s8,u8}.s32", 2, 2, 2),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col{,.satfinite}.s32.{s8,u8}.{s8,u8}.s32", 4, 4, 1),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col{,.satfinite}.s32.{s4,u4}.{s4,u4}.s32", 2, 2, 2),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col{,.satfinite}.s32.{s4,u4}.{s4,u4}.s32", 4, 4, 1),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32", 4, 4, 1),
];

/// `wmma` by shape, type of A and B, type of C and D, and how the matrices lie.
const FRAGMENTS: &[(&str, &str, &str)] = &[
    ("m16n16k16", "f16", "f32"),
    ("m32n8k16", "f16", "f16"),
    ("m8n32k16", "bf16", "f32"),
    ("m16n16k8", "tf32", "f32"),
    ("m16n16k16", "s8", "s32"),
    ("m32n8k16", "u8", "s32"),
    ("m8n8k4", "f64", "f64"),
];

/// The cases of these forms.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![transpose()];
    for (pattern, a, b) in FORMS {
        for form in expand_forms(pattern) {
            let depth = form.split('.').find_map(|part| part.strip_prefix("m16n8k")?.parse::<usize>().ok());
            // Of f64 the pattern says the registers of the least depth.
            let times = depth.filter(|_| form.contains("f64")).map_or(1, |depth| depth / 4);
            let numbers: &[Numbers] = if form.contains(".s32") { &[Numbers::Special] } else { &Numbers::ALL };
            let nan = form.contains("f64").then_some(&Numbers::Nan);
            cases.extend(
                numbers.iter().chain(nan).map(|numbers| multiply(&form, [a * times, b * times], *numbers, None)),
            );
        }
    }
    cases.extend(sparse());
    for (shape, kind, sum) in FRAGMENTS {
        for layouts in [["row", "col"], ["col", "row"]] {
            cases.push(fragments(shape, layouts, kind, sum));
        }
    }
    cases
}

/// The cases of sparse products.
fn sparse() -> Vec<Case> {
    let mut cases = Vec::new();
    for (pattern, a, b, selectors) in SPARSE {
        for form in expand_forms(pattern) {
            let numbers: &[Numbers] = if form.contains(".s32") { &[Numbers::Special] } else { &Numbers::ALL };
            for selector in 0..*selectors {
                cases.extend(numbers.iter().map(|numbers| multiply(&form, [*a, *b], *numbers, Some(selector))));
            }
        }
    }
    cases
}

/// Four bits for each of eight chunks: two places of four in order, or one of two for tf32.
fn metadata(kind: &str, values: &mut Values) -> u32 {
    let places: &[u32] = if kind == "tf32" { &[0b0100, 0b1110] } else { &[4, 8, 9, 12, 13, 14] };
    (0..8).fold(0, |word, _| word << 4 | places[values.below(places.len() as u64) as usize])
}

fn transpose() -> Case {
    let form = "movmatrix.sync.aligned.m8n8.trans.b16";
    let body = format!(
        "mad.wide.u32 %rd1, %thread, 4, %input;\nld.global.b32 %r4, [%rd1];\n{form} %r5, %r4;\n\
         mad.wide.u32 %rd2, %thread, 4, %output;\nst.global.b32 [%rd2], %r5;\n"
    );
    Kernel::new(form, body).input(Values::of(form).bytes(128)).output(128).finish()
}

/// The bytes of an element of A, B or C.
fn element(kind: &str, numbers: Numbers, values: &mut Values, index: usize) -> Vec<u8> {
    match kind {
        "f16" | "bf16" => numbers.half(values, index, kind == "bf16").to_le_bytes().to_vec(),
        "f32" | "tf32" => numbers.single(values).to_le_bytes().to_vec(),
        // Few enough that one of each place is the last in some sums.
        "f64" if matches!(numbers, Numbers::Nan) && values.below(4) == 0 => {
            values.special_double().to_le_bytes().to_vec()
        }
        "f64" => f64::from(f32::from_bits(numbers.single(values))).to_le_bytes().to_vec(),
        // Without infinities and NaN, but for the special ones; small ones in exact sums.
        "e4m3" | "e5m2" => {
            let byte = values.bytes(1)[0];
            let kept = match numbers {
                Numbers::Special => byte,
                Numbers::Exact => byte & 0x83 | 0x38,
                _ => byte & 0xf7 ^ (byte & 1) << 3,
            };
            vec![if byte & 0x7c == 0x7c && !matches!(numbers, Numbers::Special) { 0x3c } else { kept }]
        }
        _ => values.bytes(1),
    }
}

/// One product; a thread has 256 bytes of input: A, B from 128, C from 192, and metadata from 224, if there is a selector for it.
fn multiply(form: &str, [a, b]: [usize; 2], numbers: Numbers, selector: Option<u32>) -> Case {
    let selected = selector.map_or(String::new(), |selector| format!(" selector {selector}"));
    let name = format!("{form} {}{selected}", numbers.name());
    let types: Vec<&str> = form.split('.').skip_while(|part| *part != "col").skip(1).collect();
    let types: Vec<&str> = types.into_iter().filter(|part| !matches!(*part, "satfinite" | "rn")).take(4).collect();
    let (input_kind, sum) = (types[1], types[3]);
    let (register, bytes) = if sum == "f64" { ("f64", 8) } else { ("b32", 4) };
    let c = if form.contains(".m8n8") || sum == "f16" { 2 } else { 4 };
    let mut values = Values::of(&name);
    let mut input = Vec::new();
    for _ in 0..32 {
        for (registers, kind, room) in [(a, input_kind, 128), (b, types[2], 64), (c, sum, 64)] {
            let mut part = Vec::new();
            while part.len() < registers * bytes {
                part.extend(match kind {
                    "s32" => values.bytes(4),
                    kind => element(kind, numbers, &mut values, part.len()),
                });
            }
            part.resize(room, 0);
            input.extend(part);
        }
        if selector.is_some() {
            let end = input.len();
            input[end - 32..end - 28].copy_from_slice(&metadata(input_kind, &mut values).to_le_bytes());
        }
    }
    let list = |letter: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|index| format!("{letter}{index}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let c_register = if sum == "f32" { "f32" } else { register };
    let mut body = format!(
        ".reg .{register} a<8>, b<8>;\n.reg .{c_register} c<4>, d<4>;\nmad.wide.u32 %rd1, %thread, 256, %input;\n\
         mad.wide.u32 %rd2, %thread, 32, %output;\n"
    );
    for (letter, count, offset) in [("a", a, 0), ("b", b, 128), ("c", c, 192)] {
        let kind = if letter == "c" { c_register } else { register };
        for index in 0..count {
            body += &format!("ld.global.{kind} {letter}{index}, [%rd1+{}];\n", offset + bytes * index);
        }
    }
    let more = selector.map_or(String::new(), |selector| {
        body += ".reg .b32 metadata;\nld.global.b32 metadata, [%rd1+224];\n";
        format!(", metadata, {selector}")
    });
    body += &format!("{form} {}, {}, {}, {}{more};\n", list("d", c), list("a", a), list("b", b), list("c", c));
    for index in 0..c {
        body += &format!("st.global.{c_register} [%rd2+{}], d{index};\n", bytes * index);
    }
    let kernel = Kernel::new(name, body).input(input).output(1024);
    let version = match input_kind {
        "e4m3" | "e5m2" if form.contains("k16") || sum == "f16" => "8.7",
        "e4m3" | "e5m2" if selector.is_none() => "8.4",
        _ if selector.is_some() => "8.5",
        _ => "8.3",
    };
    kernel.version(version).finish()
}

/// Loads A, B and C, multiplies and stores: whatever lane holds what.
fn fragments(shape: &str, [rows, columns]: [&str; 2], kind: &str, sum: &str) -> Case {
    let types = if kind == "f16" { format!("{sum}.{sum}") } else { format!("{sum}.{kind}.{kind}.{sum}") };
    let rounding = if kind == "f64" { ".rn" } else { "" };
    let form = format!("wmma.mma.sync.aligned.{rows}.{columns}.{shape}{rounding}.{types}");
    let [m, n, k] = dimensions(shape);
    let bytes = match kind {
        "f64" => 8,
        "tf32" => 4,
        "s8" | "u8" => 1,
        _ => 2,
    };
    let mut values = Values::of(&form);
    let mut input = Vec::new();
    for index in 0..(m + n) * k {
        input.extend(element(kind, Numbers::Similar, &mut values, index));
    }
    input.resize(4096, 0);
    for index in 0..m * n {
        input.extend(match sum {
            "s32" => values.bytes(4),
            sum => element(sum, Numbers::Similar, &mut values, index),
        });
    }
    let registers = |elements: usize| match kind {
        "f16" => 8,
        _ => elements * bytes / (32 * bytes.max(4)),
    };
    let (sum_bytes, register) = match sum {
        "f64" => (8, "f64"),
        "f16" => (2, "b32"),
        "f32" => (4, "f32"),
        _ => (4, "b32"),
    };
    let list = |letter: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|index| format!("{letter}{index}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let (a, b) = (list("a", registers(m * k)), list("b", registers(n * k)));
    let count = m * n * sum_bytes / (32 * sum_bytes.max(4));
    let (c, d) = (list("c", count), list("d", count));
    let input_register = if kind == "f64" { "f64" } else { "b32" };
    let body = format!(
        ".reg .{input_register} a<8>, b<8>;\n.reg .{register} c<8>, d<8>;\n\
         wmma.load.a.sync.aligned.{rows}.{shape}.global.{kind} {a}, [%input];\n\
         wmma.load.b.sync.aligned.{columns}.{shape}.global.{kind} {b}, [%input+{}];\n\
         wmma.load.c.sync.aligned.col.{shape}.global.{sum} {c}, [%input+4096], {m};\n\
         {form} {d}, {a}, {b}, {c};\n\
         wmma.store.d.sync.aligned.row.{shape}.global.{sum} [%output], {d}, {n};\n",
        m * k * bytes
    );
    Kernel::new(form, body).input(input).output(m * n * sum_bytes).finish()
}

/// Rows, columns and depth.
fn dimensions(shape: &str) -> [usize; 3] {
    let mut numbers = shape.split(['m', 'n', 'k']).filter_map(|part| part.parse().ok());
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}
