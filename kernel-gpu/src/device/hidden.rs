//! Numbers that the compiler is not to know.

use core::arch::asm;

/// `number`, as if it were not known before: what follows from it is computed where it is used, rarely, and is not kept in
/// registers all through a loop.
#[inline(always)]
pub fn again(mut number: u32) -> u32 {
    // SAFETY: a comment.
    unsafe { asm!("// again: {}", inout(reg32) number, options(nomem, nostack, preserves_flags)) };
    number
}

/// [`again`] of an address.
#[inline(always)]
pub fn address_again(mut address: u64) -> u64 {
    // SAFETY: a comment.
    unsafe { asm!("// again: {}", inout(reg64) address, options(nomem, nostack, preserves_flags)) };
    address
}

/// `count`, hidden from the compiler: loops of so many steps are not unrolled.
#[cfg(feature = "sm_80")]
#[inline(always)]
pub fn not_unrolled(count: u32) -> u32 {
    let hidden;
    // SAFETY: registers only. Not `pure`, so that one result does not become known from another.
    unsafe { asm!("mov.u32 {}, {};", out(reg32) hidden, in(reg32) count, options(nomem, nostack)) };
    hidden
}

/// `number`, unknown to the compiler; the same of the same one.
#[inline(always)]
pub fn number(number: u32) -> u32 {
    let hidden;
    // SAFETY: registers only.
    unsafe { asm!("mov.u32 {}, {};", out(reg32) hidden, in(reg32) number, options(pure, nomem, nostack)) };
    hidden
}
