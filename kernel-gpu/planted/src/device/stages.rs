//! Shared memory of the Hopper kernels: mbarriers in front, behind them stages that one thread fills by bulk copies.

use kernel_gpu::codegen::shared::dynamic_shared_mem;
use kernel_gpu::codegen::thread::thread_idx_x;
use kernel_gpu::ptx::{bulk_copy, mbarrier, memory, proxy, sync};

use super::{element, lane};
use crate::Arguments;

/// Bytes of a stage: 16 for each lane of a warp.
pub const STAGE_BYTES: u32 = 512;
/// Where the first stage begins; what a swizzle repeats after.
const FIRST_STAGE: u32 = 1024;

/// Address of an mbarrier.
#[inline(always)]
pub fn gate(index: u32) -> u32 {
    dynamic_shared_mem() + index * mbarrier::BYTES
}

/// Address of a stage.
#[inline(always)]
pub fn stage(index: u32) -> u32 {
    dynamic_shared_mem() + FIRST_STAGE + index * STAGE_BYTES
}

/// Address of the calling lane's 16 bytes of a stage.
#[inline(always)]
pub fn chunk(index: u32) -> u32 {
    stage(index) + lane() * 16
}

/// Whether the calling thread is the one that starts copies.
#[inline(always)]
pub fn is_leader() -> bool {
    thread_idx_x() == 0
}

/// Initialises the first mbarriers, for as many arrivals as given; every thread may use them afterwards.
#[inline(always)]
pub unsafe fn initialise<const GATES: usize>(arrivals: [u32; GATES]) {
    if is_leader() {
        let mut index = 0;
        while index < GATES {
            mbarrier::init(gate(index as u32), arrivals[index]);
            index += 1;
        }
        mbarrier::fence_init();
    }
    sync::block();
}

/// Starts a copy to shared memory; the phase of the mbarrier waits for its bytes. For one thread.
#[inline(always)]
pub unsafe fn load_bytes(to: u32, from: u64, bytes: u32, gate: u32) {
    mbarrier::arrive_and_expect(gate, bytes);
    bulk_copy::load(to, from, bytes, gate);
}

/// Starts copying a tile of the input to a stage, as [`load_bytes`] does.
#[inline(always)]
pub unsafe fn load(arguments: Arguments, to: u32, tile: u32, gate: u32) {
    load_bytes(stage(to), arguments.input + (tile * STAGE_BYTES) as u64, STAGE_BYTES, gate);
}

/// Starts copying the box of `bytes` bytes at `(column, row)`; the phase of the mbarrier waits for it. For one thread.
#[inline(always)]
pub unsafe fn load_box(map: u64, to: u32, (column, row): (i32, i32), bytes: u32, gate: u32) {
    mbarrier::arrive_and_expect(gate, bytes);
    bulk_copy::load_box_2d(to, map, [column, row], gate);
}

/// Copies to shared memory with the first mbarrier, which it initialises, and waits for the copy.
#[inline(always)]
pub unsafe fn load_bytes_and_wait(to: u32, from: u64, bytes: u32) {
    initialise([1]);
    if is_leader() {
        load_bytes(to, from, bytes, gate(0));
    }
    mbarrier::wait(gate(0), 0);
}

/// Copies a box as [`load_bytes_and_wait`] copies bytes.
#[inline(always)]
pub unsafe fn load_box_and_wait(map: u64, to: u32, place: (i32, i32), bytes: u32) {
    initialise([1]);
    if is_leader() {
        load_box(map, to, place, bytes, gate(0));
    }
    mbarrier::wait(gate(0), 0);
}

/// Starts copying a stage to the beginning of the output, as a group of its own. For one thread.
#[inline(always)]
pub unsafe fn store(arguments: Arguments, from: u32) {
    bulk_copy::store(arguments.output, stage(from), STAGE_BYTES);
    bulk_copy::commit_group();
}

/// The leader copies a stage to the beginning of the output and waits until it was read.
#[inline(always)]
pub unsafe fn store_and_wait(arguments: Arguments, from: u32) {
    if is_leader() {
        store(arguments, from);
        bulk_copy::wait_for_reads::<0>();
    }
}

/// Every lane writes its 16 bytes of a stage.
#[inline(always)]
pub unsafe fn fill(index: u32, value: u32) {
    super::ptx::store_shared_16(chunk(index), [value; 4]);
}

/// Fills a stage for the copies of the leader.
#[inline(always)]
pub unsafe fn fill_and_fence(index: u32, value: u32) {
    fill(index, value);
    proxy::fence_async_shared();
    sync::block();
}

/// Every lane writes its 16 bytes of a stage to a tile of the output.
#[inline(always)]
pub unsafe fn write_out(arguments: Arguments, from: u32, tile: u32) {
    let target = element(arguments.output + (tile * STAGE_BYTES) as u64, lane(), 16);
    memory::store_global_16(target, memory::load_shared_16(chunk(from)));
}
