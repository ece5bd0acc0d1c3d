//! The finder warp: it finds the work items of a block in the order of [`contract::packed::longest_first`] and queues them for the
//! producer, [`ITEMS_AHEAD`] at most.

use super::Found;
use crate::device::codegen::thread;
use crate::device::hidden;
use crate::device::lane::Lane;
use crate::device::ptx::{mbarrier, memory, shuffle, vote};
use crate::device::scores::ScoreMod;
use crate::device::sequence::Packed;
use crate::device::tma::context::Context;
use crate::device::tma::copies::StripCopy;
use crate::device::tma::kernel::{ROWS, TmaKernel};
use crate::device::tma::memory::Memory;
use contract::args::ForwardArgs;
use contract::config::WARP_SIZE;
use contract::packed::longest_first::{CostClass, Items, Key, STEP as SEQUENCES_PER_STEP, Size, Survey, is_sorted};
use contract::packed::{Rows, SequenceTile};
use contract::tile::sm90_tma::ITEMS_AHEAD;

/// Whether the finder queues the block's items. It need not where they are not sorted and have a single strip: to look them up by their
/// slots takes the producer less time than its walk through the sequences takes the finder.
#[inline(always)]
pub fn is_used<K: TmaKernel>(context: &Context<'_, K>) -> bool {
    let ForwardArgs { work_items, sequences, .. } = context.args;
    K::FINDS_ITEMS_AHEAD && (K::WARPGROUPS > 1 || is_sorted(work_items.get(), *sequences, thread::grid_dim_x(), 1))
}

/// Queues the block's items, and behind the last one [`END`].
///
/// # Safety
/// Warp together, one warp of the block.
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
const END: Found = Found { head: 0, tile: StripCopy::END, keys: Rows { begin: 0, length: 0 } };

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
unsafe fn push<K: TmaKernel>(memory: Memory<K>, number: u32, item: Found) {
    let Found { head, tile: SequenceTile { sequence, begin, length, first_row }, keys } = item;
    let sequence = if K::ScoreMod::MODIFIES { sequence } else { 0 };
    let [tile_address, keys_address] = memory.item(number);
    // SAFETY: initialised mbarriers; the slot is empty behind the wait.
    unsafe {
        mbarrier::wait(memory.item_empty(number), parity(number) ^ 1);
        memory::store_shared_16(tile_address, [head, begin, length, first_row]);
        memory::store_shared_16(keys_address, [keys.begin, keys.length, sequence, 0]);
        mbarrier::arrive(memory.item_full(number));
    }
}

/// Takes entry `number` when it is queued; `None` behind the last item.
///
/// # Safety
/// One thread of the block calls this, for all numbers in order.
#[inline(always)]
pub unsafe fn pop<K: TmaKernel>(memory: Memory<K>, number: u32) -> Option<Found> {
    let [tile_address, keys_address] = memory.item(number);
    // SAFETY: initialised mbarriers; both halves were written before the wait returned.
    unsafe {
        mbarrier::wait(memory.item_full(number), parity(number));
        let [head, begin, length, first_row] = memory::load_shared_16(tile_address);
        let [keys_begin, keys_length, sequence, _] = memory::load_shared_16(keys_address);
        mbarrier::arrive(memory.item_empty(number));
        let tile = SequenceTile { sequence, begin, length, first_row };
        let item = Found { head, tile, keys: Rows { begin: keys_begin, length: keys_length } };
        (first_row != END.tile.first_row).then_some(item)
    }
}

/// Sequences that a lane looks at together, since reading their lengths takes longer than anything else here.
const SEQUENCES_PER_LANE: u32 = SEQUENCES_PER_STEP / WARP_SIZE;

// The sizes of as many are packed into a word.
const _: () = assert!(SEQUENCES_PER_LANE == 2);

/// The position of a warp among all items. Most items are found among the sequences of the one before: what is known of them is kept,
/// since every instruction of this warp is one that the computing warps of its scheduler wait for.
struct Walk {
    key: Key,
    class: CostClass,
    /// Whether the sizes of all sequences are in shared memory.
    has_sizes: bool,
    /// The first of the sequences that it looks at.
    sequence: u32,
    /// How many items from the first of these on come before the block's next.
    ahead: u32,
    /// How many items there are from the first of these on, at most.
    left: u32,
    /// How many items of the class these sequences have.
    all: u32,
    /// How many of them the lane's first sequence has.
    of_first: u32,
    /// How many of them the lanes up to this one have, if the next item is among them.
    through: u32,
}

impl Walk {
    /// Before the first item.
    ///
    /// # Safety
    /// Warp together.
    #[inline(always)]
    unsafe fn new<K: TmaKernel>(context: &Context<'_, K>, lane: Lane) -> Self {
        let (block, blocks, items) = (thread::block_idx_x(), thread::grid_dim_x(), context.args.work_items.get());
        let (mut key, mut class, mut has_sizes, mut left) = (Key::Item, CostClass::ALL, false, u32::MAX);
        if is_sorted(items, context.args.sequences, blocks, K::WARPGROUPS) {
            let mut sequence = 0;
            let mut all = Survey::NOTHING;
            while sequence < context.args.sequences {
                // Elements that all ascend end at the last.
                let [first, second] = sizes_of_lane(context, lane, sequence, u32::MAX);
                // SAFETY: a word that only this lane accesses.
                unsafe {
                    memory::store_shared_4(sizes_of(context.memory, lane, sequence), Size::pack([first, second]))
                };
                all = all.and(first, K::WARPGROUPS).and(second, K::WARPGROUPS);
                sequence += SEQUENCES_PER_STEP;
            }
            // SAFETY: the caller's; all lanes have the same arguments.
            unsafe {
                let (least, most) = (shuffle::least(all.least), shuffle::greatest(all.most));
                let costliest = CostClass::of(most);
                if let Some(better) =
                    Key::of(items, blocks, most, CostClass::of(least) == costliest, K::LONG_SEQUENCE_TILES)
                {
                    (key, class) = (better, costliest);
                }
                let longest = shuffle::greatest(all.longest);
                has_sizes = longest <= Size::MOST_PACKED;
                // Sequences that may overlap have no items, since two would write the same rows.
                left = match Survey::is_out_of_order(longest) {
                    true => 0,
                    false => shuffle::sum(all.items) * context.args.heads.get().get(),
                };
            }
        }
        // As behind sequences that have no items.
        let sequence = 0_u32.wrapping_sub(SEQUENCES_PER_STEP);
        Self { key, class, has_sizes, sequence, ahead: block, left, all: 0, of_first: 0, through: 0 }
    }

    /// What the items are sorted by. Those of one strip have the cost of their sequence.
    #[inline(always)]
    fn key<K: TmaKernel>(&self) -> Key {
        if K::WARPGROUPS > 1 { self.key } else { Key::Sequence }
    }

    /// Counts the items of the class that the sequences have.
    ///
    /// # Safety
    /// Warp together.
    #[inline(always)]
    unsafe fn look<K: TmaKernel>(&mut self, context: &Context<'_, K>, lane: Lane) {
        let heads = context.args.heads.get().get();
        let [first, second] = match self.has_sizes {
            // SAFETY: the lane wrote this word.
            true => Size::unpack(unsafe { memory::load_shared_4(sizes_of(context.memory, lane, self.sequence)) }),
            // Those of single strips are sorted, and so were looked at before.
            false if K::WARPGROUPS == 1 => sizes_of_lane(context, lane, self.sequence, u32::MAX),
            false => {
                let last = Packed::rows_of_all(context.args).end;
                let sizes = sizes_of_lane(context, lane, self.sequence, last);
                let [first, second] = sizes;
                // SAFETY: the caller's; what was looked at is the same in all lanes.
                if !unsafe { vote::all(!first.is_out_of_order() && !second.is_out_of_order()) } {
                    // Neither these nor the following sequences have items.
                    (self.all, self.left) = (0, 0);
                    return;
                }
                sizes
            }
        };
        let [first, second] = [items_of::<K>(first), items_of::<K>(second)];
        self.of_first = first.of(self.class, self.key::<K>()).number() * heads;
        let number = self.of_first + second.of(self.class, self.key::<K>()).number() * heads;
        // SAFETY: the caller's; `ahead` is the same in all lanes.
        unsafe {
            self.all = shuffle::sum(number);
            if self.ahead < self.all {
                self.through = shuffle::sum_through(number, lane.index);
            }
        }
    }

    /// The block's item of a round; rounds must be asked for in order.
    ///
    /// # Safety
    /// Warp together.
    #[inline(always)]
    unsafe fn next<K: TmaKernel>(&mut self, context: &Context<'_, K>, lane: Lane, round: u32) -> Option<Found> {
        // SAFETY: the caller's; what decides about loops and returns is the same in all lanes.
        unsafe {
            while self.ahead >= self.all {
                self.ahead -= self.all;
                self.left = self.left.wrapping_sub(self.all);
                // Not at the end of the last class: the block would wait for a walk through classes without items.
                if self.ahead >= self.left {
                    return None;
                }
                self.sequence = self.sequence.wrapping_add(SEQUENCES_PER_STEP);
                if self.sequence >= context.args.sequences {
                    self.sequence = 0;
                    self.class = self.class.next()?;
                }
                self.look(context, lane);
            }
            let holder = vote::count(self.through <= self.ahead);
            let before = shuffle::from(self.through, holder.wrapping_sub(1) % WARP_SIZE);
            let place = self.ahead - if holder > 0 { before } else { 0 };
            let of_first = shuffle::from(self.of_first, holder);
            // The block with the costliest item of a round gets the cheapest of the next.
            let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
            self.ahead += 1 + 2 * if round.is_multiple_of(2) { blocks - 1 - block } else { block };
            let is_second = place >= of_first;
            let sequence = self.sequence + SEQUENCES_PER_LANE * holder + u32::from(is_second);
            Some(item(
                context,
                (self.class, self.key::<K>()),
                sequence,
                if is_second { place - of_first } else { place },
            ))
        }
    }
}

/// The sizes of a lane's sequences, of those from `first` on, which [ascend](contract::packed::Sequences::of_ascending) up to at most `last`.
#[inline(always)]
fn sizes_of_lane<K: TmaKernel>(
    context: &Context<'_, K>,
    lane: Lane,
    first: u32,
    last: u32,
) -> [Size; SEQUENCES_PER_LANE as usize] {
    // Products with it would otherwise occupy registers throughout the walk.
    let mine = hidden::recompute(first + SEQUENCES_PER_LANE * lane.index);
    let size = |sequence| {
        if sequence >= context.args.sequences {
            return Size::NOTHING;
        }
        let (rows, ascends) = Packed::ascending_rows(context.args, sequence, last);
        if ascends { size_of(rows) } else { Size::OUT_OF_ORDER }
    };
    [size(mine), size(mine + 1)]
}

/// Where these are in shared memory.
#[inline(always)]
fn sizes_of<K: TmaKernel>(memory: Memory<K>, lane: Lane, first: u32) -> u32 {
    memory.sizes(first / SEQUENCES_PER_LANE + lane.index)
}

/// Item `place` of a sequence among those of a class, heads fastest.
#[inline(always)]
fn item<K: TmaKernel>(context: &Context<'_, K>, (class, key): (CostClass, Key), sequence: u32, place: u32) -> Found {
    let (before, head) = context.args.heads.divide(place);
    let (rows, keys) = look_up(context, sequence);
    let items = items_of::<K>(size_of((rows, keys)));
    let first_row = items.of(class, key).item(before) * K::WARPGROUPS * ROWS;
    let Rows { begin, length } = rows;
    Found { head, tile: SequenceTile { sequence, begin, length, first_row }, keys }
}

/// The queries and keys of a sequence.
#[inline(always)]
fn look_up<K: TmaKernel>(context: &Context<'_, K>, sequence: u32) -> (Rows, Rows) {
    Packed::rows(context.args, sequence)
}

/// The size of a sequence of these queries and keys.
#[inline(always)]
fn size_of((queries, keys): (Rows, Rows)) -> Size {
    Size::new(queries.length, keys.length)
}

/// The items of each head of a sequence.
#[inline(always)]
fn items_of<K: TmaKernel>(size: Size) -> Items {
    Items::new(size, K::IS_CAUSAL, K::WARPGROUPS)
}
