//! Strips of packed sequences, with K and V streamed.

mod longest_first;

use super::{Items, Order, Step, Streamed, Strip, Tiles, work_item};
use crate::device::codegen::thread;
use crate::device::lane::Lane;
use crate::device::mask::Mask;
use crate::device::ptx::wgmma::Descriptor;
use crate::device::ptx::{mbarrier, memory};
use crate::device::scores::ScoreMod;
use crate::device::sequence::other_rows::{self, Share};
use crate::device::sequence::{Packed, Sequence};
use crate::device::tma::computed;
use crate::device::tma::context::Context;
use crate::device::tma::copies::StripCopy;
use crate::device::tma::kernel::{ROWS, TmaKernel};
use crate::device::tma::memory::Memory;
use crate::device::tma::ring::Ring;
use crate::device::tma::turns::Turns;
use contract::config::{WARP_SIZE, WARPGROUP_WARPS};
use contract::geometry::BlockWork;
use contract::longest_first::WorkOrder;
use contract::packed::{Rows, SequenceTile};

/// [`Streamed`] for packed sequences: an item is as many neighbouring strips of one sequence as there are warpgroups.
///
/// Items of one strip may come in the order of their slots ([`contract::packed`]), and the producer looks them up. Where a long one in
/// the last round would cost more, a finder warp queues them, the longest first ([`longest_first`]). The producer writes
/// to shared memory which strip it copies; the other warps read that when Q has arrived. A strip behind the end of its sequence is
/// neither copied nor computed: its warpgroup lets the item's tiles and its own turns pass.
pub struct PackedStreamed;

/// A found item.
#[derive(Clone, Copy)]
pub struct Found {
    /// Its head.
    head: u32,
    /// Its first strip.
    tile: SequenceTile,
    /// Its keys.
    keys: Rows,
}

impl PackedStreamed {
    /// The block's next item from `round` on; `round` is then the one behind it.
    #[inline(always)]
    fn find<K: TmaKernel>(context: &Context<'_, K>, round: &mut u32) -> Option<Found> {
        loop {
            let work = Packed::work(context.args, Self::ORDER, work_item(context, Self::ORDER, *round)?);
            *round += 1;
            if let Some(tile) = Packed::tile(context.args, work, K::WARPGROUPS * ROWS) {
                return Some(Found { head: work.head, tile, keys: Packed::keys(context.args, tile) });
            }
        }
    }

    /// Slots say nothing about the length of an item, so there is no better order than theirs.
    const ORDER: WorkOrder = WorkOrder::HeadByHead;

    /// Index of a warpgroup's strip in shared memory.
    #[inline(always)]
    fn place(warpgroup: u32, warpgroups: u32, number: u32) -> u32 {
        number % 2 * warpgroups + warpgroup
    }

    /// Parity of the phases of an item's strips.
    #[inline(always)]
    fn parity(number: u32) -> u32 {
        number / 2 % 2
    }

    /// Position of a tile's first row among its `kv_length` keys; for masks without a begin, the row itself.
    #[inline(always)]
    fn position<K: TmaKernel>(context: &Context<'_, K>, tile: SequenceTile, kv_length: u32) -> u32 {
        match K::Mask::HAS_BEGIN {
            true => tile.first_row.wrapping_add(Packed::first_position(context.args, tile.length, kv_length)),
            false => tile.first_row,
        }
    }

    /// The strip of a warpgroup, from the producer's description.
    ///
    /// # Safety
    /// The strip's Q has arrived, and its place has not been released.
    #[inline(always)]
    unsafe fn told<K: TmaKernel>(memory: Memory<K>, warpgroup: u32, number: u32) -> StripCopy {
        let place = Self::place(warpgroup, K::WARPGROUPS, number);
        // SAFETY: the producer wrote all of it before it arrived at the mbarrier of Q.
        let ([head, begin, length, first_row], kv_length) = unsafe {
            (memory::load_shared_16(memory.strip_tile(place)), memory::load_shared_4(memory.strip_keys(place)))
        };
        let sequence = match K::ScoreMod::MODIFIES {
            // SAFETY: likewise.
            true => unsafe { memory::load_shared_4(memory.strip_sequence(place)) },
            false => 0,
        };
        let work = BlockWork { batch: 0, head, query_tile: 0 };
        let tile = SequenceTile { sequence, begin, length, first_row };
        StripCopy { place, parity: Self::parity(number), work, tile, kv_length }
    }

    /// [`Self::told`], after waiting for Q.
    ///
    /// # Safety
    /// Warp together; the strip's place has not been released.
    #[inline(always)]
    unsafe fn wait_until_told<K: TmaKernel>(memory: Memory<K>, warpgroup: u32, number: u32) -> StripCopy {
        let place = Self::place(warpgroup, K::WARPGROUPS, number);
        // SAFETY: an initialised mbarrier; the strip has not been released.
        unsafe {
            mbarrier::wait(memory.strip_full(place), Self::parity(number));
            Self::told(memory, warpgroup, number)
        }
    }

    /// The tiles of the item that contains `strip` of a warpgroup.
    #[inline(always)]
    fn tiles_around<K: TmaKernel>(context: &Context<'_, K>, strip: StripCopy, warpgroup: u32, number: u32) -> u32 {
        let behind = K::WARPGROUPS - Streamed::mirrored(warpgroup, K::WARPGROUPS, number);
        let position = Self::position(context, strip.tile, strip.kv_length);
        Streamed::tiles(context, position.wrapping_add(behind * ROWS), strip.kv_length)
    }

    /// The first step of a strip of item number `number`, whose first tile is at the given position.
    #[inline(always)]
    fn start<K: TmaKernel>(context: &Context<'_, K>, copy: StripCopy, number: u32, ring: Ring<K>) -> Step<K> {
        let StripCopy { place, parity, work, tile, kv_length } = copy;
        let position = Self::position(context, tile, kv_length);
        let tiles = Streamed::tiles(context, position.wrapping_add(ROWS), kv_length);
        let strip = Strip {
            number,
            work,
            sequence: tile.sequence,
            kv_length,
            first_row: position,
            place,
            parity,
            queries: Descriptor::new(context.memory.strip(place).address()),
            first_tile: Streamed::first_tile(context, position),
            last_tile: tiles - 1,
            idle_tiles: Self::tiles_around(context, copy, place % K::WARPGROUPS, number) - tiles,
            strips: 0,
            releases: 1,
        };
        strip.begin(context.memory, ring)
    }

    /// The first step from item number `number` on. Strips without rows are released at once, and their tiles passed over.
    ///
    /// # Safety
    /// Warpgroup together; nothing of earlier items is held.
    #[inline(always)]
    unsafe fn from<K: TmaKernel>(
        context: &Context<'_, K>,
        lane: Lane,
        turns: Turns,
        mut number: u32,
        mut ring: Ring<K>,
    ) -> Option<Step<K>> {
        let warpgroup = lane.warp / WARPGROUP_WARPS;
        // SAFETY: warpgroup together and holds nothing; strips without rows are not computed, and their tiles not read.
        unsafe {
            loop {
                // No `Option`: its payload would be undefined here, and a select instruction would read it, though its result is unused.
                let strip = Self::wait_until_told(context.memory, warpgroup, number);
                if strip.is_end() {
                    return None;
                }
                if K::WARPGROUPS == 1 || strip.has_rows() {
                    return Some(Self::start::<K>(context, strip, number, ring));
                }
                let mut tiles = Self::tiles_around(context, strip, warpgroup, number);
                computed::signal_empty(context.memory, strip.place, lane);
                while tiles > 0 {
                    ring.pass_over(context.memory, turns, lane.index);
                    ring = ring.advance(1);
                    tiles -= 1;
                }
                number += 1;
            }
        }
    }

    /// The stage after those of a step's item; the step is the last of its strip.
    #[inline(always)]
    fn behind<K: TmaKernel>(step: Step<K>) -> Ring<K> {
        step.ring.advance(step.strip.idle_tiles + 1)
    }
}

impl<K: TmaKernel> Order<K> for PackedStreamed {
    type Items = FoundItems;

    #[inline(always)]
    fn first_item(_: &Context<'_, K>) -> Option<(BlockWork, u32)> {
        None
    }

    #[inline(always)]
    unsafe fn first_strip(context: &Context<'_, K>, lane: Lane, turns: Turns) -> Option<Step<K>> {
        const {
            assert!(K::WARPGROUPS <= K::STAGES, "an idle warpgroup would let more than a ring pass");
            assert!(K::WARPGROUPS == 1 || !K::Mask::HAS_BEGIN, "nobody lets the tiles before a strip's first pass");
        }
        // SAFETY: warpgroup together, before anything else.
        unsafe { Self::from::<K>(context, lane, turns, 0, Ring::START) }
    }

    #[inline(always)]
    unsafe fn next_strip(context: &Context<'_, K>, step: Step<K>) -> Option<Step<K>> {
        let (number, warpgroup) = (step.strip.number + 1, step.strip.place % K::WARPGROUPS);
        // SAFETY: warpgroup together; the place of the strip is released only after the step.
        let strip = unsafe { Self::wait_until_told(context.memory, warpgroup, number) };
        let start = || Self::start::<K>(context, strip, number, Self::behind::<K>(step));
        strip.has_rows().then(start)
    }

    #[inline(always)]
    unsafe fn resume(context: &Context<'_, K>, step: Step<K>, lane: Lane, turns: Turns) -> Option<Step<K>> {
        // SAFETY: warpgroup together after the last step, whose tiles it has released.
        unsafe { Self::from::<K>(context, lane, turns, step.strip.number + 1, Self::behind::<K>(step)) }
    }

    #[inline(always)]
    fn idle_tiles(_: &Context<'_, K>, step: Step<K>, _: bool) -> u32 {
        // With the full mask all strips of an item are equally long.
        if !K::Mask::ALL_KEYS && step.is_last() { step.strip.idle_tiles } else { 0 }
    }

    /// As the producer describes them.
    #[inline(always)]
    fn for_each_strip(context: &Context<'_, K>, mut action: impl FnMut(StripCopy)) {
        let mut number = 0;
        loop {
            let mut index = 0;
            while index < K::WARPGROUPS {
                let warpgroup = Streamed::mirrored(index, K::WARPGROUPS, number);
                // SAFETY: the storing warp is together, and releases the place in `action`.
                let strip = unsafe { Self::wait_until_told(context.memory, warpgroup, number) };
                if strip.is_end() {
                    return;
                }
                action(strip);
                index += 1;
            }
            number += 1;
        }
    }
}

/// The items of the block.
pub struct FoundItems {
    /// The next round in which the producer looks for an item itself.
    round: u32,
}

impl<K: TmaKernel> Items<K> for FoundItems {
    type Item = Found;

    #[inline(always)]
    fn new() -> Self {
        Self { round: 0 }
    }

    #[inline(always)]
    fn next(&mut self, context: &Context<'_, K>, number: u32) -> Option<Found> {
        match longest_first::is_used(context) {
            // SAFETY: the one thread that copies pops all items, in order.
            true => unsafe { longest_first::pop(context.memory, number) },
            false => PackedStreamed::find(context, &mut self.round),
        }
    }

    #[inline(always)]
    fn strips(_: Found) -> u32 {
        K::WARPGROUPS
    }

    #[inline(always)]
    fn strip(_: &Context<'_, K>, Found { head, tile, keys }: Found, number: u32, index: u32) -> StripCopy {
        // The permutation of the warpgroups is its own inverse.
        let warpgroup = Streamed::mirrored(index, K::WARPGROUPS, number);
        StripCopy {
            place: PackedStreamed::place(warpgroup, K::WARPGROUPS, number),
            parity: PackedStreamed::parity(number),
            work: BlockWork { batch: 0, head, query_tile: 0 },
            tile: SequenceTile { first_row: tile.first_row + index * ROWS, ..tile },
            kv_length: keys.length,
        }
    }

    #[inline(always)]
    fn tiles(context: &Context<'_, K>, Found { head, tile, keys }: Found, _: u32) -> Tiles {
        let position = PackedStreamed::position(context, tile, keys.length);
        let first = Streamed::first_tile(context, position);
        let end = Streamed::tiles(context, position.wrapping_add(K::WARPGROUPS * ROWS), keys.length);
        Tiles { work: BlockWork { batch: 0, head, query_tile: 0 }, keys, first, count: end - first }
    }
}

/// The description of a strip behind the last item.
#[inline(always)]
pub fn end_mark<K: TmaKernel>(number: u32, index: u32) -> StripCopy {
    let warpgroup = Streamed::mirrored(index, K::WARPGROUPS, number);
    StripCopy {
        place: PackedStreamed::place(warpgroup, K::WARPGROUPS, number),
        parity: PackedStreamed::parity(number),
        work: BlockWork { batch: 0, head: 0, query_tile: 0 },
        tile: StripCopy::END,
        kv_length: 0,
    }
}

/// Prefetches what [`find_items`] or the producer will look up. Called first: the previous grid may still be running.
///
/// # Safety
/// Warp together, one warp of the block.
#[inline(always)]
pub unsafe fn prefetch_lengths<K: TmaKernel>(context: &Context<'_, K>, lane: Lane) {
    // SAFETY: the caller's.
    unsafe { Packed::prefetch_lengths(context.args, lane) };
}

/// Finds the items of the block, if the producer does not.
///
/// # Safety
/// Warp together, one warp of the block.
#[inline(always)]
pub unsafe fn find_items<K: TmaKernel>(context: &Context<'_, K>, lane: Lane) {
    if longest_first::is_used(context) {
        // SAFETY: the caller's.
        unsafe { longest_first::find_items(context, lane) };
    }
}

/// Clears the block's share of the rows that belong to no sequence.
///
/// # Safety
/// Warp together, one warp of each block, once.
#[inline(always)]
pub unsafe fn clear_other_rows<K: TmaKernel>(context: &Context<'_, K>, lane: Lane) {
    let args = context.args;
    let all = Packed::rows_of_all(args);
    let share = Share { number: thread::block_idx_x(), of: thread::grid_dim_x() };
    let mut head = 0;
    while other_rows::are_there(args, all) && head < args.heads.get().get() {
        // SAFETY: the caller's; each block calls this once.
        unsafe { other_rows::clear(args, all, head, share, (lane.index, WARP_SIZE)) };
        head += 1;
    }
}
