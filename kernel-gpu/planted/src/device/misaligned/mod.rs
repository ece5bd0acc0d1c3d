//! Addresses that are not a multiple of what the access needs.

mod hopper;

pub use hopper::*;

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::ptx::{cp_async, ldmatrix, memory, sync};

use super::{element, lane, ptx};
use crate::Arguments;

/// The bug this project began with: rows of 65 halves, padded against bank conflicts, so that the 16-byte copies of most
/// rows go to addresses such as 0x482, 0x504, 0x586.
#[inline(always)]
pub unsafe fn async_copy_to_rows_of_130_bytes<const PLANTED: bool>(arguments: Arguments) {
    let pitch = if PLANTED { 130 } else { 144 };
    let row = dynamic_shared_mem() + lane() * pitch;
    cp_async::copy_16(row, element(arguments.input, lane(), 16));
    cp_async::commit_group();
    ptx::wait_group::<0>();
}

/// The source, not the destination, is misaligned: a tensor whose first element lies 8 bytes off.
#[inline(always)]
pub unsafe fn async_copy_from_8_bytes_off<const PLANTED: bool>(arguments: Arguments) {
    let first = if PLANTED { 8 } else { 16 };
    cp_async::copy_16(dynamic_shared_mem() + lane() * 16, element(arguments.input + first, lane(), 16));
    cp_async::commit_group();
    ptx::wait_group::<0>();
}

/// 8-byte copies to rows 12 bytes apart.
#[inline(always)]
pub unsafe fn async_copy_of_8_bytes<const PLANTED: bool>(arguments: Arguments) {
    let pitch = if PLANTED { 12 } else { 16 };
    ptx::copy_8(dynamic_shared_mem() + lane() * pitch, element(arguments.input, lane(), 8));
    cp_async::commit_group();
    ptx::wait_group::<0>();
}

/// A vector of four words read from the middle of one.
#[inline(always)]
pub unsafe fn vector_read_of_global<const PLANTED: bool>(arguments: Arguments) {
    let first = if PLANTED { 8 } else { 16 };
    let vector = ptx::load_global_16(element(arguments.input + first, lane(), 16));
    memory::store_global_16(element(arguments.output, lane(), 16), vector);
}

/// A vector of two words written between two pairs.
#[inline(always)]
pub unsafe fn vector_write_of_global<const PLANTED: bool>(arguments: Arguments) {
    let first = if PLANTED { 4 } else { 8 };
    ptx::store_global_8(element(arguments.output + first, lane(), 8), [lane(), 0]);
}

/// Halves indexed in bytes.
#[inline(always)]
pub unsafe fn read_of_a_half_at_an_odd_address<const PLANTED: bool>(arguments: Arguments) {
    let bytes = if PLANTED { 1 } else { 2 };
    let half = ptx::load_global_2(element(arguments.input, lane(), bytes));
    ptx::store_global_4(element(arguments.output, lane(), 4), half);
}

/// Pairs of halves in a tile of three halves a row.
#[inline(always)]
pub unsafe fn write_of_a_word_to_rows_of_6_bytes<const PLANTED: bool>(_: Arguments) {
    let pitch = if PLANTED { 6 } else { 8 };
    memory::store_shared_4(dynamic_shared_mem() + lane() * pitch, lane());
}

/// Vectors in a tile whose rows are padded by one pair of words.
#[inline(always)]
pub unsafe fn vector_write_to_rows_of_24_bytes<const PLANTED: bool>(_: Arguments) {
    let pitch = if PLANTED { 24 } else { 32 };
    ptx::store_shared_16(dynamic_shared_mem() + lane() * pitch, [lane(); 4]);
}

/// Vectors read back from a tile that is padded by 4 bytes a row: right for the words written, wrong for vectors.
#[inline(always)]
pub unsafe fn vector_read_of_rows_of_20_bytes<const PLANTED: bool>(arguments: Arguments) {
    let pitch = if PLANTED { 20 } else { 32 };
    let row = dynamic_shared_mem() + lane() * pitch;
    for word in 0..4 {
        memory::store_shared_4(row + word * 4, lane());
    }
    memory::store_global_16(element(arguments.output, lane(), 16), memory::load_shared_16(row));
}

/// Matrix rows 72 bytes apart: every other one is misaligned.
#[inline(always)]
pub unsafe fn matrix_rows_72_bytes_apart<const PLANTED: bool>(arguments: Arguments) {
    let pitch = if PLANTED { 72 } else { 80 };
    let row = dynamic_shared_mem() + lane() * pitch;
    for word in 0..4 {
        memory::store_shared_4(row + word * 4, lane());
    }
    sync::warp();
    memory::store_global_16(element(arguments.output, lane(), 16), ldmatrix::load_4(row));
}
