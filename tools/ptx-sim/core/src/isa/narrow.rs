//! Conversions to and from formats that only matrix instructions use: `.e4m3`, `.e5m2`, `.tf32` (PTX ISA, "cvt",
//! "Alternate Floating-Point Data Formats").

use super::lanewise::Lanewise;
use crate::decode::{Decode, Form};
use crate::numeric::{Exact, Format, Rounding};
use crate::parse::Type;
use crate::small::Small;

/// Decodes such a conversion; `None` when it is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Lanewise>> {
    if form.opcode() != "cvt" {
        return Ok(None);
    }
    if form.flag("tf32") {
        return to_tf32(form).map(Some);
    }
    let Some(small) = form.choice(&[("e4m3x2", Small::E4M3), ("e5m2x2", Small::E5M2)]) else { return Ok(None) };
    let relu = form.flag("relu");
    if !form.flag("rn") {
        return form.refuse();
    }
    let other = form.kind()?;
    let lanewise = match (other, form.flag("satfinite")) {
        (Type::F32, true) => {
            let narrow = move |bits: u64| small.narrow(Format::F32.value(bits), relu);
            // The first operand goes into the upper half.
            Lanewise::take(form, B16, &[Type::F32; 2], move |v| narrow(v[0]) << 8 | narrow(v[1]))
        }
        (HALVES, true) => {
            let narrow = move |bits: u64| small.narrow(Format::F16.value(bits & 0xffff), relu);
            Lanewise::take(form, B16, &[HALVES], move |v| narrow(v[0] >> 16) << 8 | narrow(v[0]))
        }
        (HALVES, false) => {
            let widen = move |bits: u64| {
                let value = small.value(bits & 0xff);
                if relu && value <= 0.0 { 0 } else { Exact::from(value).round(Format::F16, Rounding::Nearest) }
            };
            Lanewise::take(form, HALVES, &[B16], move |v| widen(v[0] >> 8) << 16 | widen(v[0]))
        }
        _ => form.refuse(),
    };
    lanewise.map(Some)
}

const B16: Type = Type { bits: 16, ..Type::B32 };
const HALVES: Type = Type { bits: 32, packed: 2, ..Type::F16 };

/// `.tf32` is `.f32` with 10 bits of fraction.
fn to_tf32(form: &mut Form<'_>) -> Decode<Lanewise> {
    const DROPPED: u32 = 13;
    // The dropped bits are zero, for NaN too.
    const NAN: u64 = 0x7fff_e000;
    let modes = [("rna", None), ("rn", Some(Rounding::Nearest)), ("rz", Some(Rounding::Zero))];
    let Some(mode) = form.choice(&modes) else { return form.refuse() };
    let relu = form.flag("relu");
    if form.kind()? != Type::F32 {
        return form.refuse();
    }
    Lanewise::take(form, Type::B32, &[Type::F32], move |v| {
        let value = f32::from_bits(v[0] as u32);
        if value.is_nan() && mode.is_some() {
            return NAN;
        }
        if relu && value <= 0.0 {
            return 0;
        }
        let half = 1 << (DROPPED - 1);
        let is_odd = v[0] >> DROPPED & 1;
        let rounded = match mode {
            // `.rna` is implemented by integer instructions, which keep the sign and the upper payload bits of NaN.
            _ if !value.is_finite() => v[0],
            None => v[0] + half,
            Some(Rounding::Nearest) => v[0] + half - 1 + is_odd,
            Some(_) => v[0],
        };
        rounded >> DROPPED << DROPPED
    })
}
