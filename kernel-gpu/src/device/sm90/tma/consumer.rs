//! What a warpgroup that computes does.

use super::{Context, KEYS, ROWS, Rows};
use super::order::{Order, Step};
use super::strip::Strip;
use super::turns::Turns;
use crate::device::attention::Lane;
use crate::device::attention::mask::Mask;
use crate::device::attention::sequence::Sequence;
use crate::device::ptx::{mbarrier, memory, proxy, sync};
use crate::shared_tile::CHUNK_BYTES;
use contract::config::{ROW_BYTES, WARP_SIZE, WARPGROUP_WARPS};

/// Computes the warpgroup's strips of all work items of the block.
///
/// ```text
/// S = Q K₀ᵀ
/// for each strip:
///     for each step: P from S; O += P V together with S = Q Kᵀ of the next step, be it of another strip or item
///     leave O to the warp that stores it
/// ```
///
/// # Safety
/// All warps of the warpgroup call this together, once; `lane.warp` is the same in all lanes.
#[inline(always)]
pub unsafe fn consume<
    const WARPGROUPS: u32,
    const STAGES: u32,
    const RESCALE_THRESHOLD: u32,
    const EXCHANGE: bool,
    S: Sequence,
    M: Mask,
    O: Order<M>,
>(
    context: &Context<'_, WARPGROUPS, STAGES>,
    lane: Lane,
) {
    let memory = context.memory;
    let warpgroup = lane.warp / WARPGROUP_WARPS;
    let Some(mut step) = O::first(context, warpgroup) else { return };
    // SAFETY: the warpgroup is together: all that decides is the same for it. Tiles are read between the wait for them and
    // the arrival that gives them back.
    unsafe {
        // Under a mask that leaves some of them work between their products that others do not have, warpgroups would wait
        // for each other.
        let mut turns = Turns::begin(const { WARPGROUPS > 1 && M::ALL_KEYS }, warpgroup, WARPGROUPS);
        let last_in_turn_from = O::last_in_turn_from(context, warpgroup);
        let mut strip = Strip::<RESCALE_THRESHOLD>::new(context.args.scale_log2);
        wait_for_strip(context, step);
        clear_queries_of_others::<WARPGROUPS, STAGES, S>(context, step, lane);
        strip.start_scores(step);
        strip.wait();
        loop {
            // The steps but the last have a loop of their own: what follows from being the last one would cost each of
            // them tests and copies.
            while !step.is_last() {
                strip.take(step);
                let next = O::next_tile(memory, step);
                wait_for_tile(context, next);
                strip.start_step(step, next, turns);
                strip.wait();
                O::leave(context, step, lane);
                step = next;
            }
            clear_values_of_others::<WARPGROUPS, STAGES, S>(context, step, lane);
            strip.take_last::<M, S>(step, step.length, lane.again());
            let normalisers = strip.complete(memory, step, lane.again());
            // Behind the last step of all, scores are computed that nobody reads: of K, as O takes the place of Q meanwhile.
            let next = O::next_strip(context, step);
            if let Some(next) = next {
                wait_for_strip(context, next);
                clear_queries_of_others::<WARPGROUPS, STAGES, S>(context, next, lane);
            }
            let (is_last, next) = (next.is_none(), next.unwrap_or(Step { queries: step.keys, ..step }));
            strip.start_last_output(step, turns);
            if next.number == last_in_turn_from {
                turns.pass_to_first();
            }
            strip.start_next_scores(next);
            strip.wait_for_output();
            if !is_last {
                O::leave(context, step, lane);
            }
            if EXCHANGE {
                strip.store::<WARPGROUPS, STAGES, S>(context, O::copy_of(context, step), normalisers, lane.again());
            } else {
                strip.finish(memory, step, normalisers, lane.again());
            }
            strip.wait_for_scores();
            // Those scores have read K only now.
            if is_last {
                O::leave(context, step, lane);
                break;
            }
            step = next;
        }
        turns.end();
    }
}

/// Waits until K and V of the step have arrived.
///
/// # Safety
/// All warps of the warpgroup call this together, for the steps in order.
#[inline(always)]
unsafe fn wait_for_tile<const WARPGROUPS: u32, const STAGES: u32>(
    context: &Context<'_, WARPGROUPS, STAGES>,
    step: Step,
) {
    // SAFETY: an initialised mbarrier; passed on to the caller.
    unsafe { mbarrier::wait(context.memory.stage_full(step.stage), step.stage_parity) };
}

/// Waits until K and V of the step, the first of a strip, and its Q have arrived.
///
/// # Safety
/// As for [`wait_for_tile`].
#[inline(always)]
unsafe fn wait_for_strip<const WARPGROUPS: u32, const STAGES: u32>(
    context: &Context<'_, WARPGROUPS, STAGES>,
    step: Step,
) {
    // SAFETY: initialised mbarriers; passed on to the caller.
    unsafe {
        wait_for_tile(context, step);
        mbarrier::wait(context.memory.strip_full(step.strip), step.strip_parity);
    }
}

/// Makes zeros of the rows of Q that belong to the next sequence: their scores would decide how those of the own rows of the
/// same warp are computed.
///
/// # Safety
/// All warps of the warpgroup call this together, when Q of the strip has arrived and before a product reads it.
#[inline(always)]
unsafe fn clear_queries_of_others<const WARPGROUPS: u32, const STAGES: u32, S: Sequence>(
    context: &Context<'_, WARPGROUPS, STAGES>,
    step: Step,
    lane: Lane,
) {
    if S::HAS_NEIGHBOURS {
        // SAFETY: passed on to the caller.
        unsafe { clear_from::<WARPGROUPS, S>(context.memory.strip(step.strip), step.length - step.first_row, lane) };
    }
}

/// Makes zeros of the rows of V that belong to the next sequence: the probabilities of their keys are 0, and 0 · ∞ is NaN.
///
/// # Safety
/// As for [`clear_queries_of_others`], for V of the strip's last tile.
#[inline(always)]
unsafe fn clear_values_of_others<const WARPGROUPS: u32, const STAGES: u32, S: Sequence>(
    context: &Context<'_, WARPGROUPS, STAGES>,
    step: Step,
    lane: Lane,
) {
    if S::HAS_NEIGHBOURS {
        // SAFETY: passed on to the caller.
        unsafe { clear_from::<WARPGROUPS, S>(context.memory.values(step.stage), step.length - step.tile * KEYS, lane) };
    }
}

/// Makes zeros of the rows of a tile from `row` on, where there are any, for the products that follow.
///
/// # Safety
/// All warps of the warpgroup, the block's only one, call this together; nobody else accesses the tile.
#[inline(always)]
unsafe fn clear_from<const WARPGROUPS: u32, S: Sequence>(tile: Rows, row: u32, lane: Lane) {
    const { assert!(WARPGROUPS == 1 || !S::HAS_NEIGHBOURS, "others would read what is being cleared") };
    const THREADS: u32 = WARPGROUP_WARPS * WARP_SIZE;
    /// A barrier of the block's that nobody else uses: one warpgroup takes no turns.
    const BARRIER: u32 = 1;
    if row >= ROWS {
        return;
    }
    // Rows lie one behind the other, and how a row's chunks are swizzled does not matter.
    let mut byte = row * ROW_BYTES + (lane.warp * WARP_SIZE + lane.index) * CHUNK_BYTES;
    // SAFETY: chunks of the tile; the fence and the barrier order the zeros before the products of all warps.
    unsafe {
        while byte < Rows::BYTES {
            memory::clear_shared_16(tile.chunk(0, 0) + byte);
            byte += THREADS * CHUNK_BYTES;
        }
        proxy::fence_async_shared();
        sync::some::<THREADS>(BARRIER);
    }
}
