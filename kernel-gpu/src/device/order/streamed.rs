//! Strips of neighbouring rows, with K and V streamed.

use super::{Items, Order, Step, Strip, Tiles, all_keys, whole, work_item};
use crate::device::codegen::thread;
use crate::device::hidden;
use crate::device::lane::Lane;
use crate::device::mask::Mask;
use crate::device::ptx::wgmma::Descriptor;
use crate::device::scores::ScoreMod;
use crate::device::sequence::Sequence;
use crate::device::tma::context::Context;
use crate::device::tma::copies::StripCopy;
use crate::device::tma::kernel::{KEYS, ROWS, TmaKernel};
use crate::device::tma::ring::Ring;
use crate::device::tma::turns::Turns;
use contract::config::WARPGROUP_WARPS;
use contract::geometry::BlockWork;
use contract::last_round::Share;
use contract::tile::Grid;

/// A work item is as many strips as there are warpgroups. Its tiles of K and V are streamed through the stages as a ring. The
/// next strips of Q are loaded into the other half of the strips' places.
///
/// A warpgroup computes only the tiles that its own strip attends to, and passes over the item's others. Under a causal mask
/// the strips of an item differ in length, so every other round distributes them in reverse order.
pub struct Streamed;

/// The strips of an item that a block computes in parallel.
#[derive(Clone, Copy, Default)]
pub struct Part {
    /// The item.
    work: BlockWork,
    /// The first strip.
    first: u32,
    /// Number of strips, at most one per warpgroup.
    strips: u32,
}

impl Streamed {
    /// The block's work item in a round that is not distributed in parts.
    #[inline(always)]
    pub fn work<K: TmaKernel>(context: &Context<'_, K>, round: u32) -> Option<BlockWork> {
        let item = work_item(context, K::STREAMED_ORDER, round)?;
        Some(K::Sequence::work(context.args, K::STREAMED_ORDER, item))
    }

    /// The block's part in a round.
    #[inline(always)]
    fn part<K: TmaKernel>(context: &Context<'_, K>, round: u32) -> Option<Part> {
        if matches!(K::TILE.grid, Grid::OneShot) && round > 0 {
            return None;
        }
        let Share { item, first, strips } = if Self::is_split::<K>(context, round) {
            context.args.last_part(thread::block_idx_x(), K::WARPGROUPS)?
        } else {
            Share { item: work_item(context, K::STREAMED_ORDER, round)?, first: 0, strips: K::WARPGROUPS }
        };
        Some(Part { work: K::Sequence::work(context.args, K::STREAMED_ORDER, item), first, strips })
    }

    /// Whether a round is distributed in parts, with fewer strips than there are warpgroups.
    #[inline(always)]
    fn is_split<K: TmaKernel>(context: &Context<'_, K>, round: u32) -> bool {
        K::Mask::ALL_KEYS && K::WARPGROUPS > 1 && round == context.args.last_round.split_round()
    }

    /// Number of strips that the block computes in the round after `round`, if that is distributed in parts; otherwise the number of
    /// warpgroups.
    #[inline(always)]
    fn strips_of_next<K: TmaKernel>(context: &Context<'_, K>, round: u32) -> u32 {
        if !Self::is_split::<K>(context, round + 1) {
            return K::WARPGROUPS;
        }
        context.args.last_part(thread::block_idx_x(), K::WARPGROUPS).map_or(K::WARPGROUPS, |share| share.strips)
    }

    /// First row of an item.
    #[inline(always)]
    pub fn first_row(work: BlockWork, warpgroups: u32) -> u32 {
        work.query_tile * warpgroups * ROWS
    }

    /// Number of tiles that the block reads for other warpgroups after `step`, the last of its warpgroup: all tiles of the part that
    /// has no strip for it.
    #[inline(always)]
    fn tiles_of_others<K: TmaKernel>(context: &Context<'_, K>, step: Step<K>) -> u32 {
        let has_strip = step.strip.place % K::WARPGROUPS < Self::strips_of_next(context, step.strip.number);
        if has_strip { 0 } else { step.strip.last_tile + 1 }
    }

    /// Which strip of an item a warpgroup computes, if strips differ in length.
    #[inline(always)]
    pub fn mirrored(warpgroup: u32, warpgroups: u32, round: u32) -> u32 {
        if round.is_multiple_of(2) { warpgroup } else { warpgroups - 1 - warpgroup }
    }

    /// The first tile that a row attends to; for packed sequences the row is given by its position.
    #[inline(always)]
    pub fn first_tile<K: TmaKernel>(context: &Context<'_, K>, row: u32) -> u32 {
        K::Mask::keys_begin(context.args, row) / KEYS
    }

    /// End of the tiles that the rows before a row (or position) attend to, out of `kv_length` keys.
    #[inline(always)]
    pub fn tiles<K: TmaKernel>(context: &Context<'_, K>, rows_end: u32, kv_length: u32) -> u32 {
        let end = K::Mask::keys_end(context.args, rows_end, kv_length).div_ceil(KEYS);
        // A strip that attends to nothing gets one tile, fully masked. It is the whole item, or all strips of the item are like that.
        match (K::Mask::HAS_BEGIN, K::Sequence::MAY_HAVE_NO_KEY) {
            (true, _) => end.max(Self::first_tile(context, rows_end.wrapping_sub(ROWS)) + 1),
            (false, true) => end.max(1),
            (false, false) => end,
        }
    }

    /// Which strip of an item a warpgroup computes: if strips are equally long, that of its own index.
    #[inline(always)]
    fn strip_of_warpgroup<K: TmaKernel>(warpgroup: u32, round: u32) -> u32 {
        if K::Mask::ALL_KEYS { warpgroup } else { Self::mirrored(warpgroup, K::WARPGROUPS, round) }
    }

    /// The first step of a warpgroup's strip in a part of an item, whose first tile is at the given position; `None` if the part has
    /// no strip for it.
    #[inline(always)]
    fn start<K: TmaKernel>(
        context: &Context<'_, K>,
        part: Part,
        round: u32,
        warpgroup: u32,
        ring: Ring<K>,
    ) -> Option<Step<K>> {
        let Part { work, first, strips } = part;
        let index = Self::strip_of_warpgroup::<K>(warpgroup, round);
        if index >= strips {
            return None;
        }
        let item_row = Self::first_row(work, K::WARPGROUPS);
        let first_row = item_row + (first + index) * ROWS;
        let tiles = Self::tiles(context, first_row + ROWS, context.kv_length);
        let place = round % 2 * K::WARPGROUPS + warpgroup;
        let strip = Strip {
            number: round,
            work,
            sequence: 0,
            kv_length: context.kv_length,
            first_row,
            place,
            parity: round / 2 % 2,
            queries: Descriptor::new(context.memory.strip(place).address()),
            // That of the item: no warpgroup passes over the tiles before its own. They are masked.
            first_tile: Self::first_tile(context, if K::WARPGROUPS == 1 { first_row } else { item_row }),
            last_tile: tiles - 1,
            idle_tiles: Self::tiles(context, item_row + K::WARPGROUPS * ROWS, context.kv_length) - tiles,
            strips: 0,
            releases: 1,
        };
        Some(strip.begin(context.memory, ring))
    }

    /// Number of tiles of the item after those of the strip of `step`. Where scores are changed and there are several warpgroups, it is
    /// computed where it is needed: registers are short.
    #[inline(always)]
    fn tiles_behind<K: TmaKernel>(context: &Context<'_, K>, step: Step<K>) -> u32 {
        if !K::ScoreMod::MODIFIES || K::WARPGROUPS == 1 {
            return step.strip.idle_tiles;
        }
        let rows = K::WARPGROUPS * ROWS;
        let item_end = hidden::recompute(step.strip.first_row / rows * rows + rows);
        Self::tiles(context, item_end, context.kv_length) - 1 - step.strip.last_tile
    }
}

impl<K: TmaKernel> Order<K> for Streamed {
    type Items = Parts;

    #[inline(always)]
    fn first_item(context: &Context<'_, K>) -> Option<(BlockWork, u32)> {
        let work = Self::work(context, 0)?;
        Some((work, Self::first_tile(context, Self::first_row(work, K::WARPGROUPS))))
    }

    #[inline(always)]
    unsafe fn first_strip(context: &Context<'_, K>, lane: Lane, _: Turns) -> Option<Step<K>> {
        const { assert!(K::WARPGROUPS <= K::STAGES, "an idle warpgroup would let more than a ring pass") };
        let warpgroup = lane.warp / WARPGROUP_WARPS;
        Self::part(context, 0).and_then(|part| Self::start::<K>(context, part, 0, warpgroup, Ring::START))
    }

    #[inline(always)]
    unsafe fn next_strip(context: &Context<'_, K>, step: Step<K>) -> Option<Step<K>> {
        let (round, warpgroup) = (step.strip.number + 1, step.strip.place % K::WARPGROUPS);
        let next = step.ring.advance(Self::tiles_behind(context, step) + 1);
        Self::part(context, round).and_then(|part| Self::start::<K>(context, part, round, warpgroup, next))
    }

    #[inline(always)]
    fn idle_tiles(context: &Context<'_, K>, step: Step<K>, is_end: bool) -> u32 {
        // Strips of equal length have no idle tiles. Compile-time conditions, since this is on the critical path to a strip's O.
        match (K::Mask::ALL_KEYS, is_end) {
            (true, true) => Self::tiles_of_others(context, step),
            (true, false) => 0,
            (false, true) => Self::tiles_behind(context, step),
            (false, false) if step.is_last() => Self::tiles_behind(context, step),
            (false, false) => 0,
        }
    }
}

/// The block's parts, one in each round.
pub struct Parts;

impl<K: TmaKernel> Items<K> for Parts {
    type Item = Part;

    #[inline(always)]
    fn new() -> Self {
        Self
    }

    #[inline(always)]
    fn next(&mut self, context: &Context<'_, K>, number: u32) -> Option<Part> {
        Streamed::part(context, number)
    }

    #[inline(always)]
    fn strips(part: Part) -> u32 {
        part.strips
    }

    #[inline(always)]
    fn strip(context: &Context<'_, K>, Part { work, first, .. }: Part, number: u32, index: u32) -> StripCopy {
        StripCopy {
            // The permutation of the warpgroups is its own inverse.
            place: number % 2 * K::WARPGROUPS + Streamed::strip_of_warpgroup::<K>(index, number),
            parity: number / 2 % 2,
            work,
            tile: whole(context, Streamed::first_row(work, K::WARPGROUPS) + (first + index) * ROWS),
            kv_length: context.kv_length,
        }
    }

    #[inline(always)]
    fn tiles(context: &Context<'_, K>, Part { work, .. }: Part, _: u32) -> Tiles {
        let first_row = Streamed::first_row(work, K::WARPGROUPS);
        let first = Streamed::first_tile(context, first_row);
        let end = Streamed::tiles(context, first_row + K::WARPGROUPS * ROWS, context.kv_length);
        Tiles { work, keys: all_keys(context), first, count: end - first }
    }
}
