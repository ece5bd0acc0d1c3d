//! Bulk copies to global memory.

use kernel_gpu::codegen::thread::block_idx_x;
use kernel_gpu::ptx::{bulk_copy, global, proxy};

use crate::Arguments;
use crate::device::stages::{STAGE_BYTES, fill_and_fence, is_leader, stage};

/// The block's index is missing from the address.
#[inline(always)]
pub unsafe fn bulk_stores_of_two_blocks_to_one_row<const PLANTED: bool>(arguments: Arguments) {
    let row = if PLANTED { 0 } else { block_idx_x() };
    fill_and_fence(0, block_idx_x());
    if is_leader() {
        bulk_copy::store(arguments.output + (row * STAGE_BYTES) as u64, stage(0), STAGE_BYTES);
        bulk_copy::commit_group();
        bulk_copy::wait_for_reads::<0>();
    }
}

/// Boxes with one more row than the share of a block.
#[inline(always)]
pub unsafe fn boxes_of_two_blocks_that_overlap<const PLANTED: bool>(arguments: Arguments) {
    let rows = if PLANTED { 3 } else { 4 };
    fill_and_fence(0, block_idx_x());
    if is_leader() {
        bulk_copy::store_box_2d(arguments.tensor_map, [0, (block_idx_x() * rows) as i32], stage(0));
        bulk_copy::commit_group();
        bulk_copy::wait_for_reads::<0>();
    }
}

/// The second block does not wait for its turn.
#[inline(always)]
pub unsafe fn sum_without_a_turn<const PLANTED: bool>(arguments: Arguments) {
    add_in_turn(arguments, !PLANTED, bulk_copy::wait_for_writes);
}

/// The first block gives the turn away when its copy has read its source, not when it has written the sum.
#[inline(always)]
pub unsafe fn turn_before_the_writes<const PLANTED: bool>(arguments: Arguments) {
    let wait_for_copy = || if PLANTED { bulk_copy::wait_for_reads::<0>() } else { bulk_copy::wait_for_writes() };
    add_in_turn(arguments, true, wait_for_copy);
}

/// Blocks add to a sum in order: the first one stores it, and the input's first word counts.
#[inline(always)]
unsafe fn add_in_turn(arguments: Arguments, waits_for_turn: bool, wait_for_copy: impl Fn()) {
    let block = block_idx_x();
    fill_and_fence(0, block);
    if is_leader() {
        if block == 0 {
            bulk_copy::store(arguments.output, stage(0), STAGE_BYTES);
        } else {
            while waits_for_turn && global::load_acquire(arguments.input) != block {}
            proxy::fence_async_global();
            bulk_copy::add_f32(arguments.output, stage(0), STAGE_BYTES);
        }
        bulk_copy::commit_group();
        wait_for_copy();
        global::store_release(arguments.input, block + 1);
    }
}
