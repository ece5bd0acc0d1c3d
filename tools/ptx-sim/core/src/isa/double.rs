//! `.f64` arithmetic in directed rounding modes, which the host does not offer, and the approximations on which CUDA's
//! math library is based.

use rustc_apfloat::ieee::Double;
use rustc_apfloat::{Float, Round};

use crate::numeric::Rounding;

/// An arithmetic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    MultiplyAdd,
    Divide,
    Reciprocal,
    SquareRoot,
}

impl Arithmetic {
    /// The operation of an opcode.
    pub fn of(opcode: &str) -> Arithmetic {
        match opcode {
            "add" => Arithmetic::Add,
            "sub" => Arithmetic::Subtract,
            "mul" => Arithmetic::Multiply,
            "div" => Arithmetic::Divide,
            "rcp" => Arithmetic::Reciprocal,
            "sqrt" => Arithmetic::SquareRoot,
            _ => Arithmetic::MultiplyAdd,
        }
    }

    /// The rounded result; `operands` are bits. A NaN operand is propagated, made quiet. A NaN that arises without a
    /// NaN operand has its sign set. Observed on an H100.
    pub fn compute(self, operands: &[u64; 4], rounding: Rounding) -> u64 {
        let nearest = self.nearest(operands.map(f64::from_bits));
        if nearest.is_nan() {
            return self.kept_nan(operands).map_or(NEW_NAN, quiet);
        }
        if rounding == Rounding::Nearest {
            return nearest.to_bits();
        }
        let [a, b, c, _] = operands.map(|bits| Double::from_bits(u128::from(bits)));
        let round = match rounding {
            Rounding::Nearest => Round::NearestTiesToEven,
            Rounding::Zero => Round::TowardZero,
            Rounding::Down => Round::TowardNegative,
            Rounding::Up => Round::TowardPositive,
        };
        let result = match self {
            Arithmetic::Add => a.add_r(b, round),
            Arithmetic::Subtract => a.sub_r(b, round),
            Arithmetic::Multiply => a.mul_r(b, round),
            Arithmetic::MultiplyAdd => a.mul_add_r(b, c, round),
            Arithmetic::Divide => a.div_r(b, round),
            Arithmetic::Reciprocal => Double::from_bits(u128::from(1.0_f64.to_bits())).div_r(a, round),
            Arithmetic::SquareRoot => return square_root(f64::from_bits(operands[0]), rounding),
        };
        result.value.to_bits() as u64
    }

    /// The NaN operand that is propagated, if any.
    fn kept_nan(self, &[a, b, c, _]: &[u64; 4]) -> Option<u64> {
        let first_to_last: &[u64] = match self {
            Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply => &[b, a],
            Arithmetic::MultiplyAdd => &[b, c, a],
            Arithmetic::Divide => &[a, b],
            Arithmetic::Reciprocal | Arithmetic::SquareRoot => &[a],
        };
        first_to_last.iter().copied().find(|bits| f64::from_bits(*bits).is_nan())
    }

    fn nearest(self, [a, b, c, _]: [f64; 4]) -> f64 {
        match self {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            Arithmetic::MultiplyAdd => a.mul_add(b, c),
            Arithmetic::Divide => a / b,
            Arithmetic::Reciprocal => 1.0 / a,
            Arithmetic::SquareRoot => a.sqrt(),
        }
    }
}

/// The NaN that arises from operands that are not NaN.
const NEW_NAN: u64 = 0xfff8_0000_0000_0000;

/// Makes a NaN quiet.
pub(super) const fn quiet(nan: u64) -> u64 {
    nan | 1 << 51
}

/// A step of a tensor core's `.f64` sum: `a · b + sum`, rounded to nearest, on bits; NaN as for `fma`.
pub(super) fn multiply_add(a: u64, b: u64, sum: u64) -> u64 {
    Arithmetic::MultiplyAdd.compute(&[a, b, sum, 0], Rounding::Nearest)
}

/// The square root of a non-negative number. It is never subnormal, nor, after scaling, is the square's error.
fn square_root(value: f64, rounding: Rounding) -> u64 {
    const SCALE: f64 = (1_u128 << 120) as f64;
    if value == 0.0 || value.is_infinite() {
        return value.sqrt().to_bits();
    }
    let is_small = value < f64::MIN_POSITIVE * SCALE;
    let scaled = if is_small { value * SCALE } else { value };
    let root = scaled.sqrt();
    let rest = f64::mul_add(-root, root, scaled);
    let rounded = match rounding {
        Rounding::Zero | Rounding::Down if rest < 0.0 => root.next_down(),
        Rounding::Up if rest > 0.0 => root.next_up(),
        _ => root,
    };
    (if is_small { rounded / SCALE.sqrt() } else { rounded }).to_bits()
}

/// `rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: from the upper half of the operand the upper half of the result.
pub(super) fn gross(function: fn(f64) -> f64, bits: u64) -> u64 {
    const UPPER: u64 = 0xffff_ffff_0000_0000;
    let flush = |value: f64| if value.is_subnormal() { 0.0_f64.copysign(value) } else { value };
    // A NaN whose payload is in the lower half is an infinity here.
    let value = flush(f64::from_bits(bits & UPPER));
    let result = flush(function(value));
    if result.is_nan() { CANONICAL_NAN } else { result.to_bits() & UPPER }
}

/// What the approximations give for NaN: all bits of the upper half.
const CANONICAL_NAN: u64 = 0x7fff_ffff_0000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTED: [Rounding; 3] = [Rounding::Zero, Rounding::Down, Rounding::Up];

    #[test]
    fn a_step_of_a_sum_keeps_one_of_several_nan() {
        let [one, a, b, sum] =
            [0x3ff0_0000_0000_0000, 0xfff0_0000_0000_0001, 0x7ff0_0000_0000_0002, 0x7ff8_0000_0000_0003];
        assert_eq!(multiply_add(a, b, sum), b | 1 << 51);
        assert_eq!(multiply_add(a, one, sum), sum);
        assert_eq!(multiply_add(a, one, one), a | 1 << 51);
        let infinity = 0x7ff0_0000_0000_0000;
        assert_eq!(multiply_add(infinity, 0, one), 0xfff8_0000_0000_0000);
        assert_eq!(multiply_add(one, one, one), 2.0_f64.to_bits());
    }

    #[test]
    fn arithmetic_keeps_one_of_two_nan() {
        let [one, a, b] = [0x3ff0_0000_0000_0000, 0xfff0_0000_0000_0001, 0x7ff0_0000_0000_0002];
        for rounding in [Rounding::Nearest, Rounding::Down] {
            let result = |operation: Arithmetic, a, b| operation.compute(&[a, b, one, 0], rounding);
            for operation in [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply] {
                assert_eq!(result(operation, a, b), quiet(b), "{operation:?}");
                assert_eq!(result(operation, a, one), quiet(a), "{operation:?}");
            }
            assert_eq!(result(Arithmetic::Divide, a, b), quiet(a));
            assert_eq!(result(Arithmetic::Divide, one, b), quiet(b));
            assert_eq!(result(Arithmetic::Divide, 0, 0), NEW_NAN);
            assert_eq!(result(Arithmetic::SquareRoot, a, b), quiet(a));
        }
    }

    #[test]
    fn an_approximation_sees_the_upper_half_of_a_nan() {
        let reciprocal = |bits| gross(|x| 1.0 / x, bits);
        assert_eq!(reciprocal(0xfff0_0000_0000_0002), 1 << 63, "that of -infinity");
        assert_eq!(reciprocal(0xfff8_0000_0000_0000), CANONICAL_NAN);
    }

    #[test]
    fn directed_results_enclose_the_nearest() {
        let values = [1.0, -3.0, 0.1, 1e-310, 7e300, -2.5e-200, f64::MIN_POSITIVE, 5e-324, 1.0 + f64::EPSILON];
        let all = [
            Arithmetic::Add,
            Arithmetic::Subtract,
            Arithmetic::Multiply,
            Arithmetic::MultiplyAdd,
            Arithmetic::Divide,
            Arithmetic::Reciprocal,
            Arithmetic::SquareRoot,
        ];
        for operation in all {
            for a in values {
                for b in values {
                    let operands = [a.to_bits(), b.to_bits(), 0.3_f64.to_bits(), 0];
                    let nearest = operation.nearest(operands.map(f64::from_bits));
                    if nearest.is_nan() {
                        continue;
                    }
                    let [zero, down, up] =
                        DIRECTED.map(|rounding| f64::from_bits(operation.compute(&operands, rounding)));
                    assert!(down <= nearest && nearest <= up, "{operation:?} {a:e} {b:e}: {down:e} {nearest:e} {up:e}");
                    assert!(up == down || up == down.next_up(), "{operation:?} {a:e} {b:e}: {down:e} {up:e}");
                    assert_eq!(zero, if nearest > 0.0 || up > 0.0 && down >= 0.0 { down } else { up });
                }
            }
        }
    }

    #[test]
    fn exact_roots_are_the_same_in_every_mode() {
        for root in [3.0, 1.5e-160, 1e150] {
            let square: f64 = root * root;
            let exact = root == square.sqrt() && f64::mul_add(root, root, -square) == 0.0;
            for rounding in DIRECTED.into_iter().filter(|_| exact) {
                assert_eq!(f64::from_bits(square_root(square, rounding)), root);
            }
        }
        assert_eq!(f64::from_bits(square_root(2.0, Rounding::Up)), 2.0_f64.sqrt());
        assert_eq!(f64::from_bits(square_root(2.0, Rounding::Down)), 2.0_f64.sqrt().next_down());
        // 2^-1074, whose root is exact.
        assert_eq!(f64::from_bits(square_root(5e-324, Rounding::Up)), 2.0_f64.powi(-537));
    }
}
