//! dQ of an item's queries, whose warpgroup has queries as rows and keys as columns, as in the forward pass.

use super::items::{QueryItem, Step};
use super::kernel::{K_STEPS, N_TILES, STEP, Sm90Backward};
use super::memory::Memory;
use super::modified::{Fetched, PART, tiles_of};
use super::output::head_rows;
use super::own::OwnRows;
use super::ring::{self, Places, arrive_together};
use super::strip::{Strip, accumulate, pass_over, release};
use crate::device::backward::bounds;
use crate::device::backward::output::store;
use crate::device::backward::rows::probability;
use crate::device::hidden;
use crate::device::kernel::OutputStrip;
use crate::device::lane::{Lane, ROWS_PER_LANE, Scores, pack_columns};
use crate::device::ptx::mma::FragmentA;
use crate::device::ptx::wgmma::{Accumulators, Descriptor, NMajor, Registers};
use crate::device::ptx::{mbarrier, memory};
use crate::device::scores::ScoreMod;
use crate::device::scores::differentiable::Differentiable;
use crate::device::scores::place::Place;
use crate::device::softmax::apply_mask;
use crate::device::tile::head_dim::Fragments;
use crate::device::tma::rows::Rows;
use crate::device::tma::turns::Turns;
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::backward::args::BackwardArgs;
use contract::config::{MMA_M, MMA_N, WARPGROUP_ROWS, WARPGROUP_WARPS};

/// 64 queries of a warpgroup.
struct QueryStrip<'a, K: Sm90Backward> {
    problem: &'a ForwardArgs,
    dq: OutputStrip<K>,
    queries: OwnRows<K>,
    d_o: OwnRows<K>,
    scores: Scores<1, N_TILES>,
    d_p: Scores<1, N_TILES>,
    d_s: [FragmentA; K_STEPS],
    score_mod: K::ScoreMod,
    fetched: Fetched<K>,
    /// −LSE and Δ of the lane's rows.
    statistics: [[f32; 2]; ROWS_PER_LANE],
    keys: bounds::Keys,
    /// Queries of the sequence.
    length: u32,
    /// Position of the warpgroup's first query among the keys.
    position: u32,
    lane: Lane,
}

/// Computes dQ of an item.
///
/// # Safety
/// Warpgroup together, for the items in order.
#[inline(always)]
pub unsafe fn gradients<K: Sm90Backward>(
    args: &BackwardArgs,
    (number, item): (u32, QueryItem<K>),
    places: &mut Places,
    memory: Memory<K>,
    turns: Turns,
    (warpgroup, lane): (u32, Lane),
) {
    let (problem, Places { own, stage, .. }) = (&args.problem, *places);
    let warp_row = lane.warp % WARPGROUP_WARPS * MMA_M;
    let (first_row, length) = (item.tile.first_row + warpgroup * WARPGROUP_ROWS, item.tile.length);
    let mut steps = item.steps();
    // SAFETY: warpgroup together; Q and dO have arrived, and the statistics are computed, behind the waits; all are released after their last
    // use.
    unsafe {
        mbarrier::wait(memory.own_full(own), own.parity);
        mbarrier::wait(memory.computed(stage), stage.parity);
        places.next_step::<K>();
        if first_row < length {
            let mut statistics = [[0.0; 2]; ROWS_PER_LANE];
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                let row = lane.row(warpgroup * WARPGROUP_ROWS + warp_row, 0, r);
                let load = |address| f32::from_bits(memory::load_shared_4(address));
                statistics[r] = [load(memory.minus_lse(stage, row)), load(memory.delta(stage, row))];
            });
            release(memory, stage, lane.index);
            let mut strip = QueryStrip::<K> {
                problem,
                dq: Fragments::zeros(),
                queries: OwnRows::of(memory.own(own, 0, warpgroup), lane),
                d_o: OwnRows::of(memory.own(own, 1, warpgroup), lane),
                scores: [[[0.0; 4]; N_TILES]],
                d_p: [[[0.0; 4]; N_TILES]],
                d_s: [[0; 4]; K_STEPS],
                score_mod: K::ScoreMod::of_head(problem, item.work, item.tile.sequence),
                fetched: K::ScoreMod::nothing::<N_TILES>(),
                statistics,
                keys: item.keys,
                length,
                position: item.keys.position.wrapping_add(warpgroup * WARPGROUP_ROWS),
                lane,
            };
            if K::KEEPS_OWN_ROWS {
                arrive_together(memory.own_empty(own), lane.index);
            }
            accumulate(&mut strip, steps, places, memory, turns, lane);
            if !K::KEEPS_OWN_ROWS {
                arrive_together(memory.own_empty(own), lane.index);
            }
            let (Some(item), lane) = (QueryItem::<K>::again(args, number), lane.recomputed()) else { return };
            let (first_row, length) = (item.tile.first_row + warpgroup * WARPGROUP_ROWS, item.tile.length);
            let head = head_rows::<K>(args.dq, &args.dq_strides, item.work, item.tile);
            store::<K>(&mut strip.dq, head, args.scale, (first_row + warp_row, length), problem, lane);
        } else {
            release(memory, stage, lane.index);
            arrive_together(memory.own_empty(own), lane.index);
            while steps.next().is_some() {
                pass_over(places, memory, turns, lane);
            }
        }
    }
    places.next_item::<K>();
}

impl<K: Sm90Backward> QueryStrip<'_, K> {
    /// Where the warp's scores of the keys from `key` on are.
    #[inline(always)]
    fn place(&self, key: u32) -> Place {
        let warp_row = self.lane.recomputed().warp % WARPGROUP_WARPS * MMA_M;
        Place {
            first_row: self.position.wrapping_add(warp_row),
            first_key: key,
            length: self.length,
            kv_length: self.keys.rows.length,
        }
    }

    /// P of changed scores, times the derivative of what changes them.
    ///
    /// # Safety
    /// As for [`Strip::probabilities`].
    #[inline(always)]
    unsafe fn modified_probabilities(&mut self, step: Step) {
        let (problem, lane) = (self.problem, self.lane.recomputed());
        unrolled!(at most 2; for part in const { N_TILES / PART } => {
            let first = part * PART;
            let mut scores = tiles_of(&self.scores, first);
            K::ScoreMod::cap(problem, &mut scores);
            let capped = scores;
            let fetched = K::ScoreMod::part::<PART, N_TILES>(&self.fetched, first);
            let place = self.place(step.row + first as u32 * MMA_N);
            // SAFETY: as promised to this function.
            unsafe { self.score_mod.add::<K::Element, 1, PART>(problem, &mut scores, fetched, place, lane) };
            let (warp_row, rows) = (lane.warp % WARPGROUP_WARPS * MMA_M, (self.position, WARPGROUP_ROWS));
            apply_mask::<K, 1, PART>(problem, &mut scores, rows, warp_row, place.first_key, place.kv_length, lane);
            exponentiate(&mut scores, problem.scale_log2, &self.statistics);
            K::ScoreMod::uncap(problem, &mut scores, &capped);
            unrolled!(at most 4; for n in PART => { self.scores[0][first + n] = scores[0][n] });
        });
    }
}

/// P of masked scores, given the statistics of the lane's rows.
#[inline(always)]
fn exponentiate<const TILES: usize>(
    scores: &mut Scores<1, TILES>,
    scale_log2: f32,
    statistics: &[[f32; 2]; ROWS_PER_LANE],
) {
    unrolled!(at most 8; for n in TILES => {
        unrolled!(at most 4; for i in 4 => {
            let [minus_lse, _] = statistics[i / 2];
            scores[0][n][i] = probability(scores[0][n][i], scale_log2, minus_lse);
        });
    });
}

impl<K: Sm90Backward> Strip<K> for QueryStrip<'_, K> {
    #[inline(always)]
    fn has(&self, step: Step) -> bool {
        let positions = (self.position, WARPGROUP_ROWS);
        bounds::attend::<K>(self.problem, positions, (step.row, STEP), self.keys.rows.length)
    }

    #[inline(always)]
    unsafe fn fetch(&mut self, step: Step) {
        if K::ScoreMod::MODIFIES {
            let (problem, place, lane) = (self.problem, self.place(step.row), self.lane.recomputed());
            // SAFETY: as promised to this function.
            self.fetched = unsafe { self.score_mod.fetch::<K::Element, 1, N_TILES>(problem, place, lane) };
        }
    }

    #[inline(always)]
    unsafe fn start_scores(&mut self, memory: Memory<K>, stage: ring::Place) {
        // SAFETY: as promised to this function.
        unsafe { self.queries.start_product(memory.staged(stage, 0), &mut self.scores) };
    }

    #[inline(always)]
    fn pin_read_scores(&mut self) {
        self.queries.pin_read(&mut self.scores);
    }

    #[inline(always)]
    fn pin_scores(&mut self) {
        self.queries.pin(&mut self.scores);
    }

    #[inline(always)]
    unsafe fn start_d_p(&mut self, memory: Memory<K>, stage: ring::Place) {
        // SAFETY: as promised to this function.
        unsafe { self.d_o.start_product(memory.staged(stage, 1), &mut self.d_p) };
    }

    #[inline(always)]
    fn pin_read_d_p(&mut self) {
        self.d_o.pin_read(&mut self.d_p);
    }

    #[inline(always)]
    fn pin_d_p(&mut self) {
        self.d_o.pin(&mut self.d_p);
    }

    #[inline(always)]
    unsafe fn load_lse(&mut self, _memory: Memory<K>, _stage: ring::Place) {}

    #[inline(always)]
    unsafe fn probabilities(&mut self, _memory: Memory<K>, _stage: ring::Place, step: Step) {
        if K::ScoreMod::MODIFIES {
            // SAFETY: as promised to this function.
            unsafe { self.modified_probabilities(step) };
        } else {
            let (problem, lane) = (self.problem, self.lane.recomputed());
            let warp_row = lane.warp % WARPGROUP_WARPS * MMA_M;
            let (rows, keys) = ((self.position, WARPGROUP_ROWS), self.keys.rows.length);
            apply_mask::<K, 1, N_TILES>(problem, &mut self.scores, rows, warp_row, step.row, keys, lane);
            exponentiate(&mut self.scores, problem.scale_log2, &self.statistics);
        }
    }

    #[inline(always)]
    unsafe fn differentiate(&mut self, _memory: Memory<K>, _stage: ring::Place) {
        unrolled!(at most 8; for n in N_TILES => {
            unrolled!(at most 4; for i in 4 => {
                let [_, delta] = self.statistics[i / 2];
                self.d_p[0][n][i] = self.scores[0][n][i] * (self.d_p[0][n][i] - delta);
            });
        });
    }

    #[inline(always)]
    fn pack(&mut self) {
        self.d_s = pack_columns::<K::Element, K_STEPS>(&self.d_p[0]);
    }

    #[inline(always)]
    unsafe fn start_gradients(&mut self, memory: Memory<K>, stage: ring::Place) {
        let keys = Descriptor::<NMajor, Rows<K>>::new(hidden::recompute(memory.staged(stage, 0).address()));
        // SAFETY: as promised to this function.
        unsafe {
            unrolled!(at most 4; for k in K_STEPS => {
                self.dq.multiply_fragment::<K::Element, _>(self.d_s[k], keys.step(k), true);
            });
        }
    }

    #[inline(always)]
    fn pin_gradients(&mut self) {
        self.d_s.pin();
        self.dq.pin();
    }
}
