//! A grid and those before and behind it in a stream (PTX ISA, "griddepcontrol").

use core::arch::asm;

/// `griddepcontrol.wait`: waits until the grids that this one was launched behind are complete, and their writes visible. At
/// once where the launch did not allow this grid to begin before that.
#[inline(always)]
pub fn wait_for_previous() {
    // SAFETY: it orders what memory is accessed, and accesses none.
    unsafe { asm!("griddepcontrol.wait;", options(nostack)) };
}

/// `griddepcontrol.launch_dependents`: the grid behind this one may begin where there is room, as far as its launch allows
/// that, once every block has executed this or is done.
#[inline(always)]
pub fn let_next_begin() {
    // SAFETY: nothing is accessed; what the next grid accesses before its wait is for its own launch to say.
    unsafe { asm!("griddepcontrol.launch_dependents;", options(nostack)) };
}
