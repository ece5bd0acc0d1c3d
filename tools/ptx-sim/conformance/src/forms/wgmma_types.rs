//! `wgmma` of numbers of 19 and 8 bits, of integers and of single bits.

use ptx_sim::expand_forms;

use super::wgmma::{WHOLE, store};
use crate::case::Case;
use crate::kernel::Kernel;
use crate::values::Values;

/// Bytes of A, and of B, whose columns are at most 64.
const OPERAND: usize = 2048;
/// Core matrices of eight rows of 16 bytes: neighbours along K, then along M or N.
const DESCRIPTOR: u64 = 8 << 16 | 16 << 32;

/// Forms, the columns of which are `N`, and which numbers their operands are.
const FORMS: [(&str, &[&str]); 4] = [
    ("mNk8.f32.tf32.tf32", &["similar", "spread", "special"]),
    ("mNk32.{f32,f16}.{e4m3,e5m2}.{e4m3,e5m2}", &["similar", "spread", "special"]),
    ("mNk32{,.satfinite}.s32.{s8,u8}.{s8,u8}", &["any"]),
    ("mNk256.s32.b1.b1.and.popc", &["any"]),
];

/// The cases of these types.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (pattern, numbers) in FORMS {
        for form in expand_forms(pattern) {
            for numbers in numbers {
                for (columns, place) in [(8, "registers"), (64, "shared")] {
                    let form =
                        format!("wgmma.mma_async.sync.aligned.{}", form.replace("mN", &format!("m64n{columns}")));
                    cases.push(case(&form, columns, place, numbers));
                }
            }
        }
    }
    cases
}

fn case(form: &str, columns: usize, place: &str, numbers: &str) -> Case {
    let name = format!("{form} a {place} {numbers}");
    let mut parts = form.rsplit('.').filter(|part| !matches!(*part, "and" | "popc"));
    let (b, a, d) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let mut values = Values::of(&name);
    let mut input = operand(&mut values, a, numbers, OPERAND);
    input.extend(operand(&mut values, b, numbers, OPERAND));
    // Fragments and accumulators of each thread.
    for _ in 0..128 {
        input.extend(operand(&mut values, a, numbers, 16));
        input.extend(operand(&mut values, d, if d == "s32" { "any" } else { numbers }, 16));
    }
    let accumulators = if d == "f16" { columns / 4 } else { columns / 2 };
    let names: Vec<String> = (0..accumulators).map(|index| format!("d{index}")).collect();
    let initial: String = (0..accumulators).map(|index| format!("mov.b32 d{index}, c{};\n", index % 4)).collect();
    let from = if place == "registers" { "{a0, a1, a2, a3}" } else { "%rd1" };
    let signs = if d == "s32" { "" } else { ", 1, -1" };
    let total = 2 * OPERAND;
    let body = format!(
        ".shared .align 1024 .b8 tile[{total}];\n.reg .b32 a<4>, c<4>, d<{accumulators}>;\nmov.u32 %r1, tile;\n\
         shl.b32 %r2, %thread, 4;\nfill: cvt.u64.u32 %rd3, %r2;\nadd.u64 %rd3, %rd3, %input;\n\
         ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd3];\nadd.u32 %r3, %r1, %r2;\n\
         st.shared.v4.u32 [%r3], {{%r4, %r5, %r6, %r7}};\nadd.u32 %r2, %r2, 2048;\nsetp.lt.u32 %p0, %r2, {total};\n\
         @%p0 bra fill;\nmad.wide.u32 %rd3, %thread, 32, %input;\n\
         ld.global.v4.b32 {{a0, a1, a2, a3}}, [%rd3+{total}];\nld.global.v4.b32 {{c0, c1, c2, c3}}, [%rd3+{}];\n\
         {initial}setp.lt.u32 %p1, %thread, 1024;\nfence.proxy.async;\nbar.sync 0;\nshr.u32 %r1, %r1, 4;\n\
         cvt.u64.u32 %rd1, %r1;\nadd.u64 %rd2, %rd1, {};\nor.b64 %rd1, %rd1, {DESCRIPTOR};\nor.b64 %rd2, %rd2, {DESCRIPTOR};\n\
         wgmma.fence.sync.aligned;\n{form} {{{}}}, {from}, %rd2, %p1{signs};\nwgmma.commit_group.sync.aligned;\n\
         wgmma.wait_group.sync.aligned 0;\n{}",
        total + 16,
        OPERAND / 16,
        names.join(", "),
        store(accumulators),
    );
    let words = if accumulators <= WHOLE { accumulators } else { 1 };
    Kernel::new(name, body).version("8.4").threads(128).input(input).output(128 * 4 * words).finish()
}

/// So many bytes of numbers of a type: of similar size, of any size, or with infinities and NaN.
fn operand(values: &mut Values, kind: &str, numbers: &str, count: usize) -> Vec<u8> {
    let mut bytes = values.bytes(count);
    match kind {
        "e4m3" => bytes.iter_mut().for_each(|byte| {
            *byte = match numbers {
                "similar" => *byte & 0x8f | 0x38,
                "spread" if *byte & 0x7f == 0x7f => 0x7e,
                _ => *byte,
            }
        }),
        "e5m2" => bytes.iter_mut().for_each(|byte| {
            *byte = match numbers {
                "similar" => *byte & 0x87 | 0x38,
                "spread" if *byte & 0x7c == 0x7c => 0x3c,
                _ => *byte,
            }
        }),
        "f16" => each_half(&mut bytes, |bits| match numbers {
            "similar" => bits & 0x83ff | 0x3c00,
            "spread" if bits & 0x7c00 == 0x7c00 => 0x3c00,
            _ => bits,
        }),
        "tf32" | "f32" => each_word(&mut bytes, |bits| match numbers {
            "similar" => bits & 0x807f_ffff | 0x3f80_0000,
            // Exponents near 0 on both sides.
            "spread" => bits & 0x87ff_ffff | 0x3800_0000,
            _ => bits,
        }),
        _ => {}
    }
    bytes
}

fn each_half(bytes: &mut [u8], change: impl Fn(u16) -> u16) {
    for bytes in bytes.as_chunks_mut().0 {
        *bytes = change(u16::from_le_bytes(*bytes)).to_le_bytes();
    }
}

fn each_word(bytes: &mut [u8], change: impl Fn(u32) -> u32) {
    for bytes in bytes.as_chunks_mut().0 {
        *bytes = change(u32::from_le_bytes(*bytes)).to_le_bytes();
    }
}
