//! Converts the bits of an element of Q, K, V or O to a number and back. All other code holds elements as bits and
//! takes their meaning from the problem's [`Element`].

use half::{bf16, f16};

pub use contract::config::Element;

/// An element, as 16 bits.
pub type Bits = u16;

/// Conversion between an element type's bits and numbers.
pub trait Encoding: Copy {
    /// The value of `bits`.
    fn decode(self, bits: Bits) -> f64;

    /// Rounds `value` to f32, then to the nearest element, ties to even; overflows to infinity. The same bits on every
    /// machine. An f32 is rounded only once.
    fn encode(self, value: f64) -> Bits;

    /// Largest finite element.
    fn largest(self) -> f64;

    /// Smallest magnitude that rounds to infinity: the largest element plus half a spacing.
    fn overflow(self) -> f64;

    /// Distance from 1 to the next element.
    fn epsilon(self) -> f64;

    /// Relative error bound of one rounding: half of [`Self::epsilon`].
    fn rounding(self) -> f64 {
        self.epsilon() / 2.0
    }

    /// Absolute error bound of one rounding, for subnormal results.
    fn smallest_rounding(self) -> f64;
}

impl Encoding for Element {
    fn decode(self, bits: Bits) -> f64 {
        match self {
            Element::F16 => f16::from_bits(bits).to_f64(),
            Element::Bf16 => bf16::from_bits(bits).to_f64(),
        }
    }

    fn encode(self, value: f64) -> Bits {
        match self {
            // Not from_f64, which goes through f32 on some machines and not on others.
            Element::F16 => f16::from_f32(value as f32).to_bits(),
            Element::Bf16 => bf16::from_f32(value as f32).to_bits(),
        }
    }

    fn largest(self) -> f64 {
        match self {
            Element::F16 => f16::MAX.to_f64(),
            Element::Bf16 => bf16::MAX.to_f64(),
        }
    }

    fn overflow(self) -> f64 {
        // The largest element is (2 − ε)·2ⁿ, and half a spacing there is ε/2·2ⁿ.
        self.largest() / (2.0 - self.epsilon()) * (2.0 - self.rounding())
    }

    fn epsilon(self) -> f64 {
        match self {
            Element::F16 => f16::EPSILON.to_f64(),
            Element::Bf16 => bf16::EPSILON.to_f64(),
        }
    }

    fn smallest_rounding(self) -> f64 {
        match self {
            // Half the smallest positive element.
            Element::F16 => 1.0 / (1 << 25) as f64,
            // bf16's subnormals are f32's, which the kernels' arithmetic may flush to 0.
            Element::Bf16 => f64::from(f32::MIN_POSITIVE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of neighbouring positive finite elements.
    fn neighbours(element: Element) -> impl Iterator<Item = (Bits, Bits)> {
        let largest = element.encode(element.largest());
        (0..largest).map(|bits| (bits, bits + 1))
    }

    #[test]
    fn every_number_is_encoded_as_the_bits_it_was_decoded_from() {
        for element in Element::ALL {
            for bits in 0..=Bits::MAX {
                let value = element.decode(bits);
                let encoded = element.encode(value);
                match value.is_nan() {
                    true => assert!(element.decode(encoded).is_nan(), "{element:?} {bits:#x}"),
                    false => assert_eq!(encoded, bits, "{element:?} {bits:#x}"),
                }
            }
        }
    }

    #[test]
    fn decoding_is_by_the_definition_of_the_format() {
        for (element, mantissa_bits, bias) in [(Element::F16, 10, 15), (Element::Bf16, 7, 127)] {
            let most = (1 << (15 - mantissa_bits)) - 1;
            for bits in 0..1u16 << 15 {
                let (exponent, mantissa) = (bits >> mantissa_bits, bits & ((1 << mantissa_bits) - 1));
                let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
                let value = match exponent {
                    0 => fraction * 2f64.powi(1 - bias),
                    _ if exponent == most && mantissa > 0 => f64::NAN,
                    _ if exponent == most => f64::INFINITY,
                    _ => (1.0 + fraction) * 2f64.powi(i32::from(exponent) - bias),
                };
                let [decoded, negated] = [bits, bits | 1 << 15].map(|bits| element.decode(bits));
                assert!(decoded == value || decoded.is_nan() && value.is_nan(), "{element:?} {bits:#x}: {decoded}");
                assert!(negated == -value || negated.is_nan() && value.is_nan(), "{element:?} {bits:#x}: {negated}");
            }
        }
    }

    #[test]
    fn what_lies_between_is_rounded_to_the_nearest_and_halfway_to_the_even_one() {
        for element in Element::ALL {
            for (lower, upper) in neighbours(element) {
                let (low, high) = (element.decode(lower), element.decode(upper));
                let even = if lower % 2 == 0 { lower } else { upper };
                let (middle, step) = ((low + high) / 2.0, (high - low) / 16.0);
                for (value, nearest) in [(middle - step, lower), (middle, even), (middle + step, upper)] {
                    let sign = 1 << 15;
                    assert_eq!(element.encode(value), nearest, "{element:?} {value}");
                    assert_eq!(element.encode(-value), nearest | sign, "{element:?} −{value}");
                }
            }
        }
    }

    #[test]
    fn what_is_halfway_beyond_the_largest_is_infinite() {
        assert_eq!(Element::F16.overflow(), 65_520.0);
        assert_eq!(Element::Bf16.overflow(), 2f64.powi(128) - 2f64.powi(119));
        for element in Element::ALL {
            let below = element.overflow() * (1.0 - 2f64.powi(-16));
            for sign in [1.0, -1.0] {
                assert_eq!(element.decode(element.encode(sign * below)), sign * element.largest(), "{element:?}");
                assert_eq!(element.decode(element.encode(sign * element.overflow())), sign * f64::INFINITY);
            }
        }
    }
}
