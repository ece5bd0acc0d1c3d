//! The two matrix products: S = Q·Kᵀ and O += P·V.

use crate::config::{MMA_K, MMA_M};
use crate::device::attention::{HEAD_K_STEPS, HEAD_N_TILES, Lane, Output, Scores, Tile, pack_probabilities};
use crate::device::ptx::mma::FragmentA;
use crate::device::ptx::{ldmatrix, mma};
use crate::device::unroll;

/// Chunks (8 halves) in the depth of one mma.
const CHUNKS_PER_K_STEP: u32 = 2;

/// Q of one warp: for each strip of 16 rows, the head dimension in steps of 16.
pub type QueryFragments<const M_TILES: usize> = [[FragmentA; HEAD_K_STEPS]; M_TILES];

/// Loads the warp's Q rows from shared memory to A fragments.
///
/// # Safety
/// The whole warp calls this together, after the tile was copied and a barrier.
#[inline(always)]
pub unsafe fn load_queries<const ROWS: u32, const M_TILES: usize>(
    tile: Tile<ROWS>,
    warp_row: u32,
    lane: Lane,
) -> QueryFragments<M_TILES> {
    let mut queries = [[[0; 4]; HEAD_K_STEPS]; M_TILES];
    // Matrices in the order of A's registers: rows 0-7 and 8-15 of the left half, then of the right half.
    let (row, chunk) = (warp_row + lane.index % 16, lane.index / 16);
    unroll!(at most 4; for m in M_TILES => {
        unroll!(at most 4; for k in HEAD_K_STEPS => {
            let address = tile.chunk(row + m as u32 * MMA_M, k as u32 * CHUNKS_PER_K_STEP + chunk);
            // SAFETY: a chunk of the tile; the caller has the warp together.
            queries[m][k] = unsafe { ldmatrix::load_4(address) };
        });
    });
    queries
}

/// S = Q·Kᵀ for the warp's rows and the tile's keys.
///
/// # Safety
/// The whole warp calls this together, after the tile was copied and a barrier.
#[inline(always)]
pub unsafe fn scores<const BLOCK_N: u32, const M_TILES: usize, const N_TILES: usize>(
    queries: &QueryFragments<M_TILES>,
    keys: Tile<BLOCK_N>,
    lane: Lane,
) -> Scores<M_TILES, N_TILES> {
    let mut scores = [[[0.0; 4]; N_TILES]; M_TILES];
    // K's rows are the columns of B: two n-tiles of 8 keys at a time, left and right half of the k-step.
    let (row, chunk) = (lane.index / 16 * 8 + lane.index % 8, lane.index / 8 % 2);
    unroll!(at most 4; for k in HEAD_K_STEPS => {
        let first_keys = keys.chunk(row, k as u32 * CHUNKS_PER_K_STEP + chunk);
        unroll!(at most 8; for pair in N_TILES / 2 => {
            let address = Tile::<BLOCK_N>::below::<{ pair as u32 * 16 }>(first_keys);
            // SAFETY: a chunk of the tile; the caller has the warp together.
            let [b0, b1, b2, b3] = unsafe { ldmatrix::load_4(address) };
            unroll!(at most 4; for m in M_TILES => {
                // SAFETY: the caller has the warp together.
                unsafe {
                    mma::multiply_accumulate(&mut scores[m][2 * pair], queries[m][k], [b0, b1]);
                    mma::multiply_accumulate(&mut scores[m][2 * pair + 1], queries[m][k], [b2, b3]);
                }
            });
        });
    });
    scores
}

/// O += P·V for the warp's rows and the tile's keys.
///
/// # Safety
/// The whole warp calls this together, after the tile was copied and a barrier.
#[inline(always)]
pub unsafe fn accumulate_output<const BLOCK_N: u32, const M_TILES: usize, const N_TILES: usize>(
    output: &mut Output<M_TILES>,
    probabilities: &Scores<M_TILES, N_TILES>,
    values: Tile<BLOCK_N>,
    lane: Lane,
) {
    // V's rows are the depth: transposed on load, two n-tiles of 8 columns at a time.
    let (row, chunk) = (lane.index % 16, lane.index / 16);
    unroll!(at most 8; for k in N_TILES / 2 => {
        let mut p = [[0; 4]; M_TILES];
        unroll!(at most 4; for m in M_TILES => {
            p[m] = pack_probabilities(probabilities[m][2 * k], probabilities[m][2 * k + 1]);
        });
        unroll!(at most 4; for pair in HEAD_N_TILES / 2 => {
            let first_keys = values.chunk(row, pair as u32 * 2 + chunk);
            let address = Tile::<BLOCK_N>::below::<{ k as u32 * MMA_K }>(first_keys);
            // SAFETY: a chunk of the tile; the caller has the warp together.
            let [b0, b1, b2, b3] = unsafe { ldmatrix::load_4_transposed(address) };
            unroll!(at most 4; for m in M_TILES => {
                // SAFETY: the caller has the warp together.
                unsafe {
                    mma::multiply_accumulate(&mut output[m][2 * pair], p[m], [b0, b1]);
                    mma::multiply_accumulate(&mut output[m][2 * pair + 1], p[m], [b2, b3]);
                }
            });
        });
    });
}
