//! The shared memory of the blocks of a cluster, and the addresses under which they reach each other's (PTX ISA, ".shared",
//! "mapa"). Those of a block begin at its rank times 16 MiB, as `ptxas` computes them for `sm_90a`.

use super::bytes::{Bytes, State};
use super::error::OutOfBounds;
use super::spaces::SYSTEM_SHARED_BYTES;
use crate::cluster_addresses::{shared_base, shared_rank};
use crate::lane_accesses::LaneAccesses;
use crate::lanes::LANES;
use crate::unknown::{Read, UnknownBytes};

/// The shared memory of the blocks of a cluster.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    /// By rank.
    blocks: Vec<Bytes>,
    /// Bytes of each that are those of CUDA's own headers.
    system: usize,
}

impl SharedMemory {
    /// Of so many blocks with so many bytes each, of which nothing is written. In front of them is that of CUDA's own headers, where
    /// there is a program that uses it.
    pub fn new(blocks: u32, bytes: usize, has_system: bool) -> SharedMemory {
        let system = if has_system { SYSTEM_SHARED_BYTES as usize } else { 0 };
        let start = SYSTEM_SHARED_BYTES - system as u64;
        let of = |rank| Bytes::new(shared_base(rank) + start, system + bytes);
        let mut shared = SharedMemory { blocks: (0..u64::from(blocks)).map(of).collect(), system };
        shared.clear();
        shared
    }

    /// Forgets everything that was written. What CUDA's own headers have is zeros then: they rely on it (`memory.h` of
    /// `cooperative_groups`).
    pub fn clear(&mut self) {
        let zeros = vec![0; self.system];
        for (block, rank) in self.blocks.iter_mut().zip(0..) {
            block.clear();
            // It has that many bytes.
            let _ = block.store(shared_base(rank), &zeros);
        }
    }

    /// The index of the block that an address belongs to.
    fn index(&self, address: u64) -> Result<usize, OutOfBounds> {
        match (shared_rank(address) as usize, self.blocks.len()) {
            // Whatever lies there belongs to the only one.
            (_, 1) => Ok(0),
            (rank, blocks) if rank < blocks => Ok(rank),
            (rank, blocks) => Err(OutOfBounds(format!(
                "where a block of rank {rank} would have its own, in a cluster of {blocks} blocks"
            ))),
        }
    }

    /// Whether `bytes` bytes at `address` are those of one block.
    pub fn contains(&self, address: u64, bytes: usize) -> bool {
        self.index(address).is_ok_and(|index| self.blocks[index].contains(address, bytes))
    }

    /// Reads `data.len()` bytes; what was never written or is in flight reads as it was before.
    pub fn load(&self, address: u64, data: &mut [u8]) -> Result<State, OutOfBounds> {
        self.blocks[self.index(address)?].load(address, data)
    }

    /// Reads what the lanes of a warp do; `None` when that is not all in one block, or not all written and at rest.
    pub fn load_lanes<const BYTES: usize>(&self, accesses: &LaneAccesses) -> Option<[[u8; BYTES]; LANES]> {
        self.blocks[self.index(accesses.first).ok()?].load_lanes(accesses)
    }

    /// Writes what the lanes of a warp do; false, and nothing is written, when that is not all in one block and at rest.
    pub fn store_lanes<const BYTES: usize>(&mut self, accesses: &LaneAccesses, data: &[[u8; BYTES]; LANES]) -> bool {
        self.index(accesses.first).is_ok_and(|index| self.blocks[index].store_lanes(accesses, data))
    }

    /// What is not known of the bytes of a read that lies inside. Bits that are not known read as zeros.
    #[cold]
    pub fn unknown(&self, read: Read, data: &mut [u8]) -> UnknownBytes {
        self.index(read.address)
            .map_or_else(|_| UnknownBytes::default(), |index| self.blocks[index].unknown(read, data))
    }

    /// Says what is not known of bytes that were written just now, from `address` on.
    #[cold]
    pub fn set_unknown(&mut self, address: u64, unknown: &UnknownBytes) {
        if let Ok(index) = self.index(address) {
            self.blocks[index].set_unknown(address, unknown);
        }
    }

    /// Writes `data`; true when a copy to some of the bytes is in flight.
    pub fn store(&mut self, address: u64, data: &[u8]) -> Result<bool, OutOfBounds> {
        let index = self.index(address)?;
        self.blocks[index].store(address, data)
    }

    /// Marks the target of an asynchronous copy; true when another copy to some of the bytes is in flight.
    pub fn begin_copy(&mut self, address: u64, bytes: usize) -> Result<bool, OutOfBounds> {
        let index = self.index(address)?;
        self.blocks[index].begin_copy(address, bytes)
    }

    /// Completes a copy begun at `address`.
    pub fn finish_copy(&mut self, address: u64, data: &[u8], unknown: &UnknownBytes) {
        if let Ok(index) = self.index(address) {
            self.blocks[index].finish_copy(address, data, unknown);
        }
    }
}
