//! The elements of dBias in global memory.

use crate::device::lane::{Lane, ROWS_PER_LANE};
use crate::device::ptx::element::Element;
use crate::device::ptx::memory;
use crate::device::ptx::mma::FragmentC;
use crate::device::unrolled;
use contract::backward::args::BiasArgs;
use contract::config::ELEMENT_BYTES;
use contract::geometry::BlockWork;

/// Stores a fragment whose first row and column these are, in the head that `work` names, of so many rows and keys.
///
/// # Safety
/// No other warp has these elements of dBias.
#[inline(always)]
pub unsafe fn store_fragment<E: Element>(
    fragment: &FragmentC,
    (bias, work): (&BiasArgs, BlockWork),
    (first_row, first_column): (u32, u32),
    [rows, keys]: [u32; 2],
    lane: Lane,
) {
    let column = first_column + lane.pair_column();
    unrolled!(at most 2; for r in ROWS_PER_LANE => {
        let row = lane.row(first_row, 0, r);
        if row < rows && column < keys {
            let pair = E::pack(fragment[2 * r], fragment[2 * r + 1]);
            // SAFETY: the caller's promise; no other lane has these elements.
            unsafe { store_pair(place(bias, work, row, column), pair, column + 1 < keys) };
        }
    });
}

/// Stores the element of a row that all rows of the head share.
///
/// # Safety
/// It is an element of dBias that no other thread has.
#[inline(always)]
pub unsafe fn store_shared<E: Element>(sum: f32, bias: &BiasArgs, work: BlockWork, column: u32) {
    // SAFETY: the caller's promise.
    unsafe { memory::store_global_2(place(bias, work, 0, column), E::pack(sum, 0.0)) };
}

/// Address of an element of the head that `work` names.
#[inline(always)]
fn place(bias: &BiasArgs, work: BlockWork, row: u32, column: u32) -> u64 {
    let BiasArgs { d_bias, strides, .. } = bias;
    let elements = work.batch as u64 * strides.batch + work.head as u64 * strides.head + row as u64 * strides.row;
    d_bias + (elements + column as u64) * ELEMENT_BYTES
}

/// Stores the first of two elements, and the second if it exists.
///
/// # Safety
/// Both are elements in global memory that only this thread writes.
#[inline(always)]
unsafe fn store_pair(address: u64, pair: u32, has_second: bool) {
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
