//! Accesses to shared memory that nothing orders. In the order in which the simulator executes warps every value is the
//! right one.

mod hopper;

pub use hopper::*;

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::codegen::thread::thread_idx_x;
use kernel_gpu::ptx::{cp_async, memory, sync};

use super::{element, lane, ptx, warp};
use crate::Arguments;

/// Words of a tile that one warp fills.
const TILE_BYTES: u32 = 128;

/// Word `index` of the tile.
#[inline(always)]
fn word(index: u32) -> u32 {
    dynamic_shared_mem() + index * 4
}

/// Warp 1 reads what warp 0 wrote.
#[inline(always)]
pub unsafe fn missing_barrier_between_warps<const PLANTED: bool>(arguments: Arguments) {
    if warp() == 0 {
        memory::store_shared_4(word(lane()), lane());
    }
    if !PLANTED {
        sync::block();
    }
    if warp() == 1 {
        ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_shared_4(word(lane())));
    }
}

/// Lanes of one warp exchange words, as if they ran in lockstep.
#[inline(always)]
pub unsafe fn missing_barrier_within_a_warp<const PLANTED: bool>(arguments: Arguments) {
    memory::store_shared_4(word(lane()), lane());
    if !PLANTED {
        sync::warp();
    }
    ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_shared_4(word(lane() ^ 1)));
}

/// A barrier of the warp where one of the block is needed.
#[inline(always)]
pub unsafe fn barrier_of_the_warp_instead_of_the_block<const PLANTED: bool>(arguments: Arguments) {
    memory::store_shared_4(word(thread_idx_x()), lane());
    if PLANTED {
        sync::warp();
    } else {
        sync::block();
    }
    let partner = thread_idx_x() % 32;
    ptx::store_global_4(element(arguments.output, thread_idx_x(), 4), ptx::load_shared_4(word(partner)));
}

/// Each warp waits at a barrier of its own.
#[inline(always)]
pub unsafe fn a_barrier_for_each_warp<const PLANTED: bool>(arguments: Arguments) {
    if warp() == 0 {
        memory::store_shared_4(word(lane()), lane());
    }
    if PLANTED {
        ptx::barrier_of(1 + warp(), 32);
    } else {
        ptx::barrier_of(1, 64);
    }
    if warp() == 1 {
        ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_shared_4(word(lane())));
    }
}

/// The producer arrives at the barrier, then writes once more.
#[inline(always)]
pub unsafe fn write_after_the_arrival<const PLANTED: bool>(arguments: Arguments) {
    if warp() == 0 {
        memory::store_shared_4(word(lane()), lane());
        ptx::arrive::<1, 64>();
        if PLANTED {
            memory::store_shared_4(word(lane()), lane() + 1);
        }
    } else {
        ptx::barrier::<1, 64>();
        ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_shared_4(word(lane())));
    }
}

/// Warp 0 fills the tile again while warp 1 may still read it.
#[inline(always)]
pub unsafe fn tile_reused_before_its_readers_are_done<const PLANTED: bool>(arguments: Arguments) {
    for tile in 0..2 {
        if warp() == 0 {
            memory::store_shared_4(word(lane()), tile);
        }
        sync::block();
        if warp() == 1 {
            let value = ptx::load_shared_4(word(lane()));
            ptx::store_global_4(element(arguments.output, tile * 32 + lane(), 4), value);
        }
        if !PLANTED {
            sync::block();
        }
    }
}

/// As the tile above, filled by an asynchronous copy.
#[inline(always)]
pub unsafe fn stage_refilled_before_its_readers_are_done<const PLANTED: bool>(arguments: Arguments) {
    for tile in 0..2 {
        if warp() == 0 && lane() < TILE_BYTES / 16 {
            let source = element(arguments.input + (tile * TILE_BYTES) as u64, lane(), 16);
            cp_async::copy_16(dynamic_shared_mem() + lane() * 16, source);
        }
        cp_async::commit_group();
        ptx::wait_group::<0>();
        sync::block();
        if warp() == 1 {
            let value = ptx::load_shared_4(word(lane()));
            ptx::store_global_4(element(arguments.output, tile * 32 + lane(), 4), value);
        }
        if !PLANTED {
            sync::block();
        }
    }
}

/// Waiting makes a thread's own copies visible to itself, not to others.
#[inline(always)]
pub unsafe fn copy_of_another_thread_without_a_barrier<const PLANTED: bool>(arguments: Arguments) {
    if warp() == 0 && lane() < TILE_BYTES / 16 {
        cp_async::copy_16(dynamic_shared_mem() + lane() * 16, element(arguments.input, lane(), 16));
    }
    cp_async::commit_group();
    ptx::wait_group::<0>();
    if !PLANTED {
        sync::block();
    }
    if warp() == 1 {
        ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_shared_4(word(lane())));
    }
}

/// Both warps write their maximum to the same words.
#[inline(always)]
pub unsafe fn two_warps_write_one_tile<const PLANTED: bool>(_: Arguments) {
    let index = if PLANTED { lane() } else { thread_idx_x() };
    memory::store_shared_4(word(index), thread_idx_x());
}

/// The warps' rows overlap by half.
#[inline(always)]
pub unsafe fn rows_that_overlap<const PLANTED: bool>(_: Arguments) {
    let pitch = if PLANTED { 16 } else { 32 };
    memory::store_shared_4(word(warp() * pitch + lane()), thread_idx_x());
}

/// Both warps add to the same sums, one after the other it is hoped.
#[inline(always)]
pub unsafe fn sums_of_two_warps<const PLANTED: bool>(arguments: Arguments) {
    if warp() == 0 {
        memory::store_shared_4(word(lane()), 1);
    }
    if !PLANTED {
        sync::block();
    }
    if warp() == 1 {
        memory::store_shared_4(word(lane()), ptx::load_shared_4(word(lane())) + 1);
    }
    sync::block();
    if warp() == 0 {
        ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_shared_4(word(lane())));
    }
}
