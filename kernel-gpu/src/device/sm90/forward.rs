//! The forward kernel.

use super::pipeline::Pipeline;
use super::products;
use super::softmax::{StepKind, StripSoftmax};
use crate::device::attention::block::Block;
use crate::device::attention::head_dim::Fragments;
use crate::device::attention::kernel::Kernel;
use crate::device::attention::mask::Mask;
use crate::device::attention::score_mod::ScoreMod;
use crate::device::attention::softmax::{apply_mask, guessed_shifts, rescale_row};
use crate::device::attention::{Lane, OutputStrip, ROWS_PER_LANE, epilogue};
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::wgmma::{self, Accumulators, Registers};
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::config::{MMA_M, MMA_N, WARP_SIZE, WARPGROUP_ROWS, WARPGROUP_WARPS};

/// Computes O and LSE of one block's query rows.
///
/// `BLOCK_M` rows, 64 per warpgroup, by `BLOCK_N` keys; a step has `N_TILES` tiles of 8 keys, or `K_STEPS` of 16.
///
/// The tensor cores compute the scores of the next step and then the output of this one, while the warps turn this step's
/// scores into probabilities:
///
/// ```text
/// tensor cores   S₀        │ S₁ │ O₀ += P₀ V₀ │ S₂ │ O₁ += P₁ V₁ │ …
/// warps             P₀     │      P₁          │      P₂          │ …
/// ```
#[inline(always)]
pub fn forward<
    K: Kernel,
    const BLOCK_M: u32,
    const BLOCK_N: u32,
    const N_TILES: usize,
    const K_STEPS: usize,
    const STAGES: u32,
>(
    args: &ForwardArgs,
) where
    [FragmentC; N_TILES]: Accumulators,
    OutputStrip<K>: Accumulators + Registers,
{
    const {
        assert!(BLOCK_M.is_multiple_of(WARPGROUP_ROWS) && BLOCK_N == N_TILES as u32 * MMA_N);
        assert!(N_TILES == 2 * K_STEPS && STAGES >= 2);
        assert!(!K::ScoreMod::MODIFIES, "its scores are not changed");
    }
    let threads = const { BLOCK_M / MMA_M * WARP_SIZE };
    let Some(block) = Block::<K>::current(args, BLOCK_M, threads) else { return };
    let lane = Lane::current();
    let warp_row = lane.warp * MMA_M;
    let warpgroup_row = lane.warp / WARPGROUP_WARPS * WARPGROUP_ROWS;
    const { assert!(!K::Mask::HAS_BEGIN, "its steps begin with the first key") };
    let attended = block.attended();
    let steps = attended.steps(BLOCK_N);

    let mut softmax = StripSoftmax::<K>::begin();
    let mut output = [Fragments::zeros(); 1];
    // SAFETY: all threads are here: trip counts depend on the block only. Copies and products follow the order that the
    // pipeline requires: QKᵀ of a step and PV of the previous step are waited for before the next step.
    unsafe {
        let pipeline = Pipeline::<K, BLOCK_M, BLOCK_N, STAGES>::start(block, attended, steps, lane);
        let queries = pipeline.queries();
        pipeline.wait_for_first();
        let mut scores =
            products::start_scores::<K, BLOCK_M, BLOCK_N, N_TILES>(queries, warpgroup_row, pipeline.keys(0))
                .wait::<0>();
        let rows = (attended.position, BLOCK_M);
        apply_mask::<K, 1, N_TILES>(args, &mut scores, rows, warp_row, 0, attended.length, lane);
        if K::GUESSES_SHIFTS {
            let first = [scores[0][0], scores[0][1]];
            softmax.begin_under(guessed_shifts::<K::Element>(&first, args.scale_log2));
        }
        let kind = StepKind { first: true, masked: true };
        let mut probabilities = softmax.take::<N_TILES, K_STEPS>(&mut scores, args.scale_log2, kind, |_, _, _| ());

        let mut step = 0;
        while step + 1 < steps {
            pipeline.wait_for_next();
            pipeline.start_group(step + STAGES);
            let scores_in_flight =
                products::start_scores::<K, BLOCK_M, BLOCK_N, N_TILES>(queries, warpgroup_row, pipeline.keys(step + 1));
            let output_in_flight =
                products::start_output::<K, BLOCK_N, K_STEPS>(output, probabilities, pipeline.values(step));
            scores = scores_in_flight.wait::<1>();
            let key = (step + 1) * BLOCK_N;
            apply_mask::<K, 1, N_TILES>(args, &mut scores, rows, warp_row, key, attended.length, lane);
            let (mut factors, mut is_rescaled) = ([1.0; ROWS_PER_LANE], false);
            let kind = StepKind { first: false, masked: true };
            probabilities = softmax.take(&mut scores, args.scale_log2, kind, |_, r, factor| {
                (factors[r], is_rescaled) = (factor, true);
            });
            (output, _) = output_in_flight.wait::<0>();
            if is_rescaled {
                unrolled!(at most 2; for r in ROWS_PER_LANE => { rescale_row::<K>(&mut output[0], r, factors[r]) });
            }
            // They were packed while products were in flight, so the next product reads copies of them.
            probabilities = wgmma::copied(probabilities);
            step += 1;
        }

        pipeline.wait_for_next();
        (output, _) =
            products::start_output::<K, BLOCK_N, K_STEPS>(output, probabilities, pipeline.values(step)).wait::<0>();
        // Only the warp touches its rows of the Q tile from here on: the last products with Q precede the barrier.
        epilogue::finish::<K, BLOCK_M, 1>(output, softmax.running, queries, warp_row, &block, lane);
    }
}
