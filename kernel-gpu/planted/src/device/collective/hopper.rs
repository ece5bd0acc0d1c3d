//! Instructions of a warpgroup that one of its warps leaves out, and of a warp that some lanes leave out.

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::ptx::{memory, stmatrix, sync, warpgroup, wgmma};

use crate::Arguments;
use crate::device::{element, lane, matrices, ptx, warp};

/// The fourth warp has no rows left and takes no part.
#[inline(always)]
pub unsafe fn product_by_three_warps<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    if !PLANTED || warp() < 3 {
        wgmma::fence();
        let d = matrices::multiply_loaded();
        wgmma::commit_group();
        matrices::wait_and_write_out(arguments, d);
    }
}

/// Two warps of four give up registers.
#[inline(always)]
pub unsafe fn registers_given_up_by_two_warps<const PLANTED: bool>(_: Arguments) {
    if !PLANTED || warp() < 2 {
        warpgroup::decrease_registers::<40>();
    }
    sync::block();
}

/// One lane of the whole warp is elected in a branch that half of it takes.
#[inline(always)]
pub unsafe fn election_in_a_branch<const PLANTED: bool>(arguments: Arguments) {
    let mut elected = false;
    if !PLANTED || lane() < 16 {
        elected = warpgroup::elect();
    }
    sync::warp();
    ptx::store_global_4(element(arguments.output, lane(), 4), u32::from(elected));
}

/// A matrix store by the lanes whose addresses matter.
#[inline(always)]
pub unsafe fn matrix_store_by_eight_lanes<const PLANTED: bool>(arguments: Arguments) {
    let row = dynamic_shared_mem() + lane() * 16;
    ptx::store_shared_16(row, [0; 4]);
    sync::warp();
    if !PLANTED || lane() < 8 {
        stmatrix::store_4(row, [lane(); 4]);
    }
    sync::warp();
    memory::store_global_16(element(arguments.output, lane(), 16), memory::load_shared_16(row));
}
