//! Order between the ways to shared memory (PTX ISA, "Proxies" and "Parallel Synchronization and Communication
//! Instructions: membar / fence").

use core::arch::asm;

/// `fence.proxy.async.shared::cta`: what ordinary stores and completed `cp.async` of the calling thread wrote to shared
/// memory becomes visible to the async proxy (`wgmma`, bulk copies) of whoever synchronises with the thread afterwards.
#[inline(always)]
pub fn fence_async_shared() {
    // SAFETY: orders accesses; makes none.
    unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack)) };
}
