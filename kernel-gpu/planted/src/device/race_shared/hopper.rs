//! Pipelines of full and empty mbarriers.

use kernel_gpu::ptx::{mbarrier, memory, sync};

use crate::Arguments;
use crate::device::stages::{chunk, gate, initialise, is_leader, load, write_out};
use crate::device::{element, lane, ptx, warp};

/// A pipeline of two stages over four tiles. The first lane tells the producer that its warp is done with a stage, without
/// asking the other lanes.
#[inline(always)]
pub unsafe fn one_lane_releases_for_its_warp<const PLANTED: bool>(arguments: Arguments) {
    const STAGES: u32 = 2;
    initialise([1, 1, 1, 1]);
    for tile in 0..4 {
        let (stage, round) = (tile % STAGES, tile / STAGES);
        let (full, empty) = (gate(stage), gate(STAGES + stage));
        if warp() == 1 {
            mbarrier::wait(full, round % 2);
            write_out(arguments, stage, tile);
            if !PLANTED {
                sync::warp();
            }
            if lane() == 0 {
                mbarrier::arrive(empty);
            }
        } else if is_leader() {
            mbarrier::wait(empty, (round + 1) % 2);
            load(arguments, stage, tile, full);
        }
    }
}

/// The pipeline as above, whose producer at the last tile asks for the stage it filled before.
#[inline(always)]
pub unsafe fn empty_mbarrier_of_the_other_stage<const PLANTED: bool>(arguments: Arguments) {
    const STAGES: u32 = 2;
    initialise([1, 1, 32, 32]);
    for tile in 0..4 {
        let (stage, round) = (tile % STAGES, tile / STAGES);
        let asked = if PLANTED && tile == 3 { 1 - stage } else { stage };
        if warp() == 1 {
            mbarrier::wait(gate(stage), round % 2);
            write_out(arguments, stage, tile);
            mbarrier::arrive(gate(STAGES + stage));
        } else if is_leader() {
            mbarrier::wait(gate(STAGES + asked), (round + 1) % 2);
            load(arguments, stage, tile, gate(stage));
        }
    }
}

/// The producer says that a tile is there, then writes it.
#[inline(always)]
pub unsafe fn arrival_before_the_write<const PLANTED: bool>(arguments: Arguments) {
    initialise([32]);
    if warp() == 0 {
        if PLANTED {
            mbarrier::arrive(gate(0));
        }
        memory::store_shared_4(chunk(0), lane());
        if !PLANTED {
            mbarrier::arrive(gate(0));
        }
    } else {
        mbarrier::wait(gate(0), 0);
        ptx::store_global_4(element(arguments.output, lane(), 4), ptx::load_shared_4(chunk(0)));
    }
}

/// One warp initialises, the other arrives without knowing that it was done.
#[inline(always)]
pub unsafe fn mbarrier_initialised_without_a_barrier<const PLANTED: bool>(_: Arguments) {
    if is_leader() {
        mbarrier::init(gate(0), 32);
        mbarrier::fence_init();
    }
    if PLANTED {
        sync::warp();
    } else {
        sync::block();
    }
    if warp() == 1 {
        mbarrier::arrive(gate(0));
    }
}

/// The mbarrier is initialised anew for the next tile while the other warp may still wait for this one.
#[inline(always)]
pub unsafe fn mbarrier_reused_before_its_waiters_are_done<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    if is_leader() {
        load(arguments, 0, 0, gate(0));
    }
    mbarrier::wait(gate(0), 0);
    if !PLANTED {
        sync::block();
    }
    if is_leader() {
        ptx::invalidate(gate(0));
        mbarrier::init(gate(0), 1);
    }
}
