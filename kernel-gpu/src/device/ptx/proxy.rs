//! Ordering between proxies in shared memory (PTX ISA, "Proxies" and "Parallel Synchronization and Communication
//! Instructions: membar / fence").

use core::arch::asm;

/// `fence.proxy.async.shared::cta`: makes shared-memory writes by ordinary stores and completed `cp.async` of the calling
/// thread visible to the async proxy (`wgmma`, bulk copies) of threads that synchronise with it afterwards.
#[inline(always)]
pub fn fence_async_shared() {
    // SAFETY: orders accesses, performs none.
    unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack)) };
}

/// `fence.proxy.async.global`: orders accesses to global memory that the calling thread has seen before bulk copies that it starts afterwards.
#[inline(always)]
pub fn fence_async_global() {
    // SAFETY: orders accesses, performs none.
    unsafe { asm!("fence.proxy.async.global;", options(nostack)) };
}
