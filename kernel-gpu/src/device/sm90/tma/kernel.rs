//! What a kernel with a producer is made for, and the sizes that all of them share.

use super::mapped::Mapped;
use crate::device::attention::head_dim::HeadDim;
use crate::device::attention::kernel::Kernel;
use crate::device::attention::mask::Mask;
use crate::device::ptx::wgmma::{Accumulators, Registers};
use contract::config::{HEAD_DIM, WARPGROUP_ROWS};
use contract::longest_first::WorkOrder;
use contract::tile::{Overlap, Sm90Tma};

/// Rows of a strip, and of the box that a tensor map copies.
pub const ROWS: u32 = WARPGROUP_ROWS;
/// Keys of a step.
pub const KEYS: u32 = 64;
/// 8-key tiles of a step.
pub const N_TILES: usize = 8;
/// 16-key steps of a step.
pub const K_STEPS: usize = 4;

const _: () = assert!(KEYS == ROWS, "K and V come in boxes of as many rows as Q");

/// A kernel with a producer.
pub trait TmaKernel: Kernel<Sequence: Mapped, HeadDim: HeadDim<Output: Accumulators + Registers>> {
    /// Its tile configuration.
    const TILE: Sm90Tma;
    /// Warpgroups of a block that compute.
    const WARPGROUPS: u32 = Self::TILE.warpgroups;
    /// K/V tiles in shared memory at once.
    const STAGES: u32 = Self::TILE.stages;
    /// Whether rows attend to the keys before them and all of these.
    const IS_CAUSAL: bool = !Self::Mask::ALL_KEYS && !Self::Mask::HAS_BEGIN;
    /// Tiles of an item that may be loaded before its Q: the place of Q is taken yet when the producer comes to a short item, and
    /// what is behind it would wait, too. The next tile may take the place of one that a warpgroup keeps until that Q has arrived.
    const TILES_AHEAD: u32 = if Self::OVERLAPS_STRIPS {
        Self::STAGES - Self::WARPGROUPS
    } else if Self::IS_CAUSAL && Self::WARPGROUPS > 3 && Self::HeadDim::COLUMNS == HEAD_DIM {
        2
    } else {
        0
    };
    /// Whether the softmax of a warpgroup overlaps with its own products with V.
    const OVERLAPS: bool = Self::TILE.overlaps_own_products();
    /// Whether it does so from one strip to the next.
    const OVERLAPS_STRIPS: bool = matches!(Self::TILE.overlap, Overlap::AcrossStrips);
    /// Whether warpgroups take turns on the tensor cores. Under a mask that leaves some of them work between their products that
    /// others do not have, they would wait for each other; where their own products overlap with their softmax, there is no need to.
    const TAKES_TURNS: bool = Self::WARPGROUPS > 1 && Self::Mask::ALL_KEYS && !Self::OVERLAPS;
    /// Whether a warp finds the items of packed sequences for the one that copies, the longest first: those of several strips. Smaller
    /// ones even out, and share K and V in L2 if they come in the order of their rows (docs/results/packed.md).
    const FINDS_ITEMS_AHEAD: bool = Self::Sequence::IS_LOOKED_UP && Self::WARPGROUPS > 1;
    /// In which order items come where tiles of K and V stream. Those of wide rows take so long to read that blocks should share them.
    const STREAMED_ORDER: WorkOrder = match Self::Mask::ORDER {
        WorkOrder::LongestFirst if Self::HeadDim::COLUMNS > HEAD_DIM => WorkOrder::LongestFirstTogether,
        order => order,
    };
}
