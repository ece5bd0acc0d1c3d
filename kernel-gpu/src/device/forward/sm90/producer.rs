//! The thread that copies tiles to shared memory.

use crate::device::forward::sm90::parts::ComposedKernel;
use crate::device::order::{self, Items as _, Order, Streamed};
use crate::device::ptx::{bulk_copy, mbarrier, memory, proxy};
use crate::device::scores::ScoreMod;
use crate::device::sequence::Sequence;
use crate::device::tma::context::Context;
use crate::device::tma::copies::{StripCopy, TileCopy, load_rows};
use crate::device::tma::kernel::{KEYS, ROWS};
use crate::device::tma::mapped::{InMaps, Mapped, in_maps_of_batch};
use crate::device::tma::memory::Memory;
use crate::device::tma::ring::Ring;
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use contract::packed::SequenceTile;

/// The work items of a block.
type Items<K> = <<K as ComposedKernel>::Order as Order<K>>::Items;

/// Maximum number of K/V tiles in flight at the beginning.
const FIRST_TILES: u32 = 2;

/// Copies to the block's shared memory.
///
/// # Safety
/// For all of its functions: one thread of the block calls them, first [`Self::load_first`], then strips and tiles in order; the
/// launch has tensor maps as encoded by the host.
pub struct Loader<'a, K: ComposedKernel> {
    context: &'a Context<'a, K>,
    memory: Memory<K>,
}

impl<'a, K: ComposedKernel> Loader<'a, K> {
    /// The loader of the block.
    #[inline(always)]
    pub fn new(context: &'a Context<'a, K>) -> Self {
        Self { context, memory: context.memory }
    }

    /// The same loader. Addresses that are constant over all strips and tiles would occupy registers, of which the producer has few.
    #[inline(always)]
    fn recomputed(&self) -> Self {
        Self { context: self.context, memory: self.memory.recomputed() }
    }

    /// Prefetches the tensor maps of Q, K and V. Called first, since fetching them takes as long as the first copies.
    ///
    /// # Safety
    /// As for [`Loader`].
    #[inline(always)]
    pub unsafe fn prefetch_maps(&self) {
        let maps = self.context.maps;
        for map in [maps.q(), maps.k(), maps.v()] {
            // SAFETY: a map of the launch.
            unsafe { bulk_copy::prefetch_map(map) };
        }
    }

    /// Prefetches into L2 what [`Self::load_first`] loads, and the tiles that follow. Other grids may still be writing them: their
    /// writes go to L2, too.
    ///
    /// # Safety
    /// As for [`Loader`].
    #[inline(always)]
    pub unsafe fn prefetch_first(&self) {
        let Some(FirstItem { first_row, queries, first_key, keys }) = self.first_item() else { return };
        let Context { args, maps, .. } = self.context;
        // Boxes wholly outside the maps are not prefetched: that would take longer than what is inside.
        let has_rows = |strip: u32| strip == 0 || first_row + strip * ROWS < K::Sequence::length(args);
        let has_keys = |tile: u32| tile == 0 || first_key + tile * KEYS < K::Sequence::kv_length(args);
        // SAFETY: maps of the launch.
        unsafe {
            let mut strip = 0;
            while strip < K::WARPGROUPS && has_rows(strip) {
                prefetch_rows::<K>(maps.q(), queries.after(strip * ROWS));
                strip += 1;
            }
            let (mut tile, tiles) = (0, tiles_to_prefetch(K::Sequence::kv_length(args)));
            while tile < tiles && has_keys(tile) {
                prefetch_rows::<K>(maps.k(), keys.after(tile * KEYS));
                prefetch_rows::<K>(maps.v(), keys.after(tile * KEYS));
                tile += 1;
            }
        }
    }

    /// Starts the first loads, the same in every order: a strip of Q of the first work item for each warpgroup, and the first tile of
    /// K and V after the first strip. All places are still empty.
    ///
    /// # Safety
    /// As for [`Loader`].
    #[inline(always)]
    pub unsafe fn load_first(&self) {
        let Some(FirstItem { queries, keys, .. }) = self.first_item() else { return };
        let mut strip = 0;
        while strip < K::WARPGROUPS {
            // SAFETY: all places are empty before the first loads.
            unsafe {
                if K::FIRST_VALUES_APART {
                    self.start_apart(queries, keys);
                } else {
                    self.start_strip(strip, queries.after(strip * ROWS));
                    if strip == 0 {
                        self.start_stage(0, keys);
                    }
                }
            }
            strip += 1;
        }
    }

    /// Copies everything behind [`Self::load_first`]: the strips and tiles of all items, in the order in which they are computed.
    ///
    /// # Safety
    /// As for [`Loader`].
    #[inline(always)]
    pub unsafe fn load_all(&self) {
        let (mut index, mut tile, mut ring, mut is_first) = (0, 0, Ring::START, true);
        if !K::Sequence::IS_LOOKED_UP {
            (index, tile, ring) = (K::WARPGROUPS, 1, ring.advance(1));
        }
        let mut items = <Items<K> as order::Items<K>>::new();
        let mut number = 0;
        while let Some(item) = items.next(self.context, number) {
            let strips = Items::<K>::strips(item);
            let strip_of = |index| Items::<K>::strip(self.context, item, number, index);
            let tiles = Items::<K>::tiles(self.context, item, number);
            let keys = K::Sequence::keys_in_maps(self.context.args, tiles.work, tiles.keys);
            let mut load_tiles = |end| {
                while tile < end {
                    let key = (tiles.first + tile) * KEYS;
                    let is_outside = K::Sequence::IS_LOOKED_UP && key >= tiles.keys.length;
                    // SAFETY: the caller's; tiles in order.
                    unsafe { self.load_tile(TileCopy { ring, is_first, first_key: keys.after(key), is_outside }) };
                    ring = ring.advance(1);
                    is_first &= ring.stage != 0;
                    tile += 1;
                }
            };
            let tiles_ahead = tiles_ahead::<K>(tiles.count);
            let mut strip = index;
            while K::OVERLAPS_STRIPS && tiles_ahead > 0 && strip < strips {
                // A box wholly outside the map is fetched from where the map begins, before the tensor. That memory may not be
                // mapped, and then the prefetch takes some 100 µs.
                if !K::Sequence::IS_LOOKED_UP || strip_of(strip).has_rows() {
                    // SAFETY: the caller's.
                    unsafe { self.prefetch_strip(strip_of(strip)) };
                }
                strip += 1;
            }
            if K::TILES_AHEAD > 0 {
                load_tiles(tiles_ahead);
            }
            while index < strips {
                // SAFETY: the caller's; strips in order.
                unsafe { self.load_strip(strip_of(index)) };
                index += 1;
            }
            load_tiles(tiles.count);
            (index, tile) = (0, 0);
            number += 1;
        }
        while K::Sequence::IS_LOOKED_UP && index < K::WARPGROUPS {
            // SAFETY: the caller's; the strips behind the last.
            unsafe { self.load_strip(order::end_mark::<K>(number, index)) };
            index += 1;
        }
    }

    /// The block's first work item; not for sequences that are looked up.
    #[inline(always)]
    fn first_item(&self) -> Option<FirstItem> {
        let (work, tile) = K::Order::first_item(self.context)?;
        let (first_row, first_key) = (Streamed::first_row(work, K::WARPGROUPS), tile * KEYS);
        let queries = in_maps_of_batch(work).after(first_row);
        let keys = in_maps_of_batch(self.context.args.of_keys(work)).after(first_key);
        Some(FirstItem { first_row, queries, first_key, keys })
    }

    /// Copies Q of a strip, after waiting for its place. Rows beyond the end become zeros. If sequences are looked up, the strip's
    /// description is written for the other warps, and a strip without rows is not copied.
    ///
    /// # Safety
    /// As for [`Loader`].
    #[inline(always)]
    pub unsafe fn load_strip(&self, copy: StripCopy) {
        let StripCopy { place, parity, work, tile, kv_length } = copy;
        let loader = self.recomputed();
        let memory = loader.memory;
        // SAFETY: the storer had released the place when the wait returned.
        unsafe {
            mbarrier::wait(memory.strip_empty(place), parity ^ 1);
            if K::Sequence::IS_LOOKED_UP {
                let SequenceTile { sequence, begin, length, first_row } = tile;
                memory::store_shared_16(memory.strip_tile(place), [work.head, begin, length, first_row]);
                memory::store_shared_4(memory.strip_keys(place), kv_length);
                if K::ScoreMod::MODIFIES {
                    memory::store_shared_4(memory.strip_sequence(place), sequence);
                }
                if !copy.has_rows() {
                    return mbarrier::arrive(memory.strip_full(place));
                }
            }
            loader.start_strip(place, K::Sequence::in_maps(self.context.args, work, tile).after(tile.first_row));
        }
    }

    /// Prefetches Q of a strip into L2.
    ///
    /// # Safety
    /// As for [`Loader`].
    #[inline(always)]
    pub unsafe fn prefetch_strip(&self, StripCopy { work, tile, .. }: StripCopy) {
        let first = K::Sequence::in_maps(self.context.args, work, tile).after(tile.first_row);
        // SAFETY: a map of the launch.
        unsafe { prefetch_rows::<K>(self.context.maps.q(), first) };
    }

    /// [`Self::load_strip`] for an empty place.
    ///
    /// # Safety
    /// As for [`Loader`]; the place is empty.
    #[inline(always)]
    unsafe fn start_strip(&self, strip: u32, first: InMaps) {
        let full = self.memory.strip_full(strip);
        // SAFETY: an empty place, and a map of Q.
        unsafe {
            mbarrier::arrive_and_expect(full, Rows::<K>::BYTES);
            load_rows::<K>(self.memory.strip(strip), self.context.maps.q(), first, full);
        }
    }

    /// Copies a tile of K and V, after waiting for its stage. Rows beyond the end become zeros.
    ///
    /// The first tiles are requested a few at a time, each when the one [`FIRST_TILES`] before it has arrived. All blocks begin at
    /// once, and the data they need first would otherwise queue behind what they need later.
    ///
    /// # Safety
    /// As for [`Loader`].
    #[inline(always)]
    pub unsafe fn load_tile(&self, copy: TileCopy<K>) {
        let loader = self.recomputed();
        // SAFETY: the users of the stage had released it when the wait returned.
        unsafe {
            if copy.is_first && copy.ring.stage >= FIRST_TILES {
                mbarrier::wait(loader.memory.stage_full(copy.ring.stage - FIRST_TILES), 0);
            }
            copy.ring.wait_until_empty(loader.memory);
            if K::Sequence::MAY_HAVE_NO_KEY && copy.is_outside {
                return loader.fill_stage_with_zeros(copy.ring.stage);
            }
            loader.start_stage(copy.ring.stage, copy.first_key);
        }
    }

    /// [`Self::load_tile`] for a tile without keys.
    ///
    /// # Safety
    /// As for [`Loader`]; the stage is empty.
    #[inline(always)]
    unsafe fn fill_stage_with_zeros(&self, stage: u32) {
        let mut address = self.memory.keys(stage).address();
        let end = address + Memory::<K>::STAGE_BYTES;
        // SAFETY: an empty stage; its products read what was written before the fence.
        unsafe {
            while address < end {
                memory::store_shared_16(address, [0; 4]);
                address += 16;
            }
            proxy::fence_async_shared();
            mbarrier::arrive(self.memory.stage_full(stage));
        }
    }

    /// Starts the first loads of a kernel with [`FIRST_VALUES_APART`](crate::device::tma::kernel::TmaKernel::FIRST_VALUES_APART).
    ///
    /// # Safety
    /// As for [`Loader`]; all places are empty.
    #[inline(always)]
    unsafe fn start_apart(&self, queries: InMaps, keys: InMaps) {
        let (memory, maps) = (self.memory, self.context.maps);
        let (scores_full, values_full) = (memory.strip_full(0), memory.stage_full(0));
        // SAFETY: empty places, and maps of Q, K and V.
        unsafe {
            mbarrier::arrive_and_expect(scores_full, 2 * Rows::<K>::BYTES);
            load_rows::<K>(memory.strip(0), maps.q(), queries, scores_full);
            load_rows::<K>(memory.keys(0), maps.k(), keys, scores_full);
            mbarrier::arrive_and_expect(values_full, Rows::<K>::BYTES);
            load_rows::<K>(memory.values(0), maps.v(), keys, values_full);
        }
    }

    /// [`Self::load_tile`] for an empty stage.
    ///
    /// # Safety
    /// As for [`Loader`]; the stage is empty.
    #[inline(always)]
    unsafe fn start_stage(&self, stage: u32, first: InMaps) {
        let full = self.memory.stage_full(stage);
        // SAFETY: an empty stage, and maps of K and V.
        unsafe {
            mbarrier::arrive_and_expect(full, 2 * Rows::<K>::BYTES);
            load_rows::<K>(self.memory.keys(stage), self.context.maps.k(), first, full);
            load_rows::<K>(self.memory.values(stage), self.context.maps.v(), first, full);
        }
    }
}

/// How many of an item's tiles are loaded before its Q.
#[inline(always)]
fn tiles_ahead<K: ComposedKernel>(tiles: u32) -> u32 {
    // In a longer item, the place of Q is free by then, if the softmax of strips overlaps with the next ones.
    if K::OVERLAPS_STRIPS && tiles > K::TILES_AHEAD { 0 } else { tiles.min(K::TILES_AHEAD) }
}

/// Where the block's first work item begins, in the sequence and in the maps.
struct FirstItem {
    /// Its first row of Q.
    first_row: u32,
    queries: InMaps,
    /// The first key of its first tile.
    first_key: u32,
    keys: InMaps,
}

/// How many tiles of a block's first item are prefetched, if sequences have `keys` keys. The copies of few tiles are most of the call's
/// time; of many, only the first: the previous grid is still reading tiles of its own.
#[inline(always)]
const fn tiles_to_prefetch(keys: u32) -> u32 {
    match keys.div_ceil(KEYS) {
        ..=4 => 4,
        5..=6 => 2,
        _ => 1,
    }
}

/// Prefetches 64 rows of a head into L2.
///
/// # Safety
/// As for [`bulk_copy::prefetch_box_4d`], with a map as encoded by the host.
#[inline(always)]
unsafe fn prefetch_rows<K: ComposedKernel>(map: u64, first: InMaps) {
    unrolled!(at most 4; for panel in const { Rows::<K>::PANELS as usize } => {
        // SAFETY: a map of that rank.
        unsafe { bulk_copy::prefetch_box_4d(map, first.coordinates(panel as u32 * Rows::<K>::PANEL_COLUMNS)) };
    });
}
