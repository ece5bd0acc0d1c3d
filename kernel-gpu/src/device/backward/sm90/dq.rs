//! dQ of queries, which a warpgroup computes from the dS of an item's keys: dQ += dS·K, a panel of columns at a time.
//!
//! Its sum over the items of a head is in shared memory, or in the workspace. A tile lies there in the order of the registers, so that each
//! thread finds its own. The first item of the head stores it, the last one that its queries attend to adds to it in registers and stores it to the
//! tensor. Always in that order: the sum has the same bits every time.

use super::items::{self, Item, KeyItem, Step};
use super::kernel::{K_STEPS, N_TILES, STEP, Sm90Backward};
use super::memory::{Memory, Square};
use super::output::head_rows;
use super::ring::{Place, Places, arrive_together};
use crate::device::hidden;
use crate::device::lane::{Lane, ROWS_PER_LANE};
use crate::device::mask::Mask;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::wgmma::{self, Accumulators, Descriptor, NMajor, Registers};
use crate::device::ptx::{mbarrier, memory, proxy, shuffle};
use crate::device::stores::{QUAD, store_quad};
use crate::device::tile::head_dim::Fragments;
use crate::device::tile::head_rows::{HeadRows, has_chunk};
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use crate::shared_tile::CHUNK_BYTES;
use contract::args::ForwardArgs;
use contract::backward::args::BackwardArgs;
use contract::config::{ELEMENT_BYTES, MMA_M, WARP_SIZE, WARPGROUP_WARPS};

/// 64 columns of dQ of 16 rows.
type Panel = [FragmentC; N_TILES];

/// No later item contributes to a tile of dQ.
#[derive(Clone, Copy)]
struct Ends {
    /// Whether an item before did.
    adds: bool,
}

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
            !K::KEEPS_DQ || !K::Mask::HAS_BEGIN,
            "every query attends to the first key, and so to the item of a head that stores its dQ first"
        )
    };
    let mut queries = Queries { args, memory, lane, places: Places::START };
    // SAFETY: the warpgroup signals behind its last product that the place is empty.
    let mut number = items::first::<K>(args, || unsafe { items::drawn(memory, queries.places.own) });
    while let Some(Item::Keys(item)) = Item::<K>::of(args, number) {
        // SAFETY: the items in order.
        unsafe { queries.accumulate(number, item) };
        queries.places.next_item::<K>();
        // SAFETY: likewise.
        number = items::next::<K>(args, number, || unsafe { items::drawn(memory, queries.places.own) });
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
    unsafe fn accumulate(&mut self, number: u32, item: KeyItem<K>) {
        let (memory, own) = (self.memory, self.places.own);
        let mut steps = item.steps(self.args);
        // SAFETY: warpgroup together; K has arrived behind the wait, and is released after its last use.
        unsafe {
            mbarrier::wait(memory.own_full(own), own.parity);
            if steps.is_empty() {
                arrive_together(memory.own_empty(own), self.lane.index);
            }
            while let Some(step) = steps.next() {
                let mut ends = None;
                unrolled!(at most 4; for panel in const { Rows::<K>::PANELS as usize } => {
                    let mut dq = self.start_sum(item, step, panel as u32);
                    if panel == 0 {
                        // Meanwhile.
                        ends = self.ends(number, item, step);
                    }
                    wgmma::wait_group::<0>();
                    dq.pin();
                    if panel as u32 + 1 == Rows::<K>::PANELS {
                        arrive_together(memory.d_s_empty(self.places.d_s.place()), self.lane.index);
                        if steps.is_empty() {
                            arrive_together(memory.own_empty(own), self.lane.index);
                        }
                    }
                    self.put(&mut dq, (number, ends), step, panel as u32);
                });
                self.places.next_d_s::<K>();
            }
            if K::KEEPS_DQ {
                let (args, head) = (self.args, item.work);
                self.store_keys(item, head_rows::<K>(args.dv, &args.dv_strides, head, item.tile));
                self.store_keys(item, head_rows::<K>(args.dk, &args.dk_strides, head, item.tile));
            }
        }
    }

    /// Stores a gradient of an item's keys that was handed over.
    ///
    /// # Safety
    /// Warpgroup together, for dV and dK of the items in order.
    #[inline(always)]
    unsafe fn store_keys(&mut self, item: KeyItem<K>, rows: HeadRows) {
        let (memory, place, lane) = (self.memory, self.places.d_s.place(), self.lane);
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

    /// Whether the step's queries attend to no later item.
    #[inline(always)]
    fn ends(&self, number: u32, item: KeyItem<K>, step: Step) -> Option<Ends> {
        // Kept, it would occupy registers beside wide accumulators of the other warpgroups.
        let of_step = if K::SUMS_IN_WORKSPACE { KeyItem::<K>::again(self.args, number) } else { Some(item) };
        let ends = of_step.filter(|item| item.ends(self.args, step));
        ends.map(|item| Ends { adds: item.before(self.args, step) > 0 })
    }

    /// Starts a panel of dQ of a step's queries with the contribution of an item's keys.
    ///
    /// # Safety
    /// As for [`Self::accumulate`], for the steps in order.
    #[inline(always)]
    unsafe fn start_sum(&mut self, item: KeyItem<K>, step: Step, panel: u32) -> Panel {
        let (memory, place) = (self.memory, self.places.d_s.place());
        let mut dq: Panel = Fragments::zeros();
        // SAFETY: the thread's own part of a tile. dS is stored behind the wait.
        unsafe {
            if K::KEEPS_DQ && !item.is_first() {
                let own = self.own_part(memory.dq(step.dq_tile(self.args)));
                unrolled!(at most 8; for n in N_TILES => { dq[n] = memory::load_shared_four(own + n as u32 * PARTS) });
            }
            mbarrier::wait(memory.d_s_full(place), place.parity);
            self.start_product(&mut dq, panel);
        }
        dq
    }

    /// Puts a panel of dQ of a step where it belongs: to the sum, or after the last item to the tensor.
    ///
    /// # Safety
    /// As for [`Self::sum`].
    #[inline(always)]
    unsafe fn put(&mut self, dq: &mut Panel, (number, ends): (u32, Option<Ends>), step: Step, panel: u32) {
        let (args, memory) = (self.args, self.memory);
        // SAFETY: the thread's own part of a tile, which O is copied to after the arrival; or of a panel that is empty behind the wait.
        unsafe {
            match (ends, K::KEEPS_DQ) {
                (Some(_), true) => {
                    self.store(dq, number, step, panel);
                    // Orders the accesses to the tile before the copy.
                    proxy::fence_async_shared();
                    arrive_together(memory.dq_empty(step.dq_tile(args)), self.lane.index);
                }
                (None, true) => self.store_shared(memory.dq(step.dq_tile(args)), dq),
                (ends, false) => {
                    let place = self.places.panel.place();
                    // Also before a sum is taken, so that its mbarrier is not a phase behind.
                    mbarrier::wait(memory.panel_empty(place), place.parity ^ 1);
                    match ends {
                        Some(ends) => self.take_sum(dq, place, ends),
                        None => self.store_shared(memory.panel(place), dq),
                    }
                    proxy::fence_async_shared();
                    arrive_together(memory.panel_full(place), self.lane.index);
                    self.places.panel = self.places.panel.next();
                    if ends.is_some() {
                        self.store(dq, number, step, panel);
                    }
                }
            }
        }
    }

    /// Adds the sum of the items before, which is copied to `place`.
    ///
    /// # Safety
    /// As for [`Self::sum`].
    #[inline(always)]
    unsafe fn take_sum(&self, dq: &mut Panel, place: Place, ends: Ends) {
        // SAFETY: the thread's own part of a panel that has arrived behind the wait.
        unsafe {
            mbarrier::wait(self.memory.panel_sum(place), place.parity);
            if ends.adds {
                let own = self.own_part(self.memory.panel(place));
                unrolled!(at most 8; for n in N_TILES => {
                    let sum = memory::load_shared_four(own + n as u32 * PARTS);
                    unrolled!(at most 4; for i in 4 => { dq[n][i] += sum[i] });
                });
            }
        }
    }

    /// Stores the thread's part of a tile in shared memory.
    ///
    /// # Safety
    /// The thread's own part.
    #[inline(always)]
    unsafe fn store_shared(&self, tile: u32, dq: &Panel) {
        let own = self.own_part(tile);
        // SAFETY: the caller's promise.
        unrolled!(at most 8; for n in N_TILES => { unsafe { memory::store_shared_four(own + n as u32 * PARTS, dq[n]) } });
    }

    /// Address of the thread's own part of a tile.
    #[inline(always)]
    fn own_part(&self, tile: u32) -> u32 {
        tile + thread(self.lane.recomputed()) * PART
    }

    /// Starts dQ += dS·K.
    ///
    /// # Safety
    /// Warpgroup together; dS and K have arrived.
    #[inline(always)]
    unsafe fn start_product(&self, dq: &mut Panel, panel: u32) {
        let (memory, d_s) = (self.memory, self.places.d_s.place());
        // SAFETY: warp together. Uniform for ptxas, so that it computes descriptors once per warp.
        let d_s = unsafe { Place { index: shuffle::first(d_s.index), ..d_s } };
        let tile = |address| Descriptor::<NMajor, Square<K>>::new(hidden::recompute(address));
        // SAFETY: the caller's promise.
        unsafe {
            if K::KEEPS_DQ {
                dq.pin();
            }
            wgmma::fence();
            unrolled!(at most 4; for warpgroup in const { K::WARPGROUPS as usize } => {
                let d_s = tile(memory.d_s(d_s, warpgroup as u32).chunk(0, 0));
                let keys = tile(memory.own(self.places.own, 0, warpgroup as u32).panel(panel));
                unrolled!(at most 4; for k in K_STEPS => {
                    if !K::KEEPS_DQ && warpgroup == 0 && k == 0 {
                        *dq = Panel::multiply::<K::Element, _, _>(d_s, keys);
                    } else {
                        dq.multiply_accumulate::<K::Element, _, _>(d_s.step(k), keys.step(k));
                    }
                });
            });
            wgmma::commit_group();
        }
    }

    /// Stores a panel of dQ of a step.
    ///
    /// # Safety
    /// Warpgroup together.
    #[inline(always)]
    unsafe fn store(&self, dq: &mut Panel, number: u32, step: Step, panel: u32) {
        let (args, lane) = (self.args, self.lane.recomputed());
        let Some(item) = KeyItem::<K>::again(args, number) else { return };
        let head = item.query_head(args, step.member);
        let rows = head_rows::<K>(args.dq, &args.dq_strides, head, item.sequence_of_queries());
        let first_row = step.row + lane.warp % WARPGROUP_WARPS * MMA_M;
        // Compared for every item, not kept from the block's beginning on.
        let problem = &ForwardArgs { head_dim: hidden::recompute(args.problem.head_dim), ..args.problem };
        unrolled!(at most 2; for quad in const { N_TILES / QUAD as usize } => {
            let mut tiles = [[0.0; 4]; QUAD as usize];
            unrolled!(at most 4; for n in QUAD as usize => {
                tiles[n] = dq[quad * QUAD as usize + n];
                unrolled!(at most 4; for i in 4 => { tiles[n][i] *= args.scale });
            });
            let first = panel * N_TILES as u32 + quad as u32 * QUAD;
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                let row = (lane.row(first_row, 0, r), item.queries.rows.length);
                // SAFETY: the warp's own rows.
                unsafe { store_quad::<K>(&tiles, (r, first), rows, problem, row, lane) };
            });
        });
    }
}
