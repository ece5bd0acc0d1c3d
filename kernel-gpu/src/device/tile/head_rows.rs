//! The rows of a head in global memory.

use crate::shared_tile::{CHUNK_BYTES, Element};
use contract::args::Strides;
use contract::geometry::BlockWork;

/// Elements of a chunk, the same for all types.
const CHUNK_ELEMENTS: u32 = CHUNK_BYTES / 2;

/// The rows of one head of a tensor in global memory.
#[derive(Clone, Copy)]
pub struct HeadRows {
    /// Address of row 0.
    base: u64,
    /// Bytes from one row to the next.
    pub(in crate::device) pitch: u64,
}

impl HeadRows {
    /// The rows from `begin` on of the head that `work` names, in the tensor at `tensor`. All offsets are 64-bit.
    #[inline(always)]
    pub fn new<E: Element>(tensor: u64, strides: &Strides, work: BlockWork, begin: u32) -> Self {
        let elements = work.batch as u64 * strides.batch + work.head as u64 * strides.head + begin as u64 * strides.row;
        Self { base: tensor + elements * E::BYTES as u64, pitch: strides.row * E::BYTES as u64 }
    }

    /// Address of chunk `chunk` of row `row`.
    #[inline(always)]
    pub fn chunk(self, row: u32, chunk: u32) -> u64 {
        self.base + row as u64 * self.pitch + (chunk * CHUNK_BYTES) as u64
    }
}

/// Whether D = `head_dim` includes chunk `chunk` of a tile's row; the tile may be wider than D.
#[inline(always)]
pub fn has_chunk(head_dim: u32, chunk: u32) -> bool {
    chunk < head_dim / CHUNK_ELEMENTS
}
