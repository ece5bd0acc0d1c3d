//! The workspace in which the items of keys add up dQ, and the order of these items.
//!
//! Under a mask, blocks draw the items in order. An item adds to a tile's sum after those of the keys before its own, which were drawn before, so
//! that no block waits for one that does not run. The items of some heads are interleaved: few blocks have the same head, and wait for each other
//! in the beginning; those that have find the rows of Q and dO in L2.
//!
//! Without a mask, each block takes the items that are its own, head after head, and those of a head that run at once begin at different queries:
//! nobody waits in the beginning. All blocks have to run at once.

use core::num::NonZeroU32;

use super::args::{COUNT_BYTES, SumsArgs};
use super::variants::{BackwardVariant, PANEL_BYTES, PANEL_COLUMNS, STATISTICS_BYTES, TmaTile};
use crate::schedule::divisor::Divisor;
use crate::spec::shape::Shape;

/// Blocks that should have the same head at the same time.
const BLOCKS_OF_A_HEAD: u32 = 8;
/// Every part of the workspace begins at a multiple of so many bytes.
const ALIGNMENT: u64 = 16;

/// The sums of a problem, and the order of their items.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    tiles: u32,
    columns: u32,
    key_tiles: u32,
    order: Order,
}

/// The order of the items.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Of each of some of the heads its first item, then of each its second.
    Interleaved { heads: u32, at_once: u32 },
    /// Head after head, of which so many blocks take one item each. A head of keys has so many tiles of queries.
    Rotating { blocks: u32, tiles: u32 },
}

impl Layout {
    /// Those of heads with so many tiles of 64 queries, and of keys, for so many blocks of `variant`.
    pub(super) fn new(
        variant: &BackwardVariant,
        shape: Shape,
        (query_tiles, key_tiles): (u32, u32),
        blocks: u32,
    ) -> Self {
        let tiles = shape.batch.saturating_mul(shape.heads).saturating_mul(query_tiles);
        let key_tiles = key_tiles.max(1);
        let order = if variant.rotates() {
            Order::Rotating { blocks, tiles: shape.group().saturating_mul(query_tiles) }
        } else {
            let heads = shape.batch.saturating_mul(shape.kv_heads).max(1);
            let wanted = blocks.div_ceil(key_tiles.min(BLOCKS_OF_A_HEAD)).clamp(1, heads);
            // As many each time, so that no block waits for all others of one last head.
            let times = heads.saturating_add(wanted / 2) / wanted;
            Order::Interleaved { heads, at_once: heads.div_ceil(times) }
        };
        Self { tiles, columns: variant.tile.columns(), key_tiles, order }
    }

    /// Tiles of queries.
    pub(super) const fn tiles(self) -> u32 {
        self.tiles
    }

    /// Items of the heads that are interleaved, or of a head.
    pub(super) const fn head_items(self) -> u32 {
        match self.order {
            Order::Interleaved { at_once, .. } => at_once.saturating_mul(self.key_tiles),
            Order::Rotating { .. } => self.key_tiles,
        }
    }

    const fn sums_bytes(self) -> u64 {
        self.tiles as u64 * (self.columns / PANEL_COLUMNS * PANEL_BYTES) as u64
    }

    const fn statistics_bytes(self) -> u64 {
        self.tiles as u64 * (TmaTile::STEP * STATISTICS_BYTES) as u64
    }

    /// Bytes of the workspace.
    pub(super) const fn bytes(self) -> u64 {
        let counts = (1 + self.tiles as u64 * (self.columns / PANEL_COLUMNS) as u64) * COUNT_BYTES;
        self.sums_bytes() + self.statistics_bytes() + counts.next_multiple_of(ALIGNMENT)
    }

    /// What a launch knows of them without their address.
    pub(super) fn args(self) -> SumsArgs {
        let divisor = |count| Divisor::new(NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN));
        match self.order {
            Order::Interleaved { heads, at_once } => SumsArgs {
                interleaved: divisor(at_once),
                interleaved_last: divisor(heads % at_once),
                interleavings: heads / at_once,
                ..SumsArgs::NONE
            },
            Order::Rotating { blocks, tiles } => {
                SumsArgs { at_once: divisor(blocks), tiles: divisor(tiles), ..SumsArgs::NONE }
            }
        }
    }

    /// What it knows of those in the workspace at `address`, which is a multiple of [`ALIGNMENT`].
    pub(super) fn at(self, address: u64) -> SumsArgs {
        let statistics = address + self.sums_bytes();
        SumsArgs { sums: address, statistics, counts: statistics + self.statistics_bytes(), ..self.args() }
    }
}
