//! Exact values, and rounding to the formats of PTX.

use crate::parse::{Kind, Type};

/// A rounding mode (PTX ISA, "Rounding Modifiers").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// `.rn`: to nearest, ties to even.
    Nearest,
    /// `.rz`: towards zero.
    Zero,
    /// `.rm`: towards −∞.
    Down,
    /// `.rp`: towards +∞.
    Up,
}

/// A real number: `head` plus a remainder too small to be represented in it, of known sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact {
    head: f64,
    /// Sign of the remainder; 0 if `head` is exact.
    rest: f64,
}

impl From<f64> for Exact {
    fn from(head: f64) -> Exact {
        Exact { head, rest: 0.0 }
    }
}

impl Exact {
    /// `a + b` (Knuth's two-sum). `rounding` is the later rounding mode: it decides the sign of a zero.
    pub fn sum(a: f64, b: f64, rounding: Rounding) -> Exact {
        let head = a + b;
        if head == 0.0 && rounding == Rounding::Down && (a.is_sign_negative() || b.is_sign_negative()) {
            return Exact::from(-0.0);
        }
        let b_part = head - a;
        let rest = (a - (head - b_part)) + (b - b_part);
        Exact { head, rest: if head.is_finite() { rest } else { 0.0 } }
    }

    /// `a / b` of numbers with at most 24 significant bits.
    pub fn quotient(a: f64, b: f64) -> Exact {
        let head = a / b;
        let rest = f64::mul_add(-head, b, a) * b.signum();
        Exact { head, rest: if head.is_finite() && b.is_finite() { rest } else { 0.0 } }
    }

    /// `√a` of a number with at most 24 significant bits.
    pub fn square_root(a: f64) -> Exact {
        let head = a.sqrt();
        let rest = f64::mul_add(-head, head, a);
        Exact { head, rest: if head.is_finite() { rest } else { 0.0 } }
    }

    /// An integer.
    pub fn integer(value: i128) -> Exact {
        // Of 53 bits it is exact, and conversions of 128 bits are calls.
        if let Ok(value) = i64::try_from(value)
            && value.unsigned_abs() < 1 << f64::MANTISSA_DIGITS
        {
            return Exact::from(value as f64);
        }
        let head = value as f64;
        // Converting back is exact: every f64 of this size is an integer.
        Exact { head, rest: (value - head as i128) as f64 }
    }

    /// The head rounded to odd, so that rounding it again gives the same result as rounding the number itself.
    fn to_odd(self) -> f64 {
        let bits = self.head.to_bits();
        if self.rest == 0.0 || bits & 1 == 1 || self.head == 0.0 {
            return self.head;
        }
        let away_from_zero = (self.rest > 0.0) == (self.head > 0.0);
        f64::from_bits(if away_from_zero { bits + 1 } else { bits - 1 })
    }

    /// Bits of the number rounded to `format`. Overflow gives infinity or the largest finite number, as in IEEE 754.
    pub fn round(self, format: Format, rounding: Rounding) -> u64 {
        if format == Format::F64 {
            return self.round_to_double(rounding);
        }
        let value = self.to_odd();
        if (format, rounding) == (Format::F32, Rounding::Nearest) {
            // The host does that.
            return u64::from(canonical(value as f32));
        }
        if value.is_nan() {
            return format.nan();
        }
        let sign = u64::from(value.is_sign_negative()) << (format.exponent_bits + format.mantissa_bits);
        if value.is_infinite() {
            return sign | format.infinity();
        }
        if value == 0.0 {
            return sign;
        }
        sign | format.round_magnitude(value.abs(), rounding, value < 0.0)
    }
}

impl Exact {
    /// The head is the nearest `f64`; a directed rounding may need its neighbour.
    fn round_to_double(self, rounding: Rounding) -> u64 {
        if self.head.is_nan() {
            return Format::F64.nan();
        }
        let wanted = match rounding {
            Rounding::Nearest => self.head,
            Rounding::Zero if (self.rest < 0.0) == (self.head > 0.0) && self.rest != 0.0 => {
                f64::from_bits(self.head.to_bits() - 1)
            }
            Rounding::Down if self.rest < 0.0 => self.head.next_down(),
            Rounding::Up if self.rest > 0.0 => self.head.next_up(),
            Rounding::Zero | Rounding::Down | Rounding::Up => self.head,
        };
        wanted.to_bits()
    }
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
}

impl Format {
    /// `.f16`.
    pub const F16: Format = Format { exponent_bits: 5, mantissa_bits: 10 };
    /// `.bf16`.
    pub const BF16: Format = Format { exponent_bits: 8, mantissa_bits: 7 };
    /// `.tf32`, in 19 bits.
    pub const TF32: Format = Format { exponent_bits: 8, mantissa_bits: 10 };
    /// `.f32`.
    pub const F32: Format = Format { exponent_bits: 8, mantissa_bits: 23 };
    /// `.f64`.
    pub const F64: Format = Format { exponent_bits: 11, mantissa_bits: 52 };

    /// The element format of a floating-point type.
    pub fn of(kind: Type) -> Format {
        match (kind.kind, kind.element().bits) {
            (Kind::Bfloat, _) => Format::BF16,
            (_, 16) => Format::F16,
            (_, 32) => Format::F32,
            _ => Format::F64,
        }
    }

    /// Bits of the fraction.
    pub fn fraction_bits(self) -> u32 {
        self.mantissa_bits
    }

    /// Bits of the exponent field.
    pub fn exponent_field_bits(self) -> u32 {
        self.exponent_bits
    }

    /// Exponent bias.
    pub fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The smallest positive normal number.
    pub fn smallest_normal(self) -> f64 {
        match self {
            Format::F64 => f64::MIN_POSITIVE,
            _ => self.magnitude(1, 0),
        }
    }

    /// The bits of +∞.
    pub fn infinity(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    /// The canonical NaN of PTX: `0x7fff`, `0x7fffffff`, and for `.f64` the default quiet NaN.
    pub fn nan(self) -> u64 {
        match self {
            Format::F64 => 0x7ff8_0000_0000_0000,
            _ => self.infinity() | ((1 << self.mantissa_bits) - 1),
        }
    }

    /// NaN `bits` of the format `from` converted to this format: quiet, with its sign and the payload bits that fit.
    pub fn nan_of(self, bits: u64, from: Format) -> u64 {
        let sign = bits >> (from.bits() - 1) & 1;
        let payload = bits & ((1 << from.mantissa_bits) - 1);
        let payload = match self.mantissa_bits >= from.mantissa_bits {
            true => payload << (self.mantissa_bits - from.mantissa_bits),
            false => payload >> (from.mantissa_bits - self.mantissa_bits),
        };
        sign << (self.bits() - 1) | self.infinity() | 1 << (self.mantissa_bits - 1) | payload
    }

    /// Total number of bits.
    pub fn bits(self) -> u32 {
        1 + self.exponent_bits + self.mantissa_bits
    }

    /// The value of `bits`; every format is exact in `f64`.
    pub fn value(self, bits: u64) -> f64 {
        match self {
            Format::F32 => f64::from(f32::from_bits(bits as u32)),
            Format::F64 => f64::from_bits(bits),
            Format::BF16 => f64::from(f32::from_bits((bits as u32) << 16)),
            _ => {
                let mantissa = bits & ((1 << self.mantissa_bits) - 1);
                let exponent = (bits >> self.mantissa_bits) & ((1 << self.exponent_bits) - 1);
                let negative = bits >> (self.exponent_bits + self.mantissa_bits) & 1 != 0;
                let magnitude = self.magnitude(exponent, mantissa);
                if negative { -magnitude } else { magnitude }
            }
        }
    }

    fn magnitude(self, exponent: u64, mantissa: u64) -> f64 {
        let scale = |power: i32| f64::from_bits(((power + 1023) as u64) << 52);
        if exponent == (1 << self.exponent_bits) - 1 {
            return if mantissa == 0 { f64::INFINITY } else { f64::NAN };
        }
        if exponent == 0 {
            return mantissa as f64 * scale(1 - self.bias() - self.mantissa_bits as i32);
        }
        let significand = mantissa | 1 << self.mantissa_bits;
        significand as f64 * scale(exponent as i32 - self.bias() - self.mantissa_bits as i32)
    }

    /// Rounds a positive finite number.
    fn round_magnitude(self, value: f64, rounding: Rounding, negative: bool) -> u64 {
        let bits = value.to_bits();
        let (raw_exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
        let (mut exponent, significand) =
            if raw_exponent == 0 { (-1022, fraction) } else { (raw_exponent - 1023, fraction | 1 << 52) };
        let smallest = 1 - self.bias();
        // Significand bits beyond the format's; more of them for subnormal results.
        let mut dropped = 52 - self.mantissa_bits as i32;
        if exponent < smallest {
            dropped += smallest - exponent;
            exponent = smallest;
        }
        let dropped = dropped.min(63) as u32;
        let (mut kept, rest) = (significand >> dropped, significand & ((1 << dropped) - 1));
        let half = if dropped == 0 { 0 } else { 1_u64 << (dropped - 1) };
        let up = match rounding {
            Rounding::Nearest => rest > half || rest == half && rest != 0 && kept & 1 == 1,
            Rounding::Zero => false,
            Rounding::Down => rest != 0 && negative,
            Rounding::Up => rest != 0 && !negative,
        };
        kept += u64::from(up);
        // A carry out of the significand increments the exponent field.
        let normal = kept >> self.mantissa_bits != 0;
        let field = if normal { (exponent + self.bias() - 1) as u64 } else { 0 };
        let result = (field << self.mantissa_bits) + kept;
        if result < self.infinity() {
            return result;
        }
        let to_infinity = match rounding {
            Rounding::Nearest => true,
            Rounding::Zero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
        };
        if to_infinity { self.infinity() } else { self.infinity() - 1 }
    }
}

/// `value` with a subnormal flushed to a zero of the same sign (`.ftz`).
pub(crate) fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}

/// `value` with every NaN replaced by the canonical NaN.
pub(crate) fn canonical(value: f32) -> u32 {
    if value.is_nan() { Format::F32.nan() as u32 } else { value.to_bits() }
}

/// The low `bits` bits of `value` as a signed number.
pub(crate) fn sign_extend(value: u64, bits: u32) -> i64 {
    let unused = 64 - bits.min(64);
    (value << unused) as i64 >> unused
}

/// The low `bits` bits of `value`.
pub(crate) fn zero_extend(value: u64, bits: u32) -> u64 {
    value & (u64::MAX >> (64 - bits.min(64)))
}

/// The value of an integer of type `kind`.
pub(crate) fn integer(value: u64, kind: Type) -> i128 {
    if kind.is_signed() { i128::from(sign_extend(value, kind.bits)) } else { i128::from(zero_extend(value, kind.bits)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random bits (xorshift64).
    fn random_bits() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |state| {
            let state = state ^ state << 13;
            let state = state ^ state >> 7;
            Some(state ^ state << 17)
        })
    }

    #[test]
    fn every_half_survives_a_round_trip() {
        for format in [Format::F16, Format::BF16] {
            for bits in 0..=0xffff {
                let value = format.value(bits);
                let expected = if value.is_nan() { format.nan() } else { bits };
                for rounding in [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up] {
                    assert_eq!(
                        Exact::from(value).round(format, rounding),
                        expected,
                        "{format:?} {bits:#x} {rounding:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn rounding_to_single_agrees_with_the_host() {
        for bits in random_bits().take(100_000) {
            // Exponents around those of f32, so that overflow and subnormals occur.
            let exponent = 1023 - 160 + bits % 320;
            let value = f64::from_bits(bits & !(0x7ff << 52) | exponent << 52);
            let expected = u64::from((value as f32).to_bits());
            let sign = u64::from(value.is_sign_negative()) << 31;
            let rounded = Format::F32.round_magnitude(value.abs(), Rounding::Nearest, value < 0.0);
            assert_eq!(sign | rounded, expected, "{value:e}");
            assert_eq!(Exact::from(value).round(Format::F32, Rounding::Nearest), expected, "{value:e}");
        }
    }

    #[test]
    fn integers_are_exact() {
        for value in [
            0,
            1,
            -1,
            (1 << 53) - 1,
            1 << 53,
            (1 << 53) + 1,
            -(1 << 53) - 1,
            i128::from(i64::MIN),
            i128::from(u64::MAX),
        ] {
            let Exact { head, rest } = Exact::integer(value);
            assert_eq!(head as i128 + rest as i128, value);
            assert_eq!(head, value as f64);
        }
    }

    #[test]
    fn directed_roundings_enclose_the_value() {
        for bits in random_bits().take(100_000) {
            let value = f64::from_bits(bits);
            if value.is_nan() {
                continue;
            }
            for format in [Format::F16, Format::BF16, Format::F32] {
                let round = |rounding| format.value(Exact::from(value).round(format, rounding));
                let (down, up, zero) = (round(Rounding::Down), round(Rounding::Up), round(Rounding::Zero));
                assert!(down <= value && value <= up, "{format:?} {value:e}: {down:e} to {up:e}");
                assert_eq!(zero, if value > 0.0 { down } else { up }, "{format:?} {value:e}");
                let nearest = round(Rounding::Nearest);
                assert!(nearest == down || nearest == up, "{format:?} {value:e}");
            }
        }
    }

    #[test]
    fn the_rest_of_a_sum_decides_what_the_head_cannot() {
        // 1 + 2^-11 is halfway between two halves; a rest far below an f64's last place breaks the tie.
        let halfway = 1.0 + 2.0_f64.powi(-11);
        let round = |rest: f64| Exact::sum(halfway, rest, Rounding::Nearest).round(Format::F16, Rounding::Nearest);
        assert_eq!([round(0.0), round(1e-30), round(-1e-30)], [0x3c00, 0x3c01, 0x3c00]);
    }
}
