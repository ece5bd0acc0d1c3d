//! The element types of the matrix instructions: what differs between fp16 and bf16.

use super::math;
use crate::shared_tile::{self, Bf16, F16};
use contract::config;

/// An element type of Q, K, V, P and O.
pub trait Element: shared_tile::Element + Copy + 'static {
    /// Its name in the contract, which selects instructions.
    const TYPE: config::Element;
    /// A packed pair of ones.
    const ONES: u32;
    /// Digits of the mantissa that are stored.
    const MANTISSA_BITS: u32;
    /// Up to 2 to the power of this, no probability overflows, nor does O in f32.
    const LARGEST_EXPONENT: u32;
    /// If a row has a probability of 2 to the power of minus this, others may underflow without consequence.
    const SMALLEST_EXPONENT: u32;
    /// Up to this sum of a lane's probabilities in a step, no probability overflows, nor does O in f32.
    const LARGEST_SUM: f32 = (1u32 << Self::LARGEST_EXPONENT) as f32;
    /// How far a shift is above the maximum of a few scores that it is guessed from, as a power of two: other scores may exceed that
    /// by as much more before a probability overflows.
    const HEADROOM: f32;
    /// From which row sum on guessed shifts are raised, and the binary logarithm of what it becomes then: few of many equal
    /// probabilities should have fewer digits for it.
    #[cfg(feature = "sm_80")]
    const RAISED_FROM: f32;
    /// See [`Self::RAISED_FROM`].
    #[cfg(feature = "sm_80")]
    const RAISED_TO: f32;
    /// If a few scores of many rows are this far apart, as a power of two, later ones are likely to overflow under shifts guessed
    /// from them.
    #[cfg(feature = "sm_80")]
    const FAR_APART: f32;
    /// If the sum of a row's rounded probabilities is below this, none overflowed, nor did O in f32.
    const SUM_LIMIT: f32;
    /// From this sum of a lane's probabilities of a row on, one of them is far above the smallest numbers, so that others may
    /// underflow without consequence.
    const SMALLEST_FIRST_SUM: f32;

    /// Two f32 rounded to nearest-even, `low` in the lower half.
    fn pack(low: f32, high: f32) -> u32;

    /// The two elements of a register, the lower half first.
    fn unpack(pair: u32) -> [f32; 2];

    /// The larger elements of two pairs; NaN if one is.
    #[cfg(feature = "sm_90a")]
    fn larger(a: u32, b: u32) -> u32;
}

impl Element for F16 {
    const TYPE: config::Element = config::Element::F16;
    const ONES: u32 = 0x3c00_3c00;
    const MANTISSA_BITS: u32 = 10;
    // fp16 ends at 65504, and resolves 2⁻²⁴.
    const LARGEST_EXPONENT: u32 = 14;
    const SMALLEST_EXPONENT: u32 = 10;
    // With more, probabilities that are small, but many, would lose digits.
    const HEADROOM: f32 = 3.0;
    // A probability overflows if its score is 19 above the maximum of the others.
    #[cfg(feature = "sm_80")]
    const FAR_APART: f32 = 24.0;
    // 2¹⁵ equal probabilities are then no smaller than 2⁻¹⁴, the smallest with all digits.
    #[cfg(feature = "sm_80")]
    const RAISED_FROM: f32 = 16.0;
    #[cfg(feature = "sm_80")]
    const RAISED_TO: f32 = 1.0;
    // A probability that overflows becomes infinite.
    const SUM_LIMIT: f32 = f32::INFINITY;
    // Guarantees a probability of at least 2⁻¹⁰; fp16 resolves 2⁻²⁴.
    const SMALLEST_FIRST_SUM: f32 = 1.0 / 64.0;

    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        math::pack_f16(low, high)
    }

    #[inline(always)]
    fn unpack(pair: u32) -> [f32; 2] {
        math::unpack_f16(pair)
    }

    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    fn larger(a: u32, b: u32) -> u32 {
        math::max_f16_pairs(a, b)
    }
}

impl Element for Bf16 {
    const TYPE: config::Element = config::Element::Bf16;
    const ONES: u32 = 0x3f80_3f80;
    const MANTISSA_BITS: u32 = 7;
    // With V up to 2⁹⁰, O stays in the range of f32. bf16 resolves 2⁻¹²⁶.
    const LARGEST_EXPONENT: u32 = 30;
    const SMALLEST_EXPONENT: u32 = 30;
    const HEADROOM: f32 = 0.0;
    // Likewise, of 60.
    #[cfg(feature = "sm_80")]
    const FAR_APART: f32 = 76.0;
    #[cfg(feature = "sm_80")]
    const RAISED_FROM: f32 = (1u32 << 24) as f32;
    #[cfg(feature = "sm_80")]
    const RAISED_TO: f32 = 1.0;
    const SUM_LIMIT: f32 = 1e18;
    // 2⁻³⁰; bf16 resolves 2⁻¹²⁶.
    const SMALLEST_FIRST_SUM: f32 = 1.0 / (1u32 << 30) as f32;

    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        math::pack_bf16(low, high)
    }

    #[inline(always)]
    fn unpack(pair: u32) -> [f32; 2] {
        // A bf16 is the upper half of an f32.
        [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)]
    }

    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    fn larger(a: u32, b: u32) -> u32 {
        math::max_bf16_pairs(a, b)
    }
}
