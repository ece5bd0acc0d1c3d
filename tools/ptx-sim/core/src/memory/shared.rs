//! The shared memory of a cluster's blocks, with addresses in the shared::cluster window (PTX ISA, ".shared", "mapa").
//! A block's memory begins at its rank times 16 MiB, as `ptxas` computes it for `sm_90a`.

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
    /// Memory of each block, by rank.
    blocks: Vec<Bytes>,
    /// Bytes in each block reserved for CUDA's own headers.
    system: usize,
}

impl SharedMemory {
    /// Unwritten memory of `blocks` blocks with `bytes` bytes each, after the bytes reserved for CUDA's own headers, if
    /// the program uses those.
    pub fn new(blocks: u32, bytes: usize, has_system: bool) -> SharedMemory {
        let system = if has_system { SYSTEM_SHARED_BYTES as usize } else { 0 };
        let start = SYSTEM_SHARED_BYTES - system as u64;
        let of = |rank| Bytes::new(shared_base(rank) + start, system + bytes);
        let mut shared = SharedMemory { blocks: (0..u64::from(blocks)).map(of).collect(), system };
        shared.clear();
        shared
    }

    /// Marks everything as unwritten. The bytes of CUDA's own headers become zeros, on which they rely (`memory.h` of
    /// `cooperative_groups`).
    pub fn clear(&mut self) {
        let zeros = vec![0; self.system];
        for (block, rank) in self.blocks.iter_mut().zip(0..) {
            block.clear();
            // It has that many bytes.
            let _ = block.store(shared_base(rank), &zeros);
        }
    }

    /// Index of the block to which an address belongs.
    fn index(&self, address: u64) -> Result<usize, OutOfBounds> {
        match (shared_rank(address) as usize, self.blocks.len()) {
            // With a single block, every address belongs to it.
            (_, 1) => Ok(0),
            (rank, blocks) if rank < blocks => Ok(rank),
            (rank, blocks) => Err(OutOfBounds(format!(
                "where a block of rank {rank} would have its own, in a cluster of {blocks} blocks"
            ))),
        }
    }

    /// Whether `bytes` bytes at `address` lie in one block.
    pub fn contains(&self, address: u64, bytes: usize) -> bool {
        self.index(address).is_ok_and(|index| self.blocks[index].contains(address, bytes))
    }

    /// Reads `data.len()` bytes; unwritten bytes and targets of copies in flight keep their previous contents.
    pub fn load(&self, address: u64, data: &mut [u8]) -> Result<State, OutOfBounds> {
        self.blocks[self.index(address)?].load(address, data)
    }

    /// Reads for the lanes of a warp; `None` unless everything is in one block, written, and without copies in flight.
    pub fn load_lanes<const BYTES: usize>(&self, accesses: &LaneAccesses) -> Option<[[u8; BYTES]; LANES]> {
        self.blocks[self.index(accesses.first).ok()?].load_lanes(accesses)
    }

    /// Writes for the lanes of a warp. False, with nothing written, unless everything is in one block without copies in
    /// flight.
    pub fn store_lanes<const BYTES: usize>(&mut self, accesses: &LaneAccesses, data: &[[u8; BYTES]; LANES]) -> bool {
        self.index(accesses.first).is_ok_and(|index| self.blocks[index].store_lanes(accesses, data))
    }

    /// As [`Bytes::unknown`].
    #[cold]
    pub fn unknown(&self, read: Read, data: &mut [u8]) -> UnknownBytes {
        self.index(read.address)
            .map_or_else(|_| UnknownBytes::default(), |index| self.blocks[index].unknown(read, data))
    }

    /// Sets the undetermined bits of bytes just written at `address`.
    #[cold]
    pub fn set_unknown(&mut self, address: u64, unknown: &UnknownBytes) {
        if let Ok(index) = self.index(address) {
            self.blocks[index].set_unknown(address, unknown);
        }
    }

    /// Writes `data`; true if a copy to some of the bytes is in flight.
    pub fn store(&mut self, address: u64, data: &[u8]) -> Result<bool, OutOfBounds> {
        let index = self.index(address)?;
        self.blocks[index].store(address, data)
    }

    /// Marks the target of an asynchronous copy; true if another copy to some of the bytes is in flight.
    pub fn begin_copy(&mut self, address: u64, bytes: usize) -> Result<bool, OutOfBounds> {
        let index = self.index(address)?;
        self.blocks[index].begin_copy(address, bytes)
    }

    /// Completes a copy to `address`.
    pub fn finish_copy(&mut self, address: u64, data: &[u8], unknown: &UnknownBytes) {
        if let Ok(index) = self.index(address) {
            self.blocks[index].finish_copy(address, data, unknown);
        }
    }
}
