//! In which order warpgroups go through strips of queries and tiles of keys.

mod packed;
mod split_keys;
mod streamed;
mod whole_head;

use super::context::Context;
use super::copies::{StripCopy, TileCopy};
use super::kernel::TmaKernel;
use super::memory::Memory;
use super::rows::Rows;
use super::turns::Turns;
use crate::device::attention::Lane;
use crate::device::codegen::thread;
use crate::device::ptx::wgmma::{Descriptor, KMajor, NMajor};
use contract::geometry::BlockWork;
use contract::longest_first::WorkOrder;
use contract::packed::SequenceTile;

pub use packed::PackedStreamed;
pub use split_keys::SplitKeys;
pub use streamed::Streamed;
pub use whole_head::WholeHead;

/// A step of a warpgroup: a strip of query rows against a tile of keys.
#[derive(Clone, Copy)]
pub struct Step<K: TmaKernel> {
    /// Number of strips that the warpgroup has completed before.
    pub number: u32,
    /// Number of keys of the strip's sequence.
    pub kv_length: u32,
    /// Number of strips of the warpgroup, if known in advance.
    pub strips: u32,
    /// First query row of the strip, or its position among the keys if the mask needs that.
    pub first_row: u32,
    /// Index of the strip's place in shared memory.
    pub strip: u32,
    /// Q of the strip.
    pub queries: Descriptor<KMajor, Rows<K>>,
    /// Index of the tile of keys.
    pub tile: u32,
    /// First tile of the strip.
    pub first_tile: u32,
    /// Last tile of the strip.
    pub last_tile: u32,
    /// Number of later tiles of the item that this strip does not use.
    pub idle_tiles: u32,
    /// The stage of the tile in shared memory.
    pub stage: u32,
    /// K of the tile.
    pub keys: Descriptor<KMajor, Rows<K>>,
    /// Parity of the phase in which the stage is full.
    pub stage_parity: u32,
    /// Parity of the phase in which the strip is full.
    pub strip_parity: u32,
    /// 1 if the warpgroup releases the stages, since it does not return to this head's K and V; else 0.
    // No `bool`: `Option` would use its spare values as niche and leave the rest of the register undefined.
    pub gives_back: u32,
}

impl<K: TmaKernel> Step<K> {
    /// Whether it is the first step of its strip.
    #[inline(always)]
    pub fn is_first(self) -> bool {
        self.tile == self.first_tile
    }

    /// Whether it is the last step of its strip.
    #[inline(always)]
    pub fn is_last(self) -> bool {
        self.tile == self.last_tile
    }

    /// V of the tile.
    #[inline(always)]
    pub fn values(self) -> Descriptor<NMajor, Rows<K>> {
        self.keys.after(Rows::<K>::BYTES)
    }
}

/// An order of strips and tiles under a mask.
pub trait Order<K: TmaKernel> {
    /// Whether a strip is computed by the blocks of a cluster, each for a part of its keys.
    const SPLITS_KEYS: bool = false;

    /// The block's first work item and its first tile; not for sequences that are looked up.
    fn first_item(context: &Context<'_, K>) -> Option<(BlockWork, u32)>;

    /// The first step of a lane's warpgroup; `None` if the block has no work item.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together, before anything else.
    unsafe fn first(context: &Context<'_, K>, lane: Lane, turns: Turns) -> Option<Step<K>>;

    /// The copy of a step's strip, for producer and storer.
    fn copy_of(context: &Context<'_, K>, step: Step<K>) -> StripCopy;

    /// The step after `step`, the last of its strip; `None` if there is none, or the next item has no strip for this warpgroup.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together.
    unsafe fn next_strip(context: &Context<'_, K>, step: Step<K>) -> Option<Step<K>>;

    /// The step after `step`, the last of its strip, if [`Self::next_strip`] returned `None`; `None` if there is none in any item.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together, after [`Self::leave`] of the step.
    #[inline(always)]
    unsafe fn resume(_: &Context<'_, K>, _: Step<K>, _: Lane, _: Turns) -> Option<Step<K>> {
        None
    }

    /// The step after `step`, within the same strip.
    fn next_tile(memory: Memory<K>, step: Step<K>) -> Step<K>;

    /// Releases the stages that the warpgroup does not need after the step.
    ///
    /// # Safety
    /// All lanes of the warp call this together after the products of the step have completed, once per step, in order.
    unsafe fn leave(context: &Context<'_, K>, step: Step<K>, lane: Lane);

    /// [`Self::leave`] for a last step for which [`Self::next_strip`] returned no strip. The block may still read tiles for its other
    /// warpgroups.
    ///
    /// # Safety
    /// As for that.
    #[inline(always)]
    unsafe fn leave_last(context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        // SAFETY: the caller's promise is the same.
        unsafe { Self::leave(context, step, lane) };
    }

    /// The number of a warpgroup's strip from which it passes its turns to the first warpgroup, since later warpgroups have nothing
    /// left to do; a number that is never reached otherwise.
    #[inline(always)]
    fn last_in_turn_from(_: &Context<'_, K>, _warpgroup: u32) -> u32 {
        u32::MAX
    }

    /// Number of warpgroups that use a stage before it is refilled.
    #[inline(always)]
    fn users(_: &Context<'_, K>, _stage: u32) -> u32 {
        K::WARPGROUPS
    }

    /// Calls `action` for every strip of the block, in the order in which they are computed.
    fn for_each_strip(context: &Context<'_, K>, action: impl FnMut(StripCopy));

    /// Prefetches what [`Self::find_items`] or [`Self::for_each_load`] will look up. Called first: the previous grid may still be running.
    ///
    /// # Safety
    /// All lanes of one warp of the block call this together.
    #[inline(always)]
    unsafe fn prefetch_lengths(_: &Context<'_, K>, _: Lane) {}

    /// Finds the items of the block, where sequences are looked up.
    ///
    /// # Safety
    /// All lanes of one warp of the block call this together.
    #[inline(always)]
    unsafe fn find_items(_: &Context<'_, K>, _: Lane) {}

    /// Clears the block's share of the rows that belong to no sequence, where sequences are looked up.
    ///
    /// # Safety
    /// All lanes of one warp of each block call this together, once.
    #[inline(always)]
    unsafe fn clear_other_rows(_: &Context<'_, K>, _: Lane) {}

    /// Calls back for every strip and every tile of K and V of the block after those of
    /// [`Loader::load_first`](super::producer::Loader::load_first), in the order in which they are copied; `soon` is called for strips
    /// whose places are still in use.
    fn for_each_load(
        context: &Context<'_, K>,
        strip: impl FnMut(StripCopy),
        tile: impl FnMut(TileCopy),
        soon: impl FnMut(StripCopy),
    );
}

/// The tile from row `first_row` on of a sequence that has all rows of a head.
#[inline(always)]
fn whole<K: TmaKernel>(context: &Context<'_, K>, first_row: u32) -> SequenceTile {
    SequenceTile { sequence: 0, begin: 0, length: context.length, first_row }
}

/// The work item of the block in a round, with items in `order`.
#[inline(always)]
fn work_item<K: TmaKernel>(context: &Context<'_, K>, order: WorkOrder, round: u32) -> Option<u32> {
    context.args.work_item(order, round, thread::block_idx_x(), thread::grid_dim_x())
}
