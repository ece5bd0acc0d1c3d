//! The loop of a warpgroup over the steps of an item.
//!
//! ```text
//! S, dP of the first step; P, dS from both
//! for each further step:
//!     start S, dP of the step; start gradients += products of P and dS of the step before
//!     P, dS from S and dP, while the gradients are computed
//! gradients += products of P and dS of the last step
//! ```
//!
//! With wide rows, for which registers do not suffice:
//!
//! ```text
//! S of the first step
//! for each step:
//!     start dP; P from S; dS from P and dP
//!     gradients += products of P and dS, together with S of the next step; meanwhile, hand dS over for dQ
//! ```

use super::handover;
use super::items::{Step, Steps};
use super::kernel::{K_STEPS, Sm90Backward};
use super::memory::Memory;
use super::ring::{Place, Places, arrive_together};
use crate::device::lane::Lane;
use crate::device::ptx::{mbarrier, wgmma};
use crate::device::tma::turns::Turns;

/// Rows of a warpgroup, and what it accumulates for them.
///
/// Each function that starts products is called by the whole warpgroup. Its registers are not in flight; the stage has arrived, and is not
/// overwritten before a wait.
pub trait Strip<K: Sm90Backward> {
    /// Whether the step contributes to any of the rows.
    fn has(&self, step: Step) -> bool;

    /// Starts loading what changes the scores of a step, long before it is needed.
    ///
    /// # Safety
    /// Warp together, after [`Self::probabilities`] of the step before.
    unsafe fn fetch(&mut self, step: Step);

    /// Starts S of a step, as part of a group.
    ///
    /// # Safety
    /// As for all of these, behind a fence.
    unsafe fn start_scores(&mut self, memory: Memory<K>, stage: Place);

    /// Pins the registers that [`Self::start_scores`] reads.
    fn pin_read_scores(&mut self);

    /// Pins the registers of [`Self::start_scores`] behind it.
    fn pin_scores(&mut self);

    /// Starts dP of a step, as part of a group.
    ///
    /// # Safety
    /// As for all of these, behind a fence.
    unsafe fn start_d_p(&mut self, memory: Memory<K>, stage: Place);

    /// Pins the registers that [`Self::start_d_p`] reads.
    fn pin_read_d_p(&mut self);

    /// Pins the registers of [`Self::start_d_p`] behind it.
    fn pin_d_p(&mut self);

    /// Starts loading LSE of the step's queries long before it is needed, where steps [overlap](Sm90Backward::OVERLAPS_STEPS).
    ///
    /// # Safety
    /// Warp together; the statistics of the stage are computed.
    unsafe fn load_lse(&mut self, memory: Memory<K>, stage: Place);

    /// Computes P of a step from S. If scores are changed, rounds P to elements, and multiplies it by the derivatives of what changes them.
    ///
    /// # Safety
    /// Warp together, with no S in flight; after [`Self::fetch`], and where steps overlap, after [`Self::load_lse`].
    unsafe fn probabilities(&mut self, memory: Memory<K>, stage: Place, step: Step);

    /// Computes dS of a step from P and dP.
    ///
    /// # Safety
    /// Warp together, with no dP in flight; the statistics of the stage are computed.
    unsafe fn differentiate(&mut self, memory: Memory<K>, stage: Place);

    /// Rounds P and dS to elements, the operands of [`Self::start_gradients`].
    fn pack(&mut self);

    /// Hands dS over to the warpgroup that computes dQ, if there is one; without, steps may overlap.
    ///
    /// # Safety
    /// Warpgroup together, once for each step, in order, with no products in flight that write dS.
    unsafe fn hand_over(&mut self, _memory: Memory<K>, _places: &Places) {}

    /// Starts the products that accumulate gradients, as part of a group.
    ///
    /// # Safety
    /// As for all of these, behind a fence.
    unsafe fn start_gradients(&mut self, memory: Memory<K>, stage: Place);

    /// Pins the registers of [`Self::start_gradients`].
    fn pin_gradients(&mut self);

    /// Accumulates the contributions of the steps from `step` on that follow one another. Returns the first step behind them.
    ///
    /// # Safety
    /// Warpgroup together, for the steps in order.
    #[inline(always)]
    unsafe fn accumulate_following(
        &mut self,
        step: Step,
        steps: &mut Steps,
        places: &mut Places,
        memory: Memory<K>,
        turns: Turns,
        lane: Lane,
    ) -> Option<Step>
    where
        Self: Sized,
    {
        // SAFETY: as promised to this function.
        unsafe { accumulate_following(self, step, steps, places, memory, turns, lane) }
    }
}

/// Accumulates the contributions of `steps`. Where steps overlap, each takes a turn.
///
/// Nothing is in flight where paths join: the compiler would move registers there.
///
/// # Safety
/// Warpgroup together, for the items in order.
#[inline(always)]
pub unsafe fn accumulate<K: Sm90Backward, S: Strip<K>>(
    strip: &mut S,
    mut steps: Steps,
    places: &mut Places,
    memory: Memory<K>,
    turns: Turns,
    lane: Lane,
) {
    let mut next = steps.next();
    while let Some(first) = next {
        // SAFETY: warpgroup together: all conditions are uniform over it.
        unsafe {
            if strip.has(first) {
                next = strip.accumulate_following(first, &mut steps, places, memory, turns, lane);
            } else {
                pass_over(places, memory, turns, lane);
                next = steps.next();
            }
        }
    }
}

/// [`Strip::accumulate_following`] with the products that accumulate gradients in one group.
///
/// # Safety
/// As for [`Strip::accumulate_following`].
#[inline(always)]
pub unsafe fn accumulate_following<K: Sm90Backward, S: Strip<K>>(
    strip: &mut S,
    step: Step,
    steps: &mut Steps,
    places: &mut Places,
    memory: Memory<K>,
    turns: Turns,
    lane: Lane,
) -> Option<Step> {
    // SAFETY: the caller's promise.
    unsafe {
        if K::OVERLAPS_STEPS {
            accumulate_overlapping(strip, step, steps, places, memory, turns, lane)
        } else {
            accumulate_wide(strip, step, steps, places, memory, turns, lane)
        }
    }
}

/// [`accumulate_following`], a step's products beside the computation of the next one's P and dS.
///
/// # Safety
/// As for [`accumulate_following`].
#[inline(always)]
unsafe fn accumulate_overlapping<K: Sm90Backward, S: Strip<K>>(
    strip: &mut S,
    mut step: Step,
    steps: &mut Steps,
    places: &mut Places,
    memory: Memory<K>,
    turns: Turns,
    lane: Lane,
) -> Option<Step> {
    // SAFETY: warpgroup together. Stages are read between the wait for them and their release.
    unsafe {
        let mut stage = places.stage;
        mbarrier::wait(memory.stage_full(stage), stage.parity);
        turns.wait();
        strip.pin_read_scores();
        strip.pin_read_d_p();
        wgmma::fence();
        strip.start_scores(memory, stage);
        strip.start_d_p(memory, stage);
        wgmma::commit_group();
        turns.pass();
        // Also of a stage without statistics, so that no thread is a phase ahead.
        mbarrier::wait(memory.computed(stage), stage.parity);
        strip.load_lse(memory, stage);
        wgmma::wait_group::<0>();
        strip.pin_scores();
        strip.pin_d_p();
        strip.probabilities(memory, stage, step);
        strip.differentiate(memory, stage);
        strip.pack();
        places.next_step::<K>();
        let mut next = steps.next();
        while let Some(following) = next {
            if !strip.has(following) {
                break;
            }
            step = following;
            let before = stage;
            stage = places.stage;
            mbarrier::wait(memory.stage_full(stage), stage.parity);
            turns.wait();
            strip.pin_read_scores();
            strip.pin_read_d_p();
            strip.pin_gradients();
            wgmma::fence();
            strip.start_scores(memory, stage);
            strip.start_d_p(memory, stage);
            wgmma::commit_group();
            strip.start_gradients(memory, before);
            wgmma::commit_group();
            turns.pass();
            mbarrier::wait(memory.computed(stage), stage.parity);
            strip.load_lse(memory, stage);
            wgmma::wait_group::<1>();
            strip.pin_scores();
            strip.pin_d_p();
            strip.probabilities(memory, stage, step);
            strip.differentiate(memory, stage);
            wgmma::wait_group::<0>();
            strip.pin_gradients();
            release(memory, before, lane.index);
            strip.pack();
            places.next_step::<K>();
            next = steps.next();
        }
        strip.pin_gradients();
        wgmma::fence();
        strip.start_gradients(memory, stage);
        wgmma::commit_group();
        wgmma::wait_group::<0>();
        strip.pin_gradients();
        release(memory, stage, lane.index);
        next
    }
}

/// [`accumulate_following`] with few registers.
///
/// # Safety
/// As for [`accumulate_following`].
#[inline(always)]
unsafe fn accumulate_wide<K: Sm90Backward, S: Strip<K>>(
    strip: &mut S,
    mut step: Step,
    steps: &mut Steps,
    places: &mut Places,
    memory: Memory<K>,
    turns: Turns,
    lane: Lane,
) -> Option<Step> {
    // SAFETY: warpgroup together. Stages are read between the wait for them and their release.
    unsafe {
        strip.fetch(step);
        mbarrier::wait(memory.stage_full(places.stage), places.stage.parity);
        turns.wait();
        strip.pin_read_scores();
        wgmma::fence();
        strip.start_scores(memory, places.stage);
        wgmma::commit_group();
        turns.pass();
        wgmma::wait_group::<0>();
        strip.pin_scores();
        let mut stage;
        let mut handed;
        let next = loop {
            stage = places.stage;
            strip.pin_read_d_p();
            wgmma::fence();
            strip.start_d_p(memory, stage);
            wgmma::commit_group();
            mbarrier::wait(memory.computed(stage), stage.parity);
            strip.probabilities(memory, stage, step);
            wgmma::wait_group::<0>();
            strip.pin_d_p();
            strip.differentiate(memory, stage);
            strip.pack();
            handed = *places;
            places.next_step::<K>();
            let next = steps.next();
            let Some(following) = next else { break next };
            if !strip.has(following) {
                break next;
            }
            strip.fetch(following);
            mbarrier::wait(memory.stage_full(places.stage), places.stage.parity);
            turns.wait();
            strip.pin_gradients();
            strip.pin_read_scores();
            wgmma::fence();
            strip.start_gradients(memory, stage);
            strip.start_scores(memory, places.stage);
            wgmma::commit_group();
            turns.pass();
            strip.hand_over(memory, &handed);
            wgmma::wait_group::<0>();
            strip.pin_gradients();
            strip.pin_scores();
            release(memory, stage, lane.index);
            step = following;
        };
        strip.pin_gradients();
        wgmma::fence();
        strip.start_gradients(memory, stage);
        wgmma::commit_group();
        strip.hand_over(memory, &handed);
        wgmma::wait_group::<0>();
        strip.pin_gradients();
        release(memory, stage, lane.index);
        next
    }
}

/// Releases the stage of a step that the warpgroup does not read, when it has arrived: until then the mbarrier may still count arrivals for the
/// step before.
///
/// # Safety
/// Warp together, for the steps in order.
#[inline(always)]
pub unsafe fn pass_over<K: Sm90Backward>(places: &mut Places, memory: Memory<K>, turns: Turns, lane: Lane) {
    // SAFETY: initialised mbarriers.
    unsafe {
        mbarrier::wait(memory.stage_full(places.stage), places.stage.parity);
        if !K::SUMS_IN_WORKSPACE {
            mbarrier::wait(memory.computed(places.stage), places.stage.parity);
        }
        turns.wait();
        turns.pass();
        handover::hand_over(memory, places.d_s.place(), &[[0; 4]; K_STEPS], lane);
        release(memory, places.stage, lane.index);
    }
    places.next_step::<K>();
}

/// Releases a stage for the warp, which does not read it again.
///
/// # Safety
/// Warp together, once for the step, in order.
#[inline(always)]
pub unsafe fn release<K: Sm90Backward>(memory: Memory<K>, stage: Place, lane_index: u32) {
    // SAFETY: warp together; the warp's one arrival.
    unsafe { arrive_together(memory.stage_empty(stage), lane_index) };
}
