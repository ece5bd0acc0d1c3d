//! Normalisation and the stores of O and LSE.

use super::copy::HeadRows;
use super::softmax::RunningSoftmax;
use super::{HEAD_N_TILES, Lane, Output, ROWS_PER_LANE, Tile};
use crate::config::{MMA_M, WARP_SIZE};
use crate::device::ptx::{math, memory, sync};
use crate::device::sequence::Sequence;
use crate::device::unroll;

/// log 2, which turns base-2 logarithms to natural ones.
const LN_2: f32 = core::f32::consts::LN_2;

/// Divides O by the row sums; rows that attended to nothing become 0.
#[inline(always)]
pub fn normalise<const M_TILES: usize>(output: &mut Output<M_TILES>, softmax: &RunningSoftmax<M_TILES>) {
    unroll!(at most 4; for m in M_TILES => {
        unroll!(at most 2; for r in ROWS_PER_LANE => {
            let sum = softmax.sum[m][r];
            let factor = if sum == 0.0 { 0.0 } else { math::reciprocal(sum) };
            unroll!(at most 8; for n in HEAD_N_TILES => {
                output[m][n][2 * r] *= factor;
                output[m][n][2 * r + 1] *= factor;
            });
        });
    });
}

/// Stores O as fp16 in 16-byte pieces: through the warp's own rows of `tile`, where the accumulator layout becomes rows.
///
/// # Safety
/// The whole warp calls this together; nobody else accesses the warp's rows of `tile`, and a barrier lies behind the
/// warp's last reads of what was there; `rows` has `length` writable rows, of which this warp alone writes its own.
#[inline(always)]
pub unsafe fn store_output<const ROWS: u32, const M_TILES: usize, S: Sequence>(
    output: &Output<M_TILES>,
    tile: Tile<ROWS>,
    rows: HeadRows,
    first_row: u32,
    warp_row: u32,
    length: u32,
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
    let chunk = lane.index % Tile::<ROWS>::CHUNKS_PER_ROW;
    let mut strip_row = lane.index / Tile::<ROWS>::CHUNKS_PER_ROW;
    while strip_row < M_TILES as u32 * MMA_M {
        let row = first_row + warp_row + strip_row;
        // SAFETY: a chunk of the warp's own rows, written before the barrier above.
        let value = unsafe { memory::load_shared_16(tile.chunk(warp_row + strip_row, chunk)) };
        if !S::HAS_TAIL || row < length {
            // SAFETY: a chunk of a row before the end, 16-byte aligned by the launch's checks.
            unsafe { memory::store_global_16(rows.chunk(row, chunk), value) };
        }
        strip_row += WARP_SIZE / Tile::<ROWS>::CHUNKS_PER_ROW;
    }
}

/// Stores LSE = ln Σ exp(scale·s) = ln 2 · (shift + log₂ l) for the warp's rows; `lse` is the address of the head's row 0.
///
/// # Safety
/// `lse` has `length` writable elements, of which this warp alone writes its own rows.
#[inline(always)]
pub unsafe fn store_lse<const M_TILES: usize, S: Sequence>(
    softmax: &RunningSoftmax<M_TILES>,
    lse: u64,
    first_row: u32,
    length: u32,
    lane: Lane,
) {
    // The four lanes of a quad hold the same rows; the first one stores.
    if lane.pair_column() != 0 {
        return;
    }
    unroll!(at most 4; for m in M_TILES => {
        unroll!(at most 2; for r in ROWS_PER_LANE => {
            let row = lane.row(first_row, m, r);
            if !S::HAS_TAIL || row < length {
                let value = LN_2 * (softmax.shift[m][r] + math::log2(softmax.sum[m][r]));
                // SAFETY: an element before the end, 4-byte aligned by the launch's checks.
                unsafe { memory::store_global_f32(lse + row as u64 * 4, value) };
            }
        });
    });
}
