//! Shared memory of the Hopper kernels: mbarriers in front, behind them stages that one thread fills by bulk copies.

use super::{element, lane};
use crate::device::codegen::shared::dynamic_shared_mem;
use crate::device::codegen::thread::thread_idx_x;
use crate::device::ptx::{bulk_copy, mbarrier, memory, proxy, sync};
use crate::planted::Arguments;

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

/// Starts copying a tile of the input to a stage; the phase of the mbarrier waits for its bytes. For one thread.
#[inline(always)]
pub unsafe fn load(arguments: Arguments, to: u32, tile: u32, gate: u32) {
    mbarrier::arrive_and_expect(gate, STAGE_BYTES);
    bulk_copy::load(stage(to), arguments.input + (tile * STAGE_BYTES) as u64, STAGE_BYTES, gate);
}

/// Starts copying a stage to the beginning of the output, as a group of its own. For one thread.
#[inline(always)]
pub unsafe fn store(arguments: Arguments, from: u32) {
    bulk_copy::store(arguments.output, stage(from), STAGE_BYTES);
    bulk_copy::commit_group();
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
