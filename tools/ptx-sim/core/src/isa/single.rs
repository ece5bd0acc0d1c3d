//! Round-to-nearest arithmetic on `.f32`: the host's is IEEE 754. Branch-free, so that it vectorises.

use super::lanewise::Lanewise;
use crate::decode::{Decode, Form};
use crate::numeric::{canonical, flush};
use crate::parse::Type;

/// What is done to operands and results.
#[derive(Clone, Copy)]
pub(super) struct Single {
    /// `.ftz`: subnormal operands and results become zero.
    pub flush: bool,
    /// `.sat`: results are clamped to [0, 1], NaN to 0.
    pub saturate: bool,
}

impl Single {
    fn operand(self, bits: u64) -> f32 {
        let value = f32::from_bits(bits as u32);
        if self.flush { flush(value) } else { value }
    }

    /// A result as bits.
    fn result(self, value: f32) -> u64 {
        let value = match self.saturate {
            false => value,
            true if value > 1.0 => 1.0,
            true if value > 0.0 => value,
            true => 0.0,
        };
        u64::from(canonical(if self.flush { flush(value) } else { value }))
    }
}

/// `add`, `sub`, `mul`, and `fma` for any other opcode.
pub(super) fn arithmetic(form: &mut Form<'_>, single: Single, sources: &[Type]) -> Decode<Lanewise> {
    match form.opcode() {
        "add" => take(form, single, sources, |[a, b, _]| a + b),
        "sub" => take(form, single, sources, |[a, b, _]| a - b),
        "mul" => take(form, single, sources, |[a, b, _]| a * b),
        _ => take(form, single, sources, |[a, b, c]| f32::mul_add(a, b, c)),
    }
}

fn take(
    form: &mut Form<'_>,
    single: Single,
    sources: &[Type],
    operation: impl Fn([f32; 3]) -> f32 + Send + Sync + 'static,
) -> Decode<Lanewise> {
    Lanewise::take(form, Type::F32, sources, move |v| {
        single.result(operation([v[0], v[1], v[2]].map(|bits| single.operand(bits))))
    })
}

/// A function of one operand, computed in f64 and rounded once.
pub(super) fn approximation(form: &mut Form<'_>, single: Single, function: fn(f64) -> f64) -> Decode<Lanewise> {
    Lanewise::take(form, Type::F32, &[Type::F32], move |v| {
        single.result(function(f64::from(single.operand(v[0]))) as f32)
    })
}

/// The smaller or larger of two numbers.
#[inline(always)]
fn pick(x: f32, y: f32, maximum: bool, propagate_nan: bool) -> f32 {
    // −0 is less than +0.
    let takes_first = if x == y { x.is_sign_negative() != maximum } else { (x > y) == maximum };
    let picked = if y.is_nan() | !x.is_nan() & takes_first { x } else { y };
    let has_nan = x.is_nan() | y.is_nan();
    if propagate_nan & has_nan { f32::NAN } else { picked }
}

/// The bits of the smaller or larger of two numbers, given by their bits.
pub(super) fn extremum_of_bits<const MAXIMUM: bool, const PROPAGATE_NAN: bool>(a: u64, b: u64, _: Type) -> u64 {
    let picked = pick(f32::from_bits(a as u32), f32::from_bits(b as u32), MAXIMUM, PROPAGATE_NAN);
    u64::from(canonical(picked))
}

/// `min` and `max` of two or three operands.
pub(super) fn extremum(
    form: &mut Form<'_>,
    single: Single,
    (maximum, propagate_nan): (bool, bool),
    operands: usize,
) -> Decode<Lanewise> {
    let pick = move |x: f32, y: f32| pick(x, y, maximum, propagate_nan);
    let sources = &[Type::F32; 3][..operands];
    if operands == 2 {
        return take(form, single, sources, move |[a, b, _]| pick(a, b));
    }
    take(form, single, sources, move |[a, b, c]| pick(pick(a, b), c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_clamped_before_they_are_flushed() {
        let of = |flush, saturate, value: f32| Single { flush, saturate }.result(value) as u32;
        let tiny = f32::from_bits(0x8000_0001);
        assert_eq!(
            [of(false, false, tiny), of(true, false, tiny), of(true, true, tiny)],
            [0x8000_0001, 0x8000_0000, 0]
        );
        assert_eq!([of(false, true, f32::NAN), of(false, false, -f32::NAN)], [0, 0x7fff_ffff]);
        assert_eq!([1.5, 0.5, -0.0].map(|value| of(false, true, value)), [0x3f80_0000, 0x3f00_0000, 0]);
    }
}
