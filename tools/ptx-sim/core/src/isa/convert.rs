//! Conversions between types (PTX ISA, "cvt", "cvta", "isspacep") and between state spaces.

use super::lanewise::Lanewise;
use super::narrow;
use crate::cluster_addresses::shared_rank;
use crate::decode::{Decode, Form};
use crate::memory::{generic_address, resolve, space_address};
use crate::numeric::{Exact, Format, Rounding, integer, sign_extend, zero_extend};
use crate::parse::{Kind, Space, Type};
use crate::program::Special;

const ROUNDINGS: [(&str, Rounding); 4] =
    [("rn", Rounding::Nearest), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];

const INTEGER_ROUNDINGS: [(&str, Rounding); 4] =
    [("rni", Rounding::Nearest), ("rzi", Rounding::Zero), ("rmi", Rounding::Down), ("rpi", Rounding::Up)];

/// Decodes a conversion; `None` when the opcode is not one.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Lanewise>> {
    match form.opcode() {
        "cvt" => convert(form).map(Some),
        "cvta" => convert_address(form).map(Some),
        "isspacep" => is_in_space(form).map(Some),
        _ => Ok(None),
    }
}

/// The options of a conversion.
#[derive(Clone, Copy)]
struct Conversion {
    to: Type,
    from: Type,
    rounding: Rounding,
    /// Rounding to an integral value before the conversion.
    integral: Option<Rounding>,
    flush: bool,
    saturate: bool,
    relu: bool,
}

fn convert(form: &mut Form<'_>) -> Decode<Lanewise> {
    if let Some(lanewise) = narrow::decode(form)? {
        return Ok(lanewise);
    }
    let rounding = form.choice(&ROUNDINGS);
    let integral = form.choice(&INTEGER_ROUNDINGS);
    let (flush, saturate, relu) = (form.flag("ftz"), form.flag("sat"), form.flag("relu"));
    let (to, from) = (form.kind()?, form.kind()?);
    let rounding = rounding.unwrap_or(Rounding::Nearest);
    let conversion = Conversion { to: to.element(), from: from.element(), rounding, integral, flush, saturate, relu };
    let bits_only = |kind: Type| matches!(kind.kind, Kind::Bits | Kind::Predicate);
    if bits_only(to) || bits_only(from) || from.packed > 1 {
        return form.refuse();
    }
    if to.packed == 2 {
        if from != Type::F32 {
            return form.refuse();
        }
        // The first operand goes into the upper half.
        return Lanewise::take(form, to, &[from; 2], move |v| conversion.apply(v[0]) << 16 | conversion.apply(v[1]));
    }
    let destination = form.wide_destination(to)?;
    let source = form.wide_source(from)?;
    Ok(Lanewise::new(destination, &[source], move |v| conversion.apply(v[0])))
}

impl Conversion {
    fn apply(self, bits: u64) -> u64 {
        match (self.from.is_float(), self.to.is_float()) {
            (false, false) => self.integer_to_integer(bits),
            (false, true) => {
                self.finish(Exact::integer(integer(bits, self.from)).round(Format::of(self.to), self.rounding))
            }
            (true, false) => self.float_to_integer(bits),
            (true, true) => self.float_to_float(bits),
        }
    }

    /// A result of the destination type as the register holds it: extended by its sign or with zeros.
    fn extend(self, value: u64) -> u64 {
        if self.to.is_signed() { sign_extend(value, self.to.bits) as u64 } else { zero_extend(value, self.to.bits) }
    }

    fn range(self) -> (i128, i128) {
        match self.to.is_signed() {
            true => (-(1 << (self.to.bits - 1)), (1 << (self.to.bits - 1)) - 1),
            false => (0, (1 << self.to.bits) - 1),
        }
    }

    fn integer_to_integer(self, bits: u64) -> u64 {
        let value = integer(bits, self.from);
        let (least, most) = self.range();
        self.extend(if self.saturate { value.clamp(least, most) } else { value } as u64)
    }

    /// Out-of-range values are clamped; NaN gives 0, or only the top bit set if 64 bits are involved.
    fn float_to_integer(self, bits: u64) -> u64 {
        let value = self.operand(bits);
        if value.is_nan() {
            let is_wide = self.from.bits == 64 || self.to.bits == 64;
            return if is_wide { self.extend(1 << (self.to.bits - 1)) } else { 0 };
        }
        let (least, most) = self.range();
        let rounded = integral(value, self.integral.unwrap_or(Rounding::Zero));
        self.extend((rounded as i128).clamp(least, most) as u64)
    }

    fn operand(self, bits: u64) -> f64 {
        let value = Format::of(self.from).value(zero_extend(bits, self.from.bits));
        let flushes =
            self.flush && self.from == Type::F32 && value != 0.0 && value.abs() < f64::from(f32::MIN_POSITIVE);
        if flushes { 0.0_f64.copysign(value) } else { value }
    }

    /// Whether it leaves `.f32` unchanged, as a plain copy.
    fn is_copy(self) -> bool {
        self.to == Type::F32 && self.from == Type::F32 && self.integral.is_none() && !self.flush && !self.saturate
    }

    fn float_to_float(self, bits: u64) -> u64 {
        let mut value = self.operand(bits);
        if self.is_copy() {
            return bits;
        }
        if value.is_nan() && !self.saturate {
            return self.nan(bits);
        }
        if let Some(rounding) = self.integral {
            value = integral(value, rounding);
        }
        self.finish(Exact::from(value).round(Format::of(self.to), self.rounding))
    }

    /// PTX does not specify which NaN results from a NaN. This is the observed behaviour of hardware: `.bf16` to `.f32`
    /// is a shift, other conversions from or to `.f64` keep the payload, all others and `.ftz` give the canonical NaN.
    fn nan(self, bits: u64) -> u64 {
        let (to, from) = (Format::of(self.to), Format::of(self.from));
        if (to, from) == (Format::F32, Format::BF16) {
            return zero_extend(bits, from.bits()) << (to.bits() - from.bits());
        }
        let keeps_payload = to == Format::F64 || from == Format::F64;
        match (keeps_payload, self.flush && from == Format::F32) {
            (false, _) => to.nan(),
            (true, true) => to.nan_of(from.nan(), from),
            (true, false) => to.nan_of(zero_extend(bits, from.bits()), from),
        }
    }

    fn finish(self, bits: u64) -> u64 {
        let format = Format::of(self.to);
        let value = format.value(bits);
        if self.saturate && (value.is_nan() || value <= 0.0) {
            return 0;
        }
        if self.saturate && value > 1.0 {
            return Exact::from(1.0).round(format, Rounding::Nearest);
        }
        if self.relu && value <= 0.0 {
            return 0;
        }
        if self.flush && self.to == Type::F32 && f32::from_bits(bits as u32).is_subnormal() {
            return bits & 1 << 31;
        }
        bits
    }
}

/// Rounds to an integral value.
fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

fn convert_address(form: &mut Form<'_>) -> Decode<Lanewise> {
    let to_space = form.flag("to");
    let kind = form.kind()?;
    let Some(space) = form.take(Space::parse) else { return form.refuse() };
    if kind.bits != 64 {
        return form.refuse();
    }
    match to_space {
        true => Lanewise::take(form, kind, &[kind], move |v| space_address(space, v[0])),
        false => Lanewise::take(form, kind, &[kind], move |v| generic_address(space, v[0])),
    }
}

/// Constant variables are placed among the buffers here, and recognised by the entry's layout.
fn is_in_space(form: &mut Form<'_>) -> Decode<Lanewise> {
    if form.flag("shared::cluster") {
        let to = form.destination(Type::PREDICATE)?;
        let (address, blocks) = (form.source(Type::B64)?, form.special(Special::BlocksOfCluster));
        return Ok(Lanewise::new(to, &[address, blocks], |v| {
            let (space, address) = resolve(v[0]);
            u64::from(space == Space::Shared && shared_rank(address) < v[1])
        }));
    }
    match form.take(Space::parse) {
        Some(Space::Shared) => {
            let to = form.destination(Type::PREDICATE)?;
            let (address, rank) = (form.source(Type::B64)?, form.special(Special::RankInCluster));
            Ok(Lanewise::new(to, &[address, rank], |v| {
                let (space, address) = resolve(v[0]);
                u64::from(space == Space::Shared && shared_rank(address) == v[1])
            }))
        }
        None => form.refuse(),
        Some(space @ (Space::Constant | Space::Global)) => {
            let constants = form.constant_variables();
            Lanewise::take(form, Type::PREDICATE, &[Type::B64], move |v| {
                let is_constant = constants.iter().any(|range| range.contains(&v[0]));
                u64::from(resolve(v[0]).0 == Space::Global && is_constant == (space == Space::Constant))
            })
        }
        Some(space) => {
            Lanewise::take(form, Type::PREDICATE, &[Type::B64], move |v| u64::from(resolve(v[0]).0 == space))
        }
    }
}
