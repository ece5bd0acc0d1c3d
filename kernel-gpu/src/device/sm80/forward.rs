//! The forward kernel.

use super::copy::{HeadRows, start_copy};
use super::softmax::{RunningSoftmax, apply_mask};
use super::{HEAD_N_TILES, Lane, Tile, epilogue, products};
use crate::args::ForwardArgs;
use crate::config::{MMA_K, MMA_M, MMA_N, WARP_SIZE};
use crate::device::codegen::{shared, thread};
use crate::device::mask::Mask;
use crate::device::ptx::{cp_async, sync};
use crate::device::sequence::Sequence;

/// The block's dynamic shared memory: the Q tile, which later holds O, then K and V of each stage.
struct SharedMemory<const BLOCK_M: u32, const BLOCK_N: u32> {
    base: u32,
}

impl<const BLOCK_M: u32, const BLOCK_N: u32> SharedMemory<BLOCK_M, BLOCK_N> {
    const STAGE_BYTES: u32 = 2 * Tile::<BLOCK_N>::BYTES;

    /// Every tile begins at a multiple of its alignment.
    const TILES_ARE_ALIGNED: () = assert!(
        Tile::<BLOCK_M>::BYTES.is_multiple_of(Tile::<BLOCK_N>::ALIGNMENT)
            && Tile::<BLOCK_N>::BYTES.is_multiple_of(Tile::<BLOCK_N>::ALIGNMENT)
    );

    #[inline(always)]
    fn new() -> Self {
        const { Self::TILES_ARE_ALIGNED };
        Self { base: shared::dynamic_shared_mem() }
    }

    #[inline(always)]
    fn queries(&self) -> Tile<BLOCK_M> {
        Tile::at(self.base)
    }

    #[inline(always)]
    fn keys(&self, stage: u32) -> Tile<BLOCK_N> {
        Tile::at(self.base + Tile::<BLOCK_M>::BYTES + stage * Self::STAGE_BYTES)
    }

    #[inline(always)]
    fn values(&self, stage: u32) -> Tile<BLOCK_N> {
        Tile::at(self.base + Tile::<BLOCK_M>::BYTES + stage * Self::STAGE_BYTES + Tile::<BLOCK_N>::BYTES)
    }
}

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

    let length = S::length(args);
    let lane = Lane::current();
    let work = args.block_work(thread::block_idx_x());
    let first_row = work.query_tile * BLOCK_M;
    let warp_row = lane.warp * rows_per_warp;

    let memory = SharedMemory::<BLOCK_M, BLOCK_N>::new();
    let queries = HeadRows::new(args.q, &args.q_strides, work);
    let keys = HeadRows::new(args.k, &args.k_strides, work);
    let values = HeadRows::new(args.v, &args.v_strides, work);
    let steps = M::keys_end(first_row + BLOCK_M, length).div_ceil(BLOCK_N);

    // One commit group a step, empty beyond the last, so that the count of pending groups says which steps are complete.
    let start_step = |step: u32, stage: u32| {
        if step < steps {
            // SAFETY: all threads are here; the stage's readers have passed the barrier that ends their step.
            unsafe {
                start_copy::<BLOCK_N, S>(memory.keys(stage), keys, step * BLOCK_N, length, lane, threads);
                start_copy::<BLOCK_N, S>(memory.values(stage), values, step * BLOCK_N, length, lane, threads);
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
    unsafe { start_copy::<BLOCK_M, S>(memory.queries(), queries, first_row, length, lane, threads) };
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
        if M::touches::<S>(first_row, step * BLOCK_N, BLOCK_N, length) {
            apply_mask::<M_TILES, N_TILES, M>(&mut scores, first_row + warp_row, step * BLOCK_N, length, lane);
        }
        // SAFETY: the warp is together.
        unsafe { softmax.update(&mut scores, &mut output, args.scale_log2) };
        // SAFETY: the warp is together; the step's V is complete and visible.
        unsafe { products::accumulate_output(&mut output, &scores, memory.values(stage), lane) };

        wait_for_next_step();
        free_stage = stage;
        stage = if stage + 1 == STAGES { 0 } else { stage + 1 };
        step += 1;
    }

    // SAFETY: the warp is together.
    unsafe { softmax.complete_sums() };
    epilogue::normalise(&mut output, &softmax);
    let (tile, rows) = (memory.queries(), HeadRows::new(args.o, &args.o_strides, work));
    // SAFETY: the warp is together and alone touches its rows of O and of the Q tile, which it read before the first
    // step; each step ends with a barrier.
    unsafe { epilogue::store_output::<BLOCK_M, M_TILES, S>(&output, tile, rows, first_row, warp_row, length, lane) };
    if args.lse != 0 {
        let head = (work.batch as u64 * args.heads.get() as u64 + work.head as u64) * length as u64;
        let lse = args.lse + head * size_of::<f32>() as u64;
        // SAFETY: the head has `length` elements of LSE; the warp alone writes those of its rows.
        unsafe { epilogue::store_lse::<M_TILES, S>(&softmax, lse, first_row + warp_row, length, lane) };
    }
}
