//! Barriers in shared memory that count arrivals and copied bytes (PTX ISA, "Parallel Synchronization and Communication
//! Instructions: mbarrier").
//!
//! An mbarrier is 8 bytes, 8-byte aligned. Its phases are numbered from 0; a phase completes when the expected number of
//! threads have arrived and no bytes are pending. A wait names the parity of the phase whose completion it waits for: with
//! parity 1 it returns at once during phase 0, which is how an "empty" barrier begins.

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
    // SAFETY: orders accesses, performs none.
    unsafe { asm!("fence.mbarrier_init.release.cluster;", options(nostack)) };
}

/// `mbarrier.arrive.shared::cta.b64`: one arrival, ordered after the thread's earlier accesses.
///
/// # Safety
/// `barrier` is an initialised mbarrier whose current phase expects at least one more arrival.
#[inline(always)]
pub unsafe fn arrive(barrier: u32) {
    instruction!("mbarrier.arrive.shared::cta.b64 _, [{}];", in(reg32) barrier, options(nostack));
}

/// `mbarrier.arrive.expect_tx.shared::cta.b64`: the phase waits for `bytes` more copied bytes; then [`arrive`].
///
/// # Safety
/// As for [`arrive`]; copies of exactly `bytes` bytes signal the mbarrier.
#[inline(always)]
pub unsafe fn arrive_and_expect(barrier: u32, bytes: u32) {
    instruction!(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{}], {};",
        in(reg32) barrier, in(reg32) bytes,
        options(nostack)
    );
}

/// `mbarrier.try_wait.parity.shared::cta.b64`, until it succeeds: waits for the completion of the current or preceding phase,
/// whichever has that parity. Accesses before its arrivals, and the writes of its copies, are then visible.
///
/// # Safety
/// `barrier` is an initialised mbarrier; `parity` is 0 or 1.
#[inline(always)]
pub unsafe fn wait(barrier: u32, parity: u32) {
    // SAFETY: an initialised mbarrier, by the caller's promise.
    while !unsafe { try_wait(barrier, parity) } {}
}

/// A single `mbarrier.try_wait.parity.shared::cta.b64`: whether the phase completed within a hardware-defined time.
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
