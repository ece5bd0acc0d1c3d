//! The end of a strip: O is normalised and left in shared memory, with what LSE is computed from. [`super::storer`] stores
//! them while the warpgroup goes on with its next strip.

use super::context::Context;
use super::copies::StripCopy;
use super::kernel::TmaKernel;
use super::mapped::Mapped;
use super::memory::Memory;
use super::rows::Rows;
use crate::device::attention::epilogue::{exchange_strip, normaliser};
use crate::device::attention::head_dim::{Fragments, HeadDim};
use crate::device::attention::head_rows::HeadRows;
use crate::device::attention::softmax::{RunningSoftmax, rescale_row};
use crate::device::attention::{Lane, OutputStrip, ROWS_PER_LANE};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{mbarrier, memory, proxy, stmatrix, sync};
use crate::device::unrolled;
use contract::config::{MMA_M, WARPGROUP_WARPS};

/// First row of the warp within its strip.
#[inline(always)]
pub fn warp_row(lane: Lane) -> u32 {
    lane.warp % WARPGROUP_WARPS * MMA_M
}

/// Whether this one of the four lanes that hold the same rows leaves their statistics.
#[inline(always)]
fn leaves_statistics(lane: Lane) -> bool {
    lane.pair_column() == 0
}

/// What O of a lane's rows is multiplied by.
pub type Normalisers = [f32; ROWS_PER_LANE];

/// Leaves O of the warp's rows of strip `strip` where its Q was to those who store it, with the statistics that are there.
///
/// # Safety
/// All lanes of the warp call this together; nobody else touches the warp's rows of the strip, and no product reads them: those
/// that did come before what any lane does now.
#[inline(always)]
pub unsafe fn leave_output<K: TmaKernel>(
    output: &OutputStrip<K>,
    normalisers: Normalisers,
    memory: Memory<K>,
    strip: u32,
    lane: Lane,
) {
    // SAFETY: the warp's own rows; the fence and the barrier of the warp, then its arrival, order them before the copy.
    unsafe {
        normalise_to::<K>(memory.strip(strip), output, normalisers, lane);
        proxy::fence_async_shared();
        sync::warp();
        // Those that wrote statistics, each for itself: racecheck sees no order through the warp's barrier.
        if leaves_statistics(lane) {
            mbarrier::arrive(memory.strip_computed(strip));
        }
    }
}

/// Gives the place of a strip without rows to those who store, who find nothing there.
///
/// # Safety
/// All lanes of the warp call this together, once for the strip.
#[inline(always)]
pub unsafe fn leave_nothing<K: TmaKernel>(memory: Memory<K>, strip: u32, lane: Lane) {
    // SAFETY: an initialised mbarrier; the caller has the warp together.
    unsafe {
        // All lanes have read which strip it is.
        sync::warp();
        if leaves_statistics(lane) {
            mbarrier::arrive(memory.strip_computed(strip));
        }
    }
}

/// Stores O of the warp's rows of a strip from registers, then gives its place to those who store LSE.
///
/// # Safety
/// All lanes of the warp call this together; nobody else writes these rows of O, and no product reads Q of the strip: those that
/// did come before what any lane does now.
#[inline(always)]
pub unsafe fn store_output<K: TmaKernel>(
    output: &mut OutputStrip<K>,
    normalisers: Normalisers,
    context: &Context<'_, K>,
    copy: StripCopy,
    lane: Lane,
) {
    unrolled!(at most 2; for r in ROWS_PER_LANE => { rescale_row::<K>(output, r, normalisers[r]) });
    let rows = HeadRows::new::<K::Element>(context.args.o, &context.args.o_strides, copy.work, copy.tile.begin);
    // SAFETY: the caller has the warp together, and nobody else writes these rows.
    unsafe {
        exchange_strip::<K>(output, rows, context.args, (copy.tile.first_row + warp_row(lane), copy.tile.length), lane);
        if K::Sequence::IS_LOOKED_UP {
            // All lanes have read which strip it is.
            sync::warp();
        }
        if leaves_statistics(lane) {
            mbarrier::arrive(context.memory.strip_computed(copy.strip));
        }
    }
}

/// Leaves shift and sum of the warp's rows, which are complete, to those who store LSE; what O is multiplied by.
///
/// # Safety
/// All lanes of the warp call this together, before [`leave_output`] of the strip and after its Q has arrived.
#[inline(always)]
pub unsafe fn leave_statistics<K: TmaKernel>(
    softmax: &RunningSoftmax<1>,
    memory: Memory<K>,
    strip: u32,
    lane: Lane,
) -> Normalisers {
    if leaves_statistics(lane) {
        unrolled!(at most 2; for r in ROWS_PER_LANE => {
            let row = lane.row(warp_row(lane), 0, r);
            // SAFETY: the row's own 8 bytes.
            unsafe { memory::store_shared_pair(memory.statistics(strip, row), [softmax.shift[0][r], softmax.sum[0][r]]) };
        });
    }
    // Not by `map`, which has a body of its own in `core` and would stay a call.
    let [upper, lower] = softmax.sum[0];
    [normaliser(upper), normaliser(lower)]
}

/// Writes O / l to the warp's rows of the tile, rounded to fp16; rows that attended to nothing become 0.
///
/// # Safety
/// As for [`leave_output`].
#[inline(always)]
unsafe fn normalise_to<K: TmaKernel>(tile: Rows<K>, output: &OutputStrip<K>, normalisers: Normalisers, lane: Lane) {
    // Lane l gives the address of row l mod 16 of the 8 columns l / 16.
    let first_chunk = tile.chunk(warp_row(lane) + lane.index % MMA_M, lane.index / MMA_M);
    unrolled!(at most 8; for pair in const { K::HeadDim::N_TILES / 2 } => {
        let [upper_left, lower_left] = normalised::<K>(output.all()[2 * pair], normalisers);
        let [upper_right, lower_right] = normalised::<K>(output.all()[2 * pair + 1], normalisers);
        let matrices = [upper_left, lower_left, upper_right, lower_right];
        // SAFETY: chunks of the warp's own rows, by the whole warp.
        unsafe { stmatrix::store_4(Rows::<K>::chunk_after(first_chunk, 2 * pair as u32), matrices) };
    });
}

/// What this lane has of an 8-column tile of O / l in its upper and in its lower row, rounded to fp16.
#[inline(always)]
fn normalised<K: TmaKernel>(output: FragmentC, [upper, lower]: Normalisers) -> [u32; ROWS_PER_LANE] {
    [K::Element::pack(output[0] * upper, output[1] * upper), K::Element::pack(output[2] * lower, output[3] * lower)]
}
