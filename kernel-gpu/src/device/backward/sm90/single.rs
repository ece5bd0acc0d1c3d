//! All gradients of a head whose keys are one tile, and whose queries are one.
//!
//! ```text
//! start S, dP; P, dS from both; dS to shared memory
//! start dV = Pᵀ·dO, dK = dSᵀ·Q
//! store dV, while dK is computed
//! start dQ = dS·K; store dK meanwhile
//! store dQ
//! ```

use super::handover;
use super::items::KeyItem;
use super::kernel::{K_STEPS, Sm90Backward};
use super::keys::KeyStrip;
use super::memory::{Memory, Square};
use super::output::head_rows;
use super::ring::{Place, Places, arrive_together};
use super::staggered::Staggered;
use super::strip::{Strip, release};
use crate::device::backward::output::store;
use crate::device::hidden;
use crate::device::kernel::OutputStrip;
use crate::device::lane::Lane;
use crate::device::ptx::mbarrier;
use crate::device::ptx::wgmma::{self, Accumulators, Descriptor, NMajor, Registers};
use crate::device::tile::head_dim::Fragments;
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use contract::backward::args::BackwardArgs;
use contract::config::{MMA_M, WARPGROUP_WARPS};

/// Computes dK, dV and dQ of an item.
///
/// # Safety
/// Warpgroup together, for the items in order.
#[inline(always)]
pub unsafe fn gradients<K: Sm90Backward>(
    args: &BackwardArgs,
    (number, item): (u32, KeyItem<K>),
    places: &mut Places,
    memory: Memory<K>,
    lane: Lane,
) {
    let (problem, Places { own, stage, .. }) = (&args.problem, *places);
    // There is one: the first query attends to the first key.
    let Some(step) = item.steps(args).next() else { return };
    // SAFETY: warpgroup together; tiles have arrived behind the waits, and are released after their last use. dS is not read any more: all warps
    // had read that of the head before, when they released its own rows.
    unsafe {
        mbarrier::wait(memory.own_full(own), own.parity);
        mbarrier::wait(memory.stage_full(stage), stage.parity);
        let rows = [memory.own(own, 0, 0), memory.own(own, 1, 0)];
        let mut strip = KeyStrip::of(problem, rows, &item, item.tile.first_row, lane);
        wgmma::fence();
        strip.start_scores(memory, stage);
        strip.start_d_p(memory, stage);
        wgmma::commit_group();
        mbarrier::wait(memory.computed(stage), stage.parity);
        wgmma::wait_group::<0>();
        strip.pin_scores();
        strip.pin_d_p();
        strip.probabilities(memory, stage, step);
        strip.differentiate(memory, stage);
        strip.pack();
        handover::store(memory, Place::FIRST, &strip.d_s, lane.recomputed());
        handover::wait_for_warpgroup(lane);
        strip.pin_dv();
        strip.pin_dk();
        wgmma::fence();
        strip.start_dv(memory, stage);
        wgmma::commit_group();
        strip.start_dk(memory, stage, Place::FIRST);
        wgmma::commit_group();
        let (Some(item), lane) = (KeyItem::<K>::again(args, number), lane.recomputed()) else { return };
        let warp_row = lane.warp % WARPGROUP_WARPS * MMA_M;
        let of = |tensor, strides| head_rows::<K>(tensor, strides, item.work, item.tile);
        let keys = (warp_row, item.tile.length);
        wgmma::wait_group::<1>();
        strip.pin_dv();
        store::<K>(&mut strip.dv, of(args.dv, &args.dv_strides), 1.0, keys, problem, lane);
        wgmma::wait_group::<0>();
        strip.pin_dk();
        release(memory, stage, lane.index);
        let mut dq: OutputStrip<K> = Fragments::zeros();
        dq.pin();
        wgmma::fence();
        start_dq(&mut dq, memory, own);
        wgmma::commit_group();
        store::<K>(&mut strip.dk, of(args.dk, &args.dk_strides), args.scale, keys, problem, lane);
        wgmma::wait_group::<0>();
        dq.pin();
        arrive_together(memory.own_empty(own), lane.index);
        let rows = head_rows::<K>(args.dq, &args.dq_strides, item.work, item.sequence_of_queries());
        store::<K>(&mut dq, rows, args.scale, (warp_row, item.queries.rows.length), problem, lane);
    }
    places.next_step::<K>();
    places.next_item::<K>();
}

/// Starts dQ += dS·K, as part of a group.
///
/// # Safety
/// Warpgroup together, after a fence; dS and K have arrived, and are not overwritten before a wait.
#[inline(always)]
unsafe fn start_dq<K: Sm90Backward>(dq: &mut OutputStrip<K>, memory: Memory<K>, own: Place) {
    let d_s = Descriptor::<NMajor, Square<K>>::new(hidden::recompute(memory.d_s(Place::FIRST, 0).chunk(0, 0)));
    let keys = Descriptor::<NMajor, Rows<K>>::new(hidden::recompute(memory.own(own, 0, 0).address()));
    unrolled!(at most 4; for k in K_STEPS => {
        // SAFETY: the caller's promise.
        unsafe { dq.multiply_accumulate::<K::Element, _, _>(d_s.step(k), keys.step(k)) };
    });
}
