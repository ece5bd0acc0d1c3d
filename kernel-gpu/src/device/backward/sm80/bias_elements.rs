//! The elements of dBias in global memory.

use crate::device::ptx::memory;
use contract::backward::args::BiasArgs;
use contract::config::ELEMENT_BYTES;
use contract::geometry::BlockWork;

/// Address of element `row`, `column` of the head of a tile of dBias.
#[inline(always)]
pub fn place(bias: &BiasArgs, work: BlockWork, row: u32, column: u32) -> u64 {
    let BiasArgs { d_bias, strides, .. } = bias;
    let elements = work.batch as u64 * strides.batch + work.head as u64 * strides.head + row as u64 * strides.row;
    d_bias + (elements + column as u64) * ELEMENT_BYTES
}

/// Stores the first of two elements, and the second if it exists.
///
/// # Safety
/// Both are elements in global memory that only this thread writes.
#[inline(always)]
pub unsafe fn store_pair(address: u64, pair: u32, has_second: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if has_second && address.is_multiple_of(4) {
            memory::store_global_4(address, pair);
        } else {
            memory::store_global_2(address, pair);
            if has_second {
                memory::store_global_2(address + ELEMENT_BYTES, pair >> 16);
            }
        }
    }
}
