//! In which order warpgroups go through strips of queries and tiles of keys: an iterator of work items ([`Items`]), one of the strips of a
//! warpgroup ([`Order`]), and one of the tiles of a strip ([`Step::next`]).

mod packed;
mod split_keys;
mod streamed;
mod whole_head;

use crate::device::codegen::thread;
use crate::device::lane::Lane;
use crate::device::ptx::wgmma::{Descriptor, KMajor, NMajor};
use crate::device::tma::context::Context;
use crate::device::tma::copies::StripCopy;
use crate::device::tma::kernel::TmaKernel;
use crate::device::tma::memory::Memory;
use crate::device::tma::ring::Ring;
use crate::device::tma::rows::Rows;
use crate::device::tma::turns::Turns;
use contract::geometry::BlockWork;
use contract::longest_first::WorkOrder;
use contract::packed::{Rows as SequenceRows, SequenceTile};

pub use packed::{PackedStreamed, clear_other_rows, end_mark, find_items, prefetch_lengths};
pub use split_keys::SplitKeys;
pub use streamed::Streamed;
pub use whole_head::WholeHead;

/// A strip of query rows that a warpgroup computes.
#[derive(Clone, Copy)]
pub struct Strip<K: TmaKernel> {
    /// Number of strips that the warpgroup has computed before.
    pub number: u32,
    /// The head.
    pub work: BlockWork,
    /// The sequence, if sequences are looked up.
    pub sequence: u32,
    /// Number of keys of the sequence.
    pub kv_length: u32,
    /// First query row of the strip, or its position among the keys if the mask needs that.
    pub first_row: u32,
    /// Index of the strip's place in shared memory.
    pub place: u32,
    /// Parity of the phase in which the place is full.
    pub parity: u32,
    /// Q.
    pub queries: Descriptor<KMajor, Rows<K>>,
    /// The first tile.
    pub first_tile: u32,
    /// The last tile.
    pub last_tile: u32,
    /// Number of later tiles of the item that this strip does not use.
    pub idle_tiles: u32,
    /// Number of strips of the warpgroup, if known in advance.
    pub strips: u32,
    /// 1 if the warpgroup releases the stages, since it does not return to this head's K and V; else 0.
    // No `bool`: `Option` would use its spare values as niche and leave the rest of the register undefined.
    pub releases: u32,
}

impl<K: TmaKernel> Strip<K> {
    /// The step of the strip's first tile, which is at `ring`.
    #[inline(always)]
    pub fn begin(self, memory: Memory<K>, ring: Ring<K>) -> Step<K> {
        let ring = ring.of_tile(self.first_tile);
        Step { strip: self, ring, keys: Descriptor::new(memory.keys(ring.stage).address()) }
    }
}

/// A step of a warpgroup: a strip of query rows against a tile of keys.
#[derive(Clone, Copy)]
pub struct Step<K: TmaKernel> {
    /// The strip.
    pub strip: Strip<K>,
    /// The tile, and its position in the ring of stages.
    pub ring: Ring<K>,
    /// K of the tile.
    pub keys: Descriptor<KMajor, Rows<K>>,
}

impl<K: TmaKernel> Step<K> {
    /// Whether it is the first step of its strip.
    #[inline(always)]
    pub fn is_first(self) -> bool {
        self.ring.tile == self.strip.first_tile
    }

    /// Whether it is the last step of its strip.
    #[inline(always)]
    pub fn is_last(self) -> bool {
        self.ring.tile == self.strip.last_tile
    }

    /// The step after this one, within the same strip.
    #[inline(always)]
    pub fn next(self, memory: Memory<K>) -> Self {
        let ring = self.ring.next();
        let keys = if K::HOLDS_HEADS {
            self.keys.after(Memory::<K>::STAGE_BYTES)
        } else {
            Descriptor::<KMajor, _>::new(memory.keys(ring.stage).address()).after(0)
        };
        Self { ring, keys, ..self }
    }

    /// V of the tile.
    #[inline(always)]
    pub fn values(self) -> Descriptor<NMajor, Rows<K>> {
        self.keys.after(Rows::<K>::BYTES)
    }
}

/// The strips of a warpgroup.
pub trait Order<K: TmaKernel> {
    /// The work items of the block.
    type Items: Items<K>;

    /// The block's first work item and its first tile; not for sequences that are looked up.
    fn first_item(context: &Context<'_, K>) -> Option<(BlockWork, u32)>;

    /// The first step of a lane's warpgroup; `None` if the block has no strip for it.
    ///
    /// # Safety
    /// Warpgroup together, before anything else.
    unsafe fn first_strip(context: &Context<'_, K>, lane: Lane, turns: Turns) -> Option<Step<K>>;

    /// The step after `step`, the last of its strip; `None` if there is none, or the next item has no strip for this warpgroup.
    ///
    /// # Safety
    /// Warpgroup together.
    unsafe fn next_strip(context: &Context<'_, K>, step: Step<K>) -> Option<Step<K>>;

    /// The step after `step`, the last of its strip, if [`Self::next_strip`] returned `None`; `None` if there is none in any item.
    ///
    /// # Safety
    /// Warpgroup together, after they have released the tiles of the step.
    #[inline(always)]
    unsafe fn resume(_: &Context<'_, K>, _: Step<K>, _: Lane, _: Turns) -> Option<Step<K>> {
        None
    }

    /// Number of tiles behind that of `step` that the warpgroup passes over. `is_end`: it is a last step for which [`Self::next_strip`]
    /// returned no strip; the block may still read tiles for its other warpgroups.
    fn idle_tiles(context: &Context<'_, K>, step: Step<K>, is_end: bool) -> u32;

    /// Calls `action` for every strip of the block, in the order in which they are computed.
    #[inline(always)]
    fn for_each_strip(context: &Context<'_, K>, mut action: impl FnMut(StripCopy)) {
        let mut items = Self::Items::new();
        let mut number = 0;
        while let Some(item) = items.next(context, number) {
            let mut index = 0;
            while index < Self::Items::strips(item) {
                action(Self::Items::strip(context, item, number, index));
                index += 1;
            }
            number += 1;
        }
    }
}

/// The work items of a block, in order.
pub trait Items<K: TmaKernel> {
    /// A work item of the block, or its share of one: strips of a head, and tiles of K and V that they attend to.
    type Item: Copy;

    /// Before the first item.
    fn new() -> Self;

    /// Item `number`; called for all numbers in order.
    fn next(&mut self, context: &Context<'_, K>, number: u32) -> Option<Self::Item>;

    /// Number of strips of an item.
    fn strips(item: Self::Item) -> u32;

    /// Strip `index` of item `number`.
    fn strip(context: &Context<'_, K>, item: Self::Item, number: u32, index: u32) -> StripCopy;

    /// The tiles that are loaded for item `number`.
    fn tiles(context: &Context<'_, K>, item: Self::Item, number: u32) -> Tiles;
}

/// Tiles of K and V of a head.
#[derive(Clone, Copy)]
pub struct Tiles {
    /// The head of Q.
    pub work: BlockWork,
    /// The keys of the sequence.
    pub keys: SequenceRows,
    /// The first tile.
    pub first: u32,
    /// Number of tiles.
    pub count: u32,
}

/// The keys of a head that has all of them.
#[inline(always)]
fn all_keys<K: TmaKernel>(context: &Context<'_, K>) -> SequenceRows {
    SequenceRows { begin: 0, length: context.kv_length }
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

/// Number of warpgroups that release a stage before it is refilled.
#[inline(always)]
pub fn users<K: TmaKernel>(context: &Context<'_, K>, stage: u32) -> u32 {
    if K::HOLDS_HEADS { WholeHead::users(context, stage) } else { K::WARPGROUPS }
}

/// The number of a warpgroup's strip from which it passes its turns to the first warpgroup, since later warpgroups have nothing
/// left to do; a number that is never reached otherwise.
#[inline(always)]
pub fn last_in_turn_from<K: TmaKernel>(context: &Context<'_, K>, warpgroup: u32) -> u32 {
    if K::HOLDS_HEADS { WholeHead::last_in_turn_from(context, warpgroup) } else { u32::MAX }
}
