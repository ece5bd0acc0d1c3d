//! What a warpgroup that computes does.

use super::order::{Order, Step};
use super::strip::Strip;
use super::{Context, ROWS};
use crate::config::WARPGROUP_WARPS;
use crate::device::attention::Lane;
use crate::device::attention::block::Block;
use crate::device::attention::mask::Mask;
use crate::device::attention::sequence::Sequence;
use crate::device::ptx::mbarrier;

/// Computes the warpgroup's strips of all work items of the block.
///
/// ```text
/// S = Q K₀ᵀ
/// for each step: P from S; O += P V together with S = Q Kᵀ of the next step, be it of another strip or item;
///     behind the last step of a strip: store O
/// ```
///
/// # Safety
/// All warps of the warpgroup call this together, once; `lane.warp` is the same in all lanes.
#[inline(always)]
pub unsafe fn consume<const WARPGROUPS: u32, const STAGES: u32, S: Sequence, M: Mask, O: Order<M>>(
    context: &Context<'_, WARPGROUPS, STAGES>,
    lane: Lane,
) {
    let memory = context.memory;
    let Some(mut step) = O::first(context, lane.warp / WARPGROUP_WARPS) else { return };
    // SAFETY: the warpgroup is together: all that decides is the same for it. Tiles are read between the wait for them and
    // the arrival that gives them back.
    unsafe {
        let mut strip = Strip::new(context.args.scale_log2);
        wait_for_tiles(context, step);
        strip.start_scores(step);
        strip.wait();
        loop {
            let block = Block::<S>::of(context.args, context.args.block_work(step.item), step.first_row, ROWS, 0);
            strip.take::<M, S>(step, &block, lane.again());
            let next =
                if step.is_last() { O::next_strip(context, step) } else { Some(O::next_tile(context.memory, step)) };
            if let Some(next) = next {
                wait_for_tiles(context, next);
            }
            // Behind the last step its scores are computed once more, which nobody reads.
            strip.start_step(step, next.unwrap_or(step));
            strip.wait();
            O::leave(context, step, lane);
            if step.is_last() {
                let empty = memory.strip_empty(step.strip);
                strip.finish(memory.strip(step.strip), empty, &block, lane.again());
            }
            let Some(next) = next else { return };
            step = next;
        }
    }
}

/// Waits until K and V of the step, and Q at the beginning of a strip, have arrived.
///
/// # Safety
/// All warps of the warpgroup call this together, for the steps in order.
#[inline(always)]
unsafe fn wait_for_tiles<const WARPGROUPS: u32, const STAGES: u32>(
    context: &Context<'_, WARPGROUPS, STAGES>,
    step: Step,
) {
    // SAFETY: initialised mbarriers; passed on to the caller.
    unsafe {
        mbarrier::wait(context.memory.stage_full(step.stage), step.stage_parity);
        if step.is_first() {
            mbarrier::wait(context.memory.strip_full(step.strip), step.strip_parity);
        }
    }
}
