//! Accesses to global memory that nothing orders.

use super::{element, lane, ptx, warp};
use crate::device::codegen::thread::thread_idx_x;
use crate::device::ptx::sync;
use crate::planted::Arguments;

/// Warps exchange rows through a workspace.
#[inline(always)]
pub unsafe fn workspace_without_a_barrier<const PLANTED: bool>(arguments: Arguments) {
    ptx::store_global_4(element(arguments.input, thread_idx_x(), 4), lane());
    if !PLANTED {
        sync::block();
    }
    let partner = (1 - warp()) * 32 + lane();
    let value = ptx::load_global_4(element(arguments.input, partner, 4));
    ptx::store_global_4(element(arguments.output, thread_idx_x(), 4), value);
}

/// Every lane writes the row's maximum.
#[inline(always)]
pub unsafe fn all_lanes_write_one_word<const PLANTED: bool>(arguments: Arguments) {
    if PLANTED || lane() == 0 {
        ptx::store_global_4(arguments.output, lane());
    }
}
