//! The loop of a computing warpgroup whose softmax does not overlap with its own products.

use crate::device::forward::sm90::combine;
use crate::device::forward::sm90::epilogue::Normalisers;
use crate::device::forward::sm90::parts::{ComposedKernel, Consumer};
use crate::device::forward::sm90::strip::StripRegisters;
use crate::device::lane::{Lane, ROWS_PER_LANE};
use crate::device::mask::Mask;
use crate::device::order::{self, Order, Step};
use crate::device::ptx::mbarrier;
use crate::device::scores::ScoreMod;
use crate::device::tma::context::Context;
use crate::device::tma::mapped::Mapped;
use crate::device::tma::turns::Turns;
use contract::config::WARPGROUP_WARPS;

/// Products of a warpgroup run beside the softmax of others.
///
/// ```text
/// S = Q K₀ᵀ
/// for each strip:
///     for each step: P from S; O += P V together with S = Q Kᵀ of the next step, be it of another strip or item
///     write O for the storer
/// ```
pub struct BetweenWarpgroups;

impl<K: ComposedKernel> Consumer<K> for BetweenWarpgroups {
    #[inline(always)]
    unsafe fn consume(context: &Context<'_, K>, lane: Lane) {
        let memory = context.memory;
        let warpgroup = lane.warp / WARPGROUP_WARPS;
        // SAFETY: the warpgroup is together: all conditions are uniform over it. Tiles are read between the wait for them and the
        // arrival that releases them.
        unsafe {
            let mut turns = Turns::new(K::TAKES_TURNS, warpgroup, K::WARPGROUPS);
            if K::Sequence::IS_LOOKED_UP {
                turns.begin();
            }
            let Some(mut step) = K::Order::first_strip(context, lane, turns) else {
                if K::Sequence::IS_LOOKED_UP {
                    turns.end();
                }
                if K::SPLITS_KEYS {
                    combine::publish_no_part(memory, lane);
                }
                return;
            };
            if !K::Sequence::IS_LOOKED_UP {
                turns.begin();
            }
            let last_in_turn_from = order::last_in_turn_from(context, warpgroup);
            const {
                assert!(
                    !K::ScoreMod::MODIFIES || K::Mask::HAS_BEGIN,
                    "scores of all steps are changed where all are masked"
                )
            };
            // What it fetches arrives while Q and K do.
            let mut strip = StripRegisters::<K>::new(context, step, lane);
            compute_first_scores(context, &mut strip, step);
            loop {
                strip.guess_shifts(context, step, lane.recomputed());
                // All steps but the last are a separate loop: the handling of the last step would cost every step tests and
                // copies.
                while !step.is_last() {
                    if K::Mask::HAS_BEGIN {
                        let next = step.next(memory);
                        strip.softmax_masked(context, step, Some(next), lane.recomputed());
                    } else {
                        // A tile has as many keys as a strip has rows, so only the last one needs masking.
                        strip.softmax(step);
                    }
                    let next = step.next(memory);
                    wait_for_tile(context, next);
                    strip.start_step(step, next, turns);
                    strip.wait();
                    release(context, step, K::Order::idle_tiles(context, step, false), lane);
                    step = next;
                }
                strip.softmax_masked(context, step, None, lane.recomputed());
                let mut normalisers = [0.0; ROWS_PER_LANE];
                if !K::COMPLETES_AFTER_OUTPUT {
                    normalisers = strip.complete(memory, step, lane.recomputed());
                }
                wait_for_values_of_one_tile(context, step);
                let Some(next) = K::Order::next_strip(context, step) else {
                    strip.start_last_output(step, turns);
                    if step.strip.number == last_in_turn_from {
                        turns.pass_to_first();
                    }
                    strip.wait_for_output::<0>();
                    if K::COMPLETES_AFTER_OUTPUT {
                        normalisers = strip.complete(memory, step, lane.recomputed());
                    }
                    write_strip(context, &mut strip, step, normalisers, lane);
                    release(context, step, K::Order::idle_tiles(context, step, true), lane);
                    let Some(next) = K::Order::resume(context, step, lane, turns) else { break };
                    wait_for_strip(context, next);
                    strip.start_scores(next);
                    strip.begin(context, next, lane);
                    strip.wait_for_scores();
                    step = next;
                    continue;
                };
                wait_for_strip(context, next);
                strip.begin(context, next, lane.recomputed());
                strip.start_last_output(step, turns);
                if next.strip.number == last_in_turn_from {
                    turns.pass_to_first();
                }
                strip.start_next_scores(next);
                strip.wait_for_output::<1>();
                if K::COMPLETES_AFTER_OUTPUT {
                    normalisers = strip.complete(memory, step, lane.recomputed());
                }
                release(context, step, K::Order::idle_tiles(context, step, false), lane);
                write_strip(context, &mut strip, step, normalisers, lane);
                strip.wait_for_scores();
                step = next;
            }
            turns.end();
            if K::SPLITS_KEYS {
                strip.publish_part(memory, lane.recomputed());
            }
        }
    }
}

/// Writes O of the strip whose last step is `step`: to shared memory for the storer, or to global memory. If keys are split, it is
/// written after the loop, when nothing reads K any more.
///
/// # Safety
/// Warp together, after the last PV product of the strip.
#[inline(always)]
pub unsafe fn write_strip<K: ComposedKernel>(
    context: &Context<'_, K>,
    strip: &mut StripRegisters<K>,
    step: Step<K>,
    normalisers: Normalisers,
    lane: Lane,
) {
    // SAFETY: as promised to this function.
    unsafe {
        if K::SPLITS_KEYS {
            return;
        }
        strip.finish(context.memory, step, normalisers, lane.recomputed());
    }
}

/// Releases the stage of `step`, if the warpgroup does not return to its tile, then those of the next `idle` tiles, which it does not read.
///
/// # Safety
/// Warpgroup together after the products of the step have completed, once per step, in order.
#[inline(always)]
pub unsafe fn release<K: ComposedKernel>(context: &Context<'_, K>, step: Step<K>, mut idle: u32, lane: Lane) {
    let (memory, mut ring) = (context.memory, step.ring);
    // The others' turns pass through this warpgroup, too.
    let turns = Turns::new(K::TAKES_TURNS, lane.warp / WARPGROUP_WARPS, K::WARPGROUPS);
    // SAFETY: warpgroup together, and does not read the tiles again. It takes one turn per tile, like those that compute.
    unsafe {
        if !K::HOLDS_HEADS || step.strip.releases != 0 {
            ring.release(memory, lane.index);
        }
        while idle > 0 {
            ring = ring.advance(1);
            ring.pass_over(memory, turns, lane.index);
            idle -= 1;
        }
    }
}

/// Waits until K and V of the step have arrived; of the block's first step V alone, if that [comes apart](crate::device::tma::kernel::TmaKernel::FIRST_VALUES_APART).
///
/// # Safety
/// Warpgroup together, for the steps in order.
#[inline(always)]
pub unsafe fn wait_for_tile<K: ComposedKernel>(context: &Context<'_, K>, step: Step<K>) {
    // SAFETY: an initialised mbarrier.
    unsafe { step.ring.wait(context.memory) };
}

/// Computes S of the block's first step.
///
/// # Safety
/// Warpgroup together, with no product in flight.
#[inline(always)]
pub unsafe fn compute_first_scores<K: ComposedKernel>(
    context: &Context<'_, K>,
    strip: &mut StripRegisters<K>,
    step: Step<K>,
) {
    // SAFETY: initialised mbarriers; Q and K have arrived behind the waits.
    unsafe {
        if !K::FIRST_VALUES_APART {
            wait_for_tile(context, step);
        }
        mbarrier::wait(context.memory.strip_full(step.strip.place), step.strip.parity);
        strip.start_scores(step);
        strip.wait();
        if K::FIRST_VALUES_APART && !step.is_last() {
            wait_for_tile(context, step);
        }
    }
}

/// Waits until V of the block's first step has arrived, if it is the only one of its strip: [`compute_first_scores`] leaves that to
/// the caller, whose softmax comes before.
///
/// # Safety
/// Warpgroup together, for the steps in order.
#[inline(always)]
pub unsafe fn wait_for_values_of_one_tile<K: ComposedKernel>(context: &Context<'_, K>, step: Step<K>) {
    if K::FIRST_VALUES_APART && step.is_first() {
        // SAFETY: as promised to this function.
        unsafe { wait_for_tile(context, step) };
    }
}

/// Waits until K and V of the step, the first of a strip, and its Q have arrived.
///
/// # Safety
/// Warpgroup together, for the steps in order.
#[inline(always)]
pub unsafe fn wait_for_strip<K: ComposedKernel>(context: &Context<'_, K>, step: Step<K>) {
    // SAFETY: initialised mbarriers.
    unsafe {
        wait_for_tile(context, step);
        mbarrier::wait(context.memory.strip_full(step.strip.place), step.strip.parity);
    }
}
