//! The 8-bit floating-point formats (PTX ISA, "Alternate Floating-Point Data Formats").

use crate::fused_sum::Factor;
use crate::numeric::Format;

/// An 8-bit format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Small {
    /// `.e4m3`: no infinities, one NaN of each sign.
    E4M3,
    /// `.e5m2`: the upper half of `.f16`.
    E5M2,
}

impl Small {
    /// The value of `bits`.
    pub fn value(self, bits: u64) -> f64 {
        match self {
            Small::E4M3 if bits & 0x7f == 0x7f => f64::NAN,
            Small::E4M3 => {
                let (exponent, fraction) = (bits >> 3 & 0xf, (bits & 7) as f64);
                let magnitude = match exponent {
                    0 => fraction * 2.0_f64.powi(-9),
                    _ => (8.0 + fraction) * 2.0_f64.powi(exponent as i32 - 10),
                };
                if bits & 0x80 == 0 { magnitude } else { -magnitude }
            }
            Small::E5M2 => Format::F16.value(bits << 8),
        }
    }

    /// Fraction bits of a product of two [`Small::factor`]s.
    pub const PRODUCT_BITS: u32 = 6;

    /// Splits the number `bits` into a fixed-point factor; both formats have three fraction bits in it.
    pub fn factor(self, bits: u64) -> Factor {
        match self {
            Small::E4M3 if bits & 0x7f == 0x7f => Factor::NAN,
            Small::E4M3 => Factor::of_fields(bits >> 7 & 1, bits >> 3 & 0xf, bits & 7, (3, 7)),
            Small::E5M2 if bits & 0x7c == 0x7c => Factor::new(Format::F16, bits << 8),
            Small::E5M2 => Factor::of_fields(bits >> 7 & 1, bits >> 2 & 0x1f, (bits & 3) << 1, (3, 15)),
        }
    }

    /// The nearest number of the format, ties to even, saturated to the largest finite number. With `relu`, negative
    /// numbers become 0.
    pub fn narrow(self, value: f64, relu: bool) -> u64 {
        const NAN: u64 = 0x7f;
        if value.is_nan() {
            return NAN;
        }
        if relu && value <= 0.0 {
            return 0;
        }
        let sign = u64::from(value.is_sign_negative()) << 7;
        let (fraction_bits, smallest, largest) = match self {
            Small::E4M3 => (3, -6, 0x7e),
            Small::E5M2 => (2, -14, 0x7b),
        };
        let magnitude = value.abs();
        if magnitude >= self.value(largest) {
            return sign | largest;
        }
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(smallest);
        let steps = (magnitude * 2.0_f64.powi(fraction_bits - exponent)).round_ties_even() as u64;
        // A carry out of the fraction increments the exponent field; a subnormal has no hidden bit.
        sign | ((exponent - smallest) as u64 * (1 << fraction_bits) + steps).min(largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_8_bits_survives_a_round_trip_and_others_become_the_nearest() {
        for format in [Small::E4M3, Small::E5M2] {
            let finite = || (0..0x80).filter(|bits| format.value(*bits).is_finite());
            for bits in finite() {
                assert_eq!(format.narrow(format.value(bits), false), bits, "{format:?}");
                assert_eq!(format.narrow(-format.value(bits), false), bits | 0x80, "{format:?}");
            }
            for bits in (0..10_000_u64).map(|index| (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let value = f64::from_bits(bits & !(0x7ff << 52) | (1023 - 20 + bits % 30) << 52).abs();
                let distance = |bits: &u64| (format.value(*bits) - value).abs();
                let nearest = finite().min_by(|a, b| distance(a).total_cmp(&distance(b))).expect("a number");
                assert_eq!(distance(&format.narrow(value, false)), distance(&nearest), "{format:?} {value:e}");
            }
        }
    }
}
