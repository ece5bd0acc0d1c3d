//! The sums of dQ in the workspace, and the two threads that add to them: each takes every second panel.
//!
//! Items add to a sum in an order that only the launch decides. The first one stores it. For the last one it is copied to shared memory, where
//! [`dq`](super::dq) takes it, adds to it in registers and stores it to the tensor.

use core::marker::PhantomData;

use super::items::{self, Item, KeyItem, Step};
use super::kernel::Sm90Backward;
use super::memory::Memory;
use super::ring::{OfTwo, Place, Places};
use super::role::Role;
use crate::device::ptx::{bulk_copy, global, mbarrier, proxy};
use crate::device::tma::rows::Rows;
use contract::backward::args::{BackwardArgs, COUNT_BYTES};
use contract::backward::variants::PANEL_BYTES;

/// The sum of a tile.
#[derive(Clone, Copy)]
pub struct Sum<'a, K> {
    args: &'a BackwardArgs,
    tile: u32,
    _kernel: PhantomData<K>,
}

impl<'a, K: Sm90Backward> Sum<'a, K> {
    /// That of tile `tile` of the workspace.
    #[inline(always)]
    pub fn of_tile(args: &'a BackwardArgs, tile: u32) -> Self {
        Self { args, tile, _kernel: PhantomData }
    }

    /// That of a step's queries.
    #[inline(always)]
    fn of(args: &'a BackwardArgs, item: KeyItem<K>, step: Step) -> Self {
        Self::of_tile(args, item.first_tile(args) + step.dq_tile(args))
    }

    /// Number of a panel, of those of all tiles.
    #[inline(always)]
    fn number(self, panel: u32) -> u64 {
        self.tile as u64 * Rows::<K>::PANELS as u64 + panel as u64
    }

    /// Address of a panel.
    #[inline(always)]
    fn panel(self, panel: u32) -> u64 {
        self.args.workspace.sums + self.number(panel) * PANEL_BYTES as u64
    }

    /// Address of how many items have added to a panel.
    #[inline(always)]
    pub fn count(self, panel: u32) -> u64 {
        self.args.workspace.counts + (1 + self.number(panel)) * COUNT_BYTES
    }

    /// Waits until `before` items have added to a panel, which copies by the calling thread then see.
    ///
    /// # Safety
    /// The workspace is prepared.
    #[inline(always)]
    unsafe fn wait(self, panel: u32, before: u32) {
        let count = self.count(panel);
        // SAFETY: its count. Blocks that run add to it: the items before were drawn before, or all blocks run.
        unsafe {
            while global::load_acquire(count) != before {}
            proxy::fence_async_global();
        }
    }
}

/// Adds dQ of all of the block's items: every panel whose place has the number `adder`.
///
/// # Safety
/// For each place, one thread of the block calls this.
#[inline(always)]
pub unsafe fn add_all<K: Sm90Backward>(args: &BackwardArgs, memory: Memory<K>, adder: u32) {
    const { assert!(!K::SUMS_IN_WORKSPACE || K::TILE.panels() == Role::HELPERS, "each has a place") };
    let mut places = Places::START;
    // SAFETY: as promised to this function; each number is read before the arrival.
    unsafe {
        let draw = |own: Place| {
            let number = items::drawn(memory, own);
            mbarrier::arrive(memory.own_empty(own));
            number
        };
        let mut number = items::first::<K>(args, || draw(places.own));
        while let Some(Item::Keys(item)) = Item::<K>::of(args, number) {
            let mut steps = item.steps(args);
            while let Some(step) = steps.next() {
                // Kept, it would occupy registers.
                let Some(item) = KeyItem::<K>::again(args, number) else { return };
                let (first, panels) = (places.panel, const { Rows::<K>::PANELS });
                let panel = adder.wrapping_sub(first.place().index) % OfTwo::COUNT;
                if panel < panels {
                    let place = first.after(panel).place();
                    let (sum, before) = (Sum::of(args, item, step), item.before(args, step));
                    if item.ends(args, step) {
                        give(sum, panel, memory, place, before);
                    } else {
                        add(sum, panel, memory, place, before);
                    }
                }
                places.panel = first.after(panels);
            }
            places.next_item::<K>();
            number = items::next::<K>(args, number, || draw(places.own));
        }
    }
}

/// Adds the panel that is at `place` to that of `sum`, after `before` items.
///
/// # Safety
/// One thread, for the panels of its place in order.
#[inline(always)]
unsafe fn add<K: Sm90Backward>(sum: Sum<'_, K>, panel: u32, memory: Memory<K>, place: Place, before: u32) {
    // SAFETY: a panel that is full behind the wait, to a sum which no other item writes between the wait for the count and the next value of it.
    unsafe {
        mbarrier::arrive(memory.panel_sum(place));
        if before > 0 {
            sum.wait(panel, before);
        }
        mbarrier::wait(memory.panel_full(place), place.parity);
        let to = sum.panel(panel);
        if before == 0 {
            bulk_copy::store(to, memory.panel(place), PANEL_BYTES);
        } else {
            bulk_copy::add_f32(to, memory.panel(place), PANEL_BYTES);
        }
        bulk_copy::commit_group();
        bulk_copy::wait_for_reads::<0>();
        mbarrier::arrive(memory.panel_empty(place));
        bulk_copy::wait_for_writes();
        global::store_release(sum.count(panel), before + 1);
    }
}

/// Copies a panel of `sum` to `place`, after `before` items, and waits until it is taken.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
unsafe fn give<K: Sm90Backward>(sum: Sum<'_, K>, panel: u32, memory: Memory<K>, place: Place, before: u32) {
    let arrived = memory.panel_sum(place);
    // SAFETY: a place that is empty, since the thread waits for its last use; the sum is complete behind the wait.
    unsafe {
        if before > 0 {
            sum.wait(panel, before);
            mbarrier::arrive_and_expect(arrived, PANEL_BYTES);
            bulk_copy::load(memory.panel(place), sum.panel(panel), PANEL_BYTES, arrived);
        } else {
            mbarrier::arrive(arrived);
        }
        mbarrier::wait(memory.panel_full(place), place.parity);
        mbarrier::arrive(memory.panel_empty(place));
    }
}
