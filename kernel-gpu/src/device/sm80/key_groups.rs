//! Warp groups that share the keys of a step. Each has all query rows of the block, and its own softmax of each row.
//!
//! With one group, a block of few rows would have only one warp per 16 of them and leave most of the multiprocessor idle. Let
//! mᵢ, lᵢ and Oᵢ be the shift, the sum and the unnormalised output of group i, and m the largest shift. They combine to:
//!
//! ```text
//! l = Σ 2^(mᵢ − m) lᵢ     O = Σ 2^(mᵢ − m) Oᵢ
//! ```

use super::kernel::Sm80Kernel;
use crate::device::attention::head_dim::{Fragments, HeadDim};
use crate::device::attention::softmax::{RunningSoftmax, finite_or_zero};
use crate::device::attention::{Lane, Output, OutputStrip, ROWS_PER_LANE};
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{math, memory, sync};
use crate::device::unrolled;
use contract::config::WARP_SIZE;

/// The position of a warp.
#[derive(Clone, Copy)]
pub struct Group {
    /// Index of its group.
    pub number: u32,
    /// Index within its group.
    pub warp: u32,
}

impl Group {
    /// The position of the calling warp.
    #[inline(always)]
    pub fn of<K: Sm80Kernel>(lane: Lane) -> Self {
        let warps = const { K::TILE.warps_of_group() };
        match K::GROUPS {
            1 => Self { number: 0, warp: lane.warp },
            _ => Self { number: lane.warp / warps, warp: lane.warp % warps },
        }
    }
}

/// Bytes of a warp's fragment: neighbouring lanes have neighbouring chunks, which lie in different banks.
pub const FRAGMENT_BYTES: u32 = WARP_SIZE * size_of::<FragmentC>() as u32;

/// Bytes that a group passes on for 16 rows: a fragment of shifts and sums, and O.
const fn strip_bytes<K: Sm80Kernel>() -> u32 {
    (K::HeadDim::N_TILES as u32 + 1) * FRAGMENT_BYTES
}

/// Combines all groups' parts of a warp's rows. Those of the first group give them to `store`, the others pass theirs through `stages`.
///
/// # Safety
/// All threads of the block call this together, each warp for its rows. `stages` has
/// [`Sm80::exchanged_bytes`](contract::tile::Sm80::exchanged_bytes) that nothing else uses.
#[inline(always)]
pub unsafe fn combine<K: Sm80Kernel, const M_TILES: usize>(
    mut output: Output<K, M_TILES>,
    mut softmax: RunningSoftmax<M_TILES>,
    stages: u32,
    group: Group,
    lane: Lane,
    store: impl FnOnce(Output<K, M_TILES>, &RunningSoftmax<M_TILES>),
) {
    let warps = const { K::TILE.warps_of_group() };
    let place = |number: u32| {
        let strip = ((number - 1) * warps + group.warp) * M_TILES as u32;
        stages + strip * strip_bytes::<K>() + lane.index * size_of::<FragmentC>() as u32
    };
    // SAFETY: all threads are here. Each warp writes to its own place, which is read after the barrier.
    unsafe {
        if group.number > 0 {
            leave::<K, M_TILES>(&output, &softmax, place(group.number));
        }
        sync::block();
        if group.number == 0 {
            let mut number = 1;
            while number < K::GROUPS {
                add::<K, M_TILES>(&mut output, &mut softmax, place(number));
                number += 1;
            }
            store(output, &softmax);
        }
    }
}

/// Writes O and the softmax state to `place`.
///
/// # Safety
/// The whole warp calls this together, each lane with its own place.
#[inline(always)]
unsafe fn leave<K: Sm80Kernel, const M_TILES: usize>(
    output: &Output<K, M_TILES>,
    softmax: &RunningSoftmax<M_TILES>,
    place: u32,
) {
    unrolled!(at most 4; for m in M_TILES => {
        let place = place + m as u32 * strip_bytes::<K>();
        leave_strip::<K>(&output[m], (softmax.shift[m], softmax.sum[m]), |offset, fragment| {
            // SAFETY: the lane's own chunks.
            unsafe { memory::store_shared_four(place + offset, fragment) };
        });
    });
}

/// Gives the softmax state of a strip and its O to `store`, in fragments, with the offset of each.
#[inline(always)]
pub fn leave_strip<K: Sm80Kernel>(
    output: &OutputStrip<K>,
    (shift, sum): ([f32; ROWS_PER_LANE], [f32; ROWS_PER_LANE]),
    mut store: impl FnMut(u32, FragmentC),
) {
    store(0, [shift[0], shift[1], sum[0], sum[1]]);
    unrolled!(at most 16; for n in K::HeadDim::N_TILES => { store((n as u32 + 1) * FRAGMENT_BYTES, output.all()[n]) });
}

/// Adds another warp's part of the same rows, which it wrote to `place`.
///
/// # Safety
/// The whole warp calls this together, after a barrier.
#[inline(always)]
unsafe fn add<K: Sm80Kernel, const M_TILES: usize>(
    output: &mut Output<K, M_TILES>,
    softmax: &mut RunningSoftmax<M_TILES>,
    place: u32,
) {
    unrolled!(at most 4; for m in M_TILES => {
        let place = place + m as u32 * strip_bytes::<K>();
        // SAFETY: the chunk was written for this lane.
        let [a, b, c, d] = unsafe { memory::load_shared_four(place) };
        let weights = add_softmax((&mut softmax.shift[m], &mut softmax.sum[m]), ([a, b], [c, d]));
        unrolled!(at most 16; for n in K::HeadDim::N_TILES => {
            // SAFETY: as above.
            let part = unsafe { memory::load_shared_four(place + (n as u32 + 1) * FRAGMENT_BYTES) };
            add_fragment(&mut output[m].all_mut()[n], part, weights);
        });
    });
}

/// Factors on the rows of two parts of O that are added: 2^(mᵢ − m).
#[derive(Clone, Copy)]
pub struct Weights {
    own: [f32; ROWS_PER_LANE],
    others: [f32; ROWS_PER_LANE],
}

/// Adds another part's shifts and sums of the same rows to a lane's own.
#[inline(always)]
pub fn add_softmax(
    (own_shift, own_sum): (&mut [f32; ROWS_PER_LANE], &mut [f32; ROWS_PER_LANE]),
    (shift, sum): ([f32; ROWS_PER_LANE], [f32; ROWS_PER_LANE]),
) -> Weights {
    let mut weights = Weights { own: [0.0; ROWS_PER_LANE], others: [0.0; ROWS_PER_LANE] };
    unrolled!(at most 2; for r in ROWS_PER_LANE => {
        let (one, other) = (attended(own_shift[r], own_sum[r]), attended(shift[r], sum[r]));
        let largest = math::max(one, other);
        weights.own[r] = math::exp2(one - finite_or_zero(largest));
        weights.others[r] = math::exp2(other - finite_or_zero(largest));
        own_shift[r] = largest;
        own_sum[r] = math::fma(weights.others[r], sum[r], weights.own[r] * own_sum[r]);
    });
    weights
}

/// Adds another part's fragment of O to a lane's own.
#[inline(always)]
pub fn add_fragment(fragment: &mut FragmentC, part: FragmentC, Weights { own, others }: Weights) {
    unrolled!(at most 4; for i in 4 => {
        fragment[i] = math::fma(others[i / 2], part[i], own[i / 2] * fragment[i]);
    });
}

/// The shift of a row with sum `sum`, or −∞ if the row attended to nothing and its shift must not count.
#[inline(always)]
fn attended(shift: f32, sum: f32) -> f32 {
    if sum == 0.0 { f32::NEG_INFINITY } else { shift }
}
