//! Which elements of its warp's accumulators a lane holds.

use crate::device::codegen::thread;
use crate::device::hidden;
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::{FragmentA, FragmentC};
#[cfg(feature = "sm_90a")]
use crate::device::unrolled;
use contract::config::{MMA_M, WARP_SIZE};

/// Rows of a `FragmentC` that one lane holds parts of: g and g + 8.
pub const ROWS_PER_LANE: usize = 2;

/// Scores, later probabilities, of one warp: 8-key tiles, for each strip of 16 rows.
pub type Scores<const M_TILES: usize, const N_TILES: usize> = [[FragmentC; N_TILES]; M_TILES];

/// P of a strip for 16 keys, rounded to elements, from two 8-key tiles, which hold exactly the elements that an A fragment
/// has in the same lane.
#[inline(always)]
pub fn pack_probabilities<E: Element>(left: FragmentC, right: FragmentC) -> FragmentA {
    [E::pack(left[0], left[1]), E::pack(left[2], left[3]), E::pack(right[0], right[1]), E::pack(right[2], right[3])]
}

/// The same of 8-column tiles side by side: A fragments for `STEPS` steps of 16 columns.
#[cfg(feature = "sm_90a")]
#[inline(always)]
pub fn pack_columns<E: Element, const STEPS: usize>(tiles: &[FragmentC]) -> [FragmentA; STEPS] {
    let mut fragments = [[0; 4]; STEPS];
    unrolled!(at most 4; for k in STEPS => {
        fragments[k] = pack_probabilities::<E>(tiles[2 * k], tiles[2 * k + 1]);
    });
    fragments
}

/// The position of a lane in its warp and block.
#[derive(Clone, Copy)]
pub struct Lane {
    /// `threadIdx.x`
    pub thread: u32,
    /// Index of the warp in the block.
    pub warp: u32,
    /// Index of the lane in the warp.
    pub index: u32,
}

impl Lane {
    /// The position of the calling thread.
    #[inline(always)]
    pub fn current() -> Self {
        Self::of(thread::thread_idx_x())
    }

    /// The position of a thread.
    #[inline(always)]
    const fn of(thread: u32) -> Self {
        Self { thread, warp: thread / WARP_SIZE, index: thread % WARP_SIZE }
    }

    /// The same lane, with everything recomputed from its thread index ([`hidden::recompute`]).
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    pub fn recomputed_from_thread(self) -> Self {
        Self::of(hidden::recompute(self.thread))
    }

    /// The same lane, with everything recomputed from its lane index ([`hidden::recompute`]).
    #[inline(always)]
    pub fn recomputed(self) -> Self {
        Self { index: hidden::recompute(self.index), ..self }
    }

    /// g: this lane holds rows g and g + 8 of an accumulator tile.
    #[inline(always)]
    fn group(self) -> u32 {
        self.index / 4
    }

    /// The row of part `r` (g or g + 8) of strip `m`, counted like the warp's `first_row`.
    #[inline(always)]
    pub fn row(self, first_row: u32, m: usize, r: usize) -> u32 {
        // Rows may be positions before the first key, which wrap.
        first_row.wrapping_add(m as u32 * MMA_M).wrapping_add(r as u32 * 8).wrapping_add(self.group())
    }

    /// 2t: this lane holds columns 2t and 2t + 1 of an accumulator tile.
    #[inline(always)]
    pub fn pair_column(self) -> u32 {
        self.index % 4 * 2
    }
}
