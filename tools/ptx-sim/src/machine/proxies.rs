//! Which bytes of shared memory the async proxy does not see yet (PTX ISA, "Proxies", "fence.proxy.async").
//!
//! An ordinary write is seen by asynchronous copies and `wgmma` after a `fence.proxy.async` of the thread that wrote, or
//! of one that synchronised with it. Kept for every 16 bytes: the warp that wrote last, and when. A fence covers what its
//! own warp wrote, and what other warps wrote before the block synchronised last, whoever took part in that.

use crate::cluster_addresses::{own_shared, shared_rank};

/// Bytes of which one write is remembered; the async proxy accesses no less.
const GRANULE: u64 = 16;

/// An ordinary write to shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrdinaryWrite {
    pub warp: u32,
    /// How often the block had synchronised.
    pub epoch: u64,
}

impl OrdinaryWrite {
    /// Whether a fence that a warp executes covers it.
    pub fn is_covered_by(self, warp: u32, epoch: u64) -> bool {
        self.warp == warp || self.epoch < epoch
    }
}

/// The writes to the shared memory of the blocks of a cluster that no fence covers.
#[derive(Debug)]
pub(crate) struct Proxies {
    /// Block by block.
    writes: Vec<Option<OrdinaryWrite>>,
    /// Those of each block.
    of_block: usize,
}

impl Proxies {
    /// For so many blocks with so many bytes of shared memory; none where the program makes no use of the async proxy.
    pub fn new(blocks: usize, bytes: usize) -> Proxies {
        let of_block = bytes.div_ceil(GRANULE as usize);
        Proxies { writes: vec![None; blocks * of_block], of_block }
    }

    /// Whether writes are kept at all.
    pub fn is_watching(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Forgets everything.
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

    /// The warp that wrote some of the bytes last without a fence that covers it.
    pub fn unfenced(&mut self, address: u64, bytes: usize) -> Option<u32> {
        self.granules(address, bytes).iter().flatten().next().map(|write| write.warp)
    }
}
