//! A warpgroup's own rows of a tensor, the left operand of its first products.

use super::kernel::{N_TILES, Sm90Backward};
use crate::device::hidden;
use crate::device::kernel::Kernel;
use crate::device::lane::{Lane, Scores};
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::wgmma::{Accumulators, Descriptor, KMajor, Registers};
use crate::device::ptx::{ldmatrix, proxy};
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use contract::config::{MMA_M, WARPGROUP_WARPS};

/// 64 own rows: in registers, or in shared memory.
pub struct OwnRows<K: Kernel> {
    rows: Rows<K>,
    fragments: <K::HeadDim as HeadDim>::Queries,
}

impl<K: Sm90Backward> OwnRows<K> {
    /// The rows at `rows`.
    ///
    /// # Safety
    /// Warpgroup together; the rows have arrived. If they are not [kept](Sm90Backward::KEEPS_OWN_ROWS) in registers, they stay where they are.
    #[inline(always)]
    pub unsafe fn of(rows: Rows<K>, lane: Lane) -> Self {
        let mut fragments = <K::HeadDim as HeadDim>::Queries::zeros();
        if K::KEEPS_OWN_ROWS {
            // Matrices in the order of A's registers: rows 0-7 and 8-15 of the left half, then of the right half.
            let warp_row = lane.warp % WARPGROUP_WARPS * MMA_M;
            let first = rows.chunk(warp_row + lane.index % MMA_M, lane.index / MMA_M);
            unrolled!(at most 16; for k in K::HeadDim::K_STEPS => {
                // SAFETY: chunks of the rows; the warp is together.
                fragments.all_mut()[k] = unsafe { ldmatrix::load_4(Rows::<K>::chunk_after(first, 2 * k as u32)) };
            });
            // Otherwise a copy to the rows, once they are released, may overtake the loads; on an H200 it did.
            proxy::fence_async_shared();
        }
        Self { rows, fragments }
    }

    /// Starts `scores` = own · `other`ᵀ, as part of a group.
    ///
    /// # Safety
    /// Warpgroup together, after a fence, with no product of `scores` in flight; both have arrived, and are not overwritten.
    #[inline(always)]
    pub unsafe fn start_product(&self, other: Rows<K>, scores: &mut Scores<1, N_TILES>) {
        let right = Descriptor::<KMajor, Rows<K>>::new(hidden::recompute(other.address()));
        // SAFETY: the caller's promise.
        unsafe {
            if K::KEEPS_OWN_ROWS {
                unrolled!(at most 16; for k in K::HeadDim::K_STEPS => {
                    scores[0].multiply_fragment::<K::Element, _>(self.fragments.all()[k], right.step(k), k != 0);
                });
            } else {
                // Recomputed: those of all steps would stay in registers.
                let left = Descriptor::<KMajor, Rows<K>>::new(hidden::recompute(self.rows.address()));
                scores[0] = <[FragmentC; N_TILES]>::multiply::<K::Element, _, _>(left, right);
                unrolled!(at most 16; for k in K::HeadDim::K_STEPS => {
                    if k != 0 {
                        scores[0].multiply_accumulate::<K::Element, _, _>(left.step(k), right.step(k));
                    }
                });
            }
        }
    }

    /// Pins the registers that [`Self::start_product`] reads. With rows in shared memory those of `scores` are none of them: pinned, they would
    /// occupy their place until then.
    #[inline(always)]
    pub fn pin_read(&mut self, scores: &mut Scores<1, N_TILES>) {
        if K::KEEPS_OWN_ROWS {
            self.pin(scores);
        }
    }

    /// Pins the registers of [`Self::start_product`] behind it.
    #[inline(always)]
    pub fn pin(&mut self, scores: &mut Scores<1, N_TILES>) {
        if K::KEEPS_OWN_ROWS {
            self.fragments.pin();
        }
        scores.pin();
    }
}
