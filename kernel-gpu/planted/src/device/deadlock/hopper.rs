//! Waits at mbarriers for phases that do not end, and for registers that nobody gives up.

use kernel_gpu::ptx::{bulk_copy, mbarrier, sync, warpgroup};

use crate::Arguments;
use crate::device::stages::{STAGE_BYTES, gate, initialise, is_leader, load, stage, write_out};
use crate::device::{lane, warp};

/// Initialised for the arrivals of both warps, of which one waits only.
#[inline(always)]
pub unsafe fn arrivals_of_too_many_threads<const PLANTED: bool>(_: Arguments) {
    initialise([if PLANTED { 64 } else { 32 }]);
    if warp() == 0 {
        mbarrier::arrive(gate(0));
    } else {
        mbarrier::wait(gate(0), 0);
    }
}

/// The lanes beyond the tail return and never arrive.
#[inline(always)]
pub unsafe fn arrivals_of_lanes_that_returned<const PLANTED: bool>(_: Arguments) {
    const LENGTH: u32 = 20;
    initialise([if PLANTED { 32 } else { LENGTH }]);
    if lane() >= LENGTH {
        return;
    }
    mbarrier::arrive(gate(0));
    mbarrier::wait(gate(0), 0);
}

/// Every lane waits for the end of a phase that its own arrival would end.
#[inline(always)]
pub unsafe fn wait_before_the_arrival<const PLANTED: bool>(_: Arguments) {
    initialise([32]);
    if PLANTED {
        mbarrier::wait(gate(0), 0);
    }
    mbarrier::arrive(gate(0));
    mbarrier::wait(gate(0), 0);
}

/// Two tiles expected, one copied.
#[inline(always)]
pub unsafe fn more_bytes_expected_than_copied<const PLANTED: bool>(arguments: Arguments) {
    let expected = if PLANTED { 2 * STAGE_BYTES } else { STAGE_BYTES };
    initialise([1]);
    if is_leader() {
        mbarrier::arrive_and_expect(gate(0), expected);
        bulk_copy::load(stage(0), arguments.input, STAGE_BYTES, gate(0));
    }
    mbarrier::wait(gate(0), 0);
}

/// The size is given in elements of four bytes.
#[inline(always)]
pub unsafe fn fewer_bytes_expected_than_copied<const PLANTED: bool>(arguments: Arguments) {
    let expected = if PLANTED { STAGE_BYTES / 4 } else { STAGE_BYTES };
    initialise([1]);
    if is_leader() {
        mbarrier::arrive_and_expect(gate(0), expected);
        bulk_copy::load(stage(0), arguments.input, STAGE_BYTES, gate(0));
    }
    mbarrier::wait(gate(0), 0);
}

/// The producer waits for the consumer before it filled the stage for the first time.
#[inline(always)]
pub unsafe fn first_wait_for_an_empty_stage<const PLANTED: bool>(arguments: Arguments) {
    initialise([1, 32]);
    let (full, empty) = (gate(0), gate(1));
    if warp() == 0 {
        if is_leader() {
            mbarrier::wait(empty, if PLANTED { 0 } else { 1 });
            load(arguments, 0, 0, full);
        }
    } else {
        mbarrier::wait(full, 0);
        write_out(arguments, 0, 0);
        mbarrier::arrive(empty);
    }
}

/// The second round waits for the phase of the first one again: that passes while its own copy is in flight, and never
/// once the copy is there.
#[inline(always)]
pub unsafe fn parity_that_is_not_flipped<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    for round in 0..2 {
        if is_leader() {
            load(arguments, 0, round, gate(0));
        }
        mbarrier::wait(gate(0), if PLANTED { 0 } else { round });
        write_out(arguments, 0, round);
        sync::block();
    }
    mbarrier::wait(gate(0), 1);
}

/// The producer ends two phases before the consumer looks; the parity is that of the first phase again.
#[inline(always)]
pub unsafe fn two_phases_for_one_wait<const PLANTED: bool>(_: Arguments) {
    let arrivals = if PLANTED { 2 } else { 1 };
    initialise([1]);
    if is_leader() {
        for _ in 0..arrivals {
            mbarrier::arrive(gate(0));
        }
    }
    sync::block();
    mbarrier::wait(gate(0), 0);
}

/// Three warpgroups want 240 registers a thread; a multiprocessor has 65536.
#[inline(always)]
pub unsafe fn registers_beyond_the_pool<const PLANTED: bool>(_: Arguments) {
    const WARPGROUP_WARPS: u32 = 4;
    if PLANTED || warp() < WARPGROUP_WARPS {
        warpgroup::increase_registers::<240>();
    } else {
        warpgroup::decrease_registers::<24>();
    }
    sync::block();
}
