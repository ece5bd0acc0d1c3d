//! Copies K and V to shared memory with `cp.async` by all threads of the block, some steps ahead.
//!
//! V is needed one step later than K: the scores of step j + 1 are computed together with the output of step j. So copy group
//! i is K of step i and V of step i − 1 (group 0: Q and the first K), and `STAGES` groups, some possibly empty, are in flight
//! or just complete at any time.

use crate::device::attention::block::{Attended, Block};
use crate::device::attention::copy::start_copy;
use crate::device::attention::head_rows::HeadRows;
use crate::device::attention::kernel::Kernel;
use crate::device::attention::shared_memory::SharedMemory;
use crate::device::attention::{Lane, Tile};
use crate::device::ptx::{cp_async, proxy, sync};

/// The copies of one block.
pub struct Pipeline<'a, K: Kernel, const BLOCK_M: u32, const BLOCK_N: u32, const STAGES: u32> {
    block: Block<'a, K>,
    /// Rows of K and V of the block's sequence.
    kv_length: u32,
    memory: SharedMemory<K, BLOCK_M, BLOCK_N>,
    keys: HeadRows,
    values: HeadRows,
    steps: u32,
    lane: Lane,
}

impl<'a, K: Kernel, const BLOCK_M: u32, const BLOCK_N: u32, const STAGES: u32>
    Pipeline<'a, K, BLOCK_M, BLOCK_N, STAGES>
{
    /// Starts the first `STAGES` copy groups of a block with `steps` steps, at least one.
    ///
    /// # Safety
    /// All threads of the block call this together, once, and before any other access to shared memory.
    #[inline(always)]
    pub unsafe fn start(block: Block<'a, K>, attended: Attended<'a, K>, steps: u32, lane: Lane) -> Self {
        let (memory, keys, values) = (SharedMemory::new(), attended.keys(), attended.values());
        let pipeline = Self { block, kv_length: attended.length, memory, keys, values, steps, lane };
        // SAFETY: all threads are here; nothing was copied yet.
        unsafe {
            let rows = (block.first_row(), block.length());
            start_copy(pipeline.queries(), block.queries(), rows, &block, lane);
            let mut group = 0;
            while group < STAGES {
                pipeline.start_group(group);
                group += 1;
            }
        }
        pipeline
    }

    /// Q, valid from the first wait to the end; later O.
    #[inline(always)]
    pub fn queries(&self) -> Tile<K, BLOCK_M> {
        self.memory.queries()
    }

    /// K of a step.
    #[inline(always)]
    pub fn keys(&self, step: u32) -> Tile<K, BLOCK_N> {
        self.memory.keys(step % STAGES)
    }

    /// V of a step.
    #[inline(always)]
    pub fn values(&self, step: u32) -> Tile<K, BLOCK_N> {
        self.memory.values(step % STAGES)
    }

    /// Waits for group 0: Q and K of step 0 are then complete.
    ///
    /// # Safety
    /// All threads of the block call this together, first of all waits.
    #[inline(always)]
    pub unsafe fn wait_for_first(&self) {
        cp_async::wait_until_fewer_than::<STAGES>();
        // SAFETY: the caller has the block together.
        unsafe { self.publish() };
    }

    /// Waits for the next group: V of a step, and K of the next step if it exists, are then complete.
    ///
    /// # Safety
    /// All threads of the block call this together, once for each step, with [`Pipeline::start_group`] between two calls.
    #[inline(always)]
    pub unsafe fn wait_for_next(&self) {
        cp_async::wait_for_oldest::<STAGES>();
        // SAFETY: the caller has the block together.
        unsafe { self.publish() };
    }

    /// Makes the completed copies of all threads visible to everyone's products.
    ///
    /// # Safety
    /// All threads of the block call this together.
    #[inline(always)]
    unsafe fn publish(&self) {
        proxy::fence_async_shared();
        // SAFETY: the caller has the block together.
        unsafe { sync::block() };
    }

    /// Starts K of step `group` and V of the previous step, if they exist.
    ///
    /// # Safety
    /// All threads of the block call this together, group by group, after a barrier that follows the last products that read
    /// the tiles to be replaced: K of step `group - STAGES` and V of the step before that.
    #[inline(always)]
    pub unsafe fn start_group(&self, group: u32) {
        // SAFETY: the caller has the block together, and no product reads the tiles to be replaced.
        unsafe {
            let rows = |step| (step * BLOCK_N, self.kv_length);
            if group < self.steps {
                start_copy(self.keys(group), self.keys, rows(group), &self.block, self.lane);
            }
            if group >= 1 && group <= self.steps {
                let step = group - 1;
                start_copy(self.values(step), self.values, rows(step), &self.block, self.lane);
            }
        }
        cp_async::commit_group();
    }
}
