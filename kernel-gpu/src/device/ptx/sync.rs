//! Barriers (PTX ISA, "Parallel Synchronization and Communication Instructions").

use core::arch::asm;

use crate::device::codegen::thread;

/// `bar.sync 0`: waits for all threads of the block; their earlier shared-memory accesses are done and visible.
///
/// # Safety
/// Every thread of the block executes this together.
#[inline(always)]
pub unsafe fn block() {
    // SAFETY: passed on to the caller.
    unsafe { thread::sync_threads() };
}

/// `bar.warp.sync`: waits for all lanes of the warp; their earlier memory accesses are visible to each other.
///
/// # Safety
/// Every lane of the warp executes this together.
#[inline(always)]
pub unsafe fn warp() {
    // SAFETY: passed on to the caller.
    unsafe { asm!("bar.warp.sync 0xffffffff;", options(nostack)) };
}
