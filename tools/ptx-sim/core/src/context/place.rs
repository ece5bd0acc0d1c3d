//! The place of a lane's memory access.

use crate::memory::resolve;
use crate::parse::Space;

/// The place of a lane's memory access, with its required alignment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub lane: usize,
    pub space: Space,
    /// Address within the space.
    pub address: u64,
    /// Required alignment.
    pub alignment: u64,
    /// Whether it is accessed through a texture or surface, which may also refer to CUDA arrays.
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

    /// A texel in global memory; its coordinates imply its alignment.
    pub fn texel(lane: usize, address: u64) -> Place {
        Place { lane, space: Space::Global, address, alignment: 1, is_texel: true }
    }

    /// An address in shared memory.
    pub fn shared(lane: usize, address: u64, alignment: u64) -> Place {
        Place { lane, space: Space::Shared, address, alignment, is_texel: false }
    }
}
