//! The forward kernel.

use super::block::Block;
use super::kernel::Sm80Kernel;
use super::key_groups::{self, Group};
use super::parts::{self, Part};
use super::pipeline::Pipeline;
use super::warp::Warp;
use crate::device::lane::Lane;
use crate::device::mask::Mask;
use crate::device::ptx::sync;
use crate::device::scores::ScoreMod;
use contract::args::ForwardArgs;
use contract::config::{MMA_K, MMA_M, WARP_SIZE};

/// Computes O and LSE of one block's query rows.
///
/// `BLOCK_M` rows by `BLOCK_N` keys; each warp has `M_TILES` strips of 16 rows, and `K_STEPS` times 16 keys of each step.
///
/// The shifts of the softmax are guessed from the first 16 keys. If a probability overflows under them, or is NaN, the block
/// starts over, and its shifts follow the row maxima, `TOGETHER` times 16 keys at a time. A warp does so from the start if its first
/// scores are far apart, and all warps do with a threshold of 0 ([`contract::tile::Rescale`]).
///
/// If several groups of warps share the keys, each has its own shifts, and their parts of a row are combined at the end. If several
/// blocks share them, another launch combines theirs ([`contract::parts`]).
#[inline(always)]
pub fn forward<
    K: Sm80Kernel,
    const BLOCK_M: u32,
    const BLOCK_N: u32,
    const M_TILES: usize,
    const K_STEPS: usize,
    const TOGETHER: usize,
    const STAGES: u32,
>(
    args: &ForwardArgs,
) {
    const {
        assert!(BLOCK_N == K_STEPS as u32 * MMA_K * K::GROUPS);
        assert!(K_STEPS.is_multiple_of(K::UNROLL) && K_STEPS.is_multiple_of(TOGETHER));
        assert!(
            !K::LEAVES_PARTS || !K::Mask::HAS_BEGIN && !K::ScoreMod::MODIFIES,
            "rows of a part attend to its first keys, from which shifts are guessed"
        );
        assert!(
            !K::ScoreMod::MODIFIES || K::RESCALE_THRESHOLD == 0,
            "guesses of shifts know nothing of changed scores"
        );
    }
    if K::LEAVES_PARTS && args.combined_parts > 0 {
        // SAFETY: all threads are here, and the launch that left the parts has completed.
        unsafe { parts::combine::<K, BLOCK_M, BLOCK_N>(args) };
        return;
    }
    let rows_per_warp = const { M_TILES as u32 * MMA_M };

    let threads = const { BLOCK_M / (M_TILES as u32 * MMA_M) * WARP_SIZE * K::GROUPS };
    let Some(block) = Block::<K>::current(args, BLOCK_M, threads) else { return };
    let lane = Lane::current();
    let attended = block.attended();
    let part = Part::of_block::<K, BLOCK_M, BLOCK_N>(args, attended.steps(BLOCK_N));
    if K::LEAVES_PARTS && part.begin == part.end {
        return;
    }
    let pipeline = Pipeline::<K, BLOCK_M, BLOCK_N, STAGES>::new(block, attended, part, lane);

    // SAFETY: all threads are here, and each warp is converged: trip counts depend on the block only, every warp passes the same
    // number of barriers, and the decision to start over is made by the block.
    let (output, softmax) = unsafe {
        'attention: {
            pipeline.start_queries();
            let mut step = pipeline.begin();
            let warp = Warp::<K, BLOCK_M, M_TILES>::load(args, pipeline.queries(), attended.position, lane);
            if K::RESCALE_THRESHOLD == 0 {
                break 'attention warp.follow_maxima::<BLOCK_N, K_STEPS, TOGETHER, STAGES>(&pipeline, &mut step);
            }
            let mut guess = warp.guess_shifts(pipeline.first_keys(), pipeline.block_key(), pipeline.kv_length);
            let mut is_begun = guess.is_far_apart;
            if !guess.is_far_apart {
                let accumulators =
                    warp.attend_under::<BLOCK_N, K_STEPS, STAGES>(&mut guess.shifts, &pipeline, &mut step);
                if !sync::block_any(!accumulators.sums.are_sound::<K::Element>()) {
                    break 'attention accumulators.under(&guess.shifts);
                }
            }
            // Everything is recomputed, since it would occupy registers in the loop above.
            loop {
                let pipeline = pipeline.recomputed();
                if !is_begun {
                    pipeline.abandon();
                    step = pipeline.begin();
                }
                let warp = warp.recomputed(pipeline.block.attended().position);
                let result = warp.follow_maxima::<BLOCK_N, K_STEPS, TOGETHER, STAGES>(&pipeline, &mut step);
                // Warps that guessed may make all start over.
                if !sync::block_any(false) {
                    break result;
                }
                is_begun = false;
            }
        }
    };

    let (block, lane) = (pipeline.block.recomputed(), lane.recomputed_from_thread());
    let group = Group::of::<K>(lane);
    let warp_row = group.warp * rows_per_warp;
    // SAFETY: the warp is converged and only its rows of the Q tile are written, which are not read after the last step; each step
    // ends with a barrier.
    unsafe {
        let tile = pipeline.queries();
        match K::GROUPS {
            1 => parts::store(output, &softmax, tile, warp_row, &block, lane),
            _ => key_groups::store(output, softmax, (tile, pipeline.stages()), (group, warp_row), &block, lane),
        }
    };
}
