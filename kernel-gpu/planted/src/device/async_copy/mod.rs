//! `cp.async` without the right wait.

mod hopper;

pub use hopper::*;

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::ptx::{cp_async, ldmatrix, memory, sync};

use super::{element, lane, ptx, warp};
use crate::Arguments;

/// Bytes of a stage: 16 for each lane.
const STAGE_BYTES: u32 = 512;

/// Starts copying 16 bytes for each lane to a stage and makes them a group.
#[inline(always)]
unsafe fn copy_to_stage(arguments: Arguments, stage: u32, tile: u32) {
    let source = element(arguments.input + (tile * STAGE_BYTES) as u64, lane(), 16);
    cp_async::copy_16(own_chunk(stage), source);
    cp_async::commit_group();
}

/// What the calling lane copies to a stage.
#[inline(always)]
fn own_chunk(stage: u32) -> u32 {
    dynamic_shared_mem() + stage * STAGE_BYTES + lane() * 16
}

/// Writes what the calling lane copied to a stage to a tile of the output.
#[inline(always)]
unsafe fn write_stage(arguments: Arguments, stage: u32, tile: u32) {
    let target = element(arguments.output + (tile * STAGE_BYTES) as u64, lane(), 16);
    memory::store_global_16(target, memory::load_shared_16(own_chunk(stage)));
}

/// No wait before the read, only after.
#[inline(always)]
pub unsafe fn read_before_the_wait<const PLANTED: bool>(arguments: Arguments) {
    copy_to_stage(arguments, 0, 0);
    if !PLANTED {
        ptx::wait_group::<0>();
    }
    write_stage(arguments, 0, 0);
    ptx::wait_group::<0>();
}

/// A barrier in place of the wait: it orders threads, not copies.
#[inline(always)]
pub unsafe fn barrier_instead_of_a_wait<const PLANTED: bool>(arguments: Arguments) {
    copy_to_stage(arguments, 0, 0);
    if !PLANTED {
        ptx::wait_group::<0>();
    }
    sync::block();
    write_stage(arguments, 0, 0);
    ptx::wait_group::<0>();
}

/// One warp copies, the other reads. The barrier comes before the wait: behind it the copies may still be in flight.
#[inline(always)]
pub unsafe fn barrier_before_the_wait<const PLANTED: bool>(arguments: Arguments) {
    if warp() == 0 {
        copy_to_stage(arguments, 0, 0);
    }
    if PLANTED {
        sync::block();
    }
    ptx::wait_group::<0>();
    if !PLANTED {
        sync::block();
    }
    if warp() == 1 {
        write_stage(arguments, 0, 0);
    }
}

/// Two groups in flight and a wait that leaves one of them.
#[inline(always)]
pub unsafe fn one_group_too_few<const PLANTED: bool>(arguments: Arguments) {
    copy_to_stage(arguments, 0, 0);
    copy_to_stage(arguments, 1, 1);
    if PLANTED {
        ptx::wait_group::<1>();
    } else {
        ptx::wait_group::<0>();
    }
    write_stage(arguments, 0, 0);
    write_stage(arguments, 1, 1);
    ptx::wait_group::<0>();
}

/// The copy was not committed when the groups were waited for.
#[inline(always)]
pub unsafe fn wait_before_the_commit<const PLANTED: bool>(arguments: Arguments) {
    cp_async::copy_16(own_chunk(0), element(arguments.input, lane(), 16));
    if !PLANTED {
        cp_async::commit_group();
    }
    ptx::wait_group::<0>();
    write_stage(arguments, 0, 0);
    cp_async::commit_group();
    ptx::wait_group::<0>();
}

/// A pipeline of two stages over four tiles that waits, at the last tile too, until one group is left.
#[inline(always)]
pub unsafe fn last_tile_of_a_pipeline<const PLANTED: bool>(arguments: Arguments) {
    const TILES: u32 = 4;
    copy_to_stage(arguments, 0, 0);
    for tile in 0..TILES {
        if tile + 1 < TILES {
            copy_to_stage(arguments, (tile + 1) % 2, tile + 1);
        }
        if tile + 1 < TILES || PLANTED {
            ptx::wait_group::<1>();
        } else {
            ptx::wait_group::<0>();
        }
        write_stage(arguments, tile % 2, tile);
    }
    ptx::wait_group::<0>();
}

/// The kernel ends with a copy in flight.
#[inline(always)]
pub unsafe fn never_waited_for<const PLANTED: bool>(arguments: Arguments) {
    copy_to_stage(arguments, 0, 0);
    if !PLANTED {
        ptx::wait_group::<0>();
    }
}

/// The tile prefetched in the last step is never used nor waited for.
#[inline(always)]
pub unsafe fn prefetch_past_the_last_tile<const PLANTED: bool>(arguments: Arguments) {
    const TILES: u32 = 2;
    copy_to_stage(arguments, 0, 0);
    for tile in 0..TILES {
        ptx::wait_group::<0>();
        write_stage(arguments, tile % 2, tile);
        if PLANTED || tile + 1 < TILES {
            copy_to_stage(arguments, (tile + 1) % 2, (tile + 1) % TILES);
        }
    }
}

/// A store to bytes that a copy is about to write.
#[inline(always)]
pub unsafe fn store_to_a_copy_in_flight<const PLANTED: bool>(arguments: Arguments) {
    copy_to_stage(arguments, 0, 0);
    if !PLANTED {
        ptx::wait_group::<0>();
    }
    memory::store_shared_4(own_chunk(0), 0);
    ptx::wait_group::<0>();
}

/// Two copies to one stage at a time.
#[inline(always)]
pub unsafe fn copy_over_a_copy_in_flight<const PLANTED: bool>(arguments: Arguments) {
    copy_to_stage(arguments, 0, 0);
    if !PLANTED {
        ptx::wait_group::<0>();
    }
    copy_to_stage(arguments, 0, 1);
    ptx::wait_group::<0>();
}

/// Neighbouring copies overlap, because a row is taken to have 8 bytes of 16.
#[inline(always)]
pub unsafe fn copies_that_overlap<const PLANTED: bool>(arguments: Arguments) {
    let rows = if PLANTED { 2 } else { 1 };
    for row in 0..rows {
        let target = dynamic_shared_mem() + (lane() + row) * 16;
        cp_async::copy_16(target, element(arguments.input, lane(), 16));
    }
    cp_async::commit_group();
    ptx::wait_group::<0>();
}

/// A matrix load from a stage whose copy has not been waited for.
#[inline(always)]
pub unsafe fn matrix_before_the_wait<const PLANTED: bool>(arguments: Arguments) {
    copy_to_stage(arguments, 0, 0);
    if !PLANTED {
        ptx::wait_group::<0>();
    }
    sync::warp();
    memory::store_global_16(element(arguments.output, lane(), 16), ldmatrix::load_4(own_chunk(0)));
    ptx::wait_group::<0>();
}
