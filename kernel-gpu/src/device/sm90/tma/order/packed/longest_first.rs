//! The finder warp: it finds the work items of a block in the order of [`contract::packed::longest_first`] and queues them for the
//! producer, [`ITEMS_AHEAD`] at most.

use super::Item;
use crate::device::attention::Lane;
use crate::device::attention::sequence::Packed;
use crate::device::codegen::thread;
use crate::device::hidden;
use crate::device::ptx::{mbarrier, memory, shuffle, vote};
use crate::device::sm90::tma::context::Context;
use crate::device::sm90::tma::copies::StripCopy;
use crate::device::sm90::tma::kernel::{ROWS, TmaKernel};
use crate::device::sm90::tma::memory::Memory;
use contract::config::WARP_SIZE;
use contract::packed::longest_first::{CostClass, Items, is_sorted};
use contract::packed::{Rows, SequenceTile};
use contract::tile::sm90_tma::ITEMS_AHEAD;

/// Queues the block's items, and behind the last one [`END`].
///
/// # Safety
/// All lanes of one warp of the block call this together.
#[inline(always)]
pub unsafe fn find_items<K: TmaKernel>(context: &Context<'_, K>, lane: Lane) {
    let mut number = 0;
    // SAFETY: the caller's; one lane queues all items, in order.
    unsafe {
        let mut walk = Walk::new(context, lane);
        loop {
            let item = walk.next(context, lane, number);
            if lane.index == 0 {
                push(context.memory, number, item.unwrap_or(END));
            }
            if item.is_none() {
                return;
            }
            number += 1;
        }
    }
}

/// The entry behind the last item.
const END: Item = Item { head: 0, tile: StripCopy::END, keys: Rows { begin: 0, length: 0 } };

/// Parity of the mbarrier phases of entry `number`.
#[inline(always)]
fn parity(number: u32) -> u32 {
    number / ITEMS_AHEAD % 2
}

/// Queues `item` as entry `number`, when its slot is empty.
///
/// # Safety
/// One thread of the block calls this, for all numbers in order.
#[inline(always)]
unsafe fn push<K: TmaKernel>(memory: Memory<K>, number: u32, item: Item) {
    let Item { head, tile: SequenceTile { begin, length, first_row, .. }, keys } = item;
    let [tile_address, keys_address] = memory.item(number);
    // SAFETY: initialised mbarriers; the slot is empty behind the wait.
    unsafe {
        mbarrier::wait(memory.item_empty(number), parity(number) ^ 1);
        memory::store_shared_16(tile_address, [head, begin, length, first_row]);
        memory::store_shared_16(keys_address, [keys.begin, keys.length, 0, 0]);
        mbarrier::arrive(memory.item_full(number));
    }
}

/// Takes entry `number` when it is queued; `None` behind the last item.
///
/// # Safety
/// One thread of the block calls this, for all numbers in order.
#[inline(always)]
pub unsafe fn pop<K: TmaKernel>(memory: Memory<K>, number: u32) -> Option<Item> {
    let [tile_address, keys_address] = memory.item(number);
    // SAFETY: initialised mbarriers; both halves were written before the wait returned.
    unsafe {
        mbarrier::wait(memory.item_full(number), parity(number));
        let [head, begin, length, first_row] = memory::load_shared_16(tile_address);
        let [keys_begin, keys_length, ..] = memory::load_shared_16(keys_address);
        mbarrier::arrive(memory.item_empty(number));
        let tile = SequenceTile { sequence: 0, begin, length, first_row };
        let item = Item { head, tile, keys: Rows { begin: keys_begin, length: keys_length } };
        (first_row != END.tile.first_row).then_some(item)
    }
}

/// The position of a warp among all items. It looks at 32 sequences at a time, one a lane.
struct Walk {
    class: CostClass,
    /// The first of these sequences.
    sequence: u32,
    /// How many items from the first of these on come before the block's next.
    ahead: u32,
    /// How many items there are from the first of these on, at most.
    left: u32,
}

impl Walk {
    /// At the first item.
    ///
    /// # Safety
    /// All lanes of a warp call this together.
    #[inline(always)]
    unsafe fn new<K: TmaKernel>(context: &Context<'_, K>, lane: Lane) -> Self {
        let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
        let unsorted = Self { class: CostClass::ALL, sequence: 0, ahead: block, left: u32::MAX };
        if !is_sorted(context.args.work_items.get(), context.args.sequences, blocks) {
            return unsorted;
        }
        let (mut sequence, mut greatest, mut number) = (lane.index, 1, 0);
        while sequence < context.args.sequences {
            let (.., items) = look_up(context, sequence);
            greatest = items.most().max(greatest);
            number += items.of(CostClass::ALL).number() * context.args.heads.get().get();
            sequence += WARP_SIZE;
        }
        // SAFETY: the caller's; all lanes have the same arguments.
        unsafe { Self { class: CostClass::of(shuffle::greatest(greatest)), left: shuffle::sum(number), ..unsorted } }
    }

    /// The block's item of a round; rounds must be asked for in order.
    ///
    /// # Safety
    /// All lanes of a warp call this together.
    #[inline(always)]
    unsafe fn next<K: TmaKernel>(&mut self, context: &Context<'_, K>, lane: Lane, round: u32) -> Option<Item> {
        let heads = context.args.heads.get().get();
        // SAFETY: the caller's; what decides about loops and returns is the same in all lanes.
        unsafe {
            loop {
                let mine = self.sequence + lane.index;
                let number = match mine < context.args.sequences {
                    true => look_up(context, mine).2.of(self.class).number() * heads,
                    false => 0,
                };
                let through = shuffle::sum_through(number, lane.index);
                let all = shuffle::from(through, WARP_SIZE - 1);
                if self.ahead < all {
                    let before = vote::count(through <= self.ahead);
                    let place = self.ahead - shuffle::from(through - number, before);
                    // The block with the costliest item of a round gets the cheapest of the next.
                    let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
                    self.ahead += 1 + 2 * if round.is_multiple_of(2) { blocks - 1 - block } else { block };
                    // Bad lengths may overlap, and so hold more items than there can be: stop at that number.
                    if hidden::again(round) * blocks >= context.args.work_items.get() {
                        self.ahead = u32::MAX;
                    }
                    return Some(item(context, self.class, self.sequence + before, place));
                }
                self.ahead -= all;
                self.left = self.left.wrapping_sub(all);
                // Not at the end of the last class: the block would wait for a walk through classes without items.
                if self.ahead >= self.left {
                    return None;
                }
                self.sequence += WARP_SIZE;
                if self.sequence >= context.args.sequences {
                    self.sequence = 0;
                    self.class = self.class.next()?;
                }
            }
        }
    }
}

/// Item `place` of a sequence among those of a class, heads fastest.
#[inline(always)]
fn item<K: TmaKernel>(context: &Context<'_, K>, class: CostClass, sequence: u32, place: u32) -> Item {
    let (before, head) = context.args.heads.divide(place);
    let (Rows { begin, length }, keys, items) = look_up(context, sequence);
    let first_row = items.of(class).item(before) * K::WARPGROUPS * ROWS;
    Item { head, tile: SequenceTile { sequence, begin, length, first_row }, keys }
}

/// The queries and keys of a sequence, and the items of each of its heads.
#[inline(always)]
fn look_up<K: TmaKernel>(context: &Context<'_, K>, sequence: u32) -> (Rows, Rows, Items) {
    let (queries, keys) = Packed::rows(context.args, sequence);
    (queries, keys, Items::new(queries.length, keys.length, K::IS_CAUSAL, K::WARPGROUPS))
}
