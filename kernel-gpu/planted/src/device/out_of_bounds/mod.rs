//! Accesses outside every buffer or beyond the launch's shared memory.

mod hopper;

pub use hopper::*;

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::codegen::thread::{block_idx_x, thread_idx_x};
use kernel_gpu::ptx::{cp_async, ldmatrix, memory, sync};

use super::{element, lane, ptx};
use crate::Arguments;

/// Rows counted from 1.
#[inline(always)]
pub unsafe fn read_one_row_past_the_end<const PLANTED: bool>(arguments: Arguments) {
    let row = lane() + u32::from(PLANTED);
    let vector = ptx::load_global_16(element(arguments.input, row, 16));
    memory::store_global_16(element(arguments.output, lane(), 16), vector);
}

/// The left neighbour of the first element.
#[inline(always)]
pub unsafe fn read_before_the_buffer<const PLANTED: bool>(arguments: Arguments) {
    let has_left = PLANTED || lane() > 0;
    let left = if has_left { ptx::load_global_4(element(arguments.input, lane(), 4) - 4) } else { 0 };
    ptx::store_global_4(element(arguments.output, lane(), 4), left);
}

/// One result too many for the output.
#[inline(always)]
pub unsafe fn write_past_the_end<const PLANTED: bool>(arguments: Arguments) {
    let index = lane() + u32::from(PLANTED);
    ptx::store_global_4(element(arguments.output, index, 4), lane());
}

/// A vector whose last word lies behind the buffer.
#[inline(always)]
pub unsafe fn vector_partly_past_the_end<const PLANTED: bool>(arguments: Arguments) {
    let words = if PLANTED { 32 } else { 28 };
    if lane() * 4 < words {
        let vector = ptx::load_global_16(element(arguments.input, lane(), 16));
        memory::store_global_16(element(arguments.output, lane(), 16), vector);
    }
}

/// 40 elements in two blocks of 32: the second block has a tail.
#[inline(always)]
pub unsafe fn tail_of_the_last_block<const PLANTED: bool>(arguments: Arguments) {
    const LENGTH: u32 = 40;
    let index = block_idx_x() * 32 + thread_idx_x();
    if PLANTED || index < LENGTH {
        let value = ptx::load_global_4(element(arguments.input, index, 4));
        ptx::store_global_4(element(arguments.output, index, 4), value);
    }
}

/// The rows of the input are 16 bytes apart, those of the output 32.
#[inline(always)]
pub unsafe fn stride_of_another_tensor<const PLANTED: bool>(arguments: Arguments) {
    const INPUT_PITCH: u32 = 16;
    const OUTPUT_PITCH: u32 = 32;
    let pitch = if PLANTED { OUTPUT_PITCH } else { INPUT_PITCH };
    let vector = ptx::load_global_16(element(arguments.input, lane(), pitch));
    memory::store_global_16(element(arguments.output, lane(), OUTPUT_PITCH), vector);
}

/// An offset multiplied in 32 bits, with the base.
#[inline(always)]
pub unsafe fn address_cut_to_32_bits<const PLANTED: bool>(arguments: Arguments) {
    let base = if PLANTED { arguments.input & 0xffff_ffff } else { arguments.input };
    ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_global_4(element(base, lane(), 4)));
}

/// An optional output that was not asked for: its address is 0.
#[inline(always)]
pub unsafe fn write_to_null<const PLANTED: bool>(arguments: Arguments) {
    if PLANTED || arguments.output != 0 {
        ptx::store_global_4(element(arguments.output, lane(), 4), lane());
    }
}

/// The tile needs 160 bytes, the launch gives 128.
#[inline(always)]
pub unsafe fn shared_beyond_the_launch<const PLANTED: bool>(_: Arguments) {
    let pitch = if PLANTED { 5 } else { 4 };
    memory::store_shared_4(dynamic_shared_mem() + lane() / 4 * 4 * pitch + lane() % 4 * 4, lane());
}

/// A copy to the tile behind the last one.
#[inline(always)]
pub unsafe fn async_copy_beyond_the_last_stage<const PLANTED: bool>(arguments: Arguments) {
    let stages = if PLANTED { 3 } else { 2 };
    for stage in 0..stages {
        let tile = dynamic_shared_mem() + stage * 512;
        cp_async::copy_16(tile + lane() * 16, element(arguments.input, lane(), 16));
    }
    cp_async::commit_group();
    ptx::wait_group::<0>();
}

/// 32 rows copied from a tensor that has 20; the clean twin fills the others with zeros.
#[inline(always)]
pub unsafe fn async_copy_of_rows_past_the_end<const PLANTED: bool>(arguments: Arguments) {
    const ROWS: u32 = 20;
    let (shared, global) = (dynamic_shared_mem() + lane() * 16, element(arguments.input, lane(), 16));
    cp_async::copy_16_or_zeros(shared, global, PLANTED || lane() < ROWS);
    cp_async::commit_group();
    ptx::wait_group::<0>();
}

/// Row addresses for 32 matrix rows of a tile that has 24; the clean twin points the others at row 0.
#[inline(always)]
pub unsafe fn matrix_rows_past_the_tile<const PLANTED: bool>(arguments: Arguments) {
    const ROWS: u32 = 24;
    let tile = dynamic_shared_mem();
    for word in 0..ROWS * 16 / 128 {
        memory::store_shared_4(tile + word * 128 + lane() * 4, lane());
    }
    sync::warp();
    let row = if PLANTED || lane() < ROWS { lane() } else { 0 };
    memory::store_global_16(element(arguments.output, lane(), 16), ldmatrix::load_4(tile + row * 16));
}
