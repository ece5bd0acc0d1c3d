//! The warps that compute what products need of query rows: LSE in base 2, and Δ = rowsum(dO ∘ O).

use super::items::{self, Item, KeyItem, QueryItem, Step};
use super::kernel::{STEP, Sm90Backward};
use super::memory::{Memory, STATISTICS_THREADS};
use super::ring::{Places, arrive_together};
use crate::device::backward::rows::{add_products, base_2_lse};
use crate::device::hidden::not_unrolled;
use crate::device::ptx::{mbarrier, memory};
use crate::device::sequence::Sequence;
use crate::device::tile::head_dim::HeadDim;
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use crate::shared_tile::CHUNK_BYTES;
use contract::backward::args::BackwardArgs;
use contract::config::{ELEMENT_BYTES, WARP_SIZE};
use contract::geometry::BlockWork;
use contract::packed::SequenceTile;

/// Most chunks of a row that are loaded at once.
const AT_ONCE: usize = 4;
/// Elements of a chunk.
const CHUNK_ELEMENTS: u32 = CHUNK_BYTES / ELEMENT_BYTES as u32;

const _: () = assert!(STATISTICS_THREADS == STEP, "a thread has a row");

/// Tiles of dQ whose Δ a thread keeps.
const KEPT: usize = 8;

/// Computes the statistics of all of the block's items, as thread `thread` of those that do.
///
/// # Safety
/// All of these threads call this.
#[inline(always)]
pub unsafe fn compute_all<K: Sm90Backward>(args: &BackwardArgs, memory: Memory<K>, thread: u32) {
    const { assert!(K::TILE.dq_rows() <= KEPT as u32 * STEP, "a thread keeps Δ of every tile of dQ") };
    let mut rows = RowsOf { args, memory, thread, places: Places::START, kept: [0.0; KEPT] };
    let mut number = items::first::<K>(args, not_drawn);
    while let Some(item) = Item::<K>::of(args, number) {
        let own = rows.places.own;
        // SAFETY: the items in order; the warp's one arrival for the own rows, of which it reads none later.
        unsafe {
            if !K::KEEPS_DQ {
                // Also of keys, so that no phase passes unseen.
                mbarrier::wait(memory.own_full(own), own.parity);
            }
            match item {
                Item::Keys(item) => {
                    if !K::KEEPS_DQ {
                        arrive_together(memory.own_empty(own), thread % WARP_SIZE);
                    }
                    rows.of_steps(item);
                }
                Item::Queries(item) => {
                    rows.of_own(item);
                    arrive_together(memory.own_empty(own), thread % WARP_SIZE);
                    rows.pass_over(item);
                }
            }
        }
        rows.places.next_item::<K>();
        number = items::next::<K>(args, number, not_drawn);
    }
}

/// Where items are drawn, nobody computes statistics here.
fn not_drawn() -> u32 {
    u32::MAX
}

/// The rows of a thread.
struct RowsOf<'a, K> {
    args: &'a BackwardArgs,
    memory: Memory<K>,
    thread: u32,
    places: Places,
    /// Δ of the thread's row of each tile of dQ, where it is in shared memory.
    kept: [f32; KEPT],
}

impl<K: Sm90Backward> RowsOf<'_, K> {
    /// Chunks of a row that are loaded at once. With few stages, products wait for Δ.
    const AT_ONCE: usize = if K::KEEPS_DQ { AT_ONCE } else { AT_ONCE / 2 };

    /// The statistics of the queries of every step of an item of keys.
    ///
    /// # Safety
    /// All threads that compute statistics, for the items in order.
    #[inline(always)]
    unsafe fn of_steps(&mut self, item: KeyItem<K>) {
        let tile = item.sequence_of_queries();
        let mut steps = item.steps(self.args);
        if K::KEEPS_DQ {
            // SAFETY: the stage of V, which has no statistics.
            unsafe { self.pass_over_stage() };
        }
        let Some(mut step) = steps.next() else { return };
        // SAFETY: the tiles of dO and O have arrived behind the wait.
        unsafe {
            let mut lse = self.lse_of(item, tile, step);
            loop {
                let next = steps.next();
                // Long before it is needed.
                let next_lse = self.lse_of(item, tile, next.unwrap_or(step));
                let stage = self.places.stage;
                mbarrier::wait(self.memory.stage_full(stage), stage.parity);
                let delta = self.delta_of(item, step);
                self.write(0, lse, delta);
                self.end_step();
                let Some(next) = next else { return };
                (step, lse) = (next, next_lse);
            }
        }
    }

    /// The statistics of the queries of an item.
    ///
    /// # Safety
    /// All threads that compute statistics, for the items in order.
    #[inline(always)]
    unsafe fn of_own(&mut self, item: QueryItem<K>) {
        let Places { own, stage, .. } = self.places;
        // SAFETY: dO and O have arrived behind the waits.
        unsafe {
            mbarrier::wait(self.memory.stage_full(stage), stage.parity);
            let mut warpgroup = 0;
            while warpgroup < not_unrolled(K::WARPGROUPS) {
                let row = item.tile.first_row + warpgroup * STEP + self.thread;
                let lse = self.lse(item.work, item.tile, row);
                let delta = self.delta(self.memory.own(own, 1, warpgroup), self.memory.staged(stage, warpgroup));
                self.write(warpgroup, lse, delta);
                warpgroup += 1;
            }
            self.end_step();
        }
    }

    /// Passes over the keys of an item of queries.
    ///
    /// # Safety
    /// All threads that compute statistics, for the items in order.
    #[inline(always)]
    unsafe fn pass_over(&mut self, item: QueryItem<K>) {
        let mut steps = item.steps();
        while steps.next().is_some() {
            // SAFETY: as promised to this function.
            unsafe { self.pass_over_stage() };
        }
    }

    /// Passes over a stage without statistics.
    ///
    /// # Safety
    /// All threads that compute statistics, for the stages in order.
    #[inline(always)]
    unsafe fn pass_over_stage(&mut self) {
        let stage = self.places.stage;
        // SAFETY: an initialised mbarrier.
        unsafe {
            mbarrier::wait(self.memory.stage_full(stage), stage.parity);
            self.end_step();
        }
    }

    /// [`Self::lse`] of the thread's row in a step of an item of keys.
    ///
    /// # Safety
    /// As for [`Self::lse`].
    #[inline(always)]
    unsafe fn lse_of(&self, item: KeyItem<K>, tile: SequenceTile, step: Step) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { self.lse(item.query_head(self.args, step.member), tile, step.row + self.thread) }
    }

    /// LSE in base 2 of row `row` of a head, in the sequence of `tile`.
    ///
    /// # Safety
    /// The launch's LSE is complete.
    #[inline(always)]
    unsafe fn lse(&self, work: BlockWork, tile: SequenceTile, row: u32) -> f32 {
        let problem = &self.args.problem;
        let first = K::Sequence::lse_row(problem, work, tile) * size_of::<f32>() as u64;
        // SAFETY: LSE has an element for each row of the sequence.
        unsafe { base_2_lse(problem.lse + first, row, tile.length) }
    }

    /// Δ of the thread's row in a step of an item of keys. Kept, the head's first item computes it for the others.
    ///
    /// # Safety
    /// The stage has arrived.
    #[inline(always)]
    unsafe fn delta_of(&mut self, item: KeyItem<K>, step: Step) -> f32 {
        let (memory, stage) = (self.memory, self.places.stage);
        // SAFETY: tiles of the stage.
        unsafe {
            if !K::KEEPS_DQ {
                return self.delta(memory.staged(stage, 1), memory.staged(stage, 2));
            }
            let (tile, mut delta) = (step.dq_tile(self.args), 0.0);
            if item.is_first() {
                delta = self.delta(memory.staged(stage, 1), memory.o(tile));
            }
            // By constant indices, in registers.
            unrolled!(at most 8; for i in KEPT => {
                if i as u32 == tile {
                    if item.is_first() {
                        self.kept[i] = delta;
                    } else {
                        delta = self.kept[i];
                    }
                }
            });
            delta
        }
    }

    /// Δ of the thread's row of a tile of dO and one of O.
    ///
    /// # Safety
    /// Both tiles have arrived.
    #[inline(always)]
    unsafe fn delta(&self, d_o: Rows<K>, o: Rows<K>) -> f32 {
        let (first, other) = (d_o.chunk(self.thread, 0), o.address().wrapping_sub(d_o.address()));
        let mut sums = [[0.0; 2]; AT_ONCE];
        let mut chunk = 0;
        // Some at once, which do not wait for each other; for all of a row there are no registers.
        while chunk < not_unrolled(const { K::HeadDim::COLUMNS / CHUNK_ELEMENTS }) {
            unrolled!(at most 4; for i in const { Self::AT_ONCE } => {
                let address = Rows::<K>::chunk_after(first, chunk + i as u32);
                // SAFETY: chunks of both tiles, which lie alike.
                sums[i] = unsafe { add_products::<K::Element>(sums[i], address, address.wrapping_add(other)) };
            });
            chunk += const { Self::AT_ONCE as u32 };
        }
        let of_two = (sums[0][0] + sums[0][1]) + (sums[1][0] + sums[1][1]);
        if const { Self::AT_ONCE == AT_ONCE } {
            of_two + ((sums[2][0] + sums[2][1]) + (sums[3][0] + sums[3][1]))
        } else {
            of_two
        }
    }

    /// Writes the statistics of the thread's row of tile number `tile` of the stage.
    ///
    /// # Safety
    /// The statistics of the stage are not read until [`Self::end_step`].
    #[inline(always)]
    unsafe fn write(&self, tile: u32, lse: f32, delta: f32) {
        let row = tile * STEP + self.thread;
        // SAFETY: the row's own 4 bytes of each.
        unsafe {
            // Negated, as the exponent is added.
            memory::store_shared_4(self.memory.minus_lse(self.places.stage, row), (-lse).to_bits());
            memory::store_shared_4(self.memory.delta(self.places.stage, row), delta.to_bits());
        }
    }

    /// Signals that the statistics of the stage are computed, and goes on to the next.
    ///
    /// # Safety
    /// Once for each step, in order.
    #[inline(always)]
    unsafe fn end_step(&mut self) {
        // SAFETY: the warp's one arrival.
        unsafe { arrive_together(self.memory.computed(self.places.stage), self.thread % WARP_SIZE) };
        self.places.next_step::<K>();
    }
}
