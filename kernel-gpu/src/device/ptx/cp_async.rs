//! Non-bulk asynchronous copies from global to shared memory (PTX ISA, "Data Movement and Conversion Instructions:
//! Non-bulk copy").

use core::arch::asm;

/// `cp.async.cg.shared.global`: starts copying 16 bytes, bypassing L1.
///
/// # Safety
/// `shared` and `global` are 16-byte aligned addresses of 16 accessible bytes; neither is written otherwise, and
/// `shared` not read, until a wait for the copy's group and a barrier.
#[inline(always)]
pub unsafe fn copy_16(shared: u32, global: u64) {
    instruction!("cp.async.cg.shared.global [{}], [{}], 16;", in(reg32) shared, in(reg64) global, options(nostack));
}

/// `cp.async.cg.shared.global` with a source size: [`copy_16`] if `inside`; otherwise fills 16 bytes with zeros without
/// reading `global`.
///
/// # Safety
/// As for [`copy_16`]; if not `inside`, `global` may be any address.
#[inline(always)]
pub unsafe fn copy_16_or_zeros(shared: u32, global: u64, inside: bool) {
    // With a source size of 0 nothing is read.
    let source_bytes = if inside { 16u32 } else { 0 };
    instruction!(
        "cp.async.cg.shared.global [{}], [{}], 16, {};",
        in(reg32) shared,
        in(reg64) global,
        in(reg32) source_bytes,
        options(nostack)
    );
}

/// `cp.async.cg.shared.global` with a source size: copies the first `source_bytes` of 16 bytes, and fills the others with zeros.
///
/// # Safety
/// As for [`copy_16`], but only `source_bytes` of `global`, at most 16, need be accessible.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub unsafe fn copy_part_of_16(shared: u32, global: u64, source_bytes: u32) {
    instruction!(
        "cp.async.cg.shared.global [{}], [{}], 16, {};",
        in(reg32) shared, in(reg64) global, in(reg32) source_bytes,
        options(nostack)
    );
}

/// `cp.async.commit_group`: the calling thread's copies since the last commit become one group, possibly empty.
#[inline(always)]
pub fn commit_group() {
    // SAFETY: groups copies that were started safely; touches no memory.
    unsafe { asm!("cp.async.commit_group;", options(nostack)) };
}

/// `cp.async.wait_group`: with `STAGES - 1` groups of the calling thread in flight, waits for the oldest. What other
/// threads copied is visible only after a barrier that follows their own wait.
#[inline(always)]
pub fn wait_for_oldest<const STAGES: u32>() {
    // SAFETY: the instruction only waits.
    unsafe { asm!("cp.async.wait_group {};", const STAGES - 2, options(nostack)) };
}

/// `cp.async.wait_group`: waits until fewer than `LIMIT` groups of the calling thread are in flight. What other threads
/// copied is visible only after a barrier that follows their own wait.
#[inline(always)]
pub fn wait_until_fewer_than<const LIMIT: u32>() {
    // SAFETY: the instruction only waits.
    unsafe { asm!("cp.async.wait_group {};", const LIMIT - 1, options(nostack)) };
}
