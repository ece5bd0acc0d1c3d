//! The bits of an element of Q, K, V or O as a number, and back. All else holds elements as bits, and asks the problem's
//! [`Element`] what they mean.

use half::{bf16, f16};

pub use contract::config::Element;

/// An element as its 16 bits.
pub type Bits = u16;

/// What the bits of an element type mean.
pub trait Encoding: Copy {
    /// The number.
    fn decode(self, bits: Bits) -> f64;

    /// The element nearest to the f32 that is nearest to `value`, of two the even one; infinite where that rounds beyond the
    /// largest. The same bits on every machine, and for every f32 no rounding but the one to the element.
    fn encode(self, value: f64) -> Bits;

    /// Largest finite element.
    fn largest(self) -> f64;

    /// Smallest magnitude that rounds to infinity: halfway from the largest element to where the next would be.
    fn overflow(self) -> f64;

    /// From 1 to the next element.
    fn epsilon(self) -> f64;

    /// The relative error of one rounding: half of [`Self::epsilon`].
    fn rounding(self) -> f64 {
        self.epsilon() / 2.0
    }

    /// The absolute error of one rounding where the relative one says nothing.
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
            // Not from_f64, which takes the way by f32 or another, as the machine likes.
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
        // The largest is 2 − ε times its power of two, and half a spacing is ε/2 of them.
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
            // Half the smallest positive number.
            Element::F16 => 1.0 / (1 << 25) as f64,
            // Its subnormal numbers are those of f32, which the kernels' arithmetic may make 0.
            Element::Bf16 => f64::from(f32::MIN_POSITIVE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positive finite elements but the largest, and what follows them.
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
