//! Kernels that do nothing undefined and compute something else than their clean twins.

use kernel_gpu::codegen::thread::thread_idx_x;
use kernel_gpu::ptx::wgmma::{self, Accumulators, KMajor, NMajor};
use kernel_gpu::ptx::{mbarrier, memory};
use kernel_gpu::shared_tile::F16;

use super::element;
use super::matrices::{self, A_BYTES};
use super::stages::{STAGE_BYTES, gate, initialise, is_leader, load, load_box_and_wait, stage, write_out};
use crate::Arguments;

/// The map permutes the chunks of a row, the reader takes them as they lie.
#[inline(always)]
pub unsafe fn swizzle_of_the_map_is_not_the_readers<const PLANTED: bool>(arguments: Arguments) {
    load_box_and_wait(arguments.tensor_map, stage(0), (0, 0), 2 * STAGE_BYTES);
    let (row, chunk) = (thread_idx_x() / 8, thread_idx_x() % 8);
    let place = if PLANTED { chunk } else { chunk ^ (row % 8) };
    let value = memory::load_shared_16(stage(0) + row * 128 + place * 16);
    memory::store_global_16(element(arguments.output, thread_idx_x(), 16), value);
}

/// Row and column of a box exchanged.
#[inline(always)]
pub unsafe fn coordinates_exchanged<const PLANTED: bool>(arguments: Arguments) {
    let (column, row) = if PLANTED { (4, 0) } else { (0, 4) };
    load_box_and_wait(arguments.tensor_map, stage(0), (column, row), STAGE_BYTES);
    write_out(arguments, 0, 0);
}

/// Every round reads the first stage.
#[inline(always)]
pub unsafe fn stage_that_does_not_advance<const PLANTED: bool>(arguments: Arguments) {
    initialise([1, 1]);
    if is_leader() {
        load(arguments, 0, 0, gate(0));
        load(arguments, 1, 1, gate(1));
    }
    for tile in 0..2 {
        mbarrier::wait(gate(tile), 0);
        write_out(arguments, if PLANTED { 0 } else { tile }, tile);
    }
}

/// The second step along K advances operand A only.
#[inline(always)]
pub unsafe fn step_of_one_operand_only<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    let (a, b) = (matrices::operand::<KMajor>(0), matrices::operand::<KMajor>(A_BYTES));
    wgmma::fence();
    let mut d = matrices::multiply(a, b);
    d.multiply_accumulate::<F16, _, _>(a.step(1), b.step(usize::from(!PLANTED)));
    wgmma::commit_group();
    matrices::wait_and_write_out(arguments, d);
}

/// The rows of operand B hold columns, not depths.
#[inline(always)]
pub unsafe fn transposition_forgotten<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    wgmma::fence();
    let d = if PLANTED {
        matrices::multiply(matrices::operand(0), matrices::operand::<KMajor>(A_BYTES))
    } else {
        matrices::multiply(matrices::operand(0), matrices::operand::<NMajor>(A_BYTES))
    };
    wgmma::commit_group();
    matrices::wait_and_write_out(arguments, d);
}
