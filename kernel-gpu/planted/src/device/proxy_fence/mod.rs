//! Ordinary writes to shared memory that the async proxy may not see.

use kernel_gpu::codegen::thread::thread_idx_x;
use kernel_gpu::ptx::element::Element;
use kernel_gpu::ptx::wgmma::{self, Accumulators, NMajor, Registers};
use kernel_gpu::ptx::{bulk_copy, mbarrier, memory, proxy, stmatrix, sync};
use kernel_gpu::shared_tile::F16;

use super::matrices::{self, A_BYTES, B_BYTES};
use super::stages::{STAGE_BYTES, chunk, fill, gate, initialise, is_leader, load, stage, store_and_wait};
use super::{element, lane, ptx, warp};
use crate::Arguments;

/// A barrier orders threads, not proxies.
#[inline(always)]
pub unsafe fn bulk_store_without_a_fence<const PLANTED: bool>(arguments: Arguments) {
    fill(0, lane());
    if !PLANTED {
        proxy::fence_async_shared();
    }
    sync::block();
    store_and_wait(arguments, 0);
}

/// The same for a box.
#[inline(always)]
pub unsafe fn box_store_without_a_fence<const PLANTED: bool>(arguments: Arguments) {
    fill(0, lane());
    if !PLANTED {
        proxy::fence_async_shared();
    }
    sync::block();
    if is_leader() {
        bulk_copy::store_box_2d(arguments.tensor_map, [0, 0], stage(0));
        bulk_copy::commit_group();
        bulk_copy::wait_for_reads::<0>();
    }
}

/// The fence comes before what it is for.
#[inline(always)]
pub unsafe fn fence_before_the_writes<const PLANTED: bool>(arguments: Arguments) {
    if PLANTED {
        proxy::fence_async_shared();
    }
    fill(0, lane());
    if !PLANTED {
        proxy::fence_async_shared();
    }
    sync::block();
    store_and_wait(arguments, 0);
}

/// Two warps write, the one that stores fences before it knows of the other's writes.
#[inline(always)]
pub unsafe fn fence_of_one_warp_before_the_barrier<const PLANTED: bool>(arguments: Arguments) {
    fill(warp(), lane());
    if !PLANTED || warp() == 0 {
        proxy::fence_async_shared();
    }
    sync::block();
    if is_leader() {
        bulk_copy::store(arguments.output, stage(0), 2 * STAGE_BYTES);
        bulk_copy::commit_group();
        bulk_copy::wait_for_reads::<0>();
    }
}

/// A tile written by `stmatrix`, which is an ordinary write.
#[inline(always)]
pub unsafe fn matrix_store_without_a_fence<const PLANTED: bool>(arguments: Arguments) {
    stmatrix::store_4(chunk(0), [lane(); 4]);
    if !PLANTED {
        proxy::fence_async_shared();
    }
    sync::block();
    store_and_wait(arguments, 0);
}

/// Operands of a product written by ordinary stores.
#[inline(always)]
pub unsafe fn operands_without_a_fence<const PLANTED: bool>(arguments: Arguments) {
    let mut offset = thread_idx_x() * 16;
    while offset < A_BYTES + B_BYTES {
        ptx::store_shared_16(stage(0) + offset, [lane(); 4]);
        offset += 128 * 16;
    }
    if !PLANTED {
        proxy::fence_async_shared();
    }
    sync::block();
    wgmma::fence();
    let d = matrices::multiply_loaded();
    wgmma::commit_group();
    matrices::wait_and_write_out(arguments, d);
}

/// Only the columns behind those of the operand, a panel elsewhere, were written by ordinary stores: ones that sum the other operand's rows.
#[inline(always)]
pub unsafe fn panel_without_a_fence<const PLANTED: bool>(arguments: Arguments) {
    const PANEL: u32 = A_BYTES + B_BYTES;
    matrices::load(arguments);
    ptx::store_shared_16(stage(0) + PANEL + thread_idx_x() * 16, [F16::ONES; 4]);
    if !PLANTED {
        proxy::fence_async_shared();
    }
    sync::block();
    let values = matrices::operand::<NMajor>(A_BYTES).with_panel(stage(0) + PANEL);
    let (mut d, mut sums, mut a) = ([[0.0; 4]; 8], ptx::zeros(), [[lane(); 4]]);
    d.pin();
    sums.pin();
    a.pin();
    wgmma::fence();
    d.multiply_fragment_and::<F16, _>(&mut sums[0], a[0], values, true);
    wgmma::commit_group();
    wgmma::wait_group::<0>();
    d.pin();
    matrices::write_out(arguments, sums);
}

/// A stage is cleared by ordinary stores after its product, then filled by a copy: the copy may come first.
#[inline(always)]
pub unsafe fn copy_over_what_was_written<const PLANTED: bool>(arguments: Arguments) {
    initialise([1]);
    fill(0, 0);
    if !PLANTED {
        proxy::fence_async_shared();
    }
    sync::block();
    if is_leader() {
        load(arguments, 0, 0, gate(0));
    }
    mbarrier::wait(gate(0), 0);
}

/// The copy's end is counted by the async proxy, which may not see that the mbarrier was initialised.
#[inline(always)]
pub unsafe fn mbarrier_without_a_fence<const PLANTED: bool>(arguments: Arguments) {
    if is_leader() {
        mbarrier::init(gate(0), 1);
        if !PLANTED {
            mbarrier::fence_init();
        }
    }
    sync::block();
    if is_leader() {
        load(arguments, 0, 0, gate(0));
    }
    mbarrier::wait(gate(0), 0);
}

/// A tile is read and released without a fence: the copy that fills it again may overtake the loads. On an H200 it did.
#[inline(always)]
pub unsafe fn copy_that_overtakes_the_loads<const PLANTED: bool>(arguments: Arguments) {
    initialise([1, 1, 32]);
    let (full, empty) = ([gate(0), gate(1)], gate(2));
    if warp() == 1 {
        mbarrier::wait(full[0], 0);
        let first = memory::load_shared_16(chunk(0));
        if !PLANTED {
            proxy::fence_async_shared();
        }
        mbarrier::arrive(empty);
        memory::store_global_16(element(arguments.output, lane(), 16), first);
        mbarrier::wait(full[1], 0);
    } else if is_leader() {
        load(arguments, 0, 0, full[0]);
        mbarrier::wait(empty, 0);
        load(arguments, 0, 1, full[1]);
    }
}
