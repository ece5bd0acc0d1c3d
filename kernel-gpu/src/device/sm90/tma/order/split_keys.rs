//! Strips of neighbouring rows for the blocks of a cluster, which split the keys.

use core::num::NonZeroU32;

use super::{Order, Step, Streamed, whole};
use crate::device::attention::Lane;
use crate::device::attention::mask::Mask;
use crate::device::attention::sequence::Sequence;
use crate::device::ptx::wgmma::Descriptor;
use crate::device::ptx::{cluster, mbarrier};
use crate::device::sm90::tma::context::Context;
use crate::device::sm90::tma::copies::{StripCopy, TileCopy};
use crate::device::sm90::tma::kernel::{KEYS, ROWS, TmaKernel};
use crate::device::sm90::tma::mapped::in_maps_of_batch;
use crate::device::sm90::tma::memory::Memory;
use crate::device::sm90::tma::turns::Turns;
use contract::config::WARPGROUP_WARPS;
use contract::geometry::BlockWork;
use contract::split_keys::part_begin;

/// A work item is one strip per warpgroup. Each block of the cluster attends to its part of the tiles, which are streamed through
/// the stages, and passes its result to [`combine`](crate::device::sm90::tma::combine).
pub struct SplitKeys;

/// The block's part of the tiles of an item.
#[derive(Clone, Copy)]
struct Part {
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

    /// The strip of a warpgroup in an item.
    #[inline(always)]
    fn strip_of<K: TmaKernel>(context: &Context<'_, K>, work: BlockWork, warpgroup: u32) -> StripCopy {
        let tile = whole(context, Self::first_row::<K>(work) + warpgroup * ROWS);
        StripCopy { strip: warpgroup, parity: 0, work, tile, kv_length: context.kv_length }
    }
}

impl<K: TmaKernel> Order<K> for SplitKeys {
    const SPLITS_KEYS: bool = true;

    #[inline(always)]
    unsafe fn first(context: &Context<'_, K>, lane: Lane, _: Turns) -> Option<Step<K>> {
        let work = Self::work(context);
        let Part { begin, end } = Self::part(context, work);
        let strip = lane.warp / WARPGROUP_WARPS;
        let first_row = Self::first_row::<K>(work) + strip * ROWS;
        // Under a causal mask the item's last tile is not the first strip's. It is not released, since nothing replaces it.
        let own_end = end.min(Streamed::tiles(context, first_row + ROWS, context.kv_length));
        if K::WARPGROUPS > 1 && own_end <= begin && begin < end {
            // Its Q is loaded anyway, and must have arrived before the block exits.
            // SAFETY: an initialised mbarrier, of a strip that is copied if the block has a part.
            unsafe { mbarrier::wait(context.memory.strip_full(strip), 0) };
        }
        (begin < own_end).then(|| Step {
            number: 0,
            kv_length: context.kv_length,
            strips: 0,
            first_row,
            strip,
            queries: Descriptor::new(context.memory.strip(strip).address()),
            tile: begin,
            first_tile: begin,
            last_tile: own_end - 1,
            idle_tiles: 0,
            stage: 0,
            keys: Descriptor::new(context.memory.keys(0).address()),
            stage_parity: 0,
            strip_parity: 0,
            gives_back: 1,
        })
    }

    #[inline(always)]
    fn first_item(context: &Context<'_, K>) -> Option<(BlockWork, u32)> {
        let work = Self::work(context);
        let Part { begin, end } = Self::part(context, work);
        (begin < end).then_some((work, begin))
    }

    #[inline(always)]
    fn copy_of(context: &Context<'_, K>, step: Step<K>) -> StripCopy {
        Self::strip_of(context, Self::work(context), step.strip)
    }

    #[inline(always)]
    unsafe fn next_strip(_: &Context<'_, K>, _: Step<K>) -> Option<Step<K>> {
        None
    }

    #[inline(always)]
    fn next_tile(memory: Memory<K>, step: Step<K>) -> Step<K> {
        <Streamed as Order<K>>::next_tile(memory, step)
    }

    #[inline(always)]
    unsafe fn leave(context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        if lane.index == 0 {
            // SAFETY: the warp's one arrival for the stage, which it does not read again.
            unsafe { mbarrier::arrive(context.memory.stage_empty(step.stage)) };
        }
    }

    #[inline(always)]
    fn for_each_strip(_: &Context<'_, K>, _: impl FnMut(StripCopy)) {}

    #[inline(always)]
    fn for_each_load(
        context: &Context<'_, K>,
        _: impl FnMut(StripCopy),
        mut load_tile: impl FnMut(TileCopy),
        _: impl FnMut(StripCopy),
    ) {
        let work = Self::work(context);
        let Part { begin, end } = Self::part(context, work);
        let (mut stage, mut is_first) = (Streamed::advance::<K>((0, 0), 1), true);
        let mut tile = begin + 1;
        while tile < end {
            let first_key = in_maps_of_batch(context.args.of_keys(work)).after(tile * KEYS);
            load_tile(TileCopy { stage: stage.0, parity: stage.1, is_first, first_key, is_outside: false });
            stage = Streamed::advance::<K>(stage, 1);
            is_first &= stage.0 != 0;
            tile += 1;
        }
    }
}
