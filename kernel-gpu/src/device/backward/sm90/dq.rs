//! dQ of all queries of a head, which a warpgroup accumulates in shared memory over the items of its keys: dQ += dS·K.
//!
//! A tile lies there in the order of the registers, so that each thread finds its own. The first item of the head stores it, the last one
//! that attends to its keys adds to it in registers and stores it to the tensor. Always in that order: the sum has the same bits every time.

use super::items::{self, Item, KeyItem, Step};
use super::kernel::{K_STEPS, STEP, Sm90Backward};
use super::memory::Memory;
use super::output::head_rows;
use super::ring::{Places, arrive_together};
use crate::device::backward::output::store;
use crate::device::hidden;
use crate::device::kernel::OutputStrip;
use crate::device::lane::Lane;
use crate::device::mask::Mask;
use crate::device::ptx::wgmma::{self, Accumulators, Descriptor, NMajor, Registers};
use crate::device::ptx::{mbarrier, memory, proxy};
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::tile::head_rows::{HeadRows, has_chunk};
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use crate::shared_tile::CHUNK_BYTES;
use contract::backward::args::BackwardArgs;
use contract::config::{ELEMENT_BYTES, MMA_M, WARP_SIZE, WARPGROUP_WARPS};

/// Threads that compute dQ.
const THREADS: u32 = WARPGROUP_WARPS * WARP_SIZE;
/// Bytes of the part of a tile that a thread stores at once, and of those of all threads.
const PART: u32 = 16;
const PARTS: u32 = PART * THREADS;
/// Chunks of a row of 64 columns, and rows whose chunks the threads store at once.
const CHUNKS: u32 = STEP * ELEMENT_BYTES as u32 / CHUNK_BYTES;
const ROWS_AT_ONCE: u32 = THREADS / CHUNKS;

/// The number of the calling thread, of those that compute dQ.
#[inline(always)]
fn thread(lane: Lane) -> u32 {
    lane.warp % WARPGROUP_WARPS * WARP_SIZE + lane.index
}

/// Computes dQ of all of the block's heads.
///
/// # Safety
/// Warpgroup together.
#[inline(always)]
pub unsafe fn accumulate_all<K: Sm90Backward>(args: &BackwardArgs, memory: Memory<K>, lane: Lane) {
    const {
        assert!(
            !K::Mask::HAS_BEGIN,
            "every query attends to the first key, and so to an item of a head that stores its dQ first"
        )
    };
    let mut queries = Queries { args, memory, lane, places: Places::START };
    let mut number = items::first::<K>(args);
    while let Some(Item::Keys(item)) = Item::<K>::of(args, number) {
        // SAFETY: the items in order.
        unsafe { queries.accumulate(item) };
        queries.places.next_item::<K>();
        number = items::next::<K>(args, number);
    }
}

/// The queries of a head.
struct Queries<'a, K> {
    args: &'a BackwardArgs,
    memory: Memory<K>,
    lane: Lane,
    places: Places,
}

impl<K: Sm90Backward> Queries<'_, K> {
    /// Adds what an item's keys contribute.
    ///
    /// # Safety
    /// Warpgroup together, for the items in order.
    #[inline(always)]
    unsafe fn accumulate(&mut self, item: KeyItem<K>) {
        let (memory, own) = (self.memory, self.places.own);
        let mut steps = item.steps(self.args);
        // SAFETY: warpgroup together; K has arrived behind the wait, and is released after its last use.
        unsafe {
            mbarrier::wait(memory.own_full(own), own.parity);
            if steps.is_empty() {
                arrive_together(memory.own_empty(own), self.lane.index);
            }
            while let Some(step) = steps.next() {
                let mut dq = self.sum(item, step);
                if steps.is_empty() {
                    arrive_together(memory.own_empty(own), self.lane.index);
                }
                self.put(&mut dq, item, step);
                self.places.next_d_s::<K>();
            }
            let (args, head) = (self.args, item.work);
            self.store_keys(item, head_rows::<K>(args.dv, &args.dv_strides, head, item.tile));
            self.store_keys(item, head_rows::<K>(args.dk, &args.dk_strides, head, item.tile));
        }
    }

    /// Stores a gradient of an item's keys that was handed over.
    ///
    /// # Safety
    /// Warpgroup together, for dV and dK of the items in order.
    #[inline(always)]
    unsafe fn store_keys(&mut self, item: KeyItem<K>, rows: HeadRows) {
        let (memory, place, lane) = (self.memory, self.places.d_s, self.lane);
        let (first, chunk) = (thread(lane) / CHUNKS, thread(lane) % CHUNKS);
        // SAFETY: chunks of a tile that is stored behind the wait, and released after they are read; rows of the item's keys.
        unsafe {
            mbarrier::wait(memory.d_s_full(place), place.parity);
            unrolled!(at most 16; for pass in const { (K::TILE.rows() / ROWS_AT_ONCE) as usize } => {
                let row = pass as u32 * ROWS_AT_ONCE + first;
                let tile = memory.d_s(place, pass as u32 * ROWS_AT_ONCE / STEP);
                let value = memory::load_shared_16(tile.chunk(row % STEP, chunk));
                let row = item.tile.first_row + row;
                if row < item.tile.length && has_chunk(self.args.problem.head_dim, chunk) {
                    memory::store_global_16(rows.chunk(row, chunk), value);
                }
            });
            arrive_together(memory.d_s_empty(place), lane.index);
        }
        self.places.next_d_s::<K>();
    }

    /// dQ of a step's queries with the contribution of an item's keys.
    ///
    /// # Safety
    /// As for [`Self::accumulate`], for the steps in order.
    #[inline(always)]
    unsafe fn sum(&self, item: KeyItem<K>, step: Step) -> OutputStrip<K> {
        let (memory, place) = (self.memory, self.places.d_s);
        let mut dq: OutputStrip<K> = Fragments::zeros();
        // SAFETY: the thread's own part of a tile. dS is stored behind the wait, and released after the products.
        unsafe {
            if !item.is_first() {
                let own = self.own_part(step);
                unrolled!(at most 16; for n in K::HeadDim::N_TILES => {
                    dq.all_mut()[n] = memory::load_shared_four(own + n as u32 * PARTS);
                });
            }
            mbarrier::wait(memory.d_s_full(place), place.parity);
            self.multiply(&mut dq);
            arrive_together(memory.d_s_empty(place), self.lane.index);
        }
        dq
    }

    /// Puts dQ of a step where it belongs: to shared memory, or after the last item to the tensor.
    ///
    /// # Safety
    /// As for [`Self::sum`].
    #[inline(always)]
    unsafe fn put(&self, dq: &mut OutputStrip<K>, item: KeyItem<K>, step: Step) {
        // SAFETY: the thread's own part of a tile, which O is copied to after the arrival.
        unsafe {
            if self.ends(item, step) {
                self.store(dq, item, step);
                // Orders the accesses to the tile before the copy.
                proxy::fence_async_shared();
                arrive_together(self.memory.dq_empty(step.dq_tile(self.args)), self.lane.index);
            } else {
                let own = self.own_part(step);
                unrolled!(at most 16; for n in K::HeadDim::N_TILES => {
                    memory::store_shared_four(own + n as u32 * PARTS, dq.all()[n]);
                });
            }
        }
    }

    /// Address of the thread's own part of a step's tile.
    #[inline(always)]
    fn own_part(&self, step: Step) -> u32 {
        self.memory.dq(step.dq_tile(self.args)) + thread(self.lane.recomputed()) * PART
    }

    /// dQ += dS·K.
    ///
    /// # Safety
    /// Warpgroup together; dS and K have arrived.
    #[inline(always)]
    unsafe fn multiply(&self, dq: &mut OutputStrip<K>) {
        let (memory, places) = (self.memory, self.places);
        let tile = |rows: Rows<K>| Descriptor::<NMajor, Rows<K>>::new(hidden::recompute(rows.address()));
        // SAFETY: the caller's promise.
        unsafe {
            dq.pin();
            wgmma::fence();
            unrolled!(at most 4; for warpgroup in const { K::WARPGROUPS as usize } => {
                let d_s = tile(memory.d_s(places.d_s, warpgroup as u32));
                let keys = tile(memory.own(places.own, 0, warpgroup as u32));
                unrolled!(at most 4; for k in K_STEPS => {
                    dq.multiply_accumulate::<K::Element, _, _>(d_s.step(k), keys.step(k));
                });
            });
            wgmma::commit_group();
            wgmma::wait_group::<0>();
            dq.pin();
        }
    }

    /// Whether no query of a step attends to keys of later items.
    #[inline(always)]
    fn ends(&self, item: KeyItem<K>, step: Step) -> bool {
        let rows_end = (step.row + STEP).min(item.queries.rows.length);
        let position = rows_end.wrapping_add(item.queries.first_position);
        let end = K::Mask::keys_end(&self.args.problem, position, item.tile.length);
        end <= item.tile.first_row + const { K::TILE.rows() }
    }

    /// Stores dQ of a step.
    ///
    /// # Safety
    /// Warpgroup together.
    #[inline(always)]
    unsafe fn store(&self, dq: &mut OutputStrip<K>, item: KeyItem<K>, step: Step) {
        let (args, lane) = (self.args, self.lane);
        let head = item.query_head(args, step.member);
        let rows = head_rows::<K>(args.dq, &args.dq_strides, head, item.sequence_of_queries());
        let first_row = step.row + lane.warp % WARPGROUP_WARPS * MMA_M;
        // SAFETY: the warp's own rows.
        unsafe { store::<K>(dq, rows, args.scale, (first_row, item.queries.rows.length), &args.problem, lane) };
    }
}
