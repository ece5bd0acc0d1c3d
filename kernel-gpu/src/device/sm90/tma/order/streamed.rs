//! Strips of neighbouring rows, with K and V streamed.

use super::{Order, Step, whole, work_item};
use crate::device::attention::Lane;
use crate::device::attention::mask::Mask;
use crate::device::attention::score_mod::ScoreMod;
use crate::device::attention::sequence::Sequence;
use crate::device::codegen::thread;
use crate::device::hidden;
use crate::device::ptx::mbarrier;
use crate::device::ptx::wgmma::{Descriptor, KMajor};
use crate::device::sm90::tma::context::Context;
use crate::device::sm90::tma::copies::{StripCopy, TileCopy};
use crate::device::sm90::tma::kernel::{KEYS, ROWS, TmaKernel};
use crate::device::sm90::tma::mapped::in_maps_of_batch;
use crate::device::sm90::tma::memory::Memory;
use crate::device::sm90::tma::turns::Turns;
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
struct Part {
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
        let has_strip = step.strip % K::WARPGROUPS < Self::strips_of_next(context, step.number);
        if has_strip { 0 } else { step.last_tile + 1 }
    }

    /// Releases the stage of `step`, then those of the next `idle` tiles, which the warpgroup has not read.
    ///
    /// # Safety
    /// As for [`Order::leave`].
    #[inline(always)]
    unsafe fn leave_stages<K: TmaKernel>(context: &Context<'_, K>, step: Step<K>, mut idle: u32, lane: Lane) {
        let memory = context.memory;
        let mut place = (step.stage, step.stage_parity);
        // The others' turns pass through this warpgroup, too.
        let turns = Turns::new(K::TAKES_TURNS, lane.warp / WARPGROUP_WARPS, K::WARPGROUPS);
        // SAFETY: the warp's one arrival for each stage, which it does not read again. For a stage that it has not read, it
        // waits first: until the tile has arrived, the mbarrier may still count arrivals for the previous tile. It takes one turn per
        // tile, like the computing warpgroups.
        unsafe {
            if lane.index == 0 {
                mbarrier::arrive(memory.stage_empty(place.0));
            }
            while idle > 0 {
                place = Self::advance::<K>(place, 1);
                mbarrier::wait(memory.stage_full(place.0), place.1);
                turns.wait();
                turns.pass();
                // Recomputed, so that the loop with its barriers is not duplicated for the arriving lane and the others.
                if hidden::again(lane.index) == 0 {
                    mbarrier::arrive(memory.stage_empty(place.0));
                }
                idle -= 1;
            }
        }
    }

    /// Which strip of an item a warpgroup computes, if strips differ in length.
    #[inline(always)]
    pub fn place(warpgroup: u32, warpgroups: u32, round: u32) -> u32 {
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

    /// How many of an item's tiles are loaded before its Q.
    #[inline(always)]
    pub fn tiles_ahead<K: TmaKernel>(tiles: u32) -> u32 {
        // In a longer item, the place of Q is free by then, if the softmax of strips overlaps with the next ones.
        if K::OVERLAPS_STRIPS && tiles > K::TILES_AHEAD { 0 } else { tiles.min(K::TILES_AHEAD) }
    }

    /// [`Self::place`]; for strips of equal length the warpgroup's own index.
    #[inline(always)]
    fn place_of<K: TmaKernel>(warpgroup: u32, round: u32) -> u32 {
        if K::Mask::ALL_KEYS { warpgroup } else { Self::place(warpgroup, K::WARPGROUPS, round) }
    }

    /// The first step of a warpgroup's strip in a part of an item, whose first tile is at the given stage; `None` if the part has
    /// no strip for it.
    #[inline(always)]
    fn start<K: TmaKernel>(
        context: &Context<'_, K>,
        part: Part,
        round: u32,
        warpgroup: u32,
        (stage, stage_parity): (u32, u32),
    ) -> Option<Step<K>> {
        let Part { work, first, strips } = part;
        let place = Self::place_of::<K>(warpgroup, round);
        if place >= strips {
            return None;
        }
        let item_row = Self::first_row(work, K::WARPGROUPS);
        let first_row = item_row + (first + place) * ROWS;
        let tiles = Self::tiles(context, first_row + ROWS, context.kv_length);
        let strip = round % 2 * K::WARPGROUPS + warpgroup;
        // That of the item: nobody would let the tiles before its own pass. They are masked.
        let first_tile = Self::first_tile(context, if K::WARPGROUPS == 1 { first_row } else { item_row });
        Some(Step {
            number: round,
            kv_length: context.kv_length,
            strips: 0,
            first_row,
            strip,
            queries: Descriptor::new(context.memory.strip(strip).address()),
            tile: first_tile,
            first_tile,
            last_tile: tiles - 1,
            idle_tiles: Self::tiles(context, item_row + K::WARPGROUPS * ROWS, context.kv_length) - tiles,
            stage,
            keys: Descriptor::new(context.memory.keys(stage).address()),
            stage_parity,
            strip_parity: round / 2 % 2,
            gives_back: 1,
        })
    }

    /// Number of tiles of the item after those of the strip of `step`. Where scores are changed and there are several warpgroups, it is
    /// computed where it is needed: registers are short.
    #[inline(always)]
    fn idle_tiles<K: TmaKernel>(context: &Context<'_, K>, step: Step<K>) -> u32 {
        if !K::ScoreMod::MODIFIES || K::WARPGROUPS == 1 {
            return step.idle_tiles;
        }
        let rows = K::WARPGROUPS * ROWS;
        let item_end = hidden::again(step.first_row / rows * rows + rows);
        Self::tiles(context, item_end, context.kv_length) - 1 - step.last_tile
    }

    /// The copy of strip `place` of a part of an item.
    #[inline(always)]
    fn strip_of<K: TmaKernel>(context: &Context<'_, K>, part: Part, round: u32, place: u32) -> StripCopy {
        let Part { work, first, .. } = part;
        StripCopy {
            // The permutation of the warpgroups is its own inverse.
            strip: round % 2 * K::WARPGROUPS + Self::place_of::<K>(place, round),
            parity: round / 2 % 2,
            work,
            tile: whole(context, Self::first_row(work, K::WARPGROUPS) + (first + place) * ROWS),
            kv_length: context.kv_length,
        }
    }

    /// Stage and parity `tiles` tiles later, at most once around the ring.
    #[inline(always)]
    pub fn advance<K: TmaKernel>((stage, parity): (u32, u32), tiles: u32) -> (u32, u32) {
        let stage = stage + tiles;
        if stage >= K::STAGES { (stage - K::STAGES, parity ^ 1) } else { (stage, parity) }
    }
}

impl<K: TmaKernel> Order<K> for Streamed {
    #[inline(always)]
    fn first_item(context: &Context<'_, K>) -> Option<(BlockWork, u32)> {
        let work = Self::work(context, 0)?;
        Some((work, Self::first_tile(context, Self::first_row(work, K::WARPGROUPS))))
    }

    #[inline(always)]
    unsafe fn first(context: &Context<'_, K>, lane: Lane, _turns: Turns) -> Option<Step<K>> {
        const { assert!(K::WARPGROUPS <= K::STAGES, "an idle warpgroup would let more than a ring pass") };
        let warpgroup = lane.warp / WARPGROUP_WARPS;
        Self::part(context, 0).and_then(|part| Self::start::<K>(context, part, 0, warpgroup, (0, 0)))
    }

    #[inline(always)]
    fn copy_of(context: &Context<'_, K>, step: Step<K>) -> StripCopy {
        // The item of a step exists.
        let part = Self::part(context, step.number).unwrap_or_default();
        let place = Self::place_of::<K>(step.strip % K::WARPGROUPS, step.number);
        Self::strip_of(context, part, step.number, place)
    }

    #[inline(always)]
    unsafe fn next_strip(context: &Context<'_, K>, step: Step<K>) -> Option<Step<K>> {
        let (round, warpgroup) = (step.number + 1, step.strip % K::WARPGROUPS);
        let next = Self::advance::<K>((step.stage, step.stage_parity), Self::idle_tiles(context, step) + 1);
        Self::part(context, round).and_then(|part| Self::start::<K>(context, part, round, warpgroup, next))
    }

    #[inline(always)]
    fn next_tile(memory: Memory<K>, step: Step<K>) -> Step<K> {
        let (stage, stage_parity) = Self::advance::<K>((step.stage, step.stage_parity), 1);
        let keys = Descriptor::<KMajor, _>::new(memory.keys(stage).address()).after(0);
        Step { tile: step.tile + 1, stage, stage_parity, keys, ..step }
    }

    #[inline(always)]
    unsafe fn leave(context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        // Strips of equal length have no idle tiles. A compile-time condition, since this is on the critical path to a strip's O.
        let idle = if !K::Mask::ALL_KEYS && step.is_last() { Self::idle_tiles(context, step) } else { 0 };
        // SAFETY: the caller's promise is the same.
        unsafe { Self::leave_stages(context, step, idle, lane) };
    }

    #[inline(always)]
    unsafe fn leave_last(context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        let idle =
            if K::Mask::ALL_KEYS { Self::tiles_of_others(context, step) } else { Self::idle_tiles(context, step) };
        // SAFETY: the caller's promise is the same.
        unsafe { Self::leave_stages(context, step, idle, lane) };
    }

    #[inline(always)]
    fn for_each_strip(context: &Context<'_, K>, mut action: impl FnMut(StripCopy)) {
        let mut round = 0;
        while let Some(part) = Self::part(context, round) {
            let mut place = 0;
            while place < part.strips {
                action(Self::strip_of(context, part, round, place));
                place += 1;
            }
            round += 1;
        }
    }

    #[inline(always)]
    fn for_each_load(
        context: &Context<'_, K>,
        mut load_strip: impl FnMut(StripCopy),
        mut load_tile: impl FnMut(TileCopy),
        mut prefetch_strip: impl FnMut(StripCopy),
    ) {
        let (mut round, mut place, mut tile) = (0, K::WARPGROUPS, 1);
        let (mut stage, mut is_first) = (Self::advance::<K>((0, 0), 1), true);
        while let Some(part) = Self::part(context, round) {
            let work = part.work;
            let first_row = Self::first_row(work, K::WARPGROUPS);
            let first_tile = Self::first_tile(context, first_row);
            let tiles = Self::tiles(context, first_row + K::WARPGROUPS * ROWS, context.kv_length) - first_tile;
            let mut load_tiles = |end| {
                while tile < end {
                    let first_key = in_maps_of_batch(context.args.of_keys(work)).after((first_tile + tile) * KEYS);
                    load_tile(TileCopy { stage: stage.0, parity: stage.1, is_first, first_key, is_outside: false });
                    stage = Self::advance::<K>(stage, 1);
                    is_first &= stage.0 != 0;
                    tile += 1;
                }
            };
            if K::OVERLAPS_STRIPS && Self::tiles_ahead::<K>(tiles) > 0 {
                let mut strip = place;
                while strip < part.strips {
                    prefetch_strip(Self::strip_of(context, part, round, strip));
                    strip += 1;
                }
            }
            if K::TILES_AHEAD > 0 {
                load_tiles(Self::tiles_ahead::<K>(tiles));
            }
            while place < part.strips {
                load_strip(Self::strip_of(context, part, round, place));
                place += 1;
            }
            load_tiles(tiles);
            (place, tile) = (0, 0);
            round += 1;
        }
    }
}
