//! SIMD video instructions (PTX ISA, "vadd2, vsub2, vavrg2, vabsdiff2, vmin2, vmax2", and the same of four bytes), without
//! selectors of parts.

use super::lanewise::Lanewise;
use crate::decode::{Decode, Form};
use crate::numeric::sign_extend;
use crate::parse::Type;

/// What is done to each part.
type Operation = fn(i64, i64) -> i64;

/// Opcode, bits of a part, what is done.
const OPERATIONS: [(&str, (u32, Operation)); 12] = [
    ("vadd2", (16, |a, b| a + b)),
    ("vadd4", (8, |a, b| a + b)),
    ("vsub2", (16, |a, b| a - b)),
    ("vsub4", (8, |a, b| a - b)),
    ("vavrg2", (16, average)),
    ("vavrg4", (8, average)),
    ("vabsdiff2", (16, |a, b| (a - b).abs())),
    ("vabsdiff4", (8, |a, b| (a - b).abs())),
    ("vmin2", (16, |a, b| a.min(b))),
    ("vmin4", (8, |a, b| a.min(b))),
    ("vmax2", (16, |a, b| a.max(b))),
    ("vmax4", (8, |a, b| a.max(b))),
];

/// To nearest, ties away from zero.
fn average(a: i64, b: i64) -> i64 {
    (a + b + i64::from(a + b >= 0)) >> 1
}

/// Decodes a SIMD video instruction; `None` when it is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Lanewise>> {
    let found = OPERATIONS.iter().find(|(name, _)| *name == form.opcode());
    let Some((_, (bits, operation))) = found.copied() else { return Ok(None) };
    let (saturate, sum) = (form.flag("sat"), form.flag("add"));
    let (to, a_kind, b_kind) = (form.kind()?, form.kind()?, form.kind()?);
    if [to, a_kind, b_kind].iter().any(|kind| !kind.is_integer() || kind.bits != 32) {
        return form.refuse();
    }
    let part = move |value: u64, kind: Type, index: u32| {
        let value = value >> (index * bits) & ((1 << bits) - 1);
        if kind.is_signed() { sign_extend(value, bits) } else { value as i64 }
    };
    let range = if to.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let lanewise = Lanewise::take(form, to, &[a_kind, b_kind, Type::U32], move |v| {
        let results = (0..32 / bits).map(|index| {
            let result = operation(part(v[0], a_kind, index), part(v[1], b_kind, index));
            if saturate { result.clamp(range.0, range.1) } else { result }
        });
        if sum {
            return results.fold(v[2] as i64, |total, result| total.wrapping_add(result)) as u64;
        }
        let packed = results.zip(0..).map(|(result, index)| (result as u64 & ((1 << bits) - 1)) << (index * bits));
        packed.fold(0, |all, result| all | result)
    });
    lanewise.map(Some)
}
