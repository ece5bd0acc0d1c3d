//! What the warpgroups of an item's keys hand over to the warpgroup that computes [dQ](super::dq), tile by tile: dS of each step, then dV and dK,
//! which it stores.

use super::kernel::{K_STEPS, Sm90Backward};
use super::memory::{Memory, Square};
use super::ring::{Place, Places, arrive_together};
use crate::device::kernel::OutputStrip;
use crate::device::lane::{Lane, pack_columns};
use crate::device::ptx::mma::FragmentA;
use crate::device::ptx::{mbarrier, proxy, stmatrix, sync};
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::unrolled;
use contract::config::{MMA_M, WARP_SIZE, WARPGROUP_WARPS};

/// The barrier of the first warpgroup, behind those of [turns](crate::device::tma::turns).
const FIRST_BARRIER: u32 = 8;

/// Hands dS of a step over, 64 keys of a warpgroup.
///
/// # Safety
/// Warpgroup together, once for each step, in order.
#[inline(always)]
pub unsafe fn hand_over<K: Sm90Backward>(memory: Memory<K>, place: Place, d_s: &[FragmentA; K_STEPS], lane: Lane) {
    if !K::HANDS_OVER {
        return;
    }
    // SAFETY: the warp's own rows of an empty place; the fence makes them visible to the products of who waits for the arrival.
    unsafe {
        mbarrier::wait(memory.d_s_empty(place), place.parity ^ 1);
        store(memory, place, d_s, lane);
        arrive_together(memory.d_s_full(place), lane.index);
        if K::STAGGERS {
            wait_for_warpgroup(lane);
        }
    }
}

/// Stores dS of a step, 64 keys of a warpgroup, visibly to products.
///
/// # Safety
/// Warp together; nobody else accesses the warp's rows of the place.
#[inline(always)]
pub unsafe fn store<K: Sm90Backward>(memory: Memory<K>, place: Place, d_s: &[FragmentA; K_STEPS], lane: Lane) {
    let row = lane.warp % WARPGROUP_WARPS * MMA_M + lane.index % MMA_M;
    let first = memory.d_s(place, lane.warp / WARPGROUP_WARPS).chunk(row, lane.index / MMA_M);
    unrolled!(at most 4; for k in K_STEPS => {
        // SAFETY: the caller's promise.
        unsafe { stmatrix::store_4(Square::<K>::relative_chunk(first, 0, 2 * k as u32), d_s[k]) };
    });
    proxy::fence_async_shared();
}

/// Waits for the other warps of the warpgroup, whose product reads what all of them stored.
///
/// # Safety
/// Warpgroup together.
#[inline(always)]
pub unsafe fn wait_for_warpgroup(lane: Lane) {
    // SAFETY: the caller's promise.
    unsafe { sync::some::<{ WARPGROUP_WARPS * WARP_SIZE }>(FIRST_BARRIER + lane.warp / WARPGROUP_WARPS) };
}

/// Hands dV and dK of a warpgroup's keys over, to be stored.
///
/// # Safety
/// Warpgroup together, once for each item, after its steps.
#[inline(always)]
pub unsafe fn hand_over_gradients<K: Sm90Backward>(
    memory: Memory<K>,
    places: &mut Places,
    (dk, dv): (&mut OutputStrip<K>, &OutputStrip<K>),
    scale: f32,
    lane: Lane,
) {
    // SAFETY: as promised to this function.
    unsafe {
        hand_over(memory, places.d_s.place(), &pack_columns::<K::Element, K_STEPS>(dv.all()), lane);
        places.next_d_s::<K>();
        unrolled!(at most 32; for n in K::HeadDim::N_TILES => {
            unrolled!(at most 4; for i in 4 => { dk.all_mut()[n][i] *= scale });
        });
        hand_over(memory, places.d_s.place(), &pack_columns::<K::Element, K_STEPS>(dk.all()), lane);
    }
    places.next_d_s::<K>();
}
