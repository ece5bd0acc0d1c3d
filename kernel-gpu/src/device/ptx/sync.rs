//! Barriers (PTX ISA, "Parallel Synchronization and Communication Instructions").

use core::arch::asm;

use crate::device::codegen::{thread, warp};

/// Prevents duplication of the following barrier. rustc's jump threading copies the code before a branch, including intrinsics, into
/// its predecessors, but stops at assembly. Each copy of a barrier would wait for only a part of the threads.
macro_rules! in_one_place {
    ($remark:literal) => {
        // SAFETY: the assembly is only a comment.
        unsafe { asm!(concat!("// ", $remark), options(nomem, nostack, preserves_flags)) }
    };
}

/// `bar.sync 0`: waits for all threads of the block; their earlier shared-memory accesses are then performed and visible.
///
/// # Safety
/// Every thread of the block executes this together.
#[inline(always)]
pub unsafe fn block() {
    in_one_place!("barrier");
    // SAFETY: block together.
    unsafe { thread::sync_threads() };
}

/// `bar.red.or.pred` on barrier 0: [`block`], and returns whether `condition` holds in any thread.
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

/// `bar.warp.sync`: waits for all lanes of the warp; their earlier memory accesses are then visible to each other.
///
/// # Safety
/// Every lane of the warp executes this together.
#[inline(always)]
pub unsafe fn warp() {
    in_one_place!("barrier");
    // SAFETY: warp together.
    unsafe { warp::sync_warp() };
}

/// `bar.warp.sync` without need for memory ordering: reconverges lanes that diverged, so that they do not continue one path
/// after the other.
///
/// # Safety
/// Every lane of the warp executes this together.
#[inline(always)]
pub unsafe fn converge_warp() {
    in_one_place!("converge");
    // SAFETY: warp together.
    unsafe { warp::converge() };
}

/// `bar.sync barrier, THREADS`: waits until `THREADS` threads, the callers included, have reached the barrier or
/// [arrived](arrive) at it; their earlier shared-memory accesses are then performed and visible.
///
/// # Safety
/// Whole warps execute this together, with the same `barrier` from 1 to 15, and always `THREADS` threads use it.
#[cfg_attr(not(feature = "sm_90a"), allow(dead_code, reason = "the other family's blocks have only barrier 0"))]
#[inline(always)]
pub unsafe fn some<const THREADS: u32>(barrier: u32) {
    instruction!("bar.sync {}, {};", in(reg32) barrier, const THREADS, options(nostack));
}

/// `bar.arrive barrier, THREADS`: takes part in [`some`] without waiting.
///
/// # Safety
/// As for [`some`].
#[cfg_attr(not(feature = "sm_90a"), allow(dead_code, reason = "the other family's blocks have only barrier 0"))]
#[inline(always)]
pub unsafe fn arrive<const THREADS: u32>(barrier: u32) {
    instruction!("bar.arrive {}, {};", in(reg32) barrier, const THREADS, options(nostack));
}
