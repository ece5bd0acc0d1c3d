//! dBias: which blocks compute which tiles of it.
//!
//! Where nothing shares an element of dBias, the items of queries store their dS. Else batch entries, heads or queries share some, and a block
//! adds up what shares a tile, in one order. Where the tiles are too few to keep a GPU busy, each sum has several parts with a block each, which
//! leave their sums in a workspace. A second launch adds these.

use core::num::NonZeroU32;

use super::args::BiasArgs;
use super::variants::Tile;
use crate::schedule::divisor::Divisor;
use crate::schedule::geometry::query_tiles;
use crate::spec::config::Mask;
use crate::spec::gradient::Gradient;
use crate::spec::limits::MAXIMUM_WORK_ITEMS;
use crate::spec::refusal::Refusal;
use crate::spec::tensor::Strides;

/// Blocks of a sum's parts that a multiprocessor should get, for each that it holds at once.
const ROUNDS: u32 = 2;
/// How many parts are added in the time that a summand takes, on an H200.
const PARTS_OF_A_SUMMAND: u32 = 8;
/// Bytes of an element of a sum, which is f32.
const SUM_BYTES: u64 = 4;

/// The tiles of dBias, and what is added to each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Tiles of keys and of queries, heads, and batch entries with elements of their own.
    own: [u32; 4],
    /// Tiles of queries, heads, and batch entries that share an element.
    shared: [u32; 3],
    /// Parts of each sum.
    parts: u32,
    /// Summands of a part.
    of_part: u32,
    /// Whether the items of queries store dBias.
    is_of_queries: bool,
    strides: Strides,
    tile: Tile,
}

impl Layout {
    /// That of `gradient` by blocks of `tile`, if it has dBias; for so many multiprocessors, if there may be a workspace.
    ///
    /// # Errors
    /// When a launch cannot have so many blocks.
    pub(super) fn new(gradient: &Gradient, tile: Tile, multiprocessors: Option<u32>) -> Result<Option<Self>, Refusal> {
        let (Some(strides), shape) = (gradient.bias(), gradient.problem().shape()) else { return Ok(None) };
        let split = |size: u32, stride: u64| if stride == 0 { (1, size.max(1)) } else { (size, 1) };
        let (queries, shared_queries) = split(query_tiles(shape.sequence, tile.rows), strides.row);
        let (heads, shared_heads) = split(shape.heads, strides.head);
        let (batch, shared_batch) = split(shape.batch, strides.batch);
        let own = [query_tiles(shape.kv_sequence, tile.step), queries, heads, batch];
        let shared = [shared_queries, shared_heads, shared_batch];
        let (tiles, summands) = (product(&own), product(&shared));
        // They visit all keys if the mask has them. Some multiply dS by the derivative of a softcap before they have it.
        let (mask, softcap) = (gradient.problem().simplified().mask(), gradient.problem().score_mod().softcap);
        let is_shared = summands > 1 || strides.row == 0 && shape.sequence > 1;
        let is_of_queries = !is_shared && mask == Mask::Full && softcap.is_none();
        if tiles.checked_mul(summands).is_none_or(|all| all > MAXIMUM_WORK_ITEMS) {
            return Err(Refusal::TooManyWorkItems { shape, query_tiles: queries.max(shared_queries) });
        }
        // Both fit 32 bits, as their product does.
        let (tiles, summands) = (tiles as u32, summands.max(1) as u32);
        let wanted = multiprocessors.map_or(1, |count| count.saturating_mul(tile.min_blocks * ROUNDS));
        // So many that a part takes as long as adding them one after another.
        let most = summands.saturating_mul(PARTS_OF_A_SUMMAND).isqrt();
        let of_part = summands.div_ceil(wanted.div_ceil(tiles.max(1)).min(most).clamp(1, summands));
        Ok(Some(Self { own, shared, parts: summands.div_ceil(of_part), of_part, is_of_queries, strides, tile }))
    }

    /// Tiles of dBias.
    pub(super) fn tiles(self) -> u32 {
        product(&self.own) as u32
    }

    /// Blocks that add up a part of a tile each.
    pub(super) fn blocks(self) -> u32 {
        if self.is_of_queries { 0 } else { self.tiles() * self.parts }
    }

    /// Whether a second launch adds the parts.
    pub(super) const fn has_parts(self) -> bool {
        self.parts > 1
    }

    /// Bytes of the workspace of the parts.
    pub(super) fn bytes(self) -> u64 {
        let of_tile = u64::from(self.tile.rows) * u64::from(self.tile.step) * SUM_BYTES;
        if self.has_parts() { u64::from(self.blocks()) * of_tile } else { 0 }
    }

    /// What a launch knows of it without the addresses of dBias and of the workspace.
    pub(super) fn args(self) -> BiasArgs {
        let divisor = |count| Divisor::new(NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN));
        let ([key_tiles, query_tiles, heads, batch], [shared_query_tiles, shared_heads, _]) = (self.own, self.shared);
        BiasArgs {
            strides: self.strides,
            key_tiles: divisor(key_tiles),
            query_tiles: divisor(query_tiles),
            heads: divisor(heads),
            batch: divisor(batch),
            shared_query_tiles: divisor(shared_query_tiles),
            shared_heads: divisor(shared_heads),
            summands: product(&self.shared) as u32,
            of_part: self.of_part,
            parts: self.parts,
            tiles: self.tiles(),
            blocks: self.blocks(),
            ..BiasArgs::NONE
        }
    }
}

fn product(counts: &[u32]) -> u64 {
    counts.iter().fold(1, |all: u64, &count| all.saturating_mul(count.into()))
}
