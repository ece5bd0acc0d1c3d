//! Barriers (PTX ISA, "Parallel Synchronization and Communication Instructions").

use core::arch::asm;

use crate::device::codegen::{thread, warp};

/// Keeps the barrier behind it in one place: rustc's own jump threading copies what stands before a branch into the ways that
/// lead to its arms, calls of intrinsics too, and stops at assembly. In two places, each would wait for a part of the threads.
macro_rules! in_one_place {
    ($remark:literal) => {
        // SAFETY: a comment.
        unsafe { asm!(concat!("// ", $remark), options(nomem, nostack, preserves_flags)) }
    };
}

/// `bar.sync 0`: waits for all threads of the block; their earlier shared-memory accesses are done and visible.
///
/// # Safety
/// Every thread of the block executes this together.
#[inline(always)]
pub unsafe fn block() {
    in_one_place!("barrier");
    // SAFETY: the caller has the block together.
    unsafe { thread::sync_threads() };
}

/// `bar.red.or.pred` over barrier 0: as [`block`], and whether `condition` holds for any thread.
///
/// # Safety
/// Every thread of the block executes this together.
#[inline(always)]
pub unsafe fn block_any(condition: bool) -> bool {
    let any: u32;
    instruction!(
        "{{ .reg .pred %mine, %any; setp.ne.u32 %mine, {}, 0; bar.red.or.pred %any, 0, %mine; selp.b32 {}, 1, 0, %any; }}",
        in(reg32) condition as u32, out(reg32) any,
        options(nostack)
    );
    any != 0
}

/// `bar.warp.sync`: waits for all lanes of the warp; their earlier memory accesses are visible to each other.
///
/// # Safety
/// Every lane of the warp executes this together.
#[inline(always)]
pub unsafe fn warp() {
    in_one_place!("barrier");
    // SAFETY: the caller has the warp together.
    unsafe { warp::sync_warp() };
}

/// `bar.warp.sync` where memory needs no order: lanes that took different ways go on together, and not one way after the
/// other.
///
/// # Safety
/// Every lane of the warp executes this together.
#[inline(always)]
pub unsafe fn converge_warp() {
    in_one_place!("converge");
    // SAFETY: the caller has the warp together.
    unsafe { warp::converge() };
}

/// `bar.sync barrier, THREADS`: waits until `THREADS` threads, these among them, have come to the barrier or
/// [arrived](arrive) there; what those did to shared memory before is done and visible.
///
/// # Safety
/// Whole warps execute this together, with the same `barrier` of 1 to 15, which so many threads use each time.
#[cfg_attr(not(feature = "sm_90a"), allow(dead_code, reason = "the other family's blocks have only barrier 0"))]
#[inline(always)]
pub unsafe fn some<const THREADS: u32>(barrier: u32) {
    instruction!("bar.sync {}, {};", in(reg32) barrier, const THREADS, options(nostack));
}

/// `bar.arrive barrier, THREADS`: takes part in a [`some`] without waiting for it.
///
/// # Safety
/// As for [`some`].
#[cfg_attr(not(feature = "sm_90a"), allow(dead_code, reason = "the other family's blocks have only barrier 0"))]
#[inline(always)]
pub unsafe fn arrive<const THREADS: u32>(barrier: u32) {
    instruction!("bar.arrive {}, {};", in(reg32) barrier, const THREADS, options(nostack));
}
