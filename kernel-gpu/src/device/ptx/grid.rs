//! Programmatic dependent launch: a grid and its neighbours in the stream (PTX ISA, "griddepcontrol").

use core::arch::asm;

/// `griddepcontrol.wait`: waits until the grids that this one depends on have completed and their writes are visible. Returns
/// at once if the launch did not allow this grid to begin early.
#[inline(always)]
pub fn wait_for_previous() {
    // SAFETY: orders memory accesses, performs none.
    unsafe { asm!("griddepcontrol.wait;", options(nostack)) };
}

/// `griddepcontrol.launch_dependents`: the next grid may begin, if its launch allows it and there is room, once every block has
/// executed this or exited.
#[inline(always)]
pub fn let_next_begin() {
    // SAFETY: performs no access; what the next grid accesses before its wait is its own launch's responsibility.
    unsafe { asm!("griddepcontrol.launch_dependents;", options(nostack)) };
}
