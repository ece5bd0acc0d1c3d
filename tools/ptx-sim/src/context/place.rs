//! Where one lane accesses memory.

use crate::memory::resolve;
use crate::parse::Space;

/// Where a lane accesses memory, and how that has to be aligned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub lane: usize,
    pub space: Space,
    /// In the space.
    pub address: u64,
    /// What the address has to be a multiple of.
    pub alignment: u64,
    /// Whether a texture or a surface leads there, which reaches CUDA arrays too.
    pub is_texel: bool,
}

impl Place {
    /// An address in `space`; `None` stands for a generic address.
    pub fn new(lane: usize, space: Option<Space>, address: u64, alignment: u64) -> Place {
        let (space, address) = space.map_or_else(|| resolve(address), |space| (space, address));
        Place { lane, space, address, alignment, is_texel: false }
    }

    /// An address in global memory.
    pub fn global(lane: usize, address: u64, alignment: u64) -> Place {
        Place { lane, space: Space::Global, address, alignment, is_texel: false }
    }

    /// A texel in global memory, which its coordinates have aligned.
    pub fn texel(lane: usize, address: u64) -> Place {
        Place { lane, space: Space::Global, address, alignment: 1, is_texel: true }
    }

    /// An address in shared memory.
    pub fn shared(lane: usize, address: u64, alignment: u64) -> Place {
        Place { lane, space: Space::Shared, address, alignment, is_texel: false }
    }
}
