//! Comparison and selection (PTX ISA, "Comparison and Selection Instructions").

use std::cmp::Ordering;

use super::lanewise::Lanewise;
use crate::decode::{Decode, Form, invalid};
use crate::numeric::{Format, flush, sign_extend};
use crate::parse::Type;

/// A comparison: the set of orders of the operands for which it is true.
#[derive(Clone, Copy)]
struct Comparison {
    less: bool,
    equal: bool,
    greater: bool,
    unordered: bool,
}

impl Comparison {
    fn parse(name: &str) -> Option<Comparison> {
        let (less, equal, greater, unordered) = match name {
            "eq" => (false, true, false, false),
            "ne" => (true, false, true, false),
            "lt" | "lo" => (true, false, false, false),
            "le" | "ls" => (true, true, false, false),
            "gt" | "hi" => (false, false, true, false),
            "ge" | "hs" => (false, true, true, false),
            "equ" => (false, true, false, true),
            "neu" => (true, false, true, true),
            "ltu" => (true, false, false, true),
            "leu" => (true, true, false, true),
            "gtu" => (false, false, true, true),
            "geu" => (false, true, true, true),
            "num" => (true, true, true, false),
            "nan" => (false, false, false, true),
            _ => return None,
        };
        Some(Comparison { less, equal, greater, unordered })
    }

    fn of_order(self, order: Option<Ordering>) -> bool {
        match order {
            Some(Ordering::Less) => self.less,
            Some(Ordering::Equal) => self.equal,
            Some(Ordering::Greater) => self.greater,
            None => self.unordered,
        }
    }

    /// Whether it holds for two integers. Branch-free, like that for `.f32`, so that it vectorises.
    fn of_integers(self, kind: Type) -> impl Fn(u64, u64) -> bool + Send + Sync + Copy {
        let unused = 64 - kind.bits.min(64);
        let sign = if kind.is_signed() { 0 } else { 1 << 63 };
        // Shifting to the top keeps the order.
        let key = move |value: u64| (value << unused ^ sign) as i64;
        move |a, b| {
            let (a, b) = (key(a), key(b));
            self.less & (a < b) | self.equal & (a == b) | self.greater & (a > b)
        }
    }

    /// Whether it holds of two numbers of `.f32`.
    fn of_singles(self, flushes: bool) -> impl Fn(u64, u64) -> bool + Send + Sync + Copy {
        let value = move |bits: u64| {
            let value = f32::from_bits(bits as u32);
            if flushes { flush(value) } else { value }
        };
        move |a, b| {
            let (a, b) = (value(a), value(b));
            let is_unordered = a.is_nan() | b.is_nan();
            self.less & (a < b) | self.equal & (a == b) | self.greater & (a > b) | self.unordered & is_unordered
        }
    }

    /// Whether it holds of two floating-point numbers.
    fn of_floats(self, kind: Type, flush: bool) -> impl Fn(u64, u64) -> bool + Send + Sync + Copy {
        let value = move |bits: u64| {
            let value = Format::of(kind).value(bits);
            let flushes = flush && value.abs() < Format::of(kind).smallest_normal();
            if flushes { 0.0 } else { value }
        };
        move |a, b| self.of_order(value(a).partial_cmp(&value(b)))
    }
}

/// Decodes a comparison or selection; `None` when the opcode is not one.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Lanewise>> {
    let lanewise = match form.opcode() {
        "setp" => set_predicate(form)?,
        "set" => set(form)?,
        "selp" => select(form)?,
        "slct" => select_by_sign(form)?,
        _ => return Ok(None),
    };
    Ok(Some(lanewise))
}

/// Truth table of the combination of a comparison and a predicate: bit 0: neither holds, bit 1: the comparison does,
/// bit 2: the predicate does, bit 3: both do.
type Combine = u64;

/// The comparison alone.
const NOTHING: Combine = 0b1010;

/// The comparison, its combination with a predicate, and flushing.
struct Test {
    comparison: Comparison,
    combine: Option<Combine>,
    flush: bool,
}

fn test(form: &mut Form<'_>) -> Decode<Test> {
    let Some(comparison) = form.take(Comparison::parse) else { return form.refuse() };
    let combinations: [(&str, Combine); 3] = [("and", 0b1000), ("or", 0b1110), ("xor", 0b0110)];
    Ok(Test { comparison, combine: form.choice(&combinations), flush: form.flag("ftz") })
}

impl Test {
    /// Whether it holds of two values of type `kind`.
    fn of(&self, kind: Type) -> Box<dyn Fn(u64, u64) -> bool + Send + Sync> {
        match kind.is_float() {
            true => Box::new(self.comparison.of_floats(kind, self.flush)),
            false => Box::new(self.comparison.of_integers(kind)),
        }
    }
}

fn set_predicate(form: &mut Form<'_>) -> Decode<Lanewise> {
    let test = test(form)?;
    let (kind, comparison) = (form.kind()?, test.comparison);
    match kind {
        Type::F32 => set_predicate_where(form, &test, kind, comparison.of_singles(test.flush)),
        _ if kind.is_float() => set_predicate_where(form, &test, kind, comparison.of_floats(kind, test.flush)),
        _ => set_predicate_where(form, &test, kind, comparison.of_integers(kind)),
    }
}

/// `setp`, where `holds` compares two elements of `kind`.
fn set_predicate_where(
    form: &mut Form<'_>,
    test: &Test,
    kind: Type,
    holds: impl Fn(u64, u64) -> bool + Send + Sync + Copy + 'static,
) -> Decode<Lanewise> {
    let (first, second) = form.destination_pair(Type::PREDICATE, Type::PREDICATE)?;
    if kind.packed == 2 && second.is_none() {
        return invalid(format!("`{}` gives a predicate for each half: `p|q`", form.name()));
    }
    let mut sources = vec![form.source(kind)?, form.source(kind)?];
    let negated = if test.combine.is_some() {
        let (slot, negated) = form.predicate()?;
        sources.push(slot);
        negated
    } else {
        false
    };
    let combine = test.combine.unwrap_or(NOTHING);
    let result = move |holds: bool, with: u64| {
        let with = (with != 0) != negated;
        combine >> (u64::from(holds) | u64::from(with) << 1) & 1
    };
    let is_packed = kind.packed == 2;
    Ok(match second {
        Some(second) if is_packed => Lanewise::with_two_results(first, second, &sources, move |v| {
            [result(holds(v[0] & 0xffff, v[1] & 0xffff), v[2]), result(holds(v[0] >> 16, v[1] >> 16), v[2])]
        }),
        Some(second) => Lanewise::with_two_results(first, second, &sources, move |v| {
            let holds = holds(v[0], v[1]);
            [result(holds, v[2]), result(!holds, v[2])]
        }),
        None => Lanewise::new(first, &sources, move |v| result(holds(v[0], v[1]), v[2])),
    })
}

fn set(form: &mut Form<'_>) -> Decode<Lanewise> {
    let test = test(form)?;
    let (to, from) = (form.kind()?, form.kind()?);
    if test.combine.is_some() || to.packed == 2 && from != to {
        return form.refuse();
    }
    if from.packed == 2 {
        return set_halves(form, &test, to, from);
    }
    let yes = match to.is_float() {
        true => crate::numeric::Exact::from(1.0).round(Format::of(to), crate::numeric::Rounding::Nearest),
        false => u64::MAX,
    };
    let holds = test.of(from);
    Lanewise::take(form, to, &[from; 2], move |v| if holds(v[0], v[1]) { yes } else { 0 })
}

/// Compares each half; the result has a half per comparison.
fn set_halves(form: &mut Form<'_>, test: &Test, to: Type, from: Type) -> Decode<Lanewise> {
    let yes = match to.packed {
        2 => crate::numeric::Exact::from(1.0).round(Format::of(to), crate::numeric::Rounding::Nearest),
        _ => 0xffff,
    };
    let holds = test.of(from);
    let half = move |a: u64, b: u64| if holds(a, b) { yes } else { 0 };
    Lanewise::take(form, to, &[from; 2], move |v| {
        half(v[0] & 0xffff, v[1] & 0xffff) | half(v[0] >> 16 & 0xffff, v[1] >> 16 & 0xffff) << 16
    })
}

fn select(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = form.kind()?;
    let destination = form.destination(kind)?;
    let (a, b) = (form.source(kind)?, form.source(kind)?);
    let (predicate, negated) = form.predicate()?;
    Ok(Lanewise::new(destination, &[a, b, predicate], move |v| if (v[2] != 0) != negated { v[0] } else { v[1] }))
}

fn select_by_sign(form: &mut Form<'_>) -> Decode<Lanewise> {
    let flushes = form.flag("ftz");
    let (kind, by) = (form.kind()?, form.kind()?);
    if by.bits != 32 {
        return invalid(format!("`{}` selects by .s32 or .f32", form.name()));
    }
    Lanewise::take(form, kind, &[kind, kind, by], move |v| {
        let is_positive = match by.is_float() {
            true => {
                let value = f32::from_bits(v[2] as u32);
                (if flushes { flush(value) } else { value }) >= 0.0
            }
            false => sign_extend(v[2], 32) >= 0,
        };
        if is_positive { v[0] } else { v[1] }
    })
}
