//! The thread that copies the tiles of all items, as soon as their places are empty.

use super::items::{self, Item, KeyItem, QueryItem};
use super::kernel::Sm90Backward;
use super::memory::Memory;
use super::ring::Places;
use crate::device::ptx::{bulk_copy, global, mbarrier, memory};
use crate::device::tma::context::Maps;
use crate::device::tma::copies::load_rows;
use crate::device::tma::kernel::ROWS;
use crate::device::tma::mapped::{InMaps, Mapped};
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use contract::backward::args::BackwardArgs;
use contract::packed::{self, SequenceTile};

/// The rows of the sequence of a tile.
#[inline(always)]
const fn of_tile(SequenceTile { begin, length, .. }: SequenceTile) -> packed::Rows {
    packed::Rows { begin, length }
}

/// Prefetches the tensor maps.
///
/// # Safety
/// The launch has tensor maps.
#[inline(always)]
pub unsafe fn prefetch_maps(maps: Maps) {
    for map in [maps.q(), maps.k(), maps.v(), maps.o(), maps.d_o()] {
        // SAFETY: a map of the launch.
        unsafe { bulk_copy::prefetch_map(map) };
    }
}

/// Copies the tiles of all of the block's items.
///
/// # Safety
/// One thread of the block calls this.
#[inline(always)]
pub unsafe fn load_all<K: Sm90Backward>(args: &BackwardArgs, maps: Maps, memory: Memory<K>) {
    let mut loader = Loader { args, maps, memory, places: Places::START };
    // SAFETY: drawn for the items in order.
    let mut number = items::first::<K>(args, || unsafe { loader.draw() });
    while let Some(item) = Item::<K>::of(args, number) {
        // SAFETY: the items in order.
        unsafe {
            match item {
                Item::Keys(item) => {
                    loader.load_keys(item);
                    loader.places.end_of_keys::<K>(item.is_last(args));
                }
                Item::Queries(item) => loader.load_queries(item),
            }
        }
        loader.places.next_item::<K>();
        // SAFETY: likewise.
        number = items::next::<K>(args, number, || unsafe { loader.draw() });
    }
    if K::DRAWS {
        // SAFETY: the arrival that tells the others the number that is no item's.
        unsafe { mbarrier::arrive(memory.own_full(loader.places.own)) };
    }
}

/// Copies to the block's shared memory.
struct Loader<'a, K> {
    args: &'a BackwardArgs,
    maps: Maps,
    memory: Memory<K>,
    places: Places,
}

impl<K: Sm90Backward> Loader<'_, K> {
    /// Draws the number of the next item, when there is a place for it, and tells it to the others.
    ///
    /// # Safety
    /// One thread, before the item's copies; the workspace is prepared.
    #[inline(always)]
    unsafe fn draw(&self) -> u32 {
        let (memory, place) = (self.memory, self.places.own);
        // SAFETY: an initialised mbarrier; the next number of the launch; a place that nobody reads until an arrival that follows.
        unsafe {
            mbarrier::wait(memory.own_empty(place), place.parity ^ 1);
            let number = global::fetch_add(self.args.workspace.counts, 1);
            memory::store_shared_4(memory.number(place), number);
            number
        }
    }

    /// Copies K and V of an item's keys, and Q, dO and O of the queries.
    ///
    /// # Safety
    /// One thread, for the items in order.
    #[inline(always)]
    unsafe fn load_keys(&mut self, item: KeyItem<K>) {
        let (problem, maps) = (&self.args.problem, self.maps);
        // The head of Q whose head of K and V this is.
        let of_keys = K::Sequence::keys_in_maps(problem, item.query_head(self.args, 0), of_tile(item.tile));
        let of_queries = item.sequence_of_queries();
        // SAFETY: as promised to this function.
        unsafe {
            let own = of_keys.after(item.tile.first_row);
            let mut keys_are_left = K::KEEPS_DQ;
            if K::KEEPS_DQ {
                self.load_staged_own(maps.v(), own);
            } else {
                self.load_own([maps.k(), maps.v()], own);
            }
            let mut steps = item.steps(self.args);
            while let Some(step) = steps.next() {
                let head = item.query_head(self.args, step.member);
                let at = K::Sequence::in_maps(problem, head, of_queries).after(step.row);
                // Kept, Δ is computed once.
                let needs_o = !K::SUMS_IN_WORKSPACE && (!K::KEEPS_DQ || item.is_first());
                self.begin_stage(2 + u32::from(needs_o));
                self.load_staged(0, maps.q(), at);
                self.load_staged(1, maps.d_o(), at);
                if K::SUMS_IN_WORKSPACE {
                    self.load_statistics(item.first_tile(self.args) + step.dq_tile(self.args));
                }
                if needs_o {
                    self.load_o(step.dq_tile(self.args), at);
                }
                self.places.next_step::<K>();
                if keys_are_left {
                    // Only now: the place may become empty late.
                    self.load_own([maps.k()], own);
                    keys_are_left = false;
                }
            }
            if keys_are_left {
                self.load_own([maps.k()], own);
            }
        }
    }

    /// Copies Q, dO and O of an item's queries, and K and V of the keys.
    ///
    /// # Safety
    /// One thread, for the items in order.
    #[inline(always)]
    unsafe fn load_queries(&mut self, item: QueryItem<K>) {
        let (problem, maps) = (&self.args.problem, self.maps);
        let of_queries = K::Sequence::in_maps(problem, item.work, item.tile).after(item.tile.first_row);
        let of_keys = K::Sequence::keys_in_maps(problem, item.work, item.keys.rows);
        // SAFETY: as promised to this function.
        unsafe {
            self.load_own([maps.q(), maps.d_o()], of_queries);
            self.load_staged_own(maps.o(), of_queries);
            let mut steps = item.steps();
            while let Some(step) = steps.next() {
                self.begin_stage(2);
                self.load_staged(0, maps.k(), of_keys.after(step.row));
                self.load_staged(1, maps.v(), of_keys.after(step.row));
                self.places.next_step::<K>();
            }
        }
    }

    /// Copies the own rows of an item, of one tensor, to a stage.
    ///
    /// # Safety
    /// One thread, for the items in order.
    #[inline(always)]
    unsafe fn load_staged_own(&mut self, map: u64, at: InMaps) {
        // SAFETY: as promised to this function.
        unsafe {
            self.begin_stage(K::WARPGROUPS);
            unrolled!(at most 4; for warpgroup in const { K::WARPGROUPS as usize } => {
                self.load_staged(warpgroup as u32, map, at.after(warpgroup as u32 * ROWS));
            });
        }
        self.places.next_stage::<K>();
    }

    /// Copies the own rows of an item, of all of these tensors, after waiting for their place. Rows beyond the end become zeros.
    ///
    /// # Safety
    /// One thread, for the items in order.
    #[inline(always)]
    unsafe fn load_own<const TENSORS: usize>(&self, maps: [u64; TENSORS], at: InMaps) {
        let (memory, place) = (self.memory, self.places.own);
        let full = memory.own_full(place);
        // SAFETY: the users of the place had released it when the wait returned; maps of the launch.
        unsafe {
            mbarrier::wait(memory.own_empty(place), place.parity ^ 1);
            mbarrier::arrive_and_expect(full, const { TENSORS as u32 * K::WARPGROUPS * Rows::<K>::BYTES });
            unrolled!(at most 4; for warpgroup in const { K::WARPGROUPS as usize } => {
                let at = at.after(warpgroup as u32 * ROWS);
                unrolled!(at most 2; for tensor in TENSORS => {
                    load_rows(memory.own(place, tensor as u32, warpgroup as u32), maps[tensor], at, full);
                });
            });
        }
    }

    /// Waits until the stage is empty, and announces the bytes of `tiles` tiles.
    ///
    /// # Safety
    /// One thread, for the steps in order.
    #[inline(always)]
    unsafe fn begin_stage(&self, tiles: u32) {
        let place = self.places.stage;
        // SAFETY: initialised mbarriers.
        unsafe {
            mbarrier::wait(self.memory.stage_empty(place), place.parity ^ 1);
            let statistics = if K::SUMS_IN_WORKSPACE { const { K::TILE.statistics_bytes() } } else { 0 };
            mbarrier::arrive_and_expect(self.memory.stage_full(place), tiles * Rows::<K>::BYTES + statistics);
        }
    }

    /// Copies the statistics of a tile of queries from the workspace.
    ///
    /// # Safety
    /// As for [`Self::load_staged`].
    #[inline(always)]
    unsafe fn load_statistics(&self, tile: u32) {
        let (place, bytes) = (self.places.stage, const { K::TILE.statistics_bytes() });
        let from = self.args.workspace.statistics + tile as u64 * bytes as u64;
        // SAFETY: an empty place, and a tile's statistics, which lie as in a stage.
        unsafe { bulk_copy::load(self.memory.minus_lse(place, 0), from, bytes, self.memory.stage_full(place)) };
    }

    /// Copies O of a step of keys.
    ///
    /// # Safety
    /// As for [`Self::load_staged`].
    #[inline(always)]
    unsafe fn load_o(&self, dq_tile: u32, at: InMaps) {
        let (memory, places) = (self.memory, self.places);
        // SAFETY: the tile of dQ is empty behind the wait; a map of the launch.
        unsafe {
            if !K::KEEPS_DQ {
                return self.load_staged(2, self.maps.o(), at);
            }
            mbarrier::wait(memory.dq_empty(dq_tile), places.head_parity ^ 1);
            load_rows(memory.o(dq_tile), self.maps.o(), at, memory.stage_full(places.stage));
        }
    }

    /// Copies tile `index` of the stage.
    ///
    /// # Safety
    /// As often as [`Self::begin_stage`] announced.
    #[inline(always)]
    unsafe fn load_staged(&self, index: u32, map: u64, at: InMaps) {
        let place = self.places.stage;
        // SAFETY: an empty place, and a map of the launch.
        unsafe { load_rows(self.memory.staged(place, index), map, at, self.memory.stage_full(place)) };
    }
}
