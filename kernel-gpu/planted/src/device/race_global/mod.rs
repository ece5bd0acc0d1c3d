//! Accesses to global memory that nothing orders.

mod hopper;

pub use hopper::*;

use kernel_gpu::codegen::thread::{block_idx_x, thread_idx_x};
use kernel_gpu::ptx::sync;

use super::{element, lane, ptx, warp};
use crate::Arguments;

/// The block's index is missing from the address.
#[inline(always)]
pub unsafe fn two_blocks_write_one_row<const PLANTED: bool>(arguments: Arguments) {
    let row = if PLANTED { 0 } else { block_idx_x() };
    ptx::store_global_4(element(arguments.output, row * 32 + lane(), 4), block_idx_x());
}

/// One more row in each block than its share.
#[inline(always)]
pub unsafe fn blocks_that_overlap_by_a_row<const PLANTED: bool>(arguments: Arguments) {
    let rows = if PLANTED { 3 } else { 2 };
    for row in 0..rows {
        let index = (block_idx_x() * 2 + row) * 32 + lane();
        ptx::store_global_4(element(arguments.output, index, 4), block_idx_x());
    }
}

/// A counter of blocks that is read, incremented and written.
#[inline(always)]
pub unsafe fn count_without_an_atomic<const PLANTED: bool>(arguments: Arguments) {
    if lane() == 0 {
        if PLANTED {
            ptx::store_global_4(arguments.input, ptx::load_global_4(arguments.input) + 1);
        } else {
            ptx::add_global_4(arguments.input, 1);
        }
    }
}

/// Each block reads what the other one updates.
#[inline(always)]
pub unsafe fn read_of_the_other_blocks_rows<const PLANTED: bool>(arguments: Arguments) {
    let own = element(arguments.input, block_idx_x() * 32 + lane(), 4);
    ptx::store_global_4(own, lane());
    let row = if PLANTED { 1 - block_idx_x() } else { block_idx_x() };
    let value = ptx::load_global_4(element(arguments.input, row * 32 + lane(), 4));
    ptx::store_global_4(element(arguments.output, block_idx_x() * 32 + lane(), 4), value);
}

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
