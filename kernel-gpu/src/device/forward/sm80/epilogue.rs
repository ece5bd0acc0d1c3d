//! Normalisation and the stores of O and LSE.

use super::block::Block;
use super::kernel::Sm80Kernel;
use crate::device::kernel::{Kernel, Output, OutputStrip, Tile};
use crate::device::lane::{Lane, ROWS_PER_LANE};
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{memory, sync};
use crate::device::sequence::Sequence;
use crate::device::softmax::{Statistics, log_sum_exp, normaliser, rescale_row};
use crate::device::stores::{QUAD, pack_pair, store_quad, store_strip};
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::tile::head_rows::has_chunk;
use crate::device::unrolled;
use contract::config::{MMA_M, WARP_SIZE};

/// Normalises O and stores it, and LSE if requested. With [`Sm80Kernel::EXCHANGE`], O bypasses the tile.
///
/// # Safety
/// Warp together, for its rows of the block from `warp_row` on; no other warp accesses these rows of
/// `tile`, and a barrier follows the last reads of their previous contents.
#[inline(always)]
pub unsafe fn store<K: Sm80Kernel, const BLOCK_M: u32, const M_TILES: usize>(
    mut output: Output<K, M_TILES>,
    softmax: &Statistics<M_TILES>,
    tile: Tile<K, BLOCK_M>,
    warp_row: u32,
    block: &Block<'_, K>,
    lane: Lane,
) {
    // SAFETY: warp together; rows before the end lie within the launch's O, and only this warp writes
    // them.
    unsafe {
        normalise::<K, M_TILES>(&mut output, softmax);
        if K::EXCHANGE {
            exchange_output::<K, M_TILES>(&output, warp_row, block, lane);
        } else {
            store_output(&output, tile, warp_row, block, lane);
        }
    }
    if let Some(lse) = block.lse() {
        // SAFETY: LSE has an element for each row before the end; only this warp writes those of its rows.
        unsafe { store_lse(softmax, lse, warp_row, block, lane) };
    }
}

/// Divides O by the row sums.
#[inline(always)]
fn normalise<K: Kernel, const M_TILES: usize>(output: &mut Output<K, M_TILES>, softmax: &Statistics<M_TILES>) {
    unrolled!(at most 4; for m in M_TILES => {
        unrolled!(at most 2; for r in ROWS_PER_LANE => {
            rescale_row::<K>(&mut output[m], r, normaliser(softmax.sum[m][r]));
        });
    });
}

/// Stores O in 16-byte pieces, through the warp's own rows of `tile`, which turn the accumulator layout into rows.
///
/// # Safety
/// Warp together; no other warp accesses the warp's rows of the tile.
#[inline(always)]
unsafe fn store_output<K: Kernel, const BLOCK_M: u32, const M_TILES: usize>(
    output: &Output<K, M_TILES>,
    tile: Tile<K, BLOCK_M>,
    warp_row: u32,
    block: &Block<'_, K>,
    lane: Lane,
) {
    unrolled!(at most 4; for m in M_TILES => {
        unrolled!(at most 2; for r in ROWS_PER_LANE => {
            // SAFETY: a row of the warp's own.
            unsafe { write_row::<K, BLOCK_M>(&output[m], r, tile, lane.row(warp_row, m, r), lane) };
        });
    });
    // SAFETY: warp together.
    unsafe { sync::warp() };

    // Each lane stores a chunk of a section, so the warp stores that section of several rows at once.
    let rows = block.output();
    let together = const { Tile::<K, BLOCK_M>::ROW_SECTIONS.chunks };
    let (mut strip_row, chunk) = (lane.index / together, lane.index % together);
    let length =
        |section: u32| if has_chunk(block.args.head_dim, section * together + chunk) { block.length() } else { 0 };
    while strip_row < M_TILES as u32 * MMA_M {
        let row = block.first_row() + warp_row + strip_row;
        unrolled!(at most 4; for section in Tile::<K, BLOCK_M>::ROW_SECTIONS.count => {
            let offset = section as u32 * const { Tile::<K, BLOCK_M>::ROW_SECTIONS.bytes };
            // SAFETY: a chunk of the warp's own rows, written before the barrier above.
            let value = unsafe { memory::load_shared_16(tile.chunk(warp_row + strip_row, chunk) + offset) };
            if !K::Sequence::HAS_TAIL || row < length(section as u32) {
                // SAFETY: a chunk of a row before the end, 16-byte aligned by the launch's checks.
                unsafe { memory::store_global_16(rows.chunk(row, chunk) + offset as u64, value) };
            }
        });
        strip_row += WARP_SIZE / together;
    }
}

/// Stores O in 16-byte pieces, from registers.
///
/// # Safety
/// Warp together; no other warp writes these rows.
#[inline(always)]
unsafe fn exchange_output<K: Kernel, const M_TILES: usize>(
    output: &Output<K, M_TILES>,
    warp_row: u32,
    block: &Block<'_, K>,
    lane: Lane,
) {
    unrolled!(at most 4; for m in M_TILES => {
        let first_row = block.first_row() + warp_row + m as u32 * MMA_M;
        // SAFETY: the warp's own rows.
        unsafe { store_strip::<K>(&output[m], block.output(), block.args, (first_row, block.length()), lane) };
    });
}

/// [`store`] of some columns of 16 rows: the four 8-column tiles from `first_tile` on of the rows from `row` of the block on. The warp
/// with the first columns stores LSE.
///
/// # Safety
/// Warp together; no other warp writes these columns.
#[inline(always)]
pub unsafe fn store_columns<K: Kernel>(
    mut tiles: [FragmentC; QUAD as usize],
    first_tile: u32,
    row: u32,
    (shift, sum): ([f32; ROWS_PER_LANE], [f32; ROWS_PER_LANE]),
    block: &Block<'_, K>,
    lane: Lane,
) {
    let first_row = block.first_row() + row;
    unrolled!(at most 2; for r in ROWS_PER_LANE => {
        let factor = normaliser(sum[r]);
        unrolled!(at most 4; for n in QUAD as usize => {
            tiles[n][2 * r] *= factor;
            tiles[n][2 * r + 1] *= factor;
        });
        let rows = (lane.row(first_row, 0, r), block.length());
        // SAFETY: warp together, and its columns are its own.
        unsafe { store_quad::<K>(&tiles, (r, first_tile), block.output(), block.args, rows, lane) };
    });
    if let (0, Some(lse)) = (first_tile, block.lse()) {
        let softmax = Statistics { shift: [shift], sum: [sum] };
        // SAFETY: LSE has an element for each row before the end; only this warp writes those of its rows.
        unsafe { store_lse(&softmax, lse, row, block, lane) };
    }
}

/// Writes the lane's part `r` of a strip, rounded to elements, to row `row` of `tile`.
///
/// # Safety
/// No other thread accesses these elements of the row.
#[inline(always)]
unsafe fn write_row<K: Kernel, const BLOCK_M: u32>(
    strip: &OutputStrip<K>,
    r: usize,
    tile: Tile<K, BLOCK_M>,
    row: u32,
    lane: Lane,
) {
    unrolled!(at most 32; for n in K::HeadDim::N_TILES => {
        let address = tile.chunk(row, n as u32) + lane.pair_column() * 2;
        // SAFETY: two elements of a chunk, 4-byte aligned; no other thread accesses them.
        unsafe { memory::store_shared_4(address, pack_pair::<K>(strip.all()[n], r)) };
    });
}

/// Stores LSE for the warp's rows; `lse` is the address of the head's row 0.
///
/// # Safety
/// Warp together; no other warp writes LSE of these rows.
#[inline(always)]
unsafe fn store_lse<K: Kernel, const M_TILES: usize>(
    softmax: &Statistics<M_TILES>,
    lse: u64,
    warp_row: u32,
    block: &Block<'_, K>,
    lane: Lane,
) {
    // The four lanes of a quad hold the same rows; the first one stores.
    if lane.pair_column() != 0 {
        return;
    }
    unrolled!(at most 4; for m in M_TILES => {
        unrolled!(at most 2; for r in ROWS_PER_LANE => {
            let row = lane.row(block.first_row() + warp_row, m, r);
            if !K::Sequence::HAS_TAIL || row < block.length() {
                let value = log_sum_exp(softmax.shift[m][r], softmax.sum[m][r]);
                // SAFETY: an element before the end, 4-byte aligned by the launch's checks.
                unsafe { memory::store_global_f32(lse + row as u64 * 4, value) };
            }
        });
    });
}
