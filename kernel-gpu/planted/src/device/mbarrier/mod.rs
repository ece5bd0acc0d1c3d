//! Mbarriers that are not there, or whose counts become impossible.

use kernel_gpu::ptx::{bulk_copy, mbarrier, memory, sync};

use super::stages::{STAGE_BYTES, gate, initialise, is_leader, load, stage, write_out};
use super::{lane, ptx, warp};
use crate::Arguments;

/// Shared memory that holds whatever a block before left there.
#[inline(always)]
pub unsafe fn never_initialised<const PLANTED: bool>(_: Arguments) {
    if is_leader() {
        if !PLANTED {
            mbarrier::init(gate(0), 1);
        }
        mbarrier::arrive(gate(0));
    }
}

/// Every tile initialises the mbarrier, which is still in use for the one before.
#[inline(always)]
pub unsafe fn initialised_for_every_tile<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    for tile in 0..2 {
        if is_leader() {
            if PLANTED && tile > 0 {
                mbarrier::init(gate(0), 1);
                mbarrier::fence_init();
            }
            load(arguments, 0, tile, gate(0));
        }
        mbarrier::wait(gate(0), if PLANTED { 0 } else { tile });
        sync::block();
    }
}

/// The mbarrier ends before its last wait.
#[inline(always)]
pub unsafe fn invalidated_before_the_last_wait<const PLANTED: bool>(_: Arguments) {
    initialise([1]);
    if is_leader() {
        mbarrier::arrive(gate(0));
        if PLANTED {
            ptx::invalidate(gate(0));
        }
        mbarrier::wait(gate(0), 0);
        if !PLANTED {
            ptx::invalidate(gate(0));
        }
    }
}

/// A tile that begins where the mbarriers are.
#[inline(always)]
pub unsafe fn tile_over_an_mbarrier<const PLANTED: bool>(_: Arguments) {
    initialise([32]);
    let tile = if PLANTED { gate(0) } else { stage(0) };
    memory::store_shared_4(tile + lane() * 4, lane());
    mbarrier::arrive(gate(0));
}

/// A lane arrives for a whole warp at an mbarrier for half of one.
#[inline(always)]
pub unsafe fn more_arrivals_than_expected<const PLANTED: bool>(_: Arguments) {
    initialise([if PLANTED { 16 } else { 32 }]);
    if is_leader() {
        ptx::arrive_for(gate(0), 32);
    }
}

/// Initialised for the consumers of a launch without consumers.
#[inline(always)]
pub unsafe fn no_arrivals_expected<const PLANTED: bool>(_: Arguments) {
    initialise([u32::from(!PLANTED)]);
}

/// The copy signals the mbarrier of a stage that does not exist.
#[inline(always)]
pub unsafe fn copy_signals_another_address<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    if is_leader() {
        mbarrier::arrive_and_expect(gate(0), STAGE_BYTES);
        bulk_copy::load(stage(0), arguments.input, STAGE_BYTES, gate(u32::from(PLANTED)));
        mbarrier::wait(gate(0), 0);
    }
}

/// The number of the round in place of its parity.
#[inline(always)]
pub unsafe fn round_in_place_of_its_parity<const PLANTED: bool>(_: Arguments) {
    initialise([1]);
    if is_leader() {
        for round in 0..3 {
            mbarrier::arrive(gate(0));
            mbarrier::wait(gate(0), if PLANTED { round } else { round % 2 });
        }
    }
}

/// Two warps take the tiles of a stage in turns. The second gives the first tile back unseen, and waits for its own: where
/// the first one is not there yet, the parity of the second phase is that of the phase before the first.
#[inline(always)]
pub unsafe fn second_phase_without_the_first<const PLANTED: bool>(arguments: Arguments) {
    initialise([1, 32]);
    let (full, empty) = (gate(0), gate(1));
    if warp() == 1 {
        if lane() == 0 {
            load(arguments, 0, 0, full);
        }
        mbarrier::wait(full, 0);
        write_out(arguments, 0, 0);
        mbarrier::wait(empty, 0);
        sync::warp();
        if lane() == 0 {
            load(arguments, 0, 1, full);
        }
    } else {
        if !PLANTED {
            mbarrier::wait(full, 0);
        }
        mbarrier::arrive(empty);
        mbarrier::wait(full, 1);
        write_out(arguments, 0, 1);
    }
}

/// More bytes than an mbarrier can count.
#[inline(always)]
pub unsafe fn bytes_beyond_the_count<const PLANTED: bool>(arguments: Arguments) {
    let expected = if PLANTED { 1 << 20 } else { STAGE_BYTES };
    initialise([1]);
    if is_leader() {
        mbarrier::arrive_and_expect(gate(0), expected);
        bulk_copy::load(stage(0), arguments.input, STAGE_BYTES, gate(0));
        mbarrier::wait(gate(0), 0);
    }
}
