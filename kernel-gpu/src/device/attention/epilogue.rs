//! Normalisation and the stores of O and LSE.

use super::block::Block;
use super::sequence::Sequence;
use super::softmax::RunningSoftmax;
use super::{HEAD_N_TILES, Lane, Output, ROWS_PER_LANE, Tile};
use crate::config::{MMA_M, WARP_SIZE};
use crate::device::ptx::{math, memory, sync};
use crate::device::unroll;

/// log 2, which turns base-2 logarithms to natural ones.
const LN_2: f32 = core::f32::consts::LN_2;

/// Completes the row sums, normalises O and stores it, and LSE where it is wanted.
///
/// # Safety
/// The whole warp calls this together, for its rows of the block from `warp_row` on; nobody else accesses these rows of
/// `tile`, and a barrier lies behind the last reads of what was there.
#[inline(always)]
pub unsafe fn finish<const BLOCK_M: u32, const M_TILES: usize, S: Sequence>(
    output: Output<M_TILES>,
    mut softmax: RunningSoftmax<M_TILES>,
    tile: Tile<BLOCK_M>,
    warp_row: u32,
    block: &Block<'_, S>,
    lane: Lane,
) {
    // SAFETY: passed on to the caller.
    unsafe {
        softmax.complete_sums();
        store(output, &softmax, tile, warp_row, block, lane);
    }
}

/// [`finish`] with sums of whole rows.
///
/// # Safety
/// As for [`finish`].
#[inline(always)]
pub unsafe fn store<const BLOCK_M: u32, const M_TILES: usize, S: Sequence>(
    mut output: Output<M_TILES>,
    softmax: &RunningSoftmax<M_TILES>,
    tile: Tile<BLOCK_M>,
    warp_row: u32,
    block: &Block<'_, S>,
    lane: Lane,
) {
    // SAFETY: the caller has the warp together; the launch's O has the block's rows before the end, and the warp alone
    // writes its own.
    unsafe {
        normalise(&mut output, softmax);
        store_output(&output, tile, warp_row, block, lane);
    }
    if let Some(lse) = block.lse() {
        // SAFETY: the head has an element of LSE for each row before the end; the warp alone writes those of its rows.
        unsafe { store_lse(softmax, lse, warp_row, block, lane) };
    }
}

/// Divides O by the row sums.
#[inline(always)]
fn normalise<const M_TILES: usize>(output: &mut Output<M_TILES>, softmax: &RunningSoftmax<M_TILES>) {
    unroll!(at most 4; for m in M_TILES => {
        unroll!(at most 2; for r in ROWS_PER_LANE => {
            let factor = normaliser(softmax.sum[m][r]);
            unroll!(at most 8; for n in HEAD_N_TILES => {
                output[m][n][2 * r] *= factor;
                output[m][n][2 * r + 1] *= factor;
            });
        });
    });
}

/// What a row of O with the sum l is multiplied by: 1/l, or 0 of a row that attended to nothing.
#[inline(always)]
pub fn normaliser(sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { math::reciprocal(sum) }
}

/// Stores O as fp16 in 16-byte pieces: through the warp's own rows of `tile`, where the accumulator layout becomes rows.
///
/// # Safety
/// As for [`finish`].
#[inline(always)]
unsafe fn store_output<const BLOCK_M: u32, const M_TILES: usize, S: Sequence>(
    output: &Output<M_TILES>,
    tile: Tile<BLOCK_M>,
    warp_row: u32,
    block: &Block<'_, S>,
    lane: Lane,
) {
    unroll!(at most 4; for m in M_TILES => {
        unroll!(at most 2; for r in ROWS_PER_LANE => {
            let row = lane.row(warp_row, m, r);
            unroll!(at most 8; for n in HEAD_N_TILES => {
                let address = tile.chunk(row, n as u32) + lane.pair_column() * 2;
                let pair = math::pack_f16(output[m][n][2 * r], output[m][n][2 * r + 1]);
                // SAFETY: two elements of a chunk of the warp's own rows, 4-byte aligned.
                unsafe { memory::store_shared_4(address, pair) };
            });
        });
    });
    // SAFETY: the caller has the warp together.
    unsafe { sync::warp() };

    // Each lane has a chunk, so the warp stores several whole rows at once.
    let rows = block.output();
    let chunk = lane.index % Tile::<BLOCK_M>::CHUNKS_PER_ROW;
    let mut strip_row = lane.index / Tile::<BLOCK_M>::CHUNKS_PER_ROW;
    while strip_row < M_TILES as u32 * MMA_M {
        let row = block.first_row + warp_row + strip_row;
        // SAFETY: a chunk of the warp's own rows, written before the barrier above.
        let value = unsafe { memory::load_shared_16(tile.chunk(warp_row + strip_row, chunk)) };
        if !S::HAS_TAIL || row < block.length {
            // SAFETY: a chunk of a row before the end, 16-byte aligned by the launch's checks.
            unsafe { memory::store_global_16(rows.chunk(row, chunk), value) };
        }
        strip_row += WARP_SIZE / Tile::<BLOCK_M>::CHUNKS_PER_ROW;
    }
}

/// LSE = ln Σ exp(scale·s) = ln 2 · (shift + log₂ l) of a row.
#[inline(always)]
pub fn log_sum_exp(shift: f32, sum: f32) -> f32 {
    LN_2 * (shift + math::log2(sum))
}

/// Stores LSE for the warp's rows; `lse` is the address of the head's row 0.
///
/// # Safety
/// As for [`finish`].
#[inline(always)]
pub unsafe fn store_lse<const M_TILES: usize, S: Sequence>(
    softmax: &RunningSoftmax<M_TILES>,
    lse: u64,
    warp_row: u32,
    block: &Block<'_, S>,
    lane: Lane,
) {
    // The four lanes of a quad hold the same rows; the first one stores.
    if lane.pair_column() != 0 {
        return;
    }
    unroll!(at most 4; for m in M_TILES => {
        unroll!(at most 2; for r in ROWS_PER_LANE => {
            let row = lane.row(block.first_row + warp_row, m, r);
            if !S::HAS_TAIL || row < block.length {
                let value = log_sum_exp(softmax.shift[m][r], softmax.sum[m][r]);
                // SAFETY: an element before the end, 4-byte aligned by the launch's checks.
                unsafe { memory::store_global_f32(lse + row as u64 * 4, value) };
            }
        });
    });
}
