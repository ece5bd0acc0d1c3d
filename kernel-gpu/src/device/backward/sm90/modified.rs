//! Changed scores, some tiles at a time: beside the accumulators there are no registers for all capped scores, which the derivative of the softcap
//! takes.

use super::kernel::K_STEPS;
use super::kernel::N_TILES;
use crate::device::kernel::Kernel;
use crate::device::lane::Scores;
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentA;
use crate::device::scores::ScoreMod;
use crate::device::unrolled;

/// 8-column tiles that are changed together.
pub const PART: usize = 4;

/// What was fetched for the scores of a step.
pub type Fetched<K> = <<K as Kernel>::ScoreMod as ScoreMod>::Fetched<1, N_TILES>;

/// The tiles of a part, from tile `first` on.
#[inline(always)]
pub fn tiles_of(scores: &Scores<1, N_TILES>, first: usize) -> Scores<1, PART> {
    let mut tiles = [[[0.0; 4]; PART]];
    unrolled!(at most 4; for n in PART => { tiles[0][n] = scores[0][first + n] });
    tiles
}

/// Rounds the tiles of a part, from tile `first` on, as [`pack_columns`](crate::device::lane::pack_columns) does all.
#[inline(always)]
pub fn pack_part<K: Kernel>(fragments: &mut [FragmentA; K_STEPS], tiles: &Scores<1, PART>, first: usize) {
    unrolled!(at most 4; for n in PART => {
        let (tile, [a, b, c, d]) = (first + n, tiles[0][n]);
        fragments[tile / 2][tile % 2 * 2] = K::Element::pack(a, b);
        fragments[tile / 2][tile % 2 * 2 + 1] = K::Element::pack(c, d);
    });
}
