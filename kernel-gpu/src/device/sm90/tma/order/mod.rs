//! In which order warpgroups go through strips of queries and tiles of keys.

mod packed;
mod passes;
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
pub use passes::{InOrder, Passes};
pub use split_keys::SplitKeys;
pub use streamed::Streamed;
pub use whole_head::WholeHead;

/// A step of a warpgroup: a strip of query rows against a tile of keys.
#[derive(Clone, Copy)]
pub struct Step<K: TmaKernel> {
    /// Strips that the warpgroup has done before.
    pub number: u32,
    /// Keys of the strip's sequence.
    pub kv_length: u32,
    /// Strips of the warpgroup, where they are counted beforehand.
    pub strips: u32,
    /// First query row of the strip, or its position among the keys, where the mask asks for it.
    pub first_row: u32,
    /// Where Q of the strip is in shared memory.
    pub strip: u32,
    /// Q of the strip.
    pub queries: Descriptor<KMajor, Rows<K>>,
    /// The tile of keys.
    pub tile: u32,
    /// The first tile of the strip.
    pub first_tile: u32,
    /// The last tile of the strip.
    pub last_tile: u32,
    /// Tiles of the item behind that one, of which this strip has no use.
    pub idle_tiles: u32,
    /// Where K and V of the tile are in shared memory.
    pub stage: u32,
    /// K of the tile.
    pub keys: Descriptor<KMajor, Rows<K>>,
    /// Parity of the phase that says that the stage is full.
    pub stage_parity: u32,
    /// Parity of the phase that says that the strip is full.
    pub strip_parity: u32,
    /// 1 where the warpgroup gives the stages back, as it does not come back to K and V of the head, else 0.
    // No `bool`, whose unused values an `Option` would use, and leave the rest of what they are in undefined.
    pub gives_back: u32,
}

impl<K: TmaKernel> Step<K> {
    /// Whether it is the first of its strip.
    #[inline(always)]
    pub fn is_first(self) -> bool {
        self.tile == self.first_tile
    }

    /// Whether it is the last of its strip.
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
    /// Whether a strip is computed by the blocks of a cluster, of its keys a part by each.
    const SPLITS_KEYS: bool = false;

    /// The block's first work item, and the first tile of it; not for sequences that are looked up.
    fn first_item(context: &Context<'_, K>) -> Option<(BlockWork, u32)>;

    /// The first step of a lane's warpgroup; `None` where the block has no work item.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together, first of all.
    unsafe fn first(context: &Context<'_, K>, lane: Lane, turns: Turns) -> Option<Step<K>>;

    /// The strip of a step, for the producer and the storer.
    fn copy_of(context: &Context<'_, K>, step: Step<K>) -> StripCopy;

    /// The step after `step`, the last of its strip; `None` where there is none, or none of the next item.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together.
    unsafe fn next_strip(context: &Context<'_, K>, step: Step<K>) -> Option<Step<K>>;

    /// The step after `step`, the last of its strip, where [`Self::next_strip`] knew none; `None` where there is none at all.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together, behind [`Self::leave`] of the step.
    #[inline(always)]
    unsafe fn resume(_: &Context<'_, K>, _: Step<K>, _: Lane, _: Turns) -> Option<Step<K>> {
        None
    }

    /// The step after `step`, which is not the last of its strip.
    fn next_tile(memory: Memory<K>, step: Step<K>) -> Step<K>;

    /// Gives back the stages that the warpgroup does not need after the step.
    ///
    /// # Safety
    /// All lanes of the warp call this together when the products of the step are complete, once for each step in order.
    unsafe fn leave(context: &Context<'_, K>, step: Step<K>, lane: Lane);

    /// [`Self::leave`] of the last step behind which [`Self::next_strip`] has no strip. The block may yet read tiles for its other
    /// warpgroups.
    ///
    /// # Safety
    /// As for that.
    #[inline(always)]
    unsafe fn leave_last(context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        // SAFETY: the caller's.
        unsafe { Self::leave(context, step, lane) };
    }

    /// From which of its strips on a warpgroup passes its turns to the first one, as those behind it have nothing to do any
    /// more; one that does not come where that is not so.
    #[inline(always)]
    fn last_in_turn_from(_: &Context<'_, K>, _warpgroup: u32) -> u32 {
        u32::MAX
    }

    /// Warpgroups that use a stage before it is refilled.
    #[inline(always)]
    fn users(_: &Context<'_, K>, _stage: u32) -> u32 {
        K::WARPGROUPS
    }

    /// What is done for every strip of the block, in the order in which they are computed.
    fn for_each_strip(context: &Context<'_, K>, action: impl FnMut(StripCopy));

    /// Finds the items of the block, where sequences are looked up.
    ///
    /// # Safety
    /// All lanes of one warp of the block call this together.
    #[inline(always)]
    unsafe fn find_items(_: &Context<'_, K>, _: Lane) {}

    /// What is done for every strip and every tile of K and V of the block behind those of
    /// [`Loader::load_first`](super::producer::Loader::load_first), in the order in which they are copied; `soon` is for strips whose
    /// places are taken as yet.
    fn for_each_load(
        context: &Context<'_, K>,
        strip: impl FnMut(StripCopy),
        tile: impl FnMut(TileCopy),
        soon: impl FnMut(StripCopy),
    );
}

/// A kernel with an order.
pub trait OrderedKernel: TmaKernel {
    /// In which order strips and tiles are gone through.
    type Order: Order<Self>;
}

/// The tile from row `first_row` on of a sequence that is all of a head's rows.
#[inline(always)]
fn whole<K: TmaKernel>(context: &Context<'_, K>, first_row: u32) -> SequenceTile {
    SequenceTile { sequence: 0, begin: 0, length: context.length, first_row }
}

/// The work item of the block in a round, where items come in `order`.
#[inline(always)]
fn work_item<K: TmaKernel>(context: &Context<'_, K>, order: WorkOrder, round: u32) -> Option<u32> {
    context.args.work_item(order, round, thread::block_idx_x(), thread::grid_dim_x())
}
