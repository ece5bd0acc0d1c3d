//! Layout of the matrices of `wgmma` in shared memory (PTX ISA, "Matrix Descriptor", "Strides").

use crate::cluster_addresses::shared_base;
use crate::memory::Swizzle;

/// Bytes per read of an operand.
pub(super) const CHUNK: u64 = 16;
/// Number of 16-bit elements in a chunk.
pub(super) const CHUNK_ELEMENTS: usize = 8;

/// A matrix descriptor (PTX ISA, "Matrix Descriptor").
#[derive(Clone, Copy)]
pub(super) struct Descriptor {
    start: u64,
    leading: u64,
    stride: u64,
    swizzle: Swizzle,
    pub base_offset: u64,
}

impl Descriptor {
    /// The descriptor of a warp in the block with this rank: a descriptor only has room for an address within a block.
    pub fn new(bits: u64, rank: u32) -> Descriptor {
        let offset = |shift: u32| (bits >> shift & 0x3fff) << 4;
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes32,
        };
        let (start, leading, stride) = (shared_base(rank.into()) + offset(0), offset(16), offset(32));
        Descriptor { start, leading, stride, swizzle, base_offset: bits >> 49 & 7 }
    }

    /// The address of a chunk along K of the `row`-th row or column.
    pub fn chunk_along_k(self, row: usize, chunk: usize) -> u64 {
        let (row, k) = (row as u64, chunk as u64);
        // The pitch of a core matrix's rows is the span of the swizzle.
        let (pitch, along_k) = match self.swizzle {
            Swizzle::None => (CHUNK, self.leading),
            swizzle => (swizzle.row_bytes(), CHUNK),
        };
        self.swizzle.apply(self.start + row % 8 * pitch + row / 8 * self.stride + k * along_k)
    }

    /// The address of the chunk of eight 16-bit elements along M or N that begins at `row`, at depth `k`.
    pub fn chunk_along_rows(self, row: usize, k: usize) -> u64 {
        let (chunk, k) = (row as u64 / CHUNK_ELEMENTS as u64, k as u64);
        let place = match self.swizzle {
            Swizzle::None => chunk * self.stride + k % 8 * CHUNK + k / 8 * self.leading,
            swizzle => {
                let chunks = swizzle.row_bytes() / CHUNK;
                chunk % chunks * CHUNK
                    + chunk / chunks * self.leading
                    + k % 8 * swizzle.row_bytes()
                    + k / 8 * self.stride
            }
        };
        self.swizzle.apply(self.start + place)
    }
}
