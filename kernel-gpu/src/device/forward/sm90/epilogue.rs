//! The end of a strip: O is normalised and written to shared memory, with the statistics for LSE. [`super::storer`] stores
//! both while the warpgroup continues with its next strip.

use crate::device::kernel::OutputStrip;
use crate::device::lane::{Lane, ROWS_PER_LANE};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{memory, proxy, stmatrix, sync};
use crate::device::softmax::{Statistics, normaliser};
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::tma::computed;
use crate::device::tma::kernel::TmaKernel;
use crate::device::tma::memory::Memory;
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use contract::config::{MMA_M, WARPGROUP_WARPS};

/// First row of the warp within its strip.
#[inline(always)]
pub fn warp_row(lane: Lane) -> u32 {
    lane.warp % WARPGROUP_WARPS * MMA_M
}

/// The factors that normalise O of a lane's rows.
pub type Normalisers = [f32; ROWS_PER_LANE];

/// Writes O of the warp's rows of strip `strip` over its Q, for the storer; the statistics are already there.
///
/// # Safety
/// Warp together; nothing else touches the warp's rows of the strip, and all products that read them have
/// completed.
#[inline(always)]
pub unsafe fn write_output<K: TmaKernel>(
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
        computed::signal(memory, strip, lane);
    }
}

/// Writes shift and sum of the warp's rows, which are complete, for the storer of LSE. Returns the factors that normalise O.
///
/// # Safety
/// Warp together, before [`write_output`] of the strip and after its Q has arrived.
#[inline(always)]
pub unsafe fn write_statistics<K: TmaKernel>(
    softmax: &Statistics<1>,
    memory: Memory<K>,
    strip: u32,
    lane: Lane,
) -> Normalisers {
    if computed::writes_statistics(lane) {
        unrolled!(at most 2; for r in ROWS_PER_LANE => {
            let row = lane.row(warp_row(lane), 0, r);
            // SAFETY: the row's own 8 bytes.
            unsafe { memory::store_shared_pair(memory.statistics(strip, row), [softmax.shift[0][r], softmax.sum[0][r]]) };
        });
    }
    // Not `map`, which is a function in `core` and would remain a call.
    let [upper, lower] = softmax.sum[0];
    [normaliser(upper), normaliser(lower)]
}

/// Writes O / l to the warp's rows of the tile, rounded to elements; rows that attended to nothing become 0.
///
/// # Safety
/// Warp together; nothing else touches the warp's rows of the strip.
#[inline(always)]
unsafe fn normalise_to<K: TmaKernel>(tile: Rows<K>, output: &OutputStrip<K>, normalisers: Normalisers, lane: Lane) {
    // Lane l gives the address of row l mod 16 of 8-column tile l / 16.
    let first_chunk = tile.chunk(warp_row(lane) + lane.index % MMA_M, lane.index / MMA_M);
    unrolled!(at most 16; for pair in const { K::HeadDim::N_TILES / 2 } => {
        let [upper_left, lower_left] = normalised::<K>(output.all()[2 * pair], normalisers);
        let [upper_right, lower_right] = normalised::<K>(output.all()[2 * pair + 1], normalisers);
        let matrices = [upper_left, lower_left, upper_right, lower_right];
        // SAFETY: chunks of the warp's own rows, by the whole warp.
        unsafe { stmatrix::store_4(Rows::<K>::chunk_after(first_chunk, 2 * pair as u32), matrices) };
    });
}

/// This lane's elements of an 8-column tile of O / l, in its upper and its lower row, rounded to elements.
#[inline(always)]
fn normalised<K: TmaKernel>(output: FragmentC, [upper, lower]: Normalisers) -> [u32; ROWS_PER_LANE] {
    [K::Element::pack(output[0] * upper, output[1] * upper), K::Element::pack(output[2] * lower, output[3] * lower)]
}
