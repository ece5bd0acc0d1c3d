//! Integer arithmetic, logic and shifts (PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer
//! Arithmetic Instructions", "Logic and Shift Instructions").

use super::bits::{self, integer_kind};
use super::lanewise::Lanewise;
use crate::decode::{Decode, Form, invalid};
use crate::numeric::{integer, sign_extend, zero_extend};
use crate::parse::{Kind, Type};
use crate::program::Destination;

/// Which half of a product is the result.
#[derive(Clone, Copy)]
enum Part {
    Low,
    High,
    Wide,
}

const PARTS: [(&str, Part); 3] = [("lo", Part::Low), ("hi", Part::High), ("wide", Part::Wide)];

/// Decodes an integer instruction; `None` when the opcode is not one.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Lanewise>> {
    let lanewise = match form.opcode() {
        "add" | "sub" if form.has("cc") => add_with_carry(form, false)?,
        "addc" | "subc" => add_with_carry(form, true)?,
        "add" | "sub" | "min" | "max" => add_like(form)?,
        "mul" => multiply(form)?,
        "mad" => multiply_add(form)?,
        "madc" => multiply_add_with_carry(form)?,
        "mul24" | "mad24" => multiply_24(form)?,
        "div" | "rem" => divide(form)?,
        "abs" | "neg" => sign(form)?,
        "sad" => absolute_difference(form)?,
        "and" | "or" | "xor" | "not" | "cnot" => logic(form)?,
        "lop3" => three_input_logic(form)?,
        "shl" | "shr" => shift(form)?,
        "shf" => funnel_shift(form)?,
        "popc" | "clz" | "brev" | "bfind" => count(form)?,
        "bfe" => extract(form)?,
        "bfi" => insert(form)?,
        "bmsk" => mask(form)?,
        "prmt" => permute(form)?,
        "dp4a" | "dp2a" => dot_product(form)?,
        _ => return bits::decode(form),
    };
    Ok(Some(lanewise))
}

fn add_like(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = integer_kind(form)?;
    let saturate = form.flag("sat");
    if saturate && !(kind.is_signed() && kind.bits == 32) {
        return form.refuse();
    }
    match (form.opcode(), saturate) {
        ("add", false) => Lanewise::take(form, kind, &[kind; 2], |v| v[0].wrapping_add(v[1])),
        ("sub", false) => Lanewise::take(form, kind, &[kind; 2], |v| v[0].wrapping_sub(v[1])),
        ("add", true) => saturated(form, kind, |a, b| a + b),
        ("sub", true) => saturated(form, kind, |a, b| a - b),
        ("min", false) => extremum(form, kind, false),
        ("max", false) => extremum(form, kind, true),
        _ => form.refuse(),
    }
}

/// `operation` on two 32-bit numbers, clamped to 32 bits.
fn saturated(
    form: &mut Form<'_>,
    kind: Type,
    operation: impl Fn(i64, i64) -> i64 + Send + Sync + 'static,
) -> Decode<Lanewise> {
    Lanewise::take(form, kind, &[kind; 2], move |v| {
        operation(sign_extend(v[0], 32), sign_extend(v[1], 32)).clamp(i32::MIN.into(), i32::MAX.into()) as u64
    })
}

/// The larger or the smaller one.
fn extremum(form: &mut Form<'_>, kind: Type, larger: bool) -> Decode<Lanewise> {
    if kind.is_signed() {
        return Lanewise::take(form, kind, &[kind; 2], move |v| {
            let (a, b) = (sign_extend(v[0], kind.bits), sign_extend(v[1], kind.bits));
            (if (a > b) == larger { a } else { b }) as u64
        });
    }
    Lanewise::take(form, kind, &[kind; 2], move |v| {
        let (a, b) = (zero_extend(v[0], kind.bits), zero_extend(v[1], kind.bits));
        if (a > b) == larger { a } else { b }
    })
}

fn add_with_carry(form: &mut Form<'_>, takes_carry: bool) -> Decode<Lanewise> {
    let kind = integer_kind(form)?;
    let subtract = form.opcode().starts_with("sub");
    let gives_carry = form.flag("cc");
    let destination = form.destination(kind)?;
    let (a, b) = (form.source(kind)?, form.source(kind)?);
    let carry = form.carry();
    let compute = move |v: &[u64; 4]| {
        // The borrow is stored inverted, as in hardware: nvcc's 128-bit division uses an addition with carry after a
        // subtraction.
        let carry_in = if takes_carry { i128::from(v[2] ^ u64::from(subtract)) } else { 0 };
        let (a, b) = (i128::from(v[0]), i128::from(v[1]));
        let result = if subtract { a - b - carry_in } else { a + b + carry_in };
        [result as u64, ((result >> kind.bits) as u64 & 1) ^ u64::from(subtract)]
    };
    let sources = [a, b, carry];
    let sources = if takes_carry { &sources[..] } else { &sources[..2] };
    if gives_carry {
        let flag = Destination { slot: carry, mask: 1 };
        return Ok(Lanewise::with_two_results(destination, flag, sources, compute));
    }
    Ok(Lanewise::new(destination, sources, move |v| compute(v)[0]))
}

/// The selected part of `a · b`.
fn product(a: u64, b: u64, kind: Type, part: Part) -> u64 {
    match part {
        Part::Low => a.wrapping_mul(b),
        Part::Wide if kind.is_signed() => (sign_extend(a, kind.bits).wrapping_mul(sign_extend(b, kind.bits))) as u64,
        Part::Wide => zero_extend(a, kind.bits).wrapping_mul(zero_extend(b, kind.bits)),
        Part::High if kind.bits <= 32 && kind.is_signed() => {
            (product(a, b, kind, Part::Wide) as i64 >> kind.bits) as u64
        }
        Part::High if kind.bits <= 32 => product(a, b, kind, Part::Wide) >> kind.bits,
        Part::High if kind.is_signed() => ((integer(a, kind) * integer(b, kind)) >> kind.bits) as u64,
        Part::High => {
            let (a, b) = (zero_extend(a, kind.bits), zero_extend(b, kind.bits));
            ((u128::from(a) * u128::from(b)) >> kind.bits) as u64
        }
    }
}

/// The type of the result of a product.
fn product_kind(form: &Form<'_>, kind: Type, part: Part) -> Decode<Type> {
    match part {
        Part::Wide if kind.bits == 64 => form.refuse(),
        Part::Wide => Ok(Type { bits: kind.bits * 2, ..kind }),
        Part::Low | Part::High => Ok(kind),
    }
}

fn part(form: &mut Form<'_>) -> Decode<Part> {
    match form.choice(&PARTS) {
        Some(part) => Ok(part),
        None => invalid(format!("`{}` lacks .lo, .hi or .wide", form.name())),
    }
}

fn multiply(form: &mut Form<'_>) -> Decode<Lanewise> {
    let (part, kind) = (part(form)?, integer_kind(form)?);
    let result = product_kind(form, kind, part)?;
    // Separate code per part, so that the lanes vectorise.
    let sources = &[kind; 2];
    match part {
        Part::Low => Lanewise::take(form, result, sources, move |v| product(v[0], v[1], kind, Part::Low)),
        Part::High => Lanewise::take(form, result, sources, move |v| product(v[0], v[1], kind, Part::High)),
        Part::Wide => Lanewise::take(form, result, sources, move |v| product(v[0], v[1], kind, Part::Wide)),
    }
}

fn multiply_add(form: &mut Form<'_>) -> Decode<Lanewise> {
    if form.has("cc") {
        return multiply_add_with_carry(form);
    }
    let (part, kind) = (part(form)?, integer_kind(form)?);
    let saturate = form.flag("sat");
    let result = product_kind(form, kind, part)?;
    let sources = &[kind, kind, result];
    if saturate {
        return Lanewise::take(form, result, sources, move |v| {
            let high = sign_extend(product(v[0], v[1], kind, part), kind.bits);
            let sum = i128::from(high) + integer(v[2], kind);
            sum.clamp(-(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1) as u64
        });
    }
    let add = |product: u64, addend: u64| product.wrapping_add(addend);
    match part {
        Part::Low => Lanewise::take(form, result, sources, move |v| add(product(v[0], v[1], kind, Part::Low), v[2])),
        Part::High => Lanewise::take(form, result, sources, move |v| add(product(v[0], v[1], kind, Part::High), v[2])),
        Part::Wide => Lanewise::take(form, result, sources, move |v| add(product(v[0], v[1], kind, Part::Wide), v[2])),
    }
}

fn multiply_add_with_carry(form: &mut Form<'_>) -> Decode<Lanewise> {
    let takes_carry = form.opcode() == "madc";
    let (part, kind) = (part(form)?, integer_kind(form)?);
    let gives_carry = form.flag("cc");
    if matches!(part, Part::Wide) {
        return form.refuse();
    }
    let destination = form.destination(kind)?;
    let carry = form.carry();
    let sources = [form.source(kind)?, form.source(kind)?, form.source(kind)?, carry];
    let sources = if takes_carry { &sources[..] } else { &sources[..3] };
    let compute = move |v: &[u64; 4]| {
        let product = zero_extend(product(v[0], v[1], kind, part), kind.bits);
        let carry_in = if takes_carry { v[3] } else { 0 };
        let sum = u128::from(product) + u128::from(v[2]) + u128::from(carry_in);
        [sum as u64, (sum >> kind.bits) as u64 & 1]
    };
    if gives_carry {
        let flag = Destination { slot: carry, mask: 1 };
        return Ok(Lanewise::with_two_results(destination, flag, sources, compute));
    }
    Ok(Lanewise::new(destination, sources, move |v| compute(v)[0]))
}

fn multiply_24(form: &mut Form<'_>) -> Decode<Lanewise> {
    let (part, kind) = (part(form)?, integer_kind(form)?);
    let shift = match part {
        Part::Low => 0,
        Part::High => 16,
        Part::Wide => return form.refuse(),
    };
    if kind.bits != 32 {
        return form.refuse();
    }
    let narrow = Type { bits: 24, ..kind };
    let add = form.opcode() == "mad24";
    let sources = if add { &[kind; 3][..] } else { &[kind; 2][..] };
    Lanewise::take(form, kind, sources, move |v| {
        let product = ((integer(v[0], narrow) * integer(v[1], narrow)) >> shift) as u64;
        if add { product.wrapping_add(v[2]) } else { product }
    })
}

/// Division by zero is unspecified on hardware; here `div` gives all ones and `rem` the dividend.
fn divide(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = integer_kind(form)?;
    let remainder = form.opcode() == "rem";
    Lanewise::take(form, kind, &[kind; 2], move |v| {
        let (a, b) = (integer(v[0], kind), integer(v[1], kind));
        match (b, remainder) {
            (0, false) => u64::MAX,
            (0, true) => v[0],
            (_, false) => (a / b) as u64,
            (_, true) => (a % b) as u64,
        }
    })
}

fn sign(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = integer_kind(form)?;
    if form.opcode() == "neg" {
        return Lanewise::take(form, kind, &[kind], |v| v[0].wrapping_neg());
    }
    Lanewise::take(form, kind, &[kind], move |v| sign_extend(v[0], kind.bits).unsigned_abs())
}

fn absolute_difference(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = integer_kind(form)?;
    Lanewise::take(form, kind, &[kind; 3], move |v| {
        let difference = (integer(v[0], kind) - integer(v[1], kind)).unsigned_abs() as u64;
        difference.wrapping_add(v[2])
    })
}

fn logic(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = form.kind()?;
    if kind.kind == Kind::Predicate {
        return match form.opcode() {
            "and" => Lanewise::take(form, kind, &[kind; 2], |v| v[0] & v[1]),
            "or" => Lanewise::take(form, kind, &[kind; 2], |v| v[0] | v[1]),
            "xor" => Lanewise::take(form, kind, &[kind; 2], |v| v[0] ^ v[1]),
            "not" => Lanewise::take(form, kind, &[kind], |v| v[0] ^ 1),
            _ => form.refuse(),
        };
    }
    if kind.kind != Kind::Bits {
        return form.refuse();
    }
    match form.opcode() {
        "and" => Lanewise::take(form, kind, &[kind; 2], |v| v[0] & v[1]),
        "or" => Lanewise::take(form, kind, &[kind; 2], |v| v[0] | v[1]),
        "xor" => Lanewise::take(form, kind, &[kind; 2], |v| v[0] ^ v[1]),
        "not" => Lanewise::take(form, kind, &[kind], |v| !v[0]),
        _ => Lanewise::take(form, kind, &[kind], |v| u64::from(v[0] == 0)),
    }
}

fn three_input_logic(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = form.kind()?;
    if kind != Type::B32 {
        return form.refuse();
    }
    let destination = form.destination(kind)?;
    let sources = [form.source(kind)?, form.source(kind)?, form.source(kind)?];
    let table = form.literal()?;
    Ok(Lanewise::new(destination, &sources, move |v| {
        let minterm = |index: u64| {
            let pick = |input: usize, bit: u64| if index >> bit & 1 == 1 { v[input] } else { !v[input] };
            if table >> index & 1 == 1 { pick(0, 2) & pick(1, 1) & pick(2, 0) } else { 0 }
        };
        (0..8).fold(0, |result, index| result | minterm(index))
    }))
}

/// Shift amounts above the width are clamped to it.
fn shift(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = integer_kind(form)?;
    let sources = [kind, Type::U32];
    match (form.opcode(), kind.is_signed()) {
        ("shl", _) => Lanewise::take(form, kind, &sources, |v| v[0].checked_shl(v[1] as u32).unwrap_or(0)),
        (_, false) => Lanewise::take(form, kind, &sources, |v| v[0].checked_shr(v[1] as u32).unwrap_or(0)),
        (_, true) => {
            Lanewise::take(form, kind, &sources, move |v| (sign_extend(v[0], kind.bits) >> v[1].min(63)) as u64)
        }
    }
}

fn funnel_shift(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = form.kind()?;
    let left = form.choice(&[("l", true), ("r", false)]);
    let clamp = form.choice(&[("clamp", true), ("wrap", false)]);
    let (Some(left), Some(clamp)) = (left, clamp) else { return form.refuse() };
    if kind != Type::B32 {
        return form.refuse();
    }
    Lanewise::take(form, kind, &[kind; 3], move |v| {
        let pair = v[1] << 32 | v[0];
        let amount = if clamp { v[2].min(32) } else { v[2] & 31 };
        if left { (u128::from(pair) << amount >> 32) as u64 } else { pair >> amount }
    })
}

fn count(form: &mut Form<'_>) -> Decode<Lanewise> {
    let amount = form.flag("shiftamt");
    let kind = integer_kind(form)?;
    let bits = kind.bits;
    match form.opcode() {
        "popc" => Lanewise::take(form, Type::U32, &[kind], |v| u64::from(v[0].count_ones())),
        "clz" => Lanewise::take(form, Type::U32, &[kind], move |v| u64::from(v[0].leading_zeros() - (64 - bits))),
        "brev" => Lanewise::take(form, kind, &[kind], move |v| v[0].reverse_bits() >> (64 - bits)),
        _ => Lanewise::take(form, Type::U32, &[kind], move |v| {
            let value = integer(v[0], kind);
            let significant = if value < 0 { !value } else { value } as u64;
            match significant {
                0 => u64::from(u32::MAX),
                _ if amount => u64::from(significant.leading_zeros() - (64 - bits)),
                _ => u64::from(63 - significant.leading_zeros()),
            }
        }),
    }
}

fn extract(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = integer_kind(form)?;
    Lanewise::take(form, kind, &[kind, Type::U32, Type::U32], move |v| {
        let (start, length) = ((v[1] & 0xff) as u32, (v[2] & 0xff) as u32);
        let value = integer(v[0], kind);
        if length == 0 {
            return 0;
        }
        // Bits beyond the value are zeros, or copies of the sign bit of the field.
        let top = (start + length - 1).min(kind.bits - 1);
        let negative = kind.is_signed() && value >> top & 1 == 1;
        let field = if start >= kind.bits { 0 } else { zero_extend(v[0], kind.bits) >> start };
        let available = kind.bits.saturating_sub(start).min(length);
        let field = if available == 0 { 0 } else { zero_extend(field, available) };
        let above = u64::MAX.checked_shl(available).unwrap_or(0);
        if negative { field | above } else { field }
    })
}

fn insert(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = form.kind()?;
    if kind != Type::B32 && kind != Type::B64 {
        return form.refuse();
    }
    Lanewise::take(form, kind, &[kind, kind, Type::U32, Type::U32], move |v| {
        let (start, length) = ((v[2] & 0xff) as u32, (v[3] & 0xff) as u32);
        let ones = if length == 0 { 0 } else { zero_extend(u64::MAX, length) };
        let mask = ones.checked_shl(start).unwrap_or(0);
        v[1] & !mask | v[0].checked_shl(start).unwrap_or(0) & mask
    })
}

fn mask(form: &mut Form<'_>) -> Decode<Lanewise> {
    let clamp = form.choice(&[("clamp", true), ("wrap", false)]);
    let kind = form.kind()?;
    let Some(clamp) = clamp.filter(|_| kind == Type::B32) else { return form.refuse() };
    Lanewise::take(form, kind, &[Type::U32; 2], move |v| {
        let limit = |value: u64| if clamp { value.min(32) } else { value & 31 };
        let (start, length) = (limit(v[0]), limit(v[1]));
        (((1_u64 << length) - 1) << start) & u64::from(u32::MAX)
    })
}

fn permute(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = form.kind()?;
    if kind != Type::B32 {
        return form.refuse();
    }
    type Selector = fn(u64, u64) -> u64;
    let modes: [(&str, Selector); 6] = [
        ("f4e", |select, byte| select + byte),
        ("b4e", |select, byte| select.wrapping_sub(byte)),
        ("rc8", |select, _| select),
        ("ecl", |select, byte| select.max(byte)),
        ("ecr", |select, byte| select.min(byte)),
        ("rc16", |select, byte| (select & 1) * 2 + (byte & 1)),
    ];
    let mode = form.choice(&modes);
    Lanewise::take(form, kind, &[kind; 3], move |v| {
        let bytes = (v[1] << 32 | v[0]).to_le_bytes();
        let byte = |index: u64| match mode {
            Some(select) => u64::from(bytes[select(v[2] & 3, index) as usize & 7]),
            None => {
                let selector = v[2] >> (4 * index) & 0xf;
                let byte = bytes[(selector & 7) as usize];
                // The top bit asks for eight copies of the byte's sign.
                u64::from(if selector & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 })
            }
        };
        (0..4).fold(0, |result, index| result | byte(index) << (8 * index))
    })
}

fn dot_product(form: &mut Form<'_>) -> Decode<Lanewise> {
    let (a_kind, b_kind) = (integer_kind(form)?, integer_kind(form)?);
    let (elements, offset) = match form.opcode() {
        "dp4a" => (4, 0),
        _ => match form.choice(&[("lo", 0), ("hi", 2)]) {
            Some(offset) => (2, offset),
            None => return form.refuse(),
        },
    };
    let result = if a_kind.is_signed() || b_kind.is_signed() { Type { kind: Kind::Signed, ..a_kind } } else { a_kind };
    let element = |kind: Type, bits: u32| Type { bits, ..kind };
    Lanewise::take(form, result, &[a_kind, b_kind, result], move |v| {
        let a_bits = 32 / elements as u32;
        let sum = (0..elements).fold(0_i128, |sum, index| {
            let a = integer(v[0] >> (a_bits * index as u32), element(a_kind, a_bits));
            let b = integer(v[1] >> (8 * (index + offset)), element(b_kind, 8));
            sum + a * b
        });
        v[2].wrapping_add(sum as u64)
    })
}
