//! Normalisation and the stores of O and LSE, a warp's 16 rows at a time.

use super::Rows;
use crate::config::{MMA_M, WARPGROUP_WARPS};
use crate::device::attention::block::Block;
use crate::device::attention::epilogue::{normaliser, store_lse};
use crate::device::attention::sequence::Sequence;
use crate::device::attention::softmax::RunningSoftmax;
use crate::device::attention::{HEAD_N_TILES, Lane, ROWS_PER_LANE};
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{math, mbarrier, memory, proxy, stmatrix, sync};
use crate::device::unroll;

/// Rows that a warp stores at a time: a 16-byte chunk by each lane.
const ROWS_AT_A_TIME: u32 = 4;
/// Times that it does.
const TIMES: usize = (MMA_M / ROWS_AT_A_TIME) as usize;

/// First row of the warp within its strip.
#[inline(always)]
pub fn warp_row(lane: Lane) -> u32 {
    lane.warp % WARPGROUP_WARPS * MMA_M
}

/// Stores the strip `block` by way of `tile`: there the accumulator layout becomes rows, which leave in 16-byte pieces. The
/// tile is given back through the mbarrier `empty` before they have left.
///
/// # Safety
/// All lanes of the warp call this together, with complete sums; nobody else touches the warp's rows of the tile, and no
/// product reads it.
#[inline(always)]
pub unsafe fn store<S: Sequence>(
    output: &[FragmentC; HEAD_N_TILES],
    softmax: &RunningSoftmax<1>,
    tile: Rows,
    empty: u32,
    block: &Block<'_, S>,
    lane: Lane,
) {
    let (row, chunk) = (warp_row(lane) + lane.index / Rows::CHUNKS_PER_ROW, lane.index % Rows::CHUNKS_PER_ROW);
    let rows = block.output();
    let (first, step) = (rows.chunk(block.first_row + row, chunk), ROWS_AT_A_TIME as u64 * rows.pitch());
    // SAFETY: chunks of the warp's own rows; the barriers order them between its lanes, the fence and each lane's arrival
    // before whatever the producer copies there. Rows of O before the end, each chunk by one lane.
    unsafe {
        sync::warp();
        normalise_to(tile, output, softmax, lane);
        sync::warp();
        let mut values = [[0; 4]; TIMES];
        let first_chunk = tile.chunk(row, chunk);
        unroll!(at most 4; for i in TIMES => {
            values[i] = memory::load_shared_16(Rows::relative_chunk(first_chunk, i as u32 * ROWS_AT_A_TIME, 0));
        });
        proxy::fence_async_shared();
        mbarrier::arrive(empty);
        unroll!(at most 4; for i in TIMES => {
            if !S::HAS_TAIL || block.first_row + row + i as u32 * ROWS_AT_A_TIME < block.length {
                memory::store_global_16(first + i as u64 * step, values[i]);
            }
        });
    }
    if let Some(lse) = block.lse() {
        // SAFETY: the head has an element of LSE for each row before the end.
        unsafe { store_lse(softmax, lse, warp_row(lane), block, lane) };
    }
}

/// Writes O / l to the warp's rows of the tile, rounded to fp16; rows that attended to nothing become 0.
///
/// # Safety
/// As for [`store`].
#[inline(always)]
unsafe fn normalise_to(tile: Rows, output: &[FragmentC; HEAD_N_TILES], softmax: &RunningSoftmax<1>, lane: Lane) {
    let mut factors = [0.0; ROWS_PER_LANE];
    unroll!(at most 2; for r in ROWS_PER_LANE => {
        factors[r] = normaliser(softmax.sum[0][r]);
    });
    // Lane l gives the address of row l mod 16 of the 8 columns l / 16.
    let first_chunk = tile.chunk(warp_row(lane) + lane.index % MMA_M, lane.index / MMA_M);
    unroll!(at most 4; for pair in const { HEAD_N_TILES / 2 } => {
        let mut matrices = [0; 4];
        unroll!(at most 2; for n in 2 => {
            unroll!(at most 2; for r in ROWS_PER_LANE => {
                let [left, right] = [output[2 * pair + n][2 * r], output[2 * pair + n][2 * r + 1]];
                matrices[2 * n + r] = math::pack_f16(left * factors[r], right * factors[r]);
            });
        });
        // SAFETY: chunks of the warp's own rows, by the whole warp.
        unsafe { stmatrix::store_4(Rows::relative_chunk(first_chunk, 0, 2 * pair as u32), matrices) };
    });
}
