//! Warp groups that share the keys of a step. Each has all query rows of the block, and its own softmax of each row.
//!
//! With one group, a block of few rows would have only one warp per 16 of them and leave most of the multiprocessor idle.

use super::block::Block;
use super::combination::{add_fragment, add_softmax, store_strip};
use super::kernel::Sm80Kernel;
use super::parts;
use crate::device::kernel::{Output, Tile};
use crate::device::lane::Lane;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{memory, sync};
use crate::device::softmax::Statistics;
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::unrolled;
use contract::parts::FRAGMENT_BYTES;

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

/// Combines all groups' parts of a warp's rows; the first group stores them ([`parts::store`]), the others pass theirs through `stages`.
///
/// # Safety
/// Block together, each warp for its rows from `warp_row` on. `stages` has
/// [`Sm80::exchanged_bytes`](contract::tile::Sm80::exchanged_bytes) that nothing else uses; otherwise as for
/// [`parts::store`].
#[inline(always)]
pub unsafe fn store<K: Sm80Kernel, const BLOCK_M: u32, const M_TILES: usize>(
    mut output: Output<K, M_TILES>,
    mut softmax: Statistics<M_TILES>,
    (tile, stages): (Tile<K, BLOCK_M>, u32),
    (group, warp_row): (Group, u32),
    block: &Block<'_, K>,
    lane: Lane,
) {
    let warps = const { K::TILE.warps_of_group() };
    let place = |number: u32| {
        let strip = ((number - 1) * warps + group.warp) * M_TILES as u32;
        stages + strip * K::STRIP_BYTES + lane.index * size_of::<FragmentC>() as u32
    };
    // SAFETY: all threads are here. Each warp writes to its own place, which is read after the barrier.
    unsafe {
        if group.number > 0 {
            publish::<K, M_TILES>(&output, &softmax, place(group.number));
        }
        sync::block();
        if group.number == 0 {
            let mut number = 1;
            while number < K::GROUPS {
                add::<K, M_TILES>(&mut output, &mut softmax, place(number));
                number += 1;
            }
            parts::store(output, &softmax, tile, warp_row, block, lane);
        }
    }
}

/// Writes O and the softmax state to `place`.
///
/// # Safety
/// Warp together, each lane with its own place.
#[inline(always)]
unsafe fn publish<K: Sm80Kernel, const M_TILES: usize>(
    output: &Output<K, M_TILES>,
    softmax: &Statistics<M_TILES>,
    place: u32,
) {
    unrolled!(at most 4; for m in M_TILES => {
        let place = place + m as u32 * K::STRIP_BYTES;
        store_strip::<K>(&output[m], (softmax.shift[m], softmax.sum[m]), |offset, fragment| {
            // SAFETY: the lane's own chunks.
            unsafe { memory::store_shared_four(place + offset, fragment) };
        });
    });
}

/// Adds another warp's part of the same rows, which it wrote to `place`.
///
/// # Safety
/// Warp together, after a barrier.
#[inline(always)]
unsafe fn add<K: Sm80Kernel, const M_TILES: usize>(
    output: &mut Output<K, M_TILES>,
    softmax: &mut Statistics<M_TILES>,
    place: u32,
) {
    unrolled!(at most 4; for m in M_TILES => {
        let place = place + m as u32 * K::STRIP_BYTES;
        // SAFETY: the chunk was written for this lane.
        let [a, b, c, d] = unsafe { memory::load_shared_four(place) };
        let weights = add_softmax((&mut softmax.shift[m], &mut softmax.sum[m]), ([a, b], [c, d]));
        unrolled!(at most 32; for n in K::HeadDim::N_TILES => {
            // SAFETY: as above.
            let part = unsafe { memory::load_shared_four(place + (n as u32 + 1) * FRAGMENT_BYTES) };
            add_fragment(&mut output[m].all_mut()[n], part, weights);
        });
    });
}
