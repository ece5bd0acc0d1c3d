//! Floating-point arithmetic (PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions").
//!
//! Results that PTX defines are exact to the bit. Approximations (`.approx`, `.full`, `ex2`, `lg2`, `sin`, `cos`, `tanh`)
//! are computed in f64 and rounded once, which is closer to the true value than the hardware is.

use super::double::{Arithmetic, gross, quiet};
use super::lanewise::Lanewise;
use super::single::{self, Single};
use crate::decode::{Decode, Form, invalid};
use crate::numeric::{Exact, Format, Rounding};
use crate::parse::{Kind, Type};

const ROUNDINGS: [(&str, Rounding); 4] =
    [("rn", Rounding::Nearest), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];

/// 2^126: `div.approx` by anything larger gives 0 (PTX ISA, "div").
const LARGEST_DIVISOR: f64 = (1_u128 << 126) as f64;

/// Decodes a floating-point instruction; `None` when the opcode is not one.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Lanewise>> {
    let lanewise = match form.opcode() {
        "add" | "sub" | "mul" => arithmetic(form, 2)?,
        "fma" | "mad" => arithmetic(form, 3)?,
        "min" | "max" => extremum(form)?,
        "abs" | "neg" => sign(form)?,
        "div" | "rcp" | "sqrt" => divide_or_root(form)?,
        "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => approximate(form)?,
        "copysign" => copy_sign(form)?,
        "testp" => test(form)?,
        _ => return Ok(None),
    };
    Ok(Some(lanewise))
}

/// What is done to operands and results.
#[derive(Clone, Copy)]
struct Treatment {
    format: Format,
    rounding: Rounding,
    /// `.ftz`: subnormal operands and results become zero.
    flush: bool,
    /// `.sat`: results are clamped to [0, 1], NaN to 0.
    saturate: bool,
    /// `.relu`: negative results become 0.
    relu: bool,
}

impl Treatment {
    /// An operand as a number.
    fn operand(self, bits: u64) -> f64 {
        let value = self.format.value(bits);
        let flushes = self.flush && value != 0.0 && value.abs() < self.format.smallest_normal();
        if flushes { 0.0_f64.copysign(value) } else { value }
    }

    /// The same of `.f32` that rounds to nearest.
    fn of_singles(self) -> Single {
        Single { flush: self.flush, saturate: self.saturate }
    }

    /// A result as bits.
    fn result(self, value: Exact) -> u64 {
        self.finish(value.round(self.format, self.rounding))
    }

    /// Flushes and clamps rounded bits.
    fn finish(self, bits: u64) -> u64 {
        let value = self.format.value(bits);
        if self.saturate && (value.is_nan() || value <= 0.0) {
            return 0;
        }
        if self.saturate && value > 1.0 {
            return Exact::from(1.0).round(self.format, Rounding::Nearest);
        }
        if self.relu && value <= 0.0 {
            return 0;
        }
        if self.flush && value != 0.0 && value.abs() < self.format.smallest_normal() {
            return bits & 1 << (self.format.bits() - 1);
        }
        bits
    }
}

/// Applies `function` to the elements of packed values.
fn packed(kind: Type, function: impl Fn(&[u64; 4]) -> u64 + Send + Sync) -> impl Fn(&[u64; 4]) -> u64 + Send + Sync {
    let (elements, bits) = (kind.packed, kind.element().bits);
    move |v| {
        if elements == 1 {
            return function(v);
        }
        let mask = (1 << bits) - 1;
        let low = function(&v.map(|value| value & mask));
        let high = function(&v.map(|value| value >> bits & mask));
        low & mask | (high & mask) << bits
    }
}

/// The type modifier, which must be a float.
fn float_kind(form: &mut Form<'_>) -> Decode<Type> {
    let kind = form.kind()?;
    if kind.is_float() { Ok(kind) } else { form.refuse() }
}

fn treatment(form: &mut Form<'_>, kind: Type) -> Treatment {
    Treatment {
        format: Format::of(kind),
        rounding: form.choice(&ROUNDINGS).unwrap_or(Rounding::Nearest),
        flush: form.flag("ftz"),
        saturate: form.flag("sat"),
        relu: form.flag("relu"),
    }
}

/// `add`, `sub`, `mul` (two operands) and `fma` (three).
fn arithmetic(form: &mut Form<'_>, operands: usize) -> Decode<Lanewise> {
    let kind = float_kind(form)?;
    let treatment = treatment(form, kind);
    let sources = &[kind; 3][..operands];
    let opcode = form.opcode();
    if kind == Type::F64 {
        return double_arithmetic(form, treatment.rounding, sources);
    }
    if kind == Type::F32 && treatment.rounding == Rounding::Nearest {
        return single::arithmetic(form, treatment.of_singles(), sources);
    }
    let compute = match opcode {
        "add" => |v: [f64; 3], rounding| Exact::sum(v[0], v[1], rounding),
        "sub" => |v: [f64; 3], rounding| Exact::sum(v[0], -v[1], rounding),
        // A product of two numbers of at most 24 bits is exact in an f64.
        "mul" => |v: [f64; 3], _| Exact::from(v[0] * v[1]),
        _ => |v: [f64; 3], rounding| Exact::sum(v[0] * v[1], v[2], rounding),
    };
    Lanewise::take(
        form,
        kind,
        sources,
        packed(kind, move |v| {
            let values = [v[0], v[1], v[2]].map(|bits| treatment.operand(bits));
            treatment.result(compute(values, treatment.rounding))
        }),
    )
}

fn double_arithmetic(form: &mut Form<'_>, rounding: Rounding, sources: &[Type]) -> Decode<Lanewise> {
    let operation = Arithmetic::of(form.opcode());
    Lanewise::take(form, Type::F64, sources, move |v| operation.compute(v, rounding))
}

fn extremum(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = float_kind(form)?;
    let propagate_nan = form.flag("NaN");
    if form.flag("xorsign") {
        return extremum_of_magnitudes(form, kind, propagate_nan);
    }
    let treatment = treatment(form, kind);
    let maximum = form.opcode() == "max";
    let operands = form.remaining().saturating_sub(1);
    if !(2..=3).contains(&operands) {
        return invalid(format!("`{}` takes two or three values", form.name()));
    }
    if kind == Type::F32 {
        return single::extremum(form, treatment.of_singles(), (maximum, propagate_nan), operands);
    }
    let pick = move |a: u64, b: u64| {
        let (x, y) = (treatment.operand(a), treatment.operand(b));
        let result = match (x.is_nan(), y.is_nan()) {
            (true, true) if kind == Type::F64 => return quiet(b),
            (true, true) => f64::NAN,
            (true, false) | (false, true) if propagate_nan => f64::NAN,
            (true, false) => y,
            (false, true) => x,
            // −0 is less than +0.
            _ if x == y => {
                if x.is_sign_negative() == maximum {
                    y
                } else {
                    x
                }
            }
            _ => {
                if (x > y) == maximum {
                    x
                } else {
                    y
                }
            }
        };
        Exact::from(result).round(treatment.format, Rounding::Nearest)
    };
    Lanewise::take(
        form,
        kind,
        &[kind; 3][..operands],
        packed(kind, move |v| {
            let two = pick(v[0], v[1]);
            if operands == 3 { pick(two, v[2]) } else { two }
        }),
    )
}

/// `.xorsign.abs`: of the magnitudes, with the product's sign.
fn extremum_of_magnitudes(form: &mut Form<'_>, kind: Type, propagate_nan: bool) -> Decode<Lanewise> {
    if !form.flag("abs") {
        return form.refuse();
    }
    let treatment = treatment(form, kind);
    let (maximum, sign) = (form.opcode() == "max", 1_u64 << (kind.element().bits - 1));
    Lanewise::take(
        form,
        kind,
        &[kind; 2],
        packed(kind, move |v| {
            let [x, y] = [v[0], v[1]].map(|bits| treatment.operand(bits & !sign & (2 * sign - 1)));
            let magnitude = match (x.is_nan(), y.is_nan()) {
                (true, true) => f64::NAN,
                (true, false) | (false, true) if propagate_nan => f64::NAN,
                (true, false) => y,
                (false, true) => x,
                _ if maximum => x.max(y),
                _ => x.min(y),
            };
            if magnitude.is_nan() {
                return treatment.format.nan();
            }
            Exact::from(magnitude).round(treatment.format, Rounding::Nearest) | (v[0] ^ v[1]) & sign
        }),
    )
}

fn sign(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = float_kind(form)?;
    let flushes = form.flag("ftz");
    let treatment = Treatment {
        format: Format::of(kind),
        rounding: Rounding::Nearest,
        flush: flushes,
        saturate: false,
        relu: false,
    };
    let sign = 1_u64 << (kind.element().bits - 1);
    let negate = form.opcode() == "neg";
    Lanewise::take(
        form,
        kind,
        &[kind],
        packed(kind, move |v| {
            if kind == Type::F64 && f64::from_bits(v[0]).is_nan() {
                return quiet(v[0]);
            }
            let is_nan = kind != Type::F64 && treatment.format.value(v[0] & (2 * sign - 1)).is_nan();
            match (is_nan, negate) {
                (true, _) => treatment.format.nan(),
                (false, true) => treatment.finish(v[0] ^ sign),
                (false, false) => treatment.finish(v[0] & !sign),
            }
        }),
    )
}

fn divide_or_root(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = float_kind(form)?;
    let (approximate, full) = (form.flag("approx"), form.flag("full"));
    let treatment = treatment(form, kind);
    let (inverse, sources) = match form.opcode() {
        "div" => (Inverse::Quotient, &[kind; 2][..]),
        "rcp" => (Inverse::Reciprocal, &[kind; 1][..]),
        _ => (Inverse::SquareRoot, &[kind; 1][..]),
    };
    if kind == Type::F64 && approximate && treatment.flush && form.opcode() == "rcp" {
        return Lanewise::take(form, kind, sources, |v| gross(|x| 1.0 / x, v[0]));
    }
    if kind == Type::F64 {
        return if approximate || full { form.refuse() } else { double_arithmetic(form, treatment.rounding, sources) };
    }
    if kind != Type::F32 {
        return form.refuse();
    }
    Lanewise::take(form, kind, sources, move |v| {
        let (a, b) = (treatment.operand(v[0]), treatment.operand(v[1]));
        treatment.result(match inverse {
            // The reciprocal of such a divisor is subnormal and is flushed.
            Inverse::Quotient if approximate && b.abs() > LARGEST_DIVISOR && b.is_finite() => {
                Exact::from(a * 0.0_f64.copysign(b))
            }
            Inverse::Quotient => Exact::quotient(a, b),
            Inverse::Reciprocal => Exact::quotient(1.0, a),
            Inverse::SquareRoot => Exact::square_root(a),
        })
    })
}

/// An operation that undoes a multiplication, of `.f32`.
#[derive(Clone, Copy)]
enum Inverse {
    Quotient,
    Reciprocal,
    SquareRoot,
}

fn approximate(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = float_kind(form)?;
    if !form.flag("approx") {
        return form.refuse();
    }
    let treatment = treatment(form, kind);
    if kind == Type::F64 && treatment.flush && form.opcode() == "rsqrt" {
        return Lanewise::take(form, kind, &[kind], |v| gross(|x| 1.0 / x.sqrt(), v[0]));
    }
    let function: fn(f64) -> f64 = match (form.opcode(), kind.element().bits) {
        ("rsqrt", 32 | 64) => |x| 1.0 / x.sqrt(),
        ("ex2", 16 | 32) => f64::exp2,
        ("lg2", 32) => f64::log2,
        ("sin", 32) => f64::sin,
        ("cos", 32) => f64::cos,
        ("tanh", 16 | 32) => f64::tanh,
        _ => return form.refuse(),
    };
    if kind == Type::F32 {
        return single::approximation(form, treatment.of_singles(), function);
    }
    Lanewise::take(
        form,
        kind,
        &[kind],
        packed(kind, move |v| treatment.result(Exact::from(function(treatment.operand(v[0]))))),
    )
}

fn copy_sign(form: &mut Form<'_>) -> Decode<Lanewise> {
    let kind = float_kind(form)?;
    let sign = 1_u64 << (kind.bits - 1);
    Lanewise::take(form, kind, &[kind; 2], move |v| v[1] & !sign | v[0] & sign)
}

fn test(form: &mut Form<'_>) -> Decode<Lanewise> {
    /// Of a value, and whether it is subnormal.
    type Property = fn(f64, bool) -> bool;
    let properties: [(&str, Property); 6] = [
        ("finite", |x, _| x.is_finite()),
        ("infinite", |x, _| x.is_infinite()),
        ("number", |x, _| !x.is_nan()),
        ("notanumber", |x, _| x.is_nan()),
        ("normal", |x, subnormal| x.is_finite() && !subnormal),
        ("subnormal", |_, subnormal| subnormal),
    ];
    let property = form.choice(&properties);
    let kind = float_kind(form)?;
    let Some(property) = property.filter(|_| kind.kind == Kind::Float && kind.bits >= 32) else { return form.refuse() };
    Lanewise::take(form, Type::PREDICATE, &[kind], move |v| {
        let subnormal = match kind.bits {
            32 => f32::from_bits(v[0] as u32).is_subnormal(),
            _ => f64::from_bits(v[0]).is_subnormal(),
        };
        u64::from(property(Format::of(kind).value(v[0]), subnormal))
    })
}
