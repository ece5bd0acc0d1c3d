//! Strips of neighbouring rows for the blocks of a cluster, which split the keys.

use core::num::NonZeroU32;

use super::{Items, Order, Step, Streamed, Strip, Tiles, all_keys, whole};
use crate::device::lane::Lane;
use crate::device::mask::Mask;
use crate::device::ptx::wgmma::Descriptor;
use crate::device::ptx::{cluster, mbarrier};
use crate::device::sequence::Sequence;
use crate::device::tma::context::Context;
use crate::device::tma::copies::StripCopy;
use crate::device::tma::kernel::{ROWS, TmaKernel};
use crate::device::tma::ring::Ring;
use crate::device::tma::turns::Turns;
use contract::config::WARPGROUP_WARPS;
use contract::geometry::BlockWork;
use contract::split_keys::part_begin;

/// A work item is one strip per warpgroup. Each block of the cluster attends to its part of the tiles, which are streamed through
/// the stages, and passes its result to [`combine`](crate::device::forward::sm90::combine).
pub struct SplitKeys;

/// The block's part of the tiles of an item.
#[derive(Clone, Copy)]
pub struct Part {
    begin: u32,
    end: u32,
}

impl SplitKeys {
    /// The cluster's work item.
    #[inline(always)]
    pub fn work<K: TmaKernel>(context: &Context<'_, K>) -> BlockWork {
        K::Sequence::only_work(context.args, K::Mask::ORDER, cluster::index_x())
    }

    /// First row of an item.
    #[inline(always)]
    pub fn first_row<K: TmaKernel>(work: BlockWork) -> u32 {
        Streamed::first_row(work, K::WARPGROUPS)
    }

    #[inline(always)]
    fn part<K: TmaKernel>(context: &Context<'_, K>, work: BlockWork) -> Part {
        let first_row = Self::first_row::<K>(work);
        let first_tile = Streamed::first_tile(context, first_row);
        let tiles = Streamed::tiles(context, first_row + K::WARPGROUPS * ROWS, context.kv_length) - first_tile;
        let (rank, blocks) = (cluster::rank(), NonZeroU32::new(cluster::blocks()).unwrap_or(NonZeroU32::MIN));
        let begin = |rank| first_tile + part_begin(tiles, rank, blocks);
        Part { begin: begin(rank), end: begin(rank + 1) }
    }
}

impl<K: TmaKernel> Order<K> for SplitKeys {
    type Items = PartOfItem;

    #[inline(always)]
    fn first_item(context: &Context<'_, K>) -> Option<(BlockWork, u32)> {
        let work = Self::work(context);
        let Part { begin, end } = Self::part(context, work);
        (begin < end).then_some((work, begin))
    }

    #[inline(always)]
    unsafe fn first_strip(context: &Context<'_, K>, lane: Lane, _: Turns) -> Option<Step<K>> {
        let work = Self::work(context);
        let Part { begin, end } = Self::part(context, work);
        let place = lane.warp / WARPGROUP_WARPS;
        let first_row = Self::first_row::<K>(work) + place * ROWS;
        // Under a causal mask the item's last tile is not the first strip's. It is not released, since nothing replaces it.
        let own_end = end.min(Streamed::tiles(context, first_row + ROWS, context.kv_length));
        if K::WARPGROUPS > 1 && own_end <= begin && begin < end {
            // Its Q is loaded anyway, and must have arrived before the block exits.
            // SAFETY: an initialised mbarrier, of a strip that is copied if the block has a part.
            unsafe { mbarrier::wait(context.memory.strip_full(place), 0) };
        }
        let strip = Strip {
            number: 0,
            work,
            sequence: 0,
            kv_length: context.kv_length,
            first_row,
            place,
            parity: 0,
            queries: Descriptor::new(context.memory.strip(place).address()),
            first_tile: begin,
            last_tile: own_end - 1,
            idle_tiles: 0,
            strips: 0,
            releases: 1,
        };
        (begin < own_end).then(|| strip.begin(context.memory, Ring::START))
    }

    #[inline(always)]
    unsafe fn next_strip(_: &Context<'_, K>, _: Step<K>) -> Option<Step<K>> {
        None
    }

    #[inline(always)]
    fn idle_tiles(_: &Context<'_, K>, _: Step<K>, _: bool) -> u32 {
        0
    }

    /// The blocks of the cluster store O together.
    #[inline(always)]
    fn for_each_strip(_: &Context<'_, K>, _: impl FnMut(StripCopy)) {}
}

/// The block's part of the cluster's item.
pub struct PartOfItem;

impl<K: TmaKernel> Items<K> for PartOfItem {
    type Item = (BlockWork, Part);

    #[inline(always)]
    fn new() -> Self {
        Self
    }

    #[inline(always)]
    fn next(&mut self, context: &Context<'_, K>, number: u32) -> Option<(BlockWork, Part)> {
        let work = SplitKeys::work(context);
        (number == 0).then(|| (work, SplitKeys::part(context, work)))
    }

    #[inline(always)]
    fn strips(_: (BlockWork, Part)) -> u32 {
        K::WARPGROUPS
    }

    #[inline(always)]
    fn strip(context: &Context<'_, K>, (work, _): (BlockWork, Part), _: u32, index: u32) -> StripCopy {
        let tile = whole(context, SplitKeys::first_row::<K>(work) + index * ROWS);
        StripCopy { place: index, parity: 0, work, tile, kv_length: context.kv_length }
    }

    #[inline(always)]
    fn tiles(context: &Context<'_, K>, (work, Part { begin, end }): (BlockWork, Part), _: u32) -> Tiles {
        Tiles { work, keys: all_keys(context), first: begin, count: end - begin }
    }
}
