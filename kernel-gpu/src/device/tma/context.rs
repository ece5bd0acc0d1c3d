//! The constants of a launch that all threads of a block use.

use crate::device::tma::kernel::TmaKernel;
use crate::device::tma::memory::Memory;
use contract::args::{ForwardArgs, TENSOR_MAP_BYTES};

/// Addresses of the tensor maps, which are consecutive in the `.param` space.
#[derive(Clone, Copy)]
pub struct Maps {
    first: u64,
}

impl Maps {
    /// The maps of a [`contract::args::TensorMaps`] or [`contract::backward::args::BackwardMaps`] at `address`.
    #[inline(always)]
    pub fn at(address: u64) -> Self {
        Self { first: address }
    }

    /// The map of Q.
    #[inline(always)]
    pub fn q(self) -> u64 {
        self.first
    }

    /// The map of K.
    #[inline(always)]
    pub fn k(self) -> u64 {
        self.first + TENSOR_MAP_BYTES
    }

    /// The map of V.
    #[inline(always)]
    pub fn v(self) -> u64 {
        self.first + 2 * TENSOR_MAP_BYTES
    }

    /// The map of O.
    #[inline(always)]
    pub fn o(self) -> u64 {
        self.first + 3 * TENSOR_MAP_BYTES
    }

    /// The map of dO, in a launch of a gradient.
    #[inline(always)]
    pub fn d_o(self) -> u64 {
        self.first + 4 * TENSOR_MAP_BYTES
    }
}

/// Constants of the launch and the block, for every thread of the block.
pub struct Context<'a, K: TmaKernel> {
    /// The arguments of the launch.
    pub args: &'a ForwardArgs,
    /// Its tensor maps.
    pub maps: Maps,
    /// The block's shared memory.
    pub memory: Memory<K>,
    /// Rows of Q per sequence; for packed sequences the total.
    pub length: u32,
    /// Rows of K and V, likewise.
    pub kv_length: u32,
}
