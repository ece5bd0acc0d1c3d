//! Strips of packed sequences, with K and V streamed.

mod longest_first;

use super::{Order, Step, Streamed, work_item};
use crate::device::attention::Lane;
use crate::device::attention::mask::Mask;
use crate::device::attention::other_rows::{self, Share};
use crate::device::attention::score_mod::ScoreMod;
use crate::device::attention::sequence::{Packed, Sequence};
use crate::device::codegen::thread;
use crate::device::hidden;
use crate::device::ptx::wgmma::Descriptor;
use crate::device::ptx::{mbarrier, memory};
use crate::device::sm90::tma::context::Context;
use crate::device::sm90::tma::copies::{StripCopy, TileCopy};
use crate::device::sm90::tma::epilogue;
use crate::device::sm90::tma::kernel::{KEYS, ROWS, TmaKernel};
use crate::device::sm90::tma::mapped::keys_in_maps;
use crate::device::sm90::tma::memory::Memory;
use crate::device::sm90::tma::turns::Turns;
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

/// A work item.
#[derive(Clone, Copy)]
struct Item {
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
    fn find<K: TmaKernel>(context: &Context<'_, K>, round: &mut u32) -> Option<Item> {
        loop {
            let work = Packed::work(context.args, Self::ORDER, work_item(context, Self::ORDER, *round)?);
            *round += 1;
            if let Some(tile) = Packed::tile(context.args, work, K::WARPGROUPS * ROWS) {
                return Some(Item { head: work.head, tile, keys: Packed::keys(context.args, tile) });
            }
        }
    }

    /// Slots say nothing about the length of an item, so there is no better order than theirs.
    const ORDER: WorkOrder = WorkOrder::HeadByHead;

    /// Index of a warpgroup's strip in shared memory.
    #[inline(always)]
    fn slot(warpgroup: u32, warpgroups: u32, number: u32) -> u32 {
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

    /// Strip `place` of item number `number`.
    #[inline(always)]
    fn strip_of(
        work: BlockWork,
        (item, keys): (SequenceTile, Rows),
        number: u32,
        place: u32,
        warpgroups: u32,
    ) -> StripCopy {
        StripCopy {
            // The permutation of the warpgroups is its own inverse.
            strip: Self::slot(Streamed::place(place, warpgroups, number), warpgroups, number),
            parity: Self::parity(number),
            work,
            tile: SequenceTile { first_row: item.first_row + place * ROWS, ..item },
            kv_length: keys.length,
        }
    }

    /// The strip of a warpgroup, from the producer's description.
    ///
    /// # Safety
    /// The strip's Q has arrived, and its place has not been released.
    #[inline(always)]
    unsafe fn told<K: TmaKernel>(memory: Memory<K>, warpgroup: u32, number: u32) -> StripCopy {
        let strip = Self::slot(warpgroup, K::WARPGROUPS, number);
        // SAFETY: the producer wrote all of it before it arrived at the mbarrier of Q.
        let ([head, begin, length, first_row], kv_length) = unsafe {
            (memory::load_shared_16(memory.strip_tile(strip)), memory::load_shared_4(memory.strip_keys(strip)))
        };
        let sequence = match K::ScoreMod::MODIFIES {
            // SAFETY: likewise.
            true => unsafe { memory::load_shared_4(memory.strip_sequence(strip)) },
            false => 0,
        };
        let work = BlockWork { batch: 0, head, query_tile: 0 };
        let tile = SequenceTile { sequence, begin, length, first_row };
        StripCopy { strip, parity: Self::parity(number), work, tile, kv_length }
    }

    /// [`Self::told`], after waiting for Q.
    ///
    /// # Safety
    /// All lanes of the warp call this together; the strip's place has not been released.
    #[inline(always)]
    unsafe fn wait_until_told<K: TmaKernel>(memory: Memory<K>, warpgroup: u32, number: u32) -> StripCopy {
        let strip = Self::slot(warpgroup, K::WARPGROUPS, number);
        // SAFETY: an initialised mbarrier; the strip has not been released.
        unsafe {
            mbarrier::wait(memory.strip_full(strip), Self::parity(number));
            Self::told(memory, warpgroup, number)
        }
    }

    /// The tiles of the item that contains `strip` of a warpgroup.
    #[inline(always)]
    fn tiles_around<K: TmaKernel>(context: &Context<'_, K>, strip: StripCopy, warpgroup: u32, number: u32) -> u32 {
        let behind = K::WARPGROUPS - Streamed::place(warpgroup, K::WARPGROUPS, number);
        let position = Self::position(context, strip.tile, strip.kv_length);
        Streamed::tiles(context, position.wrapping_add(behind * ROWS), strip.kv_length)
    }

    /// The first step of a strip of item number `number`, whose first tile is at the given stage.
    #[inline(always)]
    fn start<K: TmaKernel>(
        context: &Context<'_, K>,
        copy: StripCopy,
        number: u32,
        (stage, stage_parity): (u32, u32),
    ) -> Step<K> {
        let StripCopy { strip, parity, tile, kv_length, .. } = copy;
        let position = Self::position(context, tile, kv_length);
        let tiles = Streamed::tiles(context, position.wrapping_add(ROWS), kv_length);
        let first_tile = Streamed::first_tile(context, position);
        Step {
            number,
            kv_length,
            strips: 0,
            first_row: position,
            strip,
            queries: Descriptor::new(context.memory.strip(strip).address()),
            tile: first_tile,
            first_tile,
            last_tile: tiles - 1,
            idle_tiles: Self::tiles_around(context, copy, strip % K::WARPGROUPS, number) - tiles,
            stage,
            keys: Descriptor::new(context.memory.keys(stage).address()),
            stage_parity,
            strip_parity: parity,
            gives_back: 1,
        }
    }

    /// The first step from item number `number` on. Strips without rows are released at once, and their tiles passed over.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together; nothing of earlier items is held.
    #[inline(always)]
    unsafe fn from<K: TmaKernel>(
        context: &Context<'_, K>,
        lane: Lane,
        turns: Turns,
        mut number: u32,
        mut place: (u32, u32),
    ) -> Option<Step<K>> {
        let warpgroup = lane.warp / WARPGROUP_WARPS;
        // SAFETY: the warpgroup is here and holds nothing; strips without rows are not computed, and their tiles not read.
        unsafe {
            loop {
                // No `Option`: its payload would be undefined here, and a select instruction would read it, though its result is unused.
                let strip = Self::wait_until_told(context.memory, warpgroup, number);
                if strip.is_end() {
                    return None;
                }
                if K::WARPGROUPS == 1 || strip.has_rows() {
                    return Some(Self::start::<K>(context, strip, number, place));
                }
                let mut tiles = Self::tiles_around(context, strip, warpgroup, number);
                epilogue::leave_nothing(context.memory, strip.strip, lane);
                while tiles > 0 {
                    turns.wait();
                    turns.pass();
                    Self::let_pass(context.memory, place, lane);
                    place = Streamed::advance::<K>(place, 1);
                    tiles -= 1;
                }
                number += 1;
            }
        }
    }

    /// Releases a tile that the warp does not read.
    ///
    /// # Safety
    /// All lanes of the warp call this together, for the stages in order.
    #[inline(always)]
    unsafe fn let_pass<K: TmaKernel>(memory: Memory<K>, (stage, parity): (u32, u32), lane: Lane) {
        // SAFETY: the warp's one arrival for the stage, after a wait: until the tile has arrived, the mbarrier may still count
        // arrivals for the previous tile.
        unsafe {
            mbarrier::wait(memory.stage_full(stage), parity);
            // Recomputed: with a lane known from outside of the surrounding loop, the compiler would duplicate the loop for the arriving
            // lane and the others, and each would wait alone at the barriers in it.
            if hidden::again(lane.index) == 0 {
                mbarrier::arrive(memory.stage_empty(stage));
            }
        }
    }

    /// The stage after those of a step's item; the step is the last of its strip.
    #[inline(always)]
    fn behind<K: TmaKernel>(step: Step<K>) -> (u32, u32) {
        Streamed::advance::<K>((step.stage, step.stage_parity), step.idle_tiles + 1)
    }
}

impl<K: TmaKernel> Order<K> for PackedStreamed {
    #[inline(always)]
    fn first_item(context: &Context<'_, K>) -> Option<(BlockWork, u32)> {
        <Streamed as Order<K>>::first_item(context)
    }

    #[inline(always)]
    unsafe fn first(context: &Context<'_, K>, lane: Lane, turns: Turns) -> Option<Step<K>> {
        const {
            assert!(K::WARPGROUPS <= K::STAGES, "an idle warpgroup would let more than a ring pass");
            assert!(K::WARPGROUPS == 1 || !K::Mask::HAS_BEGIN, "nobody lets the tiles before a strip's first pass");
        }
        // SAFETY: the warpgroup is here, before anything else.
        unsafe { Self::from::<K>(context, lane, turns, 0, (0, 0)) }
    }

    #[inline(always)]
    fn copy_of(context: &Context<'_, K>, step: Step<K>) -> StripCopy {
        // SAFETY: the step's Q has arrived, and its strip is released only after this.
        unsafe { Self::told(context.memory, step.strip % K::WARPGROUPS, step.number) }
    }

    #[inline(always)]
    unsafe fn next_strip(context: &Context<'_, K>, step: Step<K>) -> Option<Step<K>> {
        let (number, warpgroup) = (step.number + 1, step.strip % K::WARPGROUPS);
        // SAFETY: the warpgroup is here; the place of the strip is released only after the step.
        let strip = unsafe { Self::wait_until_told(context.memory, warpgroup, number) };
        let start = || Self::start::<K>(context, strip, number, Self::behind::<K>(step));
        strip.has_rows().then(start)
    }

    #[inline(always)]
    unsafe fn resume(context: &Context<'_, K>, step: Step<K>, lane: Lane, turns: Turns) -> Option<Step<K>> {
        // SAFETY: the warpgroup is here after the last step, whose tiles it has released.
        unsafe { Self::from::<K>(context, lane, turns, step.number + 1, Self::behind::<K>(step)) }
    }

    #[inline(always)]
    fn next_tile(memory: Memory<K>, step: Step<K>) -> Step<K> {
        <Streamed as Order<K>>::next_tile(memory, step)
    }

    #[inline(always)]
    unsafe fn leave(context: &Context<'_, K>, step: Step<K>, lane: Lane) {
        let memory = context.memory;
        let mut place = (step.stage, step.stage_parity);
        let mut idle = if step.is_last() { step.idle_tiles } else { 0 };
        // SAFETY: the warp's one arrival for the stage, which it does not read again; it has not read the others at all.
        unsafe {
            if lane.index == 0 {
                mbarrier::arrive(memory.stage_empty(place.0));
            }
            while idle > 0 {
                place = Streamed::advance::<K>(place, 1);
                Self::let_pass(memory, place, lane);
                idle -= 1;
            }
        }
    }

    #[inline(always)]
    fn for_each_strip(context: &Context<'_, K>, mut action: impl FnMut(StripCopy)) {
        let mut number = 0;
        loop {
            let mut place = 0;
            while place < K::WARPGROUPS {
                let warpgroup = Streamed::place(place, K::WARPGROUPS, number);
                // SAFETY: the storing warp is together, and releases the place in `action`.
                let strip = unsafe { Self::wait_until_told(context.memory, warpgroup, number) };
                if strip.is_end() {
                    return;
                }
                action(strip);
                place += 1;
            }
            number += 1;
        }
    }

    #[inline(always)]
    unsafe fn prefetch_lengths(context: &Context<'_, K>, lane: Lane) {
        // SAFETY: the caller's.
        unsafe { Packed::prefetch_lengths(context.args, lane) };
    }

    #[inline(always)]
    unsafe fn find_items(context: &Context<'_, K>, lane: Lane) {
        if longest_first::is_used(context) {
            // SAFETY: the caller's.
            unsafe { longest_first::find_items(context, lane) };
        }
    }

    #[inline(always)]
    unsafe fn clear_other_rows(context: &Context<'_, K>, lane: Lane) {
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

    #[inline(always)]
    fn for_each_load(
        context: &Context<'_, K>,
        mut load_strip: impl FnMut(StripCopy),
        mut load_tile: impl FnMut(TileCopy),
        mut prefetch_strip: impl FnMut(StripCopy),
    ) {
        let (mut round, mut number) = (0, 0);
        let (mut stage, mut is_first) = ((0, 0), true);
        let mut next_item = |number| match longest_first::is_used(context) {
            // SAFETY: the one thread that copies pops all items, in order.
            true => unsafe { longest_first::pop(context.memory, number) },
            false => Self::find(context, &mut round),
        };
        while let Some(Item { head, tile: first, keys }) = next_item(number) {
            let work = BlockWork { batch: 0, head, query_tile: 0 };
            let strip_of = |place| Self::strip_of(work, (first, keys), number, place, K::WARPGROUPS);
            let in_maps = keys_in_maps(context.args, work, keys);
            let position = Self::position(context, first, keys.length);
            let first_tile = Streamed::first_tile(context, position);
            let item_end = position.wrapping_add(K::WARPGROUPS * ROWS);
            let tiles = Streamed::tiles(context, item_end, keys.length) - first_tile;
            let mut tile = 0;
            let mut load_tiles = |end| {
                while tile < end {
                    let key = (first_tile + tile) * KEYS;
                    let (first_key, is_outside) = (in_maps.after(key), key >= keys.length);
                    load_tile(TileCopy { stage: stage.0, parity: stage.1, is_first, first_key, is_outside });
                    stage = Streamed::advance::<K>(stage, 1);
                    is_first &= stage.0 != 0;
                    tile += 1;
                }
            };
            if K::OVERLAPS_STRIPS && Streamed::tiles_ahead::<K>(tiles) > 0 {
                for_each_place::<K>(|place| {
                    // A box wholly outside the map is fetched from where the map begins, before the tensor. That memory may not be
                    // mapped, and then the prefetch takes some 100 µs.
                    if strip_of(place).has_rows() {
                        prefetch_strip(strip_of(place));
                    }
                });
            }
            if K::TILES_AHEAD > 0 {
                load_tiles(Streamed::tiles_ahead::<K>(tiles));
            }
            for_each_place::<K>(|place| load_strip(strip_of(place)));
            load_tiles(tiles);
            number += 1;
        }
        let work = BlockWork { batch: 0, head: 0, query_tile: 0 };
        let nothing = (SequenceTile { first_row: 0, ..StripCopy::END }, Rows { begin: 0, length: 0 });
        for_each_place::<K>(|place| {
            let strip = Self::strip_of(work, nothing, number, place, K::WARPGROUPS);
            load_strip(StripCopy { tile: StripCopy::END, ..strip });
        });
    }
}

/// Does `action` for each strip of an item.
#[inline(always)]
fn for_each_place<K: TmaKernel>(mut action: impl FnMut(u32)) {
    let mut place = 0;
    while place < K::WARPGROUPS {
        action(place);
        place += 1;
    }
}
