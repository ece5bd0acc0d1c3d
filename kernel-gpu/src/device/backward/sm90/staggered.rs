//! The loop of a warpgroup over the steps of an item of keys whose dS is handed over.
//!
//! ```text
//! S of the first step
//! for each step:
//!     P from S, while dK of the step before is computed
//!     start dP; start dV += P·dO
//!     dS from P and dP, while dV is computed; hand dS over
//!     start S of the next step; start dK += dS·Q
//! ```
//!
//! With [registers](Sm90Backward::STARTS_D_P_EARLY) for dP beside P, it starts together with S: nobody waits for it.
//!
//! dK reads dS where it was handed over, so that no registers hold it meanwhile.

use super::items::{Step, Steps};
use super::kernel::Sm90Backward;
use super::memory::Memory;
use super::ring::{Place, Places};
use super::strip::{Strip, release};
use crate::device::lane::Lane;
use crate::device::ptx::mbarrier;
use crate::device::ptx::wgmma;
use crate::device::tma::turns::Turns;

/// Keys of a warpgroup, whose products start one by one. As for [`Strip`].
pub trait Staggered<K: Sm90Backward>: Strip<K> {
    /// Rounds P to elements.
    fn pack_p(&mut self);

    /// Rounds dS to elements.
    fn pack_d_s(&mut self);

    /// Starts dV += Pᵀ·dO, as part of a group.
    ///
    /// # Safety
    /// As for all of [`Strip`], behind a fence.
    unsafe fn start_dv(&mut self, memory: Memory<K>, stage: Place);

    /// Starts dK += dSᵀ·Q, as part of a group.
    ///
    /// # Safety
    /// As for all of [`Strip`], behind a fence; dS is at place `d_s`, and is not overwritten before a wait.
    unsafe fn start_dk(&mut self, memory: Memory<K>, stage: Place, d_s: Place);

    /// Pins the registers of [`Self::start_dv`].
    fn pin_dv(&mut self);

    /// Pins the registers of [`Self::start_dk`].
    fn pin_dk(&mut self);
}

/// [`Strip::accumulate_following`]. Nothing is in flight where paths join: the compiler would move registers there.
///
/// # Safety
/// As for [`Strip::accumulate_following`].
#[inline(always)]
pub unsafe fn accumulate_following<K: Sm90Backward, S: Staggered<K>>(
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
        start_scores(strip, memory, stage, None, turns);
        wgmma::wait_group::<0>();
        strip.pin_scores();
        start_dv(strip, memory, stage, step);
        wgmma::wait_group::<1>();
        strip.pin_d_p();
        hand_over(strip, memory, places, stage);
        let next = loop {
            let before = (stage, places.d_s.place());
            places.next_step::<K>();
            let next = steps.next();
            let following = match next {
                Some(following) if strip.has(following) => following,
                _ => {
                    finish(strip, memory, before);
                    break next;
                }
            };
            (step, stage) = (following, places.stage);
            start_scores(strip, memory, stage, Some(before), turns);
            if K::STARTS_D_P_EARLY {
                wgmma::wait_group::<2>();
            } else {
                wgmma::wait_group::<1>();
            }
            strip.pin_scores();
            start_dv(strip, memory, stage, step);
            wgmma::wait_group::<1>();
            strip.pin_d_p();
            strip.pin_dk();
            release(memory, before.0, lane.index);
            hand_over(strip, memory, places, stage);
        };
        // The last step's, whose dK is complete.
        release(memory, stage, lane.index);
        next
    }
}

/// Starts S of a stage when it has arrived, and dK of the step before with its stage and dS, if there is one; each a group.
///
/// # Safety
/// As for [`accumulate_following`], with nothing in flight.
#[inline(always)]
unsafe fn start_scores<K: Sm90Backward, S: Staggered<K>>(
    strip: &mut S,
    memory: Memory<K>,
    stage: Place,
    before: Option<(Place, Place)>,
    turns: Turns,
) {
    // SAFETY: as promised to this function.
    unsafe {
        mbarrier::wait(memory.stage_full(stage), stage.parity);
        turns.wait();
        // Also in the beginning: the compiler would move S away for them.
        strip.pin_dv();
        strip.pin_dk();
        strip.pin_read_scores();
        if K::STARTS_D_P_EARLY {
            strip.pin_read_d_p();
        }
        wgmma::fence();
        strip.start_scores(memory, stage);
        wgmma::commit_group();
        if K::STARTS_D_P_EARLY {
            strip.start_d_p(memory, stage);
            wgmma::commit_group();
        }
        if let Some((before, d_s)) = before {
            strip.start_dk(memory, before, d_s);
            wgmma::commit_group();
        }
        turns.pass();
    }
}

/// Computes P from S, and starts dP and dV, each a group.
///
/// # Safety
/// As for [`accumulate_following`], with neither in flight.
#[inline(always)]
unsafe fn start_dv<K: Sm90Backward, S: Staggered<K>>(strip: &mut S, memory: Memory<K>, stage: Place, step: Step) {
    // SAFETY: as promised to this function.
    unsafe {
        strip.probabilities(memory, stage, step);
        strip.pack_p();
        strip.pin_dv();
        if !K::STARTS_D_P_EARLY {
            strip.pin_read_d_p();
        }
        wgmma::fence();
        if !K::STARTS_D_P_EARLY {
            strip.start_d_p(memory, stage);
            wgmma::commit_group();
        }
        strip.start_dv(memory, stage);
        wgmma::commit_group();
    }
}

/// Computes dS from P and dP, and hands it over; then waits for dV.
///
/// # Safety
/// As for [`accumulate_following`], with dP complete.
#[inline(always)]
unsafe fn hand_over<K: Sm90Backward, S: Staggered<K>>(strip: &mut S, memory: Memory<K>, places: &Places, stage: Place) {
    // SAFETY: as promised to this function.
    unsafe {
        strip.differentiate(memory, stage);
        strip.pack_d_s();
        strip.hand_over(memory, places);
        wgmma::wait_group::<0>();
        strip.pin_dv();
    }
}

/// Computes dK of the last step.
///
/// # Safety
/// As for [`accumulate_following`], with nothing in flight.
#[inline(always)]
unsafe fn finish<K: Sm90Backward, S: Staggered<K>>(strip: &mut S, memory: Memory<K>, (stage, d_s): (Place, Place)) {
    // SAFETY: as promised to this function.
    unsafe {
        strip.pin_dk();
        wgmma::fence();
        strip.start_dk(memory, stage, d_s);
        wgmma::commit_group();
        wgmma::wait_group::<0>();
        strip.pin_dk();
    }
}
