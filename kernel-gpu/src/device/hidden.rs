//! Hides values from the optimiser.

use core::arch::asm;

/// `number`, opaque to the compiler: values derived from it are recomputed where they are used, rarely, instead of occupying
/// registers throughout a loop.
#[inline(always)]
pub fn recompute(mut number: u32) -> u32 {
    // SAFETY: the assembly is only a comment.
    unsafe { asm!("// recomputed: {}", inout(reg32) number, options(nomem, nostack, preserves_flags)) };
    number
}

/// [`recompute`] of an address.
#[inline(always)]
pub fn recompute_address(mut address: u64) -> u64 {
    // SAFETY: the assembly is only a comment.
    unsafe { asm!("// recomputed: {}", inout(reg64) address, options(nomem, nostack, preserves_flags)) };
    address
}

/// Stands in the body of a branch that few steps take, so that the compiler does not compute the body for all and select: of the
/// accumulators of O, that would be a selection of 64 registers in every step.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub fn branch() {
    // SAFETY: the assembly is only a comment.
    unsafe { asm!("// branched", options(nomem, nostack, preserves_flags)) };
}

/// `count`, opaque to the compiler, so that a loop of this many steps is not unrolled.
#[inline(always)]
pub fn not_unrolled(count: u32) -> u32 {
    let hidden;
    // SAFETY: the assembly only moves registers. Not `pure`, so that two results are not known to be equal.
    unsafe { asm!("mov.u32 {}, {};", out(reg32) hidden, in(reg32) count, options(nomem, nostack)) };
    hidden
}

/// `number`, opaque to the compiler; equal arguments are known to give equal results.
#[inline(always)]
pub fn number(number: u32) -> u32 {
    let hidden;
    // SAFETY: the assembly only moves registers.
    unsafe { asm!("mov.u32 {}, {};", out(reg32) hidden, in(reg32) number, options(pure, nomem, nostack)) };
    hidden
}
