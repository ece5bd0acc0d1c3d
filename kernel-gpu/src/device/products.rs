//! The matrix products of one warp by `mma.sync` for 16 keys: S = Q·Kᵀ, O += P·V, and l += P·1. The gradients are made of the same
//! products, of other tensors.

use crate::device::kernel::{Kernel, Output, Tile};
use crate::device::lane::{Lane, ROWS_PER_LANE, Scores};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::{FragmentA, FragmentC};
use crate::device::ptx::{ldmatrix, mma};
use crate::device::stores::{QUAD, distance};
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::unrolled;
use contract::config::{MMA_K, MMA_M};

/// Chunks (8 elements) in the depth of one mma.
const CHUNKS_PER_K_STEP: u32 = 2;

/// Q of one warp: 16-column steps of the head dimension, for each strip of 16 rows.
pub type QueryFragments<K, const M_TILES: usize> = [<<K as Kernel>::HeadDim as HeadDim>::Queries; M_TILES];

/// Loads the warp's Q rows from shared memory to A fragments.
///
/// # Safety
/// Warp together, after the tile was copied and a barrier.
#[inline(always)]
pub unsafe fn load_queries<K: Kernel, const ROWS: u32, const M_TILES: usize>(
    tile: Tile<K, ROWS>,
    warp_row: u32,
    lane: Lane,
) -> QueryFragments<K, M_TILES> {
    let mut queries: QueryFragments<K, M_TILES> = [Fragments::zeros(); M_TILES];
    // Matrices in the order of A's registers: rows 0-7 and 8-15 of the left half, then of the right half.
    let (row, chunk) = (warp_row + lane.index % 16, lane.index / 16);
    let first = tile.chunk(row, chunk);
    // SAFETY: chunks of the tile; the caller has the warp together.
    unsafe {
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 16; for k in K::HeadDim::K_STEPS => {
                let address = Tile::<K, ROWS>::relative_chunk(first, m as u32 * MMA_M, k as u32 * CHUNKS_PER_K_STEP);
                queries[m].all_mut()[k] = ldmatrix::load_4(address);
            });
        });
    }
    queries
}

/// S = Q·Kᵀ for the warp's rows and part `part` of `keys`, 16 keys.
///
/// # Safety
/// Warp together, after the tile was copied and a barrier.
#[inline(always)]
pub unsafe fn scores<K: Kernel, const BLOCK_N: u32, const M_TILES: usize>(
    queries: &QueryFragments<K, M_TILES>,
    (keys, part): (Tile<K, BLOCK_N>, u32),
    lane: Lane,
) -> Scores<M_TILES, 2> {
    let mut scores = [[[0.0; 4]; 2]; M_TILES];
    // K's rows are the columns of B: two n-tiles of 8 keys; left and right halves of the k-step.
    let first = keys.chunk(lane.index / 16 * 8 + lane.index % 8, lane.index / 8 % 2);
    // SAFETY: chunks of the tile; the caller has the warp together.
    unsafe {
        unrolled!(at most 16; for k in K::HeadDim::K_STEPS => {
            let address = Tile::<K, BLOCK_N>::relative_chunk(first, part * MMA_K, k as u32 * CHUNKS_PER_K_STEP);
            let [b0, b1, b2, b3] = ldmatrix::load_4(address);
            unrolled!(at most 4; for m in M_TILES => {
                mma::multiply_accumulate::<K::Element>(&mut scores[m][0], queries[m].all()[k], [b0, b1]);
                mma::multiply_accumulate::<K::Element>(&mut scores[m][1], queries[m].all()[k], [b2, b3]);
            });
        });
    }
    scores
}

/// [`scores`] with fragments of Q that are loaded one by one, from the rows of `tile` from `warp_row` on: beside a wide O there are no
/// registers for all of them.
///
/// # Safety
/// Warp together, after both tiles were copied and a barrier.
#[inline(always)]
pub unsafe fn scores_of_shared<K: Kernel, const ROWS: u32, const BLOCK_N: u32, const M_TILES: usize>(
    (tile, warp_row): (Tile<K, ROWS>, u32),
    (keys, part): (Tile<K, BLOCK_N>, u32),
    lane: Lane,
) -> Scores<M_TILES, 2> {
    let mut scores = [[[0.0; 4]; 2]; M_TILES];
    let first_query = tile.chunk(warp_row + lane.index % 16, lane.index / 16);
    let first_key = keys.chunk(lane.index / 16 * 8 + lane.index % 8, lane.index / 8 % 2);
    // SAFETY: chunks of the tiles; the caller has the warp together.
    unsafe {
        unrolled!(at most 16; for k in K::HeadDim::K_STEPS => {
            let chunks = k as u32 * CHUNKS_PER_K_STEP;
            let [b0, b1, b2, b3] =
                ldmatrix::load_4(Tile::<K, BLOCK_N>::relative_chunk(first_key, part * MMA_K, chunks));
            unrolled!(at most 4; for m in M_TILES => {
                let query = ldmatrix::load_4(Tile::<K, ROWS>::relative_chunk(first_query, m as u32 * MMA_M, chunks));
                mma::multiply_accumulate::<K::Element>(&mut scores[m][0], query, [b0, b1]);
                mma::multiply_accumulate::<K::Element>(&mut scores[m][1], query, [b2, b3]);
            });
        });
    }
    scores
}

/// O += P·V for the warp's rows and part `part` of `values`, 16 keys.
///
/// # Safety
/// Warp together, after the tile was copied and a barrier.
#[inline(always)]
pub unsafe fn accumulate_output<K: Kernel, const BLOCK_N: u32, const M_TILES: usize>(
    output: &mut Output<K, M_TILES>,
    probabilities: &[FragmentA; M_TILES],
    values: (Tile<K, BLOCK_N>, u32),
    lane: Lane,
) {
    // SAFETY: the caller's promise.
    unsafe { accumulate_share::<K, _, BLOCK_N, M_TILES>((output, 0), probabilities, values, lane) };
}

/// [`accumulate_output`] of share `share` of the columns.
///
/// # Safety
/// As for [`accumulate_output`].
#[inline(always)]
pub unsafe fn accumulate_share<
    K: Kernel,
    F: Fragments<Fragment = FragmentC>,
    const BLOCK_N: u32,
    const M_TILES: usize,
>(
    (output, share): (&mut [F; M_TILES], u32),
    probabilities: &[FragmentA; M_TILES],
    (values, part): (Tile<K, BLOCK_N>, u32),
    lane: Lane,
) {
    // V's rows are the depth: transposed on load, two n-tiles of 8 columns at a time.
    let first = values.chunk(lane.index % 16, share * QUAD + lane.index / 16);
    // SAFETY: chunks of the tile; the caller has the warp together.
    unsafe {
        unrolled!(at most 16; for pair in const { F::COUNT / 2 } => {
            let chunks = const { distance::<K::HeadDim, F>(2 * pair) };
            let address = Tile::<K, BLOCK_N>::relative_chunk(first, part * MMA_K, chunks);
            let [b0, b1, b2, b3] = ldmatrix::load_4_transposed(address);
            unrolled!(at most 4; for m in M_TILES => {
                let output = output[m].all_mut();
                mma::multiply_accumulate::<K::Element>(&mut output[2 * pair], probabilities[m], [b0, b1]);
                mma::multiply_accumulate::<K::Element>(&mut output[2 * pair + 1], probabilities[m], [b2, b3]);
            });
        });
    }
}

/// l of one warp's rows: sums of P rounded to elements, as it is multiplied with V. All columns of a tile are equal.
pub struct RowSums<const M_TILES: usize>([FragmentC; M_TILES]);

impl<const M_TILES: usize> RowSums<M_TILES> {
    /// The initial state, before any probabilities.
    #[inline(always)]
    pub fn new() -> Self {
        Self([[0.0; 4]; M_TILES])
    }

    /// l += P·1 on the tensor cores, which are less busy than the warps: no additions, no exchange between lanes.
    ///
    /// # Safety
    /// Warp together.
    #[inline(always)]
    pub unsafe fn accumulate<E: Element>(&mut self, probabilities: &[FragmentA; M_TILES]) {
        unrolled!(at most 4; for m in M_TILES => {
            // SAFETY: warp together.
            unsafe { mma::multiply_accumulate::<E>(&mut self.0[m], probabilities[m], [E::ONES; 2]) };
        });
    }

    /// Multiplies the sum of part `r` (row g or g + 8) of strip `m` by `factor`.
    #[inline(always)]
    pub fn rescale(&mut self, m: usize, r: usize, factor: f32) {
        self.0[m][2 * r] *= factor;
        self.0[m][2 * r + 1] *= factor;
    }

    /// Whether every sum is below the element type's limit: no p overflowed, and none is NaN.
    #[inline(always)]
    pub fn are_sound<E: Element>(&self) -> bool {
        let mut total = 0.0;
        unrolled!(at most 4; for m in M_TILES => { total += self.0[m][0] + self.0[m][2] });
        // Also false for NaN.
        total < E::SUM_LIMIT
    }

    /// The sums of the rows that this lane holds.
    #[inline(always)]
    pub fn rows(&self) -> [[f32; ROWS_PER_LANE]; M_TILES] {
        let mut rows = [[0.0; ROWS_PER_LANE]; M_TILES];
        unrolled!(at most 4; for m in M_TILES => { rows[m] = [self.0[m][0], self.0[m][2]] });
        rows
    }
}
