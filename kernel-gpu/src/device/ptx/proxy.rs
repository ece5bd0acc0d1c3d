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
