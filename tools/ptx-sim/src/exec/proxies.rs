//! Which bytes of shared memory the async proxy does not see yet (PTX ISA, "Proxies", "fence.proxy.async").
//!
//! An ordinary write is seen by asynchronous copies and `wgmma` after a `fence.proxy.async` of the thread that wrote, or
//! of one that synchronised with it. Kept for every 16 bytes: the warp that wrote last, and when. A fence covers what its
//! own warp wrote, and what other warps wrote before the block synchronised last, whoever took part in that.

/// Bytes of which one write is remembered; the async proxy reads no less.
const GRANULE: u64 = 16;

/// The last ordinary write to a granule, if no fence covers it.
#[derive(Clone, Copy, Debug)]
struct Write {
    warp: u32,
    /// How often the block had synchronised.
    epoch: u64,
}

/// The writes to the shared memory of a block that no fence covers.
#[derive(Debug)]
pub(crate) struct Proxies {
    writes: Vec<Option<Write>>,
}

impl Proxies {
    /// For so many bytes of shared memory; none where the program makes no use of the async proxy.
    pub fn new(bytes: usize) -> Proxies {
        Proxies { writes: vec![None; bytes.div_ceil(GRANULE as usize)] }
    }

    /// Whether writes are kept at all.
    pub fn is_watching(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.writes.fill(None);
    }

    fn granules(&mut self, address: u64, bytes: usize) -> &mut [Option<Write>] {
        let last = self.writes.len();
        let end = address.saturating_add(bytes as u64).div_ceil(GRANULE) as usize;
        &mut self.writes[((address / GRANULE) as usize).min(last)..end.min(last)]
    }

    /// An ordinary write inside shared memory.
    pub fn write(&mut self, address: u64, bytes: usize, warp: u32, epoch: u64) {
        self.granules(address, bytes).fill(Some(Write { warp, epoch }));
    }

    /// The async proxy writes.
    pub fn overwrite(&mut self, address: u64, bytes: usize) {
        self.granules(address, bytes).fill(None);
    }

    /// `fence.proxy.async` by a warp.
    pub fn fence(&mut self, warp: u32, epoch: u64) {
        let covered = |write: &Write| write.warp == warp || write.epoch < epoch;
        self.writes.iter_mut().for_each(|write| *write = write.filter(|write| !covered(write)));
    }

    /// The warp that wrote some of the bytes last without a fence that covers it.
    pub fn unfenced(&mut self, address: u64, bytes: usize) -> Option<u32> {
        self.granules(address, bytes).iter().flatten().next().map(|write| write.warp)
    }
}
