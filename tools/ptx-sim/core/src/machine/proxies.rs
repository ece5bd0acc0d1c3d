//! Writes to shared memory that the async proxy may not see yet (PTX ISA, "Proxies", "fence.proxy.async").
//!
//! Asynchronous copies and `wgmma` see an ordinary write after a `fence.proxy.async` of the thread that wrote, or of
//! one that synchronised with it. For every 16 bytes the last writing warp and its time are stored. A fence covers the
//! writes of its own warp, and those of other warps before the last barrier of the block, whichever warps took part in
//! it.

use crate::cluster_addresses::{own_shared, shared_rank};

/// Granularity at which writes are remembered, bytes; the async proxy never accesses less.
const GRANULE: u64 = 16;

/// An ordinary write to shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrdinaryWrite {
    pub warp: u32,
    /// Number of barriers of the block before it.
    pub epoch: u64,
}

impl OrdinaryWrite {
    /// Whether a fence executed by a warp covers it.
    pub fn is_covered_by(self, warp: u32, epoch: u64) -> bool {
        self.warp == warp || self.epoch < epoch
    }
}

/// Writes to the shared memory of a cluster's blocks that no fence covers yet.
#[derive(Debug)]
pub(crate) struct Proxies {
    /// Last uncovered write to each granule, block by block.
    writes: Vec<Option<OrdinaryWrite>>,
    /// Granules per block.
    of_block: usize,
}

impl Proxies {
    /// For `blocks` blocks with a number of bytes each; empty if the program does not use the async proxy.
    pub fn new(blocks: usize, bytes: usize) -> Proxies {
        let of_block = bytes.div_ceil(GRANULE as usize);
        Proxies { writes: vec![None; blocks * of_block], of_block }
    }

    /// Whether writes are tracked.
    pub fn is_watching(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Clears everything.
    pub fn clear(&mut self) {
        self.writes.fill(None);
    }

    fn granules(&mut self, address: u64, bytes: usize) -> &mut [Option<OrdinaryWrite>] {
        let start = (shared_rank(address) as usize).saturating_mul(self.of_block).min(self.writes.len());
        let own = own_shared(address);
        let mine = &mut self.writes[start..];
        let last = mine.len().min(self.of_block);
        let end = own.saturating_add(bytes as u64).div_ceil(GRANULE) as usize;
        &mut mine[((own / GRANULE) as usize).min(last)..end.min(last)]
    }

    /// An ordinary write inside shared memory.
    pub fn write(&mut self, address: u64, bytes: usize, warp: u32, epoch: u64) {
        self.granules(address, bytes).fill(Some(OrdinaryWrite { warp, epoch }));
    }

    /// The async proxy writes.
    pub fn overwrite(&mut self, address: u64, bytes: usize) {
        self.granules(address, bytes).fill(None);
    }

    /// `fence.proxy.async` by a warp.
    pub fn fence(&mut self, warp: u32, epoch: u64) {
        self.writes.iter_mut().for_each(|write| *write = write.filter(|write| !write.is_covered_by(warp, epoch)));
    }

    /// The last warp that wrote part of the bytes without a covering fence.
    pub fn unfenced(&mut self, address: u64, bytes: usize) -> Option<u32> {
        self.granules(address, bytes).iter().flatten().next().map(|write| write.warp)
    }
}
