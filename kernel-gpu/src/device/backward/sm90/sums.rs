//! The sums of dQ in the workspace, and the thread that adds to them.
//!
//! Items add to a sum in the order of their keys. The first one stores it, the last one takes it, adds to it in registers and stores
//! it to the tensor: that does [`dq`](super::dq).

use core::marker::PhantomData;

use super::items::{self, Item, KeyItem, Step};
use super::kernel::Sm90Backward;
use super::memory::Memory;
use super::ring::{Place, Places};
use crate::device::ptx::{bulk_copy, global, mbarrier, proxy};
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
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
    pub fn of(args: &'a BackwardArgs, item: KeyItem<K>, step: Step) -> Self {
        Self::of_tile(args, item.first_tile(args) + step.dq_tile(args))
    }

    /// Address of a panel.
    #[inline(always)]
    pub fn panel(self, panel: u32) -> u64 {
        self.args.workspace.sums + (self.tile as u64 * Rows::<K>::PANELS as u64 + panel as u64) * PANEL_BYTES as u64
    }

    /// Address of how many items have added to it.
    #[inline(always)]
    pub fn count(self) -> u64 {
        self.args.workspace.counts + (1 + self.tile as u64) * COUNT_BYTES
    }

    /// Waits until all items before `item` have added to it, which the calling thread then sees.
    ///
    /// # Safety
    /// The workspace is prepared.
    #[inline(always)]
    pub unsafe fn wait(self, item: KeyItem<K>) {
        // SAFETY: its count. The items before were drawn before, so that blocks that run add to it.
        unsafe {
            // An acquiring load each time would cost more.
            while global::load_relaxed(self.count()) != item.work.query_tile {}
            global::load_acquire(self.count());
        }
    }
}

/// Adds dQ of all of the block's items.
///
/// # Safety
/// One thread of the block calls this.
#[inline(always)]
pub unsafe fn add_all<K: Sm90Backward>(args: &BackwardArgs, memory: Memory<K>) {
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
                if !item.ends(args, step) {
                    add(Sum::of(args, item, step), memory, &mut places, item);
                }
            }
            places.next_item::<K>();
            number = items::next::<K>(args, number, || draw(places.own));
        }
    }
}

/// Adds the panels of a step to `sum`.
///
/// # Safety
/// One thread, for the steps in order.
#[inline(always)]
unsafe fn add<K: Sm90Backward>(sum: Sum<'_, K>, memory: Memory<K>, places: &mut Places, item: KeyItem<K>) {
    // SAFETY: panels that are full behind the waits, to a sum which no other item writes between the wait for the count and the next value of it.
    unsafe {
        if !item.is_first() {
            sum.wait(item);
            proxy::fence_async_global();
        }
        unrolled!(at most 4; for panel in const { Rows::<K>::PANELS as usize } => {
            let place = places.panel.place();
            mbarrier::wait(memory.panel_full(place), place.parity);
            let to = sum.panel(panel as u32);
            if item.is_first() {
                bulk_copy::store(to, memory.panel(place), PANEL_BYTES);
            } else {
                bulk_copy::add_f32(to, memory.panel(place), PANEL_BYTES);
            }
            bulk_copy::commit_group();
            bulk_copy::wait_for_reads::<0>();
            mbarrier::arrive(memory.panel_empty(place));
            places.panel = places.panel.next();
        });
        bulk_copy::wait_for_writes();
        global::store_release(sum.count(), item.work.query_tile + 1);
    }
}
