//! The forward kernel.

use super::products;
use crate::args::ForwardArgs;
use crate::config::{MMA_K, MMA_M, MMA_N, WARP_SIZE};
use crate::device::attention::block::Block;
use crate::device::attention::copy::start_copy;
use crate::device::attention::mask::Mask;
use crate::device::attention::sequence::Sequence;
use crate::device::attention::shared_memory::SharedMemory;
use crate::device::attention::softmax::{RunningSoftmax, apply_mask, rescale_row};
use crate::device::attention::{HEAD_N_TILES, Lane, epilogue};
use crate::device::ptx::{cp_async, sync};

/// O and LSE of one block's query rows.
///
/// `BLOCK_M` rows by `BLOCK_N` keys; each warp has `M_TILES` strips of 16 rows, a step has `N_TILES` tiles of 8 keys.
#[inline(always)]
pub fn forward<
    const BLOCK_M: u32,
    const BLOCK_N: u32,
    const M_TILES: usize,
    const N_TILES: usize,
    const STAGES: u32,
    S: Sequence,
    M: Mask,
>(
    args: &ForwardArgs,
) {
    const { assert!(BLOCK_N == N_TILES as u32 * MMA_N && BLOCK_N.is_multiple_of(MMA_K) && STAGES >= 2) };
    let rows_per_warp = const { M_TILES as u32 * MMA_M };
    let threads = const { BLOCK_M / (M_TILES as u32 * MMA_M) * WARP_SIZE };

    let block = Block::<S>::current(args, BLOCK_M, threads);
    let lane = Lane::current();
    let warp_row = lane.warp * rows_per_warp;
    let memory = SharedMemory::<BLOCK_M, BLOCK_N>::new();
    let (queries, keys, values) = (block.queries(), block.keys(), block.values());
    let steps = block.steps::<M>(BLOCK_N);

    // One commit group a step, empty beyond the last, so that the count of pending groups says which steps are complete.
    let start_step = |step: u32, stage: u32| {
        if step < steps {
            // SAFETY: all threads are here; the stage's readers have passed the barrier that ends their step.
            unsafe {
                start_copy(memory.keys(stage), keys, step * BLOCK_N, &block, lane);
                start_copy(memory.values(stage), values, step * BLOCK_N, &block, lane);
            }
        }
        cp_async::commit_group();
    };
    let wait_for_next_step = || {
        cp_async::wait_for_oldest::<STAGES>();
        // SAFETY: all threads are here: trip counts depend on the block alone.
        unsafe { sync::block() };
    };

    // SAFETY: all threads are here; the rows of Q below `length` are accessible.
    unsafe { start_copy(memory.queries(), queries, block.first_row, &block, lane) };
    let mut step = 0;
    while step < STAGES - 1 {
        start_step(step, step);
        step += 1;
    }
    wait_for_next_step();
    // SAFETY: the warp is together; Q was in the first group, now complete and visible.
    let queries = unsafe { products::load_queries::<BLOCK_M, M_TILES>(memory.queries(), warp_row, lane) };

    let mut softmax = RunningSoftmax::<M_TILES>::new();
    let mut output = [[[0.0; 4]; HEAD_N_TILES]; M_TILES];
    let (mut stage, mut free_stage) = (0, STAGES - 1);
    let mut step = 0;
    while step < steps {
        start_step(step + STAGES - 1, free_stage);

        // SAFETY: the warp is together; the step's K is complete and visible.
        let mut scores = unsafe { products::scores::<BLOCK_N, M_TILES, N_TILES>(&queries, memory.keys(stage), lane) };
        apply_mask::<M, S, M_TILES, N_TILES>(&mut scores, warp_row, step * BLOCK_N, &block, lane);
        // SAFETY: the warp is together.
        unsafe {
            softmax.update(&mut scores, args.scale_log2, |m, r, factor| rescale_row(&mut output[m], r, factor));
        }
        // SAFETY: the warp is together; the step's V is complete and visible.
        unsafe { products::accumulate_output(&mut output, &scores, memory.values(stage), lane) };

        wait_for_next_step();
        free_stage = stage;
        stage = if stage + 1 == STAGES { 0 } else { stage + 1 };
        step += 1;
    }

    // SAFETY: the warp is together and alone touches its rows of the Q tile, which it read before the first step; each
    // step ends with a barrier.
    unsafe { epilogue::finish(output, softmax, memory.queries(), warp_row, &block, lane) };
}
