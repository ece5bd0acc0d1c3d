//! Floating-point instructions without a Rust operator (PTX ISA, "Floating Point Instructions" and "cvt").

use core::arch::asm;

macro_rules! unary {
    ($(#[$doc:meta])* $name:ident, $instruction:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(x: f32) -> f32 {
            let y;
            // SAFETY: registers only.
            unsafe {
                asm!(concat!($instruction, " {}, {};"), out(reg32) y, in(reg32) x, options(pure, nomem, nostack))
            };
            y
        }
    };
}

unary! {
    /// `ex2.approx.ftz.f32`: 2ˣ within 2 ulp; 2^(−∞) is +0.
    exp2, "ex2.approx.ftz.f32"
}
unary! {
    /// `lg2.approx.ftz.f32`: log₂ x with an absolute error under 2⁻²² near 1, relative elsewhere; log₂ 0 is −∞.
    log2, "lg2.approx.ftz.f32"
}
unary! {
    /// `rcp.approx.ftz.f32`: 1/x within 1 ulp.
    reciprocal, "rcp.approx.ftz.f32"
}

/// `fma.rn.f32`: a·b + c, rounded once.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    let d;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "fma.rn.f32 {}, {}, {}, {};",
            out(reg32) d, in(reg32) a, in(reg32) b, in(reg32) c,
            options(pure, nomem, nostack)
        );
    }
    d
}

/// |x|, by clearing the sign bit.
#[inline(always)]
pub fn abs(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0x7fff_ffff)
}

/// `max.f32`: the larger; a number if one operand is NaN.
#[inline(always)]
pub fn max(a: f32, b: f32) -> f32 {
    let c;
    // SAFETY: registers only.
    unsafe {
        asm!("max.f32 {}, {}, {};", out(reg32) c, in(reg32) a, in(reg32) b, options(pure, nomem, nostack));
    }
    c
}

/// `max.NaN.f16x2`: the larger elements of two pairs; NaN if one is.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub fn max_f16_pairs(a: u32, b: u32) -> u32 {
    let c;
    // SAFETY: registers only.
    unsafe {
        asm!("max.NaN.f16x2 {}, {}, {};", out(reg32) c, in(reg32) a, in(reg32) b, options(pure, nomem, nostack));
    }
    c
}

/// `max.NaN.bf16x2`: the larger elements of two pairs; NaN if one is.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub fn max_bf16_pairs(a: u32, b: u32) -> u32 {
    let c;
    // SAFETY: registers only.
    unsafe {
        asm!("max.NaN.bf16x2 {}, {}, {};", out(reg32) c, in(reg32) a, in(reg32) b, options(pure, nomem, nostack));
    }
    c
}

/// `min.f32`: the smaller; a number if one operand is NaN.
#[inline(always)]
pub fn min(a: f32, b: f32) -> f32 {
    let c;
    // SAFETY: registers only.
    unsafe {
        asm!("min.f32 {}, {}, {};", out(reg32) c, in(reg32) a, in(reg32) b, options(pure, nomem, nostack));
    }
    c
}

macro_rules! pack {
    ($(#[$doc:meta])* $name:ident, $instruction:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(low: f32, high: f32) -> u32 {
            let packed;
            // SAFETY: registers only.
            unsafe {
                asm!(
                    concat!($instruction, " {}, {}, {};"),
                    out(reg32) packed, in(reg32) high, in(reg32) low,
                    options(pure, nomem, nostack)
                );
            }
            packed
        }
    };
}

pack! {
    /// `cvt.rn.f16x2.f32`: two f32 rounded to nearest-even fp16, `low` in the lower half.
    pack_f16, "cvt.rn.f16x2.f32"
}
pack! {
    /// `cvt.rn.bf16x2.f32`: two f32 rounded to nearest-even bf16, `low` in the lower half.
    pack_bf16, "cvt.rn.bf16x2.f32"
}

/// The two fp16 of a register as f32, the lower half first.
#[inline(always)]
pub fn unpack_f16(pair: u32) -> [f32; 2] {
    let (low, high);
    // SAFETY: registers only.
    unsafe {
        asm!(
            "{{ .reg .b16 low, high; mov.b32 {{low, high}}, {2}; cvt.f32.f16 {0}, low; cvt.f32.f16 {1}, high; }}",
            out(reg32) low, out(reg32) high, in(reg32) pair,
            options(pure, nomem, nostack)
        );
    }
    [low, high]
}
