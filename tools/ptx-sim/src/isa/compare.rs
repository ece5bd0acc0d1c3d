//! Comparison and selection (PTX ISA, "Comparison and Selection Instructions").

use super::lanewise::Lanewise;
use crate::decode::{Decode, Form, invalid};
use crate::numeric::{Format, integer, sign_extend};
use crate::parse::Type;

/// A comparison: which orders of the operands make it true.
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

    fn holds(self, order: Option<std::cmp::Ordering>) -> bool {
        match order {
            Some(std::cmp::Ordering::Less) => self.less,
            Some(std::cmp::Ordering::Equal) => self.equal,
            Some(std::cmp::Ordering::Greater) => self.greater,
            None => self.unordered,
        }
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

/// `.and`, `.or`, `.xor` with a predicate.
type Combine = fn(bool, bool) -> bool;

/// The comparison, its combination with a predicate, and flushing, as a function of two operands.
struct Test {
    comparison: Comparison,
    combine: Option<Combine>,
    flush: bool,
}

fn test(form: &mut Form<'_>) -> Decode<Test> {
    let Some(comparison) = form.take(Comparison::parse) else { return form.refuse() };
    let combinations: [(&str, Combine); 3] = [("and", |a, b| a && b), ("or", |a, b| a || b), ("xor", |a, b| a != b)];
    Ok(Test { comparison, combine: form.choice(&combinations), flush: form.flag("ftz") })
}

/// The order of two values of type `kind`.
fn order(kind: Type, flush: bool) -> impl Fn(u64, u64) -> Option<std::cmp::Ordering> + Send + Sync {
    let value = move |bits: u64| {
        let value = Format::of(kind).value(bits);
        let flushes = flush && value.abs() < Format::of(kind).smallest_normal();
        if flushes { 0.0 } else { value }
    };
    move |a, b| {
        if kind.is_float() { value(a).partial_cmp(&value(b)) } else { integer(a, kind).partial_cmp(&integer(b, kind)) }
    }
}

fn set_predicate(form: &mut Form<'_>) -> Decode<Lanewise> {
    let test = test(form)?;
    let kind = form.kind()?;
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
    let order = order(kind, test.flush);
    let is_packed = kind.packed == 2;
    let compute = move |v: &[u64; 4]| {
        let holds = |a: u64, b: u64| test.comparison.holds(order(a, b));
        let with = (v[2] != 0) != negated;
        let result = |holds| u64::from(test.combine.map_or(holds, |combine| combine(holds, with)));
        if is_packed {
            return [result(holds(v[0] & 0xffff, v[1] & 0xffff)), result(holds(v[0] >> 16, v[1] >> 16))];
        }
        let holds = holds(v[0], v[1]);
        [result(holds), result(!holds)]
    };
    Ok(match second {
        Some(second) => Lanewise::with_two_results(first, second, &sources, compute),
        None => Lanewise::new(first, &sources, move |v| compute(v)[0]),
    })
}

fn set(form: &mut Form<'_>) -> Decode<Lanewise> {
    let test = test(form)?;
    let (to, from) = (form.kind()?, form.kind()?);
    if test.combine.is_some() || to.packed == 2 && from != to {
        return form.refuse();
    }
    if from.packed == 2 {
        return set_halves(form, test, to, from);
    }
    let yes = match to.is_float() {
        true => crate::numeric::Exact::from(1.0).round(Format::of(to), crate::numeric::Rounding::Nearest),
        false => u64::MAX,
    };
    let order = order(from, test.flush);
    Lanewise::take(form, to, &[from; 2], move |v| if test.comparison.holds(order(v[0], v[1])) { yes } else { 0 })
}

/// A comparison of each half; a half of the result for each.
fn set_halves(form: &mut Form<'_>, test: Test, to: Type, from: Type) -> Decode<Lanewise> {
    let yes = match to.packed {
        2 => crate::numeric::Exact::from(1.0).round(Format::of(to), crate::numeric::Rounding::Nearest),
        _ => 0xffff,
    };
    let order = order(from, test.flush);
    let half = move |a: u64, b: u64| if test.comparison.holds(order(a, b)) { yes } else { 0 };
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
    let flush = form.flag("ftz");
    let (kind, by) = (form.kind()?, form.kind()?);
    if by.bits != 32 {
        return invalid(format!("`{}` selects by .s32 or .f32", form.name()));
    }
    Lanewise::take(form, kind, &[kind, kind, by], move |v| {
        let is_positive = match by.is_float() {
            true => {
                let value = f32::from_bits(v[2] as u32);
                (if flush { crate::numeric::flush(value) } else { value }) >= 0.0
            }
            false => sign_extend(v[2], 32) >= 0,
        };
        if is_positive { v[0] } else { v[1] }
    })
}
