//! The loop of a computing warpgroup whose softmax overlaps with its own PV products ([`contract::tile::Overlap`]).

use crate::device::forward::sm90::combine;
use crate::device::forward::sm90::consumer::{
    compute_first_scores, release, wait_for_strip, wait_for_tile, wait_for_values_of_one_tile, write_strip,
};
use crate::device::forward::sm90::epilogue::Normalisers;
use crate::device::forward::sm90::parts::{ComposedKernel, Consumer};
use crate::device::forward::sm90::strip::StripRegisters;
use crate::device::lane::{Lane, ROWS_PER_LANE};
use crate::device::mask::Mask;
use crate::device::order::{self, Order, Step};
use crate::device::softmax::AddedSums;
use crate::device::tma::context::Context;
use crate::device::tma::turns::Turns;
use contract::config::WARPGROUP_WARPS;

/// Products of O run beside the softmax of the same warpgroup.
///
/// ```text
/// S = Q K₀ᵀ
/// for each strip:
///     for each step: p from S, while O += P V of the step before is computed
///                    S = Q Kᵀ of the next step, be it of another strip or item, then O += P V
///     write O for the storer, behind the first softmax of the next strip where the overlap goes across strips
/// ```
pub struct WithinWarpgroup;

impl<K: ComposedKernel<Softmax = AddedSums<K>>> Consumer<K> for WithinWarpgroup {
    #[inline(always)]
    unsafe fn consume(context: &Context<'_, K>, lane: Lane) {
        let memory = context.memory;
        let turns = Turns::new(false, lane.warp / WARPGROUP_WARPS, K::WARPGROUPS);
        // SAFETY: the warpgroup is together: all conditions are uniform over it. Tiles are read between the wait for them and the
        // arrival that releases them.
        unsafe {
            let Some(mut step) = K::Order::first_strip(context, lane, turns) else {
                if K::SPLITS_KEYS {
                    combine::publish_no_part(memory, lane);
                }
                return;
            };
            let mut strip = StripRegisters::<K>::new(context, step, lane);
            compute_first_scores(context, &mut strip, step);
            let mut in_flight = InFlight::none(step);
            loop {
                strip.guess_shifts(context, step, lane.recomputed());
                while !step.is_last() {
                    let next = step.next(memory);
                    if K::Mask::HAS_BEGIN {
                        strip.mask(context, step, Some(next), lane.recomputed());
                    }
                    let rescale = strip.softmax_ahead(step, K::Mask::HAS_BEGIN);
                    in_flight.finish(context, &mut strip, lane);
                    wait_for_tile(context, next);
                    strip.apply_rescale(rescale);
                    strip.start_ahead(step, next);
                    in_flight = InFlight::of_step(step);
                    step = next;
                }
                strip.mask(context, step, None, lane.recomputed());
                let rescale = strip.softmax_ahead(step, true);
                // Before the wait for the next strip, whose place may be the one that this releases.
                in_flight.finish(context, &mut strip, lane);
                let normalisers = strip.complete(memory, step, lane.recomputed());
                wait_for_values_of_one_tile(context, step);
                let next = K::Order::next_strip(context, step);
                if let Some(next) = next {
                    wait_for_strip(context, next);
                    strip.begin(context, next, lane.recomputed());
                }
                strip.apply_rescale(rescale);
                let Some(next) = next else {
                    strip.start_last_output(step, turns);
                    if K::Mask::ALL_KEYS {
                        // Unused, and from K, since O is replacing Q meanwhile. Without them ptxas makes the other steps up to 2 % slower.
                        strip.start_next_scores(Step {
                            strip: order::Strip { queries: step.keys, ..step.strip },
                            ..step
                        });
                        strip.wait_for_output::<1>();
                        write_strip(context, &mut strip, step, normalisers, lane);
                        strip.wait_for_scores();
                    } else {
                        strip.wait_for_output::<0>();
                        write_strip(context, &mut strip, step, normalisers, lane);
                    }
                    release(context, step, K::Order::idle_tiles(context, step, true), lane);
                    let Some(next) = K::Order::resume(context, step, lane, turns) else { break };
                    wait_for_strip(context, next);
                    strip.start_scores(next);
                    strip.begin(context, next, lane);
                    strip.wait_for_scores();
                    in_flight = InFlight::none(next);
                    step = next;
                    continue;
                };
                if K::OVERLAPS_STRIPS {
                    strip.start_ahead(step, next);
                    in_flight = InFlight::of_strip(step, normalisers);
                } else {
                    strip.start_last_output(step, turns);
                    strip.start_next_scores(next);
                    strip.wait_for_output::<1>();
                    release(context, step, K::Order::idle_tiles(context, step, false), lane);
                    write_strip(context, &mut strip, step, normalisers, lane);
                    strip.wait_for_scores();
                    in_flight = InFlight::none(step);
                }
                step = next;
            }
            if K::SPLITS_KEYS {
                strip.publish_part(memory, lane.recomputed());
            }
        }
    }
}

/// A step whose PV product is in flight while the softmax of the next one is computed.
#[derive(Clone, Copy)]
struct InFlight<K: ComposedKernel> {
    step: Step<K>,
    /// The factors that normalise O of its strip, if it is the last step.
    normalisers: Normalisers,
    /// 1 if there is such a step, else 0.
    // No `Option`, which would leave the step undefined if there is none.
    is_some: u32,
}

impl<K: ComposedKernel> InFlight<K> {
    /// No step; `step` is arbitrary.
    #[inline(always)]
    fn none(step: Step<K>) -> Self {
        Self { step, normalisers: [0.0; ROWS_PER_LANE], is_some: 0 }
    }

    /// A step that is not the last of its strip.
    #[inline(always)]
    fn of_step(step: Step<K>) -> Self {
        Self { is_some: 1, ..Self::none(step) }
    }

    /// The last step of a strip.
    #[inline(always)]
    fn of_strip(step: Step<K>, normalisers: Normalisers) -> Self {
        Self { step, normalisers, is_some: 1 }
    }

    /// Waits for the product and releases what the step has read; after the last step of a strip, also writes O.
    ///
    /// # Safety
    /// Warpgroup together, with no other product in flight.
    #[inline(always)]
    unsafe fn finish(self, context: &Context<'_, K>, strip: &mut StripRegisters<K>, lane: Lane) {
        // SAFETY: warpgroup together; after the wait the product is complete, once per step, in order.
        unsafe {
            strip.wait_for_output::<0>();
            if self.is_some == 0 {
                return;
            }
            release(context, self.step, K::Order::idle_tiles(context, self.step, false), lane);
            if K::OVERLAPS_STRIPS && self.step.is_last() {
                write_strip(context, strip, self.step, self.normalisers, lane);
            }
        }
    }
}
