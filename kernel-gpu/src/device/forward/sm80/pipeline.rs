//! Copies K and V to shared memory with `cp.async` by all threads of the block, `STAGES - 1` steps ahead.

use super::block::{Attended, Block};
use super::kernel::Sm80Kernel;
use super::parts::Part;
use super::shared_memory::SharedMemory;
use crate::device::copy::{Copies, start_copy};
use crate::device::hidden::{self, not_unrolled};
use crate::device::kernel::Tile;
use crate::device::lane::Lane;
use crate::device::ptx::{cp_async, sync};
use crate::device::tile::head_rows::HeadRows;

/// Keys of a warp between two checkpoints, at most: so many that checkpoints cost little.
const CHECKED_AFTER: u32 = 256;

/// The copies of one block.
pub struct Pipeline<'a, K: Sm80Kernel, const BLOCK_M: u32, const BLOCK_N: u32, const STAGES: u32> {
    /// The block whose keys these are.
    pub block: Block<'a, K>,
    memory: SharedMemory<K, BLOCK_M, BLOCK_N>,
    /// Rows of K and V of the block's sequence.
    pub kv_length: u32,
    keys: HeadRows,
    values: HeadRows,
    /// First key of step 0, which belongs to the first part of the block's item.
    pub first_key: u32,
    /// First step of the block.
    first_step: u32,
    /// End of its steps.
    pub steps_end: u32,
    lane: Lane,
}

/// A step, and the stage that its tiles are in.
pub struct Step {
    /// Its number among those of the block's item, from 0.
    pub number: u32,
    stage: u32,
    /// The stage of the previous step.
    free_stage: u32,
    /// The calling thread's next copies.
    copies: Copying,
}

/// The calling thread's next copies.
#[derive(Clone, Copy)]
struct Copying {
    keys: Copies,
    values: Copies,
}

impl<'a, K: Sm80Kernel, const BLOCK_M: u32, const BLOCK_N: u32, const STAGES: u32>
    Pipeline<'a, K, BLOCK_M, BLOCK_N, STAGES>
{
    /// The pipeline of a block's part, of at least one step.
    #[inline(always)]
    pub fn new(block: Block<'a, K>, attended: Attended<'a, K>, part: Part, lane: Lane) -> Self {
        const { assert!(STAGES >= 2) };
        let (first_key, memory) = (attended.first_key(BLOCK_N), SharedMemory::new());
        let Part { begin: first_step, end: steps_end } = part;
        let (keys, values) = (attended.keys(), attended.values());
        let steps_end = not_unrolled(steps_end);
        Self { block, memory, kv_length: attended.length, keys, values, first_key, first_step, steps_end, lane }
    }

    /// Q, valid from the first [`Pipeline::begin`] on; later O.
    #[inline(always)]
    pub fn queries(&self) -> Tile<K, BLOCK_M> {
        self.memory.queries()
    }

    /// Address of the stages, which are unused after the last step.
    #[inline(always)]
    pub fn stages(&self) -> u32 {
        self.memory.stages()
    }

    /// K of the first step, valid until that step ends.
    #[inline(always)]
    pub fn first_keys(&self) -> Tile<K, BLOCK_N> {
        self.memory.keys(0)
    }

    /// The first key of a step.
    #[inline(always)]
    pub fn key_of(&self, step: u32) -> u32 {
        self.first_key + step * BLOCK_N
    }

    /// Whether the warps that guess their shifts look at their sums before `step`: after the first step, and then rarely.
    ///
    /// Before the copies of the step are started: behind them, or at its end, all steps take up to 2 % longer.
    #[inline(always)]
    pub fn is_checkpoint(&self, step: &Step) -> bool {
        let period = const { (CHECKED_AFTER * K::GROUPS / BLOCK_N).next_power_of_two() };
        K::HAS_CHECKPOINTS && (step.number - self.first_step) % period == 1
    }

    /// The first key of the block.
    #[inline(always)]
    pub fn block_key(&self) -> u32 {
        self.key_of(self.first_step)
    }

    /// Starts copying Q; the next [`Pipeline::begin`] waits for it.
    ///
    /// # Safety
    /// Block together, before any other access to shared memory.
    #[inline(always)]
    pub unsafe fn start_queries(&self) {
        // SAFETY: all threads are here; the rows of Q before the end are accessible.
        unsafe {
            let rows = (self.block.first_row(), self.block.length());
            start_copy::<K, BLOCK_M>(self.queries(), self.block.queries(), rows, &self.block, self.lane);
        }
    }

    /// The same pipeline, with its block and its initial copy addresses recomputed: kept from the first time, they would occupy
    /// registers in the loop over the steps.
    #[inline(always)]
    pub fn recomputed(&self) -> Self {
        let block = self.block.recomputed();
        let attended = block.attended();
        let first_step = Part::of_block::<K, BLOCK_M, BLOCK_N>(block.args, attended.steps(BLOCK_N)).begin;
        let (keys, values, lane) = (attended.keys(), attended.values(), self.lane.recomputed_from_thread());
        let (kv_length, first_key) = (attended.length, hidden::recompute(self.first_key));
        Self { block, kv_length, first_key, first_step, keys, values, lane, ..*self }
    }

    /// Waits for all copies of the calling thread, after which [`Self::begin`] may start over at any step.
    #[inline(always)]
    pub fn abandon(&self) {
        cp_async::wait_until_fewer_than::<1>();
    }

    /// Starts the first steps and waits for the first one. The caller then loops `while step.number < pipeline.steps_end`.
    ///
    /// # Safety
    /// Block together, at the beginning or, after a barrier, [abandoned](Self::abandon).
    #[inline(always)]
    pub unsafe fn begin(&self) -> Step {
        let mut copies = Copying {
            keys: Copies::new::<K, BLOCK_N>(self.keys, self.block_key(), self.lane),
            values: Copies::new::<K, BLOCK_N>(self.values, self.block_key(), self.lane),
        };
        let mut stage = 0;
        while stage < STAGES - 1 {
            // SAFETY: all threads are here; no thread reads a stage before its step, or after the last barrier of all steps.
            unsafe { self.start_copies(&mut copies, self.first_step + stage, stage) };
            stage += 1;
        }
        // SAFETY: all threads are here.
        unsafe { self.wait() };
        Step { number: self.first_step, stage: 0, free_stage: STAGES - 1, copies }
    }

    /// K and V of a step that was waited for. Starts the copies of the step `STAGES - 1` later.
    ///
    /// # Safety
    /// Block together, once a step.
    #[inline(always)]
    pub unsafe fn tiles(&self, step: &mut Step) -> (Tile<K, BLOCK_N>, Tile<K, BLOCK_N>) {
        // SAFETY: all threads are here; readers of the stage have passed the barrier that ended their step.
        unsafe { self.start_copies(&mut step.copies, step.number + STAGES - 1, step.free_stage) };
        (self.memory.keys(step.stage), self.memory.values(step.stage))
    }

    /// Ends a step: waits for the next one, if any, and until all threads are done with this one.
    ///
    /// # Safety
    /// Block together, after [`Pipeline::tiles`].
    #[inline(always)]
    pub unsafe fn finish(&self, step: &mut Step) {
        // SAFETY: all threads are here.
        unsafe { self.wait() };
        step.free_stage = step.stage;
        step.stage = match STAGES {
            // One instruction, where the comparison below takes two.
            2 => step.stage ^ 1,
            _ if step.stage + 1 == STAGES => 0,
            _ => step.stage + 1,
        };
        step.number += 1;
    }

    /// Starts the copies of a step, if it exists. There is one commit group per step, empty beyond the last, so that the number of
    /// pending groups tells which steps are complete.
    ///
    /// # Safety
    /// Block together; no thread reads the stage until the step is waited for.
    #[inline(always)]
    unsafe fn start_copies(&self, copies: &mut Copying, step: u32, stage: u32) {
        if step < self.steps_end {
            // SAFETY: all threads are here, and no thread reads the stage; the rows of K and V before the end are accessible.
            unsafe {
                let rows = (self.key_of(step), self.kv_length);
                let (keys, values) = (self.memory.keys(stage), self.memory.values(stage));
                copies.keys.start::<K, BLOCK_N, true>(keys, rows, &self.block, self.lane);
                copies.values.start::<K, BLOCK_N, true>(values, rows, &self.block, self.lane);
            }
        }
        cp_async::commit_group();
    }

    /// Waits until the oldest step in flight is complete and visible to all, and all threads are done with the previous step.
    ///
    /// # Safety
    /// Block together.
    #[inline(always)]
    unsafe fn wait(&self) {
        cp_async::wait_for_oldest::<STAGES>();
        // SAFETY: all threads are here.
        unsafe { sync::block() };
    }
}
