//! Mbarriers, bulk copies and matrix stores.

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::ptx::{bulk_copy, mbarrier, stmatrix};

use crate::Arguments;
use crate::device::lane;
use crate::device::stages::{STAGE_BYTES, fill_and_fence, is_leader, load_box_and_wait, load_bytes_and_wait, stage};

/// An mbarrier behind a flag of 4 bytes.
#[inline(always)]
pub unsafe fn mbarrier_at_an_odd_word<const PLANTED: bool>(_: Arguments) {
    let barrier = dynamic_shared_mem() + if PLANTED { 4 } else { 8 };
    if is_leader() {
        mbarrier::init(barrier, 1);
        mbarrier::arrive(barrier);
        mbarrier::wait(barrier, 0);
    }
}

/// A stage behind a header of 8 bytes.
#[inline(always)]
pub unsafe fn bulk_copy_to_8_bytes_off<const PLANTED: bool>(arguments: Arguments) {
    let header = if PLANTED { 8 } else { 16 };
    load_bytes_and_wait(stage(0) + header, arguments.input, STAGE_BYTES);
}

/// A tensor whose first element lies 8 bytes off.
#[inline(always)]
pub unsafe fn bulk_copy_from_8_bytes_off<const PLANTED: bool>(arguments: Arguments) {
    let first = if PLANTED { 8 } else { 16 };
    load_bytes_and_wait(stage(0), arguments.input + first, STAGE_BYTES);
}

/// A row of the output that begins 8 bytes off.
#[inline(always)]
pub unsafe fn bulk_store_to_8_bytes_off<const PLANTED: bool>(arguments: Arguments) {
    let first = if PLANTED { 8 } else { 16 };
    fill_and_fence(0, lane());
    if is_leader() {
        bulk_copy::store(arguments.output + first, stage(0), STAGE_BYTES);
        bulk_copy::commit_group();
        bulk_copy::wait_for_reads::<0>();
    }
}

/// A box needs 128 bytes, not 16 like a plain copy.
#[inline(always)]
pub unsafe fn box_at_64_bytes<const PLANTED: bool>(arguments: Arguments) {
    let first = if PLANTED { 64 } else { 128 };
    load_box_and_wait(arguments.tensor_map, stage(0) + first, (0, 0), STAGE_BYTES);
}

/// Matrix rows 24 bytes apart: every other one is misaligned.
#[inline(always)]
pub unsafe fn matrix_store_to_rows_of_24_bytes<const PLANTED: bool>(_: Arguments) {
    let pitch = if PLANTED { 24 } else { 32 };
    stmatrix::store_4(dynamic_shared_mem() + lane() * pitch, [lane(); 4]);
}
