//! The warp that stores O and LSE, while the computing warpgroups continue with their next strip.

use crate::device::lane::Lane;
use crate::device::ptx::{bulk_copy, mbarrier, memory, sync};
use crate::device::sequence::Sequence;
use crate::device::softmax::log_sum_exp;
use crate::device::tma::context::Context;
use crate::device::tma::copies::StripCopy;
use crate::device::tma::kernel::{ROWS, TmaKernel};
use crate::device::tma::mapped::Mapped;
use crate::device::tma::memory::Memory;
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use contract::config::WARP_SIZE;

/// Stores from the block's shared memory.
pub struct Storer<'a, K: TmaKernel> {
    context: &'a Context<'a, K>,
    memory: Memory<K>,
    lane: Lane,
    /// Whether this lane starts the copies.
    copies: bool,
}

impl<'a, K: TmaKernel> Storer<'a, K> {
    /// The storer of the block; `copies` is true in one lane of the warp.
    #[inline(always)]
    pub fn new(context: &'a Context<'a, K>, lane: Lane, copies: bool) -> Self {
        Self { context, memory: context.memory, lane, copies }
    }

    /// Prefetches the tensor map of O, long before it is used.
    ///
    /// # Safety
    /// The launch has tensor maps.
    #[inline(always)]
    pub unsafe fn prefetch_map(&self) {
        if self.copies {
            // SAFETY: a map of the launch.
            unsafe { bulk_copy::prefetch_map(self.context.maps.o()) };
        }
    }

    /// Stores O and LSE of a strip once it is computed, and releases its place. Rows beyond the end are not stored.
    ///
    /// # Safety
    /// Warp together, for the strips in order.
    #[inline(always)]
    pub unsafe fn store_strip(&self, copy: StripCopy) {
        let StripCopy { place, parity, work, tile, .. } = copy;
        // SAFETY: initialised mbarriers and a map of O. The strip's warps executed a fence after their writes before they arrived;
        // the place is released after the copy has read it and each lane its statistics.
        unsafe {
            mbarrier::wait(self.memory.strip_computed(place), parity);
            if self.copies && (!K::Sequence::IS_LOOKED_UP || copy.has_rows()) {
                let first = K::Sequence::in_maps(self.context.args, work, tile).after(tile.first_row);
                let tile = self.memory.strip(place);
                unrolled!(at most 4; for panel in const { Rows::<K>::PANELS as usize } => {
                    let coordinates = first.coordinates(panel as u32 * Rows::<K>::PANEL_COLUMNS);
                    bulk_copy::store_box_4d(self.context.maps.o(), coordinates, tile.panel(panel as u32));
                });
                bulk_copy::commit_group();
            }
            // Reconverged, since otherwise LSE would be computed twice: by the copying lane, and by the others.
            sync::converge_warp();
            self.store_lse(copy);
            if self.copies {
                bulk_copy::wait_for_reads::<0>();
            }
            mbarrier::arrive(self.memory.strip_empty(place));
        }
    }

    /// Stores LSE of a strip if requested, several rows per lane.
    ///
    /// # Safety
    /// Warp together, after the strip is computed.
    #[inline(always)]
    unsafe fn store_lse(&self, StripCopy { place, work, tile, .. }: StripCopy) {
        let args = self.context.args;
        if args.lse == 0 {
            return;
        }
        let first = K::Sequence::lse_row(args, work, tile);
        unrolled!(at most 2; for part in const { (ROWS / WARP_SIZE) as usize } => {
            let row = self.lane.index + part as u32 * WARP_SIZE;
            if tile.first_row + row < tile.length {
                // SAFETY: statistics that the strip's warps wrote before they arrived; the head has an element of LSE for
                // each row before the end.
                unsafe {
                    let [shift, sum] = memory::load_shared_pair(self.memory.statistics(place, row));
                    let element = first + (tile.first_row + row) as u64;
                    memory::store_global_f32(args.lse + element * size_of::<f32>() as u64, log_sum_exp(shift, sum));
                }
            }
        });
    }
}
