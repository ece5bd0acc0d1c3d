//! The sm_80 family: `cp.async`, `ldmatrix`, `mma.sync`. One thread block computes `BLOCK_M` query rows of one head;
//! each warp owns `M_TILES` strips of 16 of them. K and V pass through shared memory in `STAGES` stages of `BLOCK_N` keys.

mod copy;
mod epilogue;
mod forward;
mod products;
mod softmax;

pub use forward::forward;

use crate::config::{HEAD_DIM, MMA_K, MMA_M, MMA_N};
use crate::device::ptx::mma::{FragmentA, FragmentC};
use crate::shared_tile::{F16, SharedTile, Swizzle128};

/// A tile of `ROWS` rows of Q, K, V or O in shared memory.
type Tile<const ROWS: u32> = SharedTile<F16, ROWS, HEAD_DIM, Swizzle128>;

/// 16-column steps of the head dimension: the depth of Q·Kᵀ.
const HEAD_K_STEPS: usize = (HEAD_DIM / MMA_K) as usize;
/// 8-column tiles of the head dimension: the width of O.
const HEAD_N_TILES: usize = (HEAD_DIM / MMA_N) as usize;

/// Q of one warp: for each strip of 16 rows, the head dimension in steps of 16.
type QueryFragments<const M_TILES: usize> = [[FragmentA; HEAD_K_STEPS]; M_TILES];
/// Scores, then probabilities, of one warp: for each strip of 16 rows, tiles of 8 keys.
type Scores<const M_TILES: usize, const N_TILES: usize> = [[FragmentC; N_TILES]; M_TILES];
/// Unnormalised O of one warp: for each strip of 16 rows, tiles of 8 columns.
type Output<const M_TILES: usize> = [[FragmentC; HEAD_N_TILES]; M_TILES];

/// Rows of a `FragmentC` that one lane holds parts of: g and g + 8.
const ROWS_PER_LANE: usize = 2;

/// Where a lane stands in its warp and block.
#[derive(Clone, Copy)]
struct Lane {
    /// `threadIdx.x`
    thread: u32,
    /// Warp of the block.
    warp: u32,
    /// Lane of the warp.
    index: u32,
}

impl Lane {
    #[inline(always)]
    fn current() -> Self {
        let thread = crate::device::codegen::thread::thread_idx_x();
        Self { thread, warp: thread / crate::config::WARP_SIZE, index: thread % crate::config::WARP_SIZE }
    }

    /// g: the row of an accumulator tile that this lane holds, besides g + 8.
    #[inline(always)]
    fn group(self) -> u32 {
        self.index / 4
    }

    /// The row of part `r` (g or g + 8) of strip `m`, counted like the warp's `first_row`.
    #[inline(always)]
    fn row(self, first_row: u32, m: usize, r: usize) -> u32 {
        first_row + m as u32 * MMA_M + r as u32 * 8 + self.group()
    }

    /// 2t: the first of the two columns of an accumulator tile that this lane holds.
    #[inline(always)]
    fn pair_column(self) -> u32 {
        self.index % 4 * 2
    }
}
