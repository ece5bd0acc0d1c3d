//! Reads of registers and bytes that nothing has written.

mod hopper;

pub use hopper::*;

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::ptx::{cp_async, ldmatrix, memory, sync};

use super::{element, lane, ptx};
use crate::Arguments;

/// A tile that is never filled.
#[inline(always)]
pub unsafe fn shared_never_written<const PLANTED: bool>(arguments: Arguments) {
    let word = dynamic_shared_mem() + lane() * 4;
    if !PLANTED {
        memory::store_shared_4(word, lane());
    }
    ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_shared_4(word));
}

/// Half of the lanes fill a tile that all read.
#[inline(always)]
pub unsafe fn shared_half_written<const PLANTED: bool>(arguments: Arguments) {
    let writers = if PLANTED { 16 } else { 32 };
    let word = dynamic_shared_mem() + lane() * 4;
    if lane() < writers {
        memory::store_shared_4(word, lane());
    }
    ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_shared_4(word));
}

/// Two of the four bytes that are read and counted with.
#[inline(always)]
pub unsafe fn upper_half_of_a_word<const PLANTED: bool>(arguments: Arguments) {
    let word = dynamic_shared_mem() + lane() * 4;
    ptx::store_shared_2(word, lane());
    if !PLANTED {
        ptx::store_shared_2(word + 2, lane());
    }
    ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_shared_4(word) + 1);
}

/// Rows of 12 bytes, padded to 16 and read as vectors, with all of which something is counted. (What is only copied may be
/// the padding of a struct.)
#[inline(always)]
pub unsafe fn padding_of_a_row<const PLANTED: bool>(arguments: Arguments) {
    let words = if PLANTED { 3 } else { 4 };
    let row = dynamic_shared_mem() + lane() * 16;
    for word in 0..words {
        memory::store_shared_4(row + word * 4, lane());
    }
    let [x, y, z, w] = memory::load_shared_16(row);
    memory::store_global_16(element(arguments.output, lane(), 16), [x + 1, y + 1, z + 1, w + 1]);
}

/// Row 17 of a tile of matrices.
#[inline(always)]
pub unsafe fn row_of_a_matrix<const PLANTED: bool>(arguments: Arguments) {
    let row = dynamic_shared_mem() + lane() * 16;
    if !PLANTED || lane() != 17 {
        ptx::store_shared_16(row, [lane(); 4]);
    }
    sync::warp();
    memory::store_global_16(element(arguments.output, lane(), 16), ldmatrix::load_4(row));
}

/// Rows beyond the end are not copied, and nothing else fills them.
#[inline(always)]
pub unsafe fn rows_an_async_copy_left_out<const PLANTED: bool>(arguments: Arguments) {
    const ROWS: u32 = 20;
    let (shared, global) = (dynamic_shared_mem() + lane() * 16, element(arguments.input, lane(), 16));
    if lane() < ROWS {
        cp_async::copy_16(shared, global);
    } else if !PLANTED {
        ptx::store_shared_16(shared, [0; 4]);
    }
    cp_async::commit_group();
    ptx::wait_group::<0>();
    memory::store_global_16(element(arguments.output, lane(), 16), memory::load_shared_16(shared));
}

/// Accumulates to an output that was never cleared.
#[inline(always)]
pub unsafe fn output_that_is_added_to<const PLANTED: bool>(arguments: Arguments) {
    let word = element(arguments.output, lane(), 4);
    if !PLANTED {
        ptx::store_global_4(word, 0);
    }
    ptx::store_global_4(word, ptx::load_global_4(word) + lane());
}

/// An atomic sum that starts from whatever was there.
#[inline(always)]
pub unsafe fn sum_that_was_not_cleared<const PLANTED: bool>(arguments: Arguments) {
    if !PLANTED && lane() == 0 {
        ptx::store_global_4(arguments.output, 0);
    }
    sync::warp();
    ptx::add_global_4(arguments.output, 1);
}

/// Every other row of the workspace is written, every row read.
#[inline(always)]
pub unsafe fn every_other_row_of_global<const PLANTED: bool>(arguments: Arguments) {
    let row = element(arguments.output, lane(), 16);
    if !PLANTED || lane() % 2 == 0 {
        memory::store_global_16(row, [lane(); 4]);
    }
    let [first, ..] = ptx::load_global_16(row);
    ptx::store_global_4(row, first);
}

/// A register that a predicated instruction leaves unwritten in half of the lanes.
#[inline(always)]
pub unsafe fn register_of_half_the_lanes<const PLANTED: bool>(arguments: Arguments) {
    let sum = ptx::increment_if_written(lane(), !PLANTED || lane() < 16);
    ptx::store_global_4(element(arguments.output, lane(), 4), sum);
}
