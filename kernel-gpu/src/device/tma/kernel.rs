//! The specialisation of a kernel with a producer, and the sizes that all of them share.

use crate::device::kernel::Kernel;
use crate::device::mask::Mask;
use crate::device::ptx::wgmma::{Accumulators, Registers};
use crate::device::scores::ScoreMod;
use crate::device::tile::head_dim::HeadDim;
use crate::device::tma::mapped::Mapped;
use contract::config::{HEAD_DIM, WARPGROUP_ROWS};
use contract::longest_first::WorkOrder;
use contract::tile::{Overlap, Sm90Tma};

/// Rows of a strip, and of the box that a tensor map copies.
pub const ROWS: u32 = WARPGROUP_ROWS;
/// Keys per step.
pub const KEYS: u32 = 64;
/// 8-key tiles per step.
pub const N_TILES: usize = 8;
/// 16-key steps per step.
pub const K_STEPS: usize = 4;

const _: () = assert!(KEYS == ROWS, "K and V come in boxes of as many rows as Q");

/// A kernel with a producer.
pub trait TmaKernel: Kernel<Sequence: Mapped, HeadDim: HeadDim<Output: Accumulators + Registers>> {
    /// Its tile configuration.
    const TILE: Sm90Tma;
    /// Number of computing warpgroups of a block.
    const WARPGROUPS: u32 = Self::TILE.warpgroups;
    /// Number of K/V stages in shared memory.
    const STAGES: u32 = Self::TILE.stages;
    /// Whether a work item is a whole head, whose K and V stay in shared memory; otherwise they are streamed.
    const HOLDS_HEADS: bool = Self::TILE.holds_whole_heads();
    /// Whether a strip is computed by the blocks of a cluster, each for a part of its keys.
    const SPLITS_KEYS: bool = Self::TILE.splits_keys();
    /// Whether each row attends to all keys up to a limit.
    const IS_CAUSAL: bool = !Self::Mask::ALL_KEYS && !Self::Mask::HAS_BEGIN;
    /// How many tiles of an item may be loaded before its Q. When the producer reaches a short item, the place of Q is still in use, and
    /// everything after it would wait. The next tile may need the stage that a warpgroup keeps until that Q has arrived.
    const TILES_AHEAD: u32 = if Self::HOLDS_HEADS || Self::SPLITS_KEYS {
        0
    } else if Self::OVERLAPS_STRIPS {
        Self::STAGES - Self::WARPGROUPS
    } else if Self::IS_CAUSAL && Self::WARPGROUPS > 3 && Self::HeadDim::COLUMNS == HEAD_DIM {
        2
    } else {
        0
    };
    /// Whether K of a block's first tile arrives together with the first strip of Q, and its V apart from both: S does not wait for V.
    /// Only if a single warpgroup waits for that strip.
    const FIRST_VALUES_APART: bool = Self::WARPGROUPS == 1 && !Self::Sequence::IS_LOOKED_UP;
    /// Whether the softmax of a warpgroup overlaps with its own PV products.
    const OVERLAPS: bool = Self::TILE.overlaps_own_products();
    /// Whether it does so from one strip to the next.
    const OVERLAPS_STRIPS: bool = matches!(Self::TILE.overlap, Overlap::AcrossStrips);
    /// Whether row sums are products of P with ones. Not where scores are changed: registers are short.
    const SUMS_BY_PRODUCT: bool = Self::TILE.sums_by_product() && !Self::ScoreMod::MODIFIES;
    /// Whether statistics of a strip are written after its last PV product, not beside it: sums that are products are complete only then,
    /// and where scores are changed registers are short.
    const COMPLETES_AFTER_OUTPUT: bool = Self::SUMS_BY_PRODUCT || Self::ScoreMod::MODIFIES;
    /// Whether warpgroups take turns on the tensor cores. Not under a mask that gives some warpgroups more work between their products
    /// than others, since they would wait for each other; nor if their own products overlap with their softmax, when it is unnecessary.
    const TAKES_TURNS: bool = Self::WARPGROUPS > 1 && Self::Mask::ALL_KEYS && !Self::OVERLAPS;
    /// Whether a warp finds the items of packed sequences for the one that copies, the longest first. Not those of one strip under a mask
    /// that gives the items of a sequence different costs: they share K and V in L2 if they come in the order of their rows
    /// (docs/results/packed.md).
    const FINDS_ITEMS_AHEAD: bool = Self::Sequence::IS_LOOKED_UP && (Self::WARPGROUPS > 1 || Self::Mask::ALL_KEYS);
    /// From how many tiles of keys on the items of a packed sequence are sorted by their own costs, even if there are many. Tiles of wide
    /// rows take so long to read that they should stay together (docs/results/packed.md).
    const LONG_SEQUENCE_TILES: u32 = if Self::IS_CAUSAL && Self::HeadDim::COLUMNS <= HEAD_DIM { 17 } else { u32::MAX };
    /// The order of items if K and V are streamed.
    const STREAMED_ORDER: WorkOrder = match Self::Mask::ORDER {
        WorkOrder::LongestFirst if Self::TILE.keeps_tiles_together() => WorkOrder::LongestFirstTogether,
        order => order,
    };
}
