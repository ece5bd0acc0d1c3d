//! Barriers in shared memory that count arrivals and copied bytes (PTX ISA, "Parallel Synchronization and Communication
//! Instructions: mbarrier").
//!
//! An mbarrier is 8 bytes at a multiple of 8. Its phases are numbered from 0; one ends when as many threads arrived as it
//! was initialised for and no bytes are pending. A wait names the parity of the phase whose end it waits for: with 1 it
//! passes at once as long as phase 0 lasts, which is how an "empty" barrier begins.

use core::arch::asm;

/// Bytes of an mbarrier.
pub const BYTES: u32 = 8;

/// `mbarrier.init.shared::cta.b64`: phases wait for `arrivals` arrivals.
///
/// # Safety
/// `barrier` is an 8-byte aligned shared-memory address that holds no mbarrier; nothing else accesses it until
/// [`fence_init`] and a barrier of the block.
#[inline(always)]
pub unsafe fn init(barrier: u32, arrivals: u32) {
    instruction!("mbarrier.init.shared::cta.b64 [{}], {};", in(reg32) barrier, in(reg32) arrivals, options(nostack));
}

/// `fence.mbarrier_init.release.cluster`: asynchronous copies see the mbarriers that the thread initialised.
#[inline(always)]
pub fn fence_init() {
    // SAFETY: only orders.
    unsafe { asm!("fence.mbarrier_init.release.cluster;", options(nostack)) };
}

/// `mbarrier.arrive.shared::cta.b64`: one arrival, which comes after the thread's earlier accesses.
///
/// # Safety
/// `barrier` is an initialised mbarrier whose phase waits for one more arrival at least.
#[inline(always)]
pub unsafe fn arrive(barrier: u32) {
    instruction!("mbarrier.arrive.shared::cta.b64 _, [{}];", in(reg32) barrier, options(nostack));
}

/// `mbarrier.arrive.expect_tx.shared::cta.b64`: the phase waits for `bytes` more copied bytes; then as [`arrive`].
///
/// # Safety
/// As for [`arrive`]; copies of just so many bytes signal the mbarrier.
#[inline(always)]
pub unsafe fn arrive_and_expect(barrier: u32, bytes: u32) {
    instruction!(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{}], {};",
        in(reg32) barrier, in(reg32) bytes,
        options(nostack)
    );
}

/// `mbarrier.try_wait.parity.shared::cta.b64`, until it succeeds: waits for the end of the current or preceding phase,
/// whichever has that parity. What came before its arrivals, and what its copies wrote, is visible afterwards.
///
/// # Safety
/// `barrier` is an initialised mbarrier; `parity` is 0 or 1.
#[inline(always)]
pub unsafe fn wait(barrier: u32, parity: u32) {
    // SAFETY: an initialised mbarrier, as the caller says.
    while !unsafe { try_wait(barrier, parity) } {}
}

/// One `mbarrier.try_wait.parity.shared::cta.b64`: whether the phase was over within a time that the hardware chooses.
///
/// # Safety
/// As for [`wait`].
#[inline(always)]
unsafe fn try_wait(barrier: u32, parity: u32) -> bool {
    let over: u32;
    instruction!(
        "{{ .reg .pred %over; mbarrier.try_wait.parity.shared::cta.b64 %over, [{}], {}; selp.b32 {}, 1, 0, %over; }}",
        in(reg32) barrier, in(reg32) parity, out(reg32) over,
        options(nostack)
    );
    over != 0
}
