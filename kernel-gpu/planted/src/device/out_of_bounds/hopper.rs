//! Mbarriers, bulk copies and the operands of `wgmma`.

use kernel_gpu::ptx::wgmma::{self, KMajor};
use kernel_gpu::ptx::{bulk_copy, mbarrier};

use crate::Arguments;
use crate::device::lane;
use crate::device::matrices::{self, A_BYTES, B_BYTES};
use crate::device::stages::{
    STAGE_BYTES, fill_and_fence, gate, is_leader, load_box_and_wait, load_bytes_and_wait, stage,
};

/// An mbarrier for each of more stages than there are.
#[inline(always)]
pub unsafe fn mbarrier_beyond_the_launch<const PLANTED: bool>(_: Arguments) {
    let index = if PLANTED { 4 } else { 3 };
    if is_leader() {
        mbarrier::init(gate(index), 1);
        mbarrier::arrive(gate(index));
        mbarrier::wait(gate(index), 0);
    }
}

/// The last tile of the input is taken to be a whole one.
#[inline(always)]
pub unsafe fn bulk_copy_past_the_end<const PLANTED: bool>(arguments: Arguments) {
    let bytes = if PLANTED { STAGE_BYTES } else { STAGE_BYTES - 192 };
    load_bytes_and_wait(stage(0), arguments.input, bytes);
}

/// Stages counted from 1.
#[inline(always)]
pub unsafe fn bulk_copy_beyond_the_last_stage<const PLANTED: bool>(arguments: Arguments) {
    let index = u32::from(PLANTED);
    load_bytes_and_wait(stage(index), arguments.input, STAGE_BYTES);
}

/// A whole tile is written where the output ends earlier.
#[inline(always)]
pub unsafe fn bulk_store_past_the_end<const PLANTED: bool>(arguments: Arguments) {
    let bytes = if PLANTED { STAGE_BYTES } else { STAGE_BYTES - 192 };
    fill_and_fence(0, lane());
    if is_leader() {
        bulk_copy::store(arguments.output, stage(0), bytes);
        bulk_copy::commit_group();
        bulk_copy::wait_for_reads::<0>();
    }
}

/// A box of two stages in the last one.
#[inline(always)]
pub unsafe fn box_larger_than_the_stage<const PLANTED: bool>(arguments: Arguments) {
    let index = u32::from(PLANTED);
    load_box_and_wait(arguments.tensor_map, stage(index), (0, 0), 2 * STAGE_BYTES);
}

/// Operand B of a tile that is not there.
#[inline(always)]
pub unsafe fn operand_beyond_the_last_tile<const PLANTED: bool>(arguments: Arguments) {
    let tile = u32::from(PLANTED);
    matrices::load(arguments);
    wgmma::fence();
    let b = matrices::operand::<KMajor>(A_BYTES + tile * B_BYTES);
    let d = matrices::multiply(matrices::operand(0), b);
    wgmma::commit_group();
    matrices::wait_and_write_out(arguments, d);
}
