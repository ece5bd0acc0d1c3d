//! What bulk copies did not bring.

use kernel_gpu::codegen::thread::thread_idx_x;
use kernel_gpu::ptx::{bulk_copy, mbarrier, wgmma};

use crate::Arguments;
use crate::device::matrices::{self, A_BYTES, B_BYTES};
use crate::device::stages::{STAGE_BYTES, gate, initialise, is_leader, stage, write_out};

/// The box of the map has half of the rows of the tile that each copy is taken to bring.
#[inline(always)]
pub unsafe fn box_smaller_than_its_tile<const PLANTED: bool>(arguments: Arguments) {
    let boxes = if PLANTED { 1 } else { 2 };
    initialise([1]);
    if is_leader() {
        mbarrier::arrive_and_expect(gate(0), boxes * STAGE_BYTES);
        for index in 0..boxes {
            bulk_copy::load_box_2d(stage(index), arguments.tensor_map, [0, index as i32 * 4], gate(0));
        }
    }
    mbarrier::wait(gate(0), 0);
    let half = thread_idx_x() / 32;
    write_out(arguments, half, half);
}

/// A copy that ends before the last rows of operand B.
#[inline(always)]
pub unsafe fn operand_loaded_in_part<const PLANTED: bool>(arguments: Arguments) {
    matrices::load_part(arguments, A_BYTES + if PLANTED { B_BYTES / 4 } else { B_BYTES });
    wgmma::fence();
    let d = matrices::multiply_loaded();
    wgmma::commit_group();
    matrices::wait_and_write_out(arguments, d);
}
