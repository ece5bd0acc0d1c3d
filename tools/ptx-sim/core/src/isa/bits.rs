//! Bit field instructions (PTX ISA, "szext", "fns").

use super::lanewise::Lanewise;
use crate::decode::{Decode, Form};
use crate::numeric::{sign_extend, zero_extend};
use crate::parse::{Kind, Type};

/// Decodes one of them; `None` when it is another instruction.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Lanewise>> {
    match form.opcode() {
        "szext" => extend(form).map(Some),
        "fns" => find_set(form).map(Some),
        _ => Ok(None),
    }
}

/// `szext`: extends the low bits by their sign or with zeros.
fn extend(form: &mut Form<'_>) -> Decode<Lanewise> {
    let Some(clamps) = form.choice(&[("clamp", true), ("wrap", false)]) else { return form.refuse() };
    let kind = integer_kind(form)?;
    if kind.bits != 32 {
        return form.refuse();
    }
    Lanewise::take(form, kind, &[kind, Type::U32], move |v| {
        let bits = if clamps { (v[1] as u32).min(32) } else { v[1] as u32 & 31 };
        match (bits, kind.is_signed()) {
            (0, _) => 0,
            (_, true) => sign_extend(v[0], bits) as u64,
            (_, false) => zero_extend(v[0], bits),
        }
    })
}

/// `fns`: position of the `offset`-th set bit from `base` on; all ones if there is none.
fn find_set(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = integer_kind(form)?;
    let signed = Type { kind: Kind::Signed, ..Type::B32 };
    Lanewise::take(form, kind, &[Type::B32, Type::B32, signed], |v| {
        let (mask, base, offset) = (v[0] as u32, v[1] as u32 & 31, v[2] as i32);
        let is_set = |place: &u32| mask >> place & 1 != 0;
        let found = match offset {
            0 => Some(base).filter(is_set),
            1.. => (base..32).filter(is_set).nth(offset as usize - 1),
            _ => (0..=base).rev().filter(is_set).nth(offset.unsigned_abs() as usize - 1),
        };
        u64::from(found.unwrap_or(u32::MAX))
    })
}

/// The type modifier, which must be an integer.
pub(super) fn integer_kind(form: &mut Form<'_>) -> Decode<Type> {
    let kind = form.kind()?;
    if kind.is_integer() && kind.bits >= 16 && kind.bits <= 64 { Ok(kind) } else { form.refuse() }
}
