//! Bulk copies, and shared memory that `wgmma` reads.

use kernel_gpu::codegen::thread::thread_idx_x;
use kernel_gpu::ptx::{bulk_copy, mbarrier, memory, sync, wgmma};

use crate::Arguments;
use crate::device::matrices::{self, A_BYTES, B_BYTES};
use crate::device::stages::{
    STAGE_BYTES, fill, fill_and_fence, gate, initialise, is_leader, load, load_box, load_bytes, stage, store, write_out,
};
use crate::device::{lane, warp};

/// No wait before the read, only after.
#[inline(always)]
pub unsafe fn bulk_copy_read_before_the_wait<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    if is_leader() {
        load(arguments, 0, 0, gate(0));
    }
    if !PLANTED {
        mbarrier::wait(gate(0), 0);
    }
    sync::warp();
    write_out(arguments, 0, 0);
    mbarrier::wait(gate(0), 0);
}

/// A barrier of the block in place of the wait: it orders threads, not copies.
#[inline(always)]
pub unsafe fn barrier_instead_of_an_mbarrier<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    if is_leader() {
        load(arguments, 0, 0, gate(0));
    }
    if PLANTED {
        sync::block();
    } else {
        mbarrier::wait(gate(0), 0);
    }
    write_out(arguments, 0, 0);
    mbarrier::wait(gate(0), 0);
}

/// A box that is read before its mbarrier was waited for.
#[inline(always)]
pub unsafe fn box_read_before_the_wait<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    if is_leader() {
        load_box(arguments.tensor_map, stage(0), (0, 0), STAGE_BYTES, gate(0));
    }
    if !PLANTED {
        mbarrier::wait(gate(0), 0);
    }
    sync::warp();
    write_out(arguments, 0, 0);
    mbarrier::wait(gate(0), 0);
}

/// Two stages in flight; the second is read after the wait for the first.
#[inline(always)]
pub unsafe fn mbarrier_of_the_other_stage<const PLANTED: bool>(arguments: Arguments) {
    initialise([1, 1]);
    if is_leader() {
        load(arguments, 0, 0, gate(0));
        load(arguments, 1, 1, gate(1));
    }
    let waited = if PLANTED { 0 } else { 1 };
    mbarrier::wait(gate(waited), 0);
    write_out(arguments, 1, 0);
    mbarrier::wait(gate(1 - waited), 0);
}

/// The producer refills the stage once its own copy has arrived, not once the consumer has read it.
#[inline(always)]
pub unsafe fn stage_refilled_without_an_empty_mbarrier<const PLANTED: bool>(arguments: Arguments) {
    initialise([1, 1, 32]);
    let (full, empty) = ([gate(0), gate(1)], gate(2));
    if warp() == 1 {
        for tile in 0..2 {
            mbarrier::wait(full[tile as usize], 0);
            write_out(arguments, 0, tile);
            mbarrier::arrive(empty);
        }
    } else if is_leader() {
        load(arguments, 0, 0, full[0]);
        mbarrier::wait(if PLANTED { full[0] } else { empty }, 0);
        load(arguments, 0, 1, full[1]);
    }
}

/// The kernel ends with a copy to shared memory in flight.
#[inline(always)]
pub unsafe fn bulk_copy_never_waited_for<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    if is_leader() {
        load(arguments, 0, 0, gate(0));
        if !PLANTED {
            mbarrier::wait(gate(0), 0);
        }
    }
}

/// Two copies to one stage at a time.
#[inline(always)]
pub unsafe fn bulk_copy_over_a_copy_in_flight<const PLANTED: bool>(arguments: Arguments) {
    initialise([2]);
    if is_leader() {
        load(arguments, 0, 0, gate(0));
        load(arguments, if PLANTED { 0 } else { 1 }, 1, gate(0));
    }
    mbarrier::wait(gate(0), 0);
}

/// A stage is cleared while a copy is about to fill it.
#[inline(always)]
pub unsafe fn store_to_a_bulk_copy_in_flight<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    if is_leader() {
        load(arguments, 0, 0, gate(0));
        if !PLANTED {
            mbarrier::wait(gate(0), 0);
        }
        memory::store_shared_4(stage(0), 0);
    }
    mbarrier::wait(gate(0), 0);
}

/// The kernel ends while a copy may still read its shared memory.
#[inline(always)]
pub unsafe fn bulk_store_never_waited_for<const PLANTED: bool>(arguments: Arguments) {
    fill_and_fence(0, lane());
    if is_leader() {
        store(arguments, 0);
        if !PLANTED {
            bulk_copy::wait_for_reads::<0>();
        }
    }
}

/// The stage is filled for the next tile while the copy of this one still reads it.
#[inline(always)]
pub unsafe fn source_of_a_bulk_store_overwritten<const PLANTED: bool>(arguments: Arguments) {
    fill_and_fence(0, lane());
    if is_leader() {
        store(arguments, 0);
        if !PLANTED {
            bulk_copy::wait_for_reads::<0>();
        }
    }
    sync::block();
    fill(0, 0);
    bulk_copy::wait_for_reads::<0>();
}

/// Two stores in flight and a wait that leaves one of them.
#[inline(always)]
pub unsafe fn one_store_group_too_few<const PLANTED: bool>(arguments: Arguments) {
    fill_and_fence(0, lane());
    fill_and_fence(1, lane());
    if is_leader() {
        store(arguments, 0);
        bulk_copy::store(arguments.output + STAGE_BYTES as u64, stage(1), STAGE_BYTES);
        bulk_copy::commit_group();
        if PLANTED {
            bulk_copy::wait_for_reads::<1>();
        } else {
            bulk_copy::wait_for_reads::<0>();
        }
    }
    sync::block();
    fill(1, 0);
    bulk_copy::wait_for_reads::<0>();
}

/// The wait comes before the commit of the store.
#[inline(always)]
pub unsafe fn store_committed_after_the_wait<const PLANTED: bool>(arguments: Arguments) {
    fill_and_fence(0, lane());
    if is_leader() {
        bulk_copy::store(arguments.output, stage(0), STAGE_BYTES);
        if !PLANTED {
            bulk_copy::commit_group();
        }
        bulk_copy::wait_for_reads::<0>();
        bulk_copy::commit_group();
    }
}

/// Operand A is overwritten while the product may still read it.
#[inline(always)]
pub unsafe fn operand_overwritten_in_flight<const PLANTED: bool>(arguments: Arguments) {
    matrices::load(arguments);
    wgmma::fence();
    let d = matrices::multiply_loaded();
    wgmma::commit_group();
    if PLANTED {
        sync::block();
        memory::store_shared_4(stage(0) + thread_idx_x() * 4, 0);
    }
    matrices::wait_and_write_out(arguments, d);
}

/// A warpgroup multiplies, a fifth warp refills operand B as soon as it is told that the stage is free: that happens
/// before the wait for the product.
#[inline(always)]
pub unsafe fn stage_released_before_the_product_is_done<const PLANTED: bool>(arguments: Arguments) {
    const CONSUMERS: u32 = 128;
    initialise([1, CONSUMERS]);
    let (full, empty) = (gate(0), gate(1));
    if warp() == CONSUMERS / 32 {
        if lane() == 0 {
            load_bytes(stage(0), arguments.input, A_BYTES + B_BYTES, full);
            mbarrier::wait(empty, 0);
            load_bytes(stage(0) + A_BYTES, arguments.input, B_BYTES, full);
        }
    } else {
        mbarrier::wait(full, 0);
        wgmma::fence();
        let d = matrices::multiply_loaded();
        wgmma::commit_group();
        if PLANTED {
            mbarrier::arrive(empty);
            // The copy has started, and may be over, before the wait.
            mbarrier::wait(full, 1);
        }
        matrices::wait_and_write_out(arguments, d);
        if !PLANTED {
            mbarrier::arrive(empty);
            mbarrier::wait(full, 1);
        }
    }
}
