//! The workspace in which the items of keys add up dQ, and the order of these items.
//!
//! Blocks draw the items in order. An item adds to a tile's sum after those of the keys before its own, which were drawn before, so that no
//! block waits for one that does not run. The items of some heads are interleaved: few blocks have the same head, and wait for each other in the
//! beginning; those that have find the rows of Q and dO in L2.

use core::num::NonZeroU32;

use super::args::{COUNT_BYTES, SumsArgs};
use super::variants::{PANEL_BYTES, PANEL_COLUMNS, STATISTICS_BYTES, TmaTile};
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
    heads: u32,
    key_tiles: u32,
    interleaved: u32,
}

impl Layout {
    /// Those of heads with so many tiles of 64 queries, and of keys, of so many columns.
    pub(super) fn new(shape: Shape, (query_tiles, key_tiles): (u32, u32), columns: u32, multiprocessors: u32) -> Self {
        let heads = shape.batch.saturating_mul(shape.kv_heads).max(1);
        let tiles = shape.batch.saturating_mul(shape.heads).saturating_mul(query_tiles);
        let of_a_head = key_tiles.clamp(1, BLOCKS_OF_A_HEAD);
        let interleaved = multiprocessors.div_ceil(of_a_head).clamp(1, heads);
        Self { tiles, columns, heads, key_tiles: key_tiles.max(1), interleaved }
    }

    /// Tiles of queries.
    pub(super) const fn tiles(self) -> u32 {
        self.tiles
    }

    /// Items of the heads that are interleaved.
    pub(super) const fn items_of_interleaved(self) -> u32 {
        self.interleaved.saturating_mul(self.key_tiles)
    }

    const fn sums_bytes(self) -> u64 {
        self.tiles as u64 * (self.columns / PANEL_COLUMNS * PANEL_BYTES) as u64
    }

    const fn statistics_bytes(self) -> u64 {
        self.tiles as u64 * (TmaTile::STEP * STATISTICS_BYTES) as u64
    }

    /// Bytes of the workspace.
    pub(super) const fn bytes(self) -> u64 {
        let counts = (1 + self.tiles as u64) * COUNT_BYTES;
        self.sums_bytes() + self.statistics_bytes() + counts.next_multiple_of(ALIGNMENT)
    }

    /// What a launch knows of them without their address.
    pub(super) fn args(self) -> SumsArgs {
        let divisor = |count| Divisor::new(NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN));
        SumsArgs {
            interleaved: divisor(self.interleaved),
            interleaved_last: divisor(self.heads % self.interleaved),
            interleavings: self.heads / self.interleaved,
            ..SumsArgs::NONE
        }
    }

    /// What it knows of those in the workspace at `address`, which is a multiple of [`ALIGNMENT`].
    pub(super) fn at(self, address: u64) -> SumsArgs {
        let statistics = address + self.sums_bytes();
        SumsArgs { sums: address, statistics, counts: statistics + self.statistics_bytes(), ..self.args() }
    }
}
