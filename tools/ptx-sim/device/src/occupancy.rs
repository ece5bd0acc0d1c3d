//! Occupancy: resident blocks per multiprocessor.

use crate::architecture::{REGISTERS, RESERVED_SHARED_BYTES, THREADS_PER_BLOCK, WARP};
use crate::objects::Function;

/// Allocation granularity of shared memory, bytes.
const SHARED_GRANULE: u64 = 128;
/// Allocation granularity of the registers of a warp.
const REGISTER_GRANULE: u32 = 256;

impl Function {
    /// Resident blocks per multiprocessor for blocks of `threads` threads with `dynamic_shared_bytes` of dynamic shared
    /// memory (`cuOccupancyMaxActiveBlocksPerMultiprocessor`); 0 if none fits.
    pub fn active_blocks(&self, threads: u32, dynamic_shared_bytes: u64) -> u32 {
        if threads == 0 || threads > self.max_threads() {
            return 0;
        }
        let architecture = &self.context().machine().config().architecture;
        let warps = threads.div_ceil(WARP);
        let by_threads = architecture.threads / (warps * WARP);
        let by_registers = REGISTERS / (warps * (self.registers() * WARP).next_multiple_of(REGISTER_GRANULE));
        let wanted = self.shared_bytes().saturating_add(dynamic_shared_bytes);
        if wanted > u64::from(architecture.shared_bytes_per_block) {
            return 0;
        }
        let block = (wanted + u64::from(RESERVED_SHARED_BYTES)).next_multiple_of(SHARED_GRANULE);
        let by_shared = (u64::from(architecture.shared_bytes) / block) as u32;
        architecture.blocks.min(by_threads).min(by_registers).min(by_shared)
    }

    /// Resident clusters of `blocks` blocks on the GPU, with blocks as for [`Function::active_blocks`]
    /// (`cuOccupancyMaxActiveClusters`). Here a cluster may use any multiprocessors; on a GPU it is limited to one GPC.
    pub fn active_clusters(&self, blocks: u32, threads: u32, dynamic_shared_bytes: u64) -> u32 {
        let multiprocessors = self.context().machine().config().multiprocessors;
        let active = u64::from(self.active_blocks(threads, dynamic_shared_bytes)) * u64::from(multiprocessors);
        u32::try_from(active.checked_div(blocks.into()).unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// The block size with the highest occupancy, and the number of blocks that fill the GPU
    /// (`cuOccupancyMaxPotentialBlockSize`); `shared` gives the dynamic shared memory of a block of a number of
    /// threads.
    pub fn best_block(&self, shared: impl Fn(u32) -> u64, limit: u32) -> (u32, u32) {
        let most = if limit == 0 { THREADS_PER_BLOCK } else { limit }.min(self.max_threads());
        let sizes = (1..=most / WARP).rev().map(|warps| warps * WARP).chain((most < WARP).then_some(most));
        let filled = sizes.map(|threads| (threads, self.active_blocks(threads, shared(threads))));
        // Among equals the first, which is the largest.
        let best = filled.reduce(|best, next| if next.0 * next.1 > best.0 * best.1 { next } else { best });
        let (threads, blocks) = best.unwrap_or((0, 0));
        (threads, blocks * self.context().machine().config().multiprocessors)
    }

    /// Dynamic shared memory in bytes available to each of `blocks` resident blocks of `threads` threads on a
    /// multiprocessor (`cuOccupancyAvailableDynamicSMemPerBlock`).
    pub fn available_dynamic_shared(&self, blocks: u32, threads: u32) -> u64 {
        if blocks == 0 || self.active_blocks(threads, 0) < blocks {
            return 0;
        }
        let architecture = &self.context().machine().config().architecture;
        let each = u64::from(architecture.shared_bytes / blocks) / SHARED_GRANULE * SHARED_GRANULE;
        let block = each.saturating_sub(RESERVED_SHARED_BYTES.into()).min(architecture.shared_bytes_per_block.into());
        block.saturating_sub(self.shared_bytes())
    }
}
