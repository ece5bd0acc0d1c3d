//! Division by a number that is known on the host before the launch.

use core::num::NonZeroU32;

/// A divisor for numbers below 2³¹ that divides by a multiplication and a shift. A GPU has no integer division; its
/// software replacement takes some 30 instructions and two uses of the reciprocal unit.
///
/// With l = ⌈log₂ d⌉ and m = ⌊2³¹⁺ˡ / d⌋ + 1, n / d ≤ n·m / 2³¹⁺ˡ < n / d + 1 / d for n < 2³¹, so both have the same
/// integer part (Granlund & Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    /// d.
    value: NonZeroU32,
    /// m, below 2³².
    multiplier: u32,
    /// l.
    shift: u32,
}

impl Divisor {
    /// The divisor `value`.
    ///
    /// # Panics
    /// When `value` exceeds 2³¹, which no dividend reaches.
    // Inlined, since otherwise every PTX module would contain it: only the host calls it.
    #[inline]
    pub const fn new(value: NonZeroU32) -> Self {
        assert!(value.get() <= 1 << 31, "a divisor is at most 2^31");
        let shift = u32::BITS - (value.get() - 1).leading_zeros();
        Self { value, multiplier: ((1 << (31 + shift)) / value.get() as u64 + 1) as u32, shift }
    }

    /// `one` if `condition` holds, else `other`, with its numbers passed through `hide`, which makes them opaque to the compiler.
    /// Otherwise the compiler would select between their addresses. Kernel arguments have none to select from, so they would be
    /// copied to local memory.
    #[inline(always)]
    pub fn either(condition: bool, one: &Self, other: &Self, hide: impl Fn(u32) -> u32) -> Self {
        let choose = |one, other| {
            let other = hide(other);
            if condition { one } else { other }
        };
        Self {
            value: NonZeroU32::new(choose(one.value.get(), other.value.get())).unwrap_or(NonZeroU32::MIN),
            multiplier: choose(one.multiplier, other.multiplier),
            shift: choose(one.shift, other.shift),
        }
    }

    /// The divisor's value.
    #[inline(always)]
    pub const fn get(self) -> NonZeroU32 {
        self.value
    }

    /// Quotient and remainder of `number`, below 2³¹.
    #[inline(always)]
    pub const fn divide(self, number: u32) -> (u32, u32) {
        let quotient = (((number << 1) as u64 * self.multiplier as u64) >> 32) as u32 >> self.shift;
        (quotient, number - quotient * self.value.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divides(divisor: u32, number: u32) {
        let by = Divisor::new(NonZeroU32::new(divisor).expect("a divisor"));
        assert_eq!(by.divide(number), (number / divisor, number % divisor), "{number} / {divisor}");
    }

    #[test]
    fn small_numbers_are_divided_as_by_the_operator() {
        for divisor in 1..200 {
            (0..1_000).for_each(|number| divides(divisor, number));
        }
    }

    #[test]
    fn so_are_those_around_every_multiple_that_ends_the_range() {
        let last = (1 << 31) - 1;
        for power in 0..31 {
            for divisor in
                [(1 << power) - 1, 1 << power, (1 << power) + 1, last >> power].map(|d: u32| d.clamp(1, last))
            {
                let multiple = last / divisor * divisor;
                for number in
                    [multiple - 1, multiple, multiple.saturating_add(1).min(last), last, 0, divisor - 1, divisor]
                {
                    divides(divisor, number);
                }
            }
        }
    }
}
