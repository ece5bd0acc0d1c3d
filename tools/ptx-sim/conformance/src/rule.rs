//! Comparison of simulated with recorded results.

/// What PTX says about a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// It is defined: equal to the bit.
    Exact,
    /// It is an approximation in `format` within `bound`; zeros, infinities and NaN are exact.
    Within {
        /// What the bits mean.
        format: Format,
        /// How far the two results may be apart.
        bound: Bound,
    },
}

/// A floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.f16`, or two in `.f16x2`.
    F16,
    /// `.bf16`, or two in `.bf16x2`.
    Bf16,
    /// `.f32`.
    F32,
    /// `.f64`.
    F64,
}

/// A bound on the distance of two results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Values of the format that lie between them, one more.
    Ulps(u64),
    /// Distance relative to the simulated one, as a power of two.
    Relative(f64),
    /// Distance, as a power of two.
    Absolute(f64),
    /// Either of the two, as powers of two: absolute, relative.
    Either(f64, f64),
}

impl Format {
    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            Format::F16 | Format::Bf16 => 2,
            Format::F32 => 4,
            Format::F64 => 8,
        }
    }

    /// The value of `bits`.
    pub fn value(self, bits: u64) -> f64 {
        match self {
            Format::F16 => {
                let (sign, exponent, mantissa) = (bits >> 15 & 1, bits >> 10 & 0x1f, (bits & 0x3ff) as f64);
                let magnitude = match exponent {
                    0 => mantissa * 2.0_f64.powi(-24),
                    0x1f if mantissa == 0.0 => f64::INFINITY,
                    0x1f => f64::NAN,
                    _ => (1024.0 + mantissa) * 2.0_f64.powi(exponent as i32 - 25),
                };
                if sign == 1 { -magnitude } else { magnitude }
            }
            Format::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
            Format::F32 => f64::from(f32::from_bits(bits as u32)),
            Format::F64 => f64::from_bits(bits),
        }
    }

    /// Values of the format from zero to `bits`, negative below zero.
    fn rank(self, bits: u64) -> i64 {
        let sign = 1_u64 << (8 * self.bytes() - 1);
        let magnitude = (bits & (sign - 1)) as i64;
        if bits & sign != 0 { -magnitude } else { magnitude }
    }
}

impl Bound {
    fn holds(self, format: Format, [recorded, simulated]: [u64; 2]) -> bool {
        let (r, s) = (format.value(recorded), format.value(simulated));
        if !(r.is_finite() && s.is_finite()) {
            return r.is_nan() && s.is_nan() || r == s;
        }
        let distance = (r - s).abs();
        match self {
            Bound::Ulps(ulps) => format.rank(recorded).abs_diff(format.rank(simulated)) <= ulps,
            Bound::Relative(power) => distance <= s.abs() * power.exp2(),
            Bound::Absolute(power) => distance <= power.exp2(),
            Bound::Either(absolute, relative) => distance <= absolute.exp2().max(s.abs() * relative.exp2()),
        }
    }
}

impl Rule {
    /// The offset of the first value that violates the rule.
    pub fn first_violation(self, recorded: &[u8], simulated: &[u8]) -> Option<usize> {
        match self {
            Rule::Exact => recorded.iter().zip(simulated).position(|(a, b)| a != b),
            Rule::Within { format, bound } => {
                let bytes = format.bytes();
                let value = |chunk: &[u8]| {
                    let mut word = [0; 8];
                    word[..bytes].copy_from_slice(chunk);
                    u64::from_le_bytes(word)
                };
                let pairs = recorded.chunks_exact(bytes).zip(simulated.chunks_exact(bytes));
                pairs.map(|(a, b)| [value(a), value(b)]).position(|pair| !bound.holds(format, pair)).map(|i| i * bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bound, Format, Rule};

    #[test]
    fn bounds_hold_up_to_their_edge() {
        let one = 1.0_f32.to_bits();
        let violation = |bound, recorded: u32, simulated: u32| {
            let rule = Rule::Within { format: Format::F32, bound };
            rule.first_violation(&recorded.to_le_bytes(), &simulated.to_le_bytes())
        };
        assert_eq!(violation(Bound::Ulps(2), one, one + 2), None);
        assert_eq!(violation(Bound::Ulps(2), one, one + 3), Some(0));
        assert_eq!(violation(Bound::Ulps(2), 1, 0x8000_0001), None, "the smallest subnormals of both signs");
        assert_eq!(violation(Bound::Relative(-22.0), one, one + 2), None);
        assert_eq!(violation(Bound::Relative(-22.0), one, one + 3), Some(0));
        assert_eq!(violation(Bound::Either(-20.0, -23.0), one, one + 8), None);
        assert_eq!(violation(Bound::Either(-20.0, -23.0), one, one + 9), Some(0));
    }

    #[test]
    fn infinities_are_exact_and_nan_is_nan() {
        let rule = Rule::Within { format: Format::F16, bound: Bound::Absolute(10.0) };
        let violation =
            |recorded: u16, simulated: u16| rule.first_violation(&recorded.to_le_bytes(), &simulated.to_le_bytes());
        assert_eq!(violation(0x7c00, 0x7c00), None);
        assert_eq!(violation(0x7c00, 0x7bff), Some(0), "the largest number is not infinity");
        assert_eq!(violation(0x7fff, 0x7e00), None);
        assert_eq!(violation(0x7fff, 0x3c00), Some(0));
    }

    #[test]
    fn the_first_of_several_values_is_named() {
        assert_eq!(Rule::Exact.first_violation(&[1, 2, 3], &[1, 9, 9]), Some(1));
        let rule = Rule::Within { format: Format::F16, bound: Bound::Ulps(1) };
        assert_eq!(rule.first_violation(&[0, 0, 0, 0x3c], &[1, 0, 2, 0x3c]), Some(2));
    }
}
