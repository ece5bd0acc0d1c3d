//! Sums of products, bit-exact to tensor cores.
//!
//! PTX does not specify how `mma` and `wgmma` accumulate floating-point numbers. This reproduces an H200 to the bit,
//! which agrees with publications about Hopper (Xie, Wang, Yang, Yang, "MMA-Sim: Bit-Accurate Reference Model of Tensor
//! Cores and Matrix Cores", 2025; Khattak, Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025). Up to 16 exact
//! products and the addend are aligned to their largest exponent, truncated 25 places below it, and summed exactly. The
//! sum is rounded once, towards zero to `.f32`, to nearest to `.f16`. Older GPUs keep fewer places and sum fewer
//! products at once.

use crate::numeric::{Exact, Format, Rounding};

/// Maximum number of products in a sum.
pub(crate) const PRODUCTS: usize = 16;
/// Maximum number of products in a sum of 8-bit numbers.
const MOST_PRODUCTS: usize = 32;
/// Number of places that a term keeps below the largest exponent.
pub(crate) const PLACES: u32 = 25;
/// 2^128, the first number beyond those of `.f32`.
const OVERFLOW: f64 = 2.0 * (1_u128 << 127) as f64;

/// A number split for alignment, not normalised.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Factor {
    /// In units of the format's last place. For infinities the sign, for NaN 0.
    pub(crate) significand: i32,
    /// Exponent of the place before the binary point; for subnormals and zero that of the smallest normal number.
    pub(crate) exponent: i32,
}

impl Factor {
    /// The exponent of infinities and NaN.
    const SPECIAL: i32 = 1 << 16;

    /// Splits the number `bits` of a format.
    pub fn new(format: Format, bits: u64) -> Factor {
        let fraction = bits as i32 & ((1 << format.fraction_bits()) - 1);
        let field = (bits >> format.fraction_bits()) as i32 & ((1 << format.exponent_field_bits()) - 1);
        let is_negative = bits >> (format.bits() - 1) & 1;
        if field == (1 << format.exponent_field_bits()) - 1 {
            let sign = if is_negative == 0 { 1 } else { -1 };
            return Factor { significand: if fraction == 0 { sign } else { 0 }, exponent: Self::SPECIAL };
        }
        Self::of_fields(is_negative, field as u64, fraction as u64, (format.fraction_bits(), format.bias()))
    }

    /// Not a number.
    pub const NAN: Factor = Factor { significand: 0, exponent: Self::SPECIAL };

    /// The number with this sign, exponent field and fraction, in a format with these numbers of fraction bits and
    /// bias.
    pub fn of_fields(sign: u64, field: u64, fraction: u64, (fraction_bits, bias): (u32, i32)) -> Factor {
        let hidden = i32::from(field != 0) << fraction_bits;
        let significand = fraction as i32 | hidden;
        Factor { significand: if sign == 0 { significand } else { -significand }, exponent: field.max(1) as i32 - bias }
    }

    /// Whether it is infinite or NaN.
    pub fn is_special(self) -> bool {
        self.exponent == Self::SPECIAL
    }

    /// Zero, infinity or NaN like this one, with its sign.
    fn kind(self) -> f64 {
        match (self.is_special(), self.significand) {
            (false, significand) => f64::from(significand),
            (true, 0) => f64::NAN,
            (true, sign) => f64::from(sign) * f64::INFINITY,
        }
    }
}

impl std::ops::Neg for Factor {
    type Output = Factor;

    fn neg(self) -> Factor {
        Factor { significand: -self.significand, ..self }
    }
}

/// A term of a sum: `significand` · 2^(`exponent` − [`PLACES`]).
#[derive(Clone, Copy, Debug, Default)]
struct Term {
    significand: i64,
    exponent: i32,
}

impl Term {
    fn new(significand: i64, exponent: i32, fraction_bits: u32) -> Term {
        // Zero must not decide the largest exponent.
        let exponent = if significand == 0 { i32::MIN / 2 } else { exponent };
        Term { significand: significand << (PLACES - fraction_bits), exponent }
    }

    /// The significand aligned to `exponent`, truncated.
    fn aligned(self, exponent: i32) -> i64 {
        let places = exponent.saturating_sub(self.exponent).min(63);
        let magnitude = self.significand.abs() >> places;
        if self.significand < 0 { -magnitude } else { magnitude }
    }
}

/// Precision of a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precision {
    /// Places below the largest exponent, of [`PLACES`].
    places: u32,
    /// Fraction bits of a `.f32` result.
    fraction: u32,
}

impl Precision {
    /// For numbers of 16 bits and more.
    const FULL: Precision = Precision { places: PLACES, fraction: 23 };
    /// For 8-bit numbers in `wgmma` (Xie et al.): fewer places, and the last ten bits of a result are zero.
    pub const SMALL: Precision = Precision { places: 13, fraction: 13 };
}

/// `addend` + Σ `a`·`b`, with at most 16 products. The addend and the sum are in format `result`.
pub(crate) fn fused_sum(input: Format, a: &[Factor], b: &[Factor], result: Format, addend: Factor) -> u64 {
    fused_sum_in(Precision::FULL, 2 * input.fraction_bits(), a, b, result, addend)
}

/// [`fused_sum`] with at most 32 products, with this many bits after their binary points, at lower precision.
pub(crate) fn fused_sum_in(
    precision: Precision,
    product_bits: u32,
    a: &[Factor],
    b: &[Factor],
    result: Format,
    addend: Factor,
) -> u64 {
    if a.iter().chain(b).chain([&addend]).any(|factor| factor.is_special()) {
        let sum = a.iter().zip(b).fold(addend.kind(), |sum, (a, b)| sum + a.kind() * b.kind());
        return Exact::from(sum).round(result, Rounding::Nearest);
    }
    let mut terms = [Term::default(); MOST_PRODUCTS + 1];
    for (term, (a, b)) in terms.iter_mut().zip(a.iter().zip(b)) {
        let significand = i64::from(a.significand) * i64::from(b.significand);
        *term = Term::new(significand, a.exponent + b.exponent, product_bits);
    }
    let terms = &mut terms[..=a.len().min(MOST_PRODUCTS)];
    let last = terms.len() - 1;
    terms[last] = Term::new(i64::from(addend.significand), addend.exponent, result.fraction_bits());
    let largest = terms.iter().map(|term| term.exponent).max().unwrap_or(0);
    let unit = 1_i64 << (PLACES - precision.places);
    // Division truncates towards zero what is below the unit.
    let sum: i64 = terms.iter().map(|term| term.aligned(largest) / unit * unit).sum();
    let dropped = if result == Format::F32 { result.fraction_bits() - precision.fraction } else { 0 };
    rounded(sum, largest, result) >> dropped << dropped
}

/// An addend in units of the last place kept beside a term of that exponent.
pub(crate) fn aligned_addend(addend: Factor, result: Format, largest: i32) -> i64 {
    Term::new(i64::from(addend.significand), addend.exponent, result.fraction_bits()).aligned(largest)
}

/// A sum in those units as the result has it.
pub(crate) fn rounded(sum: i64, largest: i32, result: Format) -> u64 {
    if sum == 0 {
        return 0;
    }
    let sum = sum as f64 * power_of_two(largest - PLACES as i32);
    if result != Format::F32 {
        return Exact::from(sum).round(result, Rounding::Nearest);
    }
    let nearest = sum as f32;
    // Overflow gives infinity, although rounding is towards zero.
    let is_beyond = f64::from(nearest).abs() > sum.abs() && sum.abs() < OVERFLOW;
    u64::from(nearest.to_bits() - u32::from(is_beyond))
}

/// 2^`exponent`, which an `f64` has as a normal number.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
