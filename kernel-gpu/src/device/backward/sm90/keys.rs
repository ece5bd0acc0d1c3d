//! dK and dV of an item's keys, whose warpgroup has keys as rows and queries as columns: Sᵀ = K·Qᵀ, dPᵀ = V·dOᵀ.

use super::handover;
use super::items::{KeyItem, Step, Steps};
use super::kernel::{K_STEPS, N_TILES, STEP, Sm90Backward};
use super::memory::{Memory, STATISTIC_BYTES, Square};
use super::modified::{Fetched, PART, pack_part, tiles_of};
use super::output::head_rows;
use super::own::OwnRows;
use super::ring::{self, Places, arrive_together};
use super::staggered::{self, Staggered};
use super::strip::{self, Strip, accumulate, pass_over, release};
use crate::device::backward::bounds;
use crate::device::backward::output::store;
use crate::device::backward::rows::probability;
use crate::device::hidden;
use crate::device::kernel::OutputStrip;
use crate::device::lane::{Lane, ROWS_PER_LANE, Scores, pack_columns};
use crate::device::mask::Mask;
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentA;
use crate::device::ptx::wgmma::{Accumulators, Descriptor, KMajor, NMajor, Registers};
use crate::device::ptx::{mbarrier, memory};
use crate::device::scores::ScoreMod;
use crate::device::scores::differentiable::Differentiable;
use crate::device::scores::place::Place;
use crate::device::tile::head_dim::Fragments;
use crate::device::tma::rows::Rows;
use crate::device::tma::turns::Turns;
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::backward::args::BackwardArgs;
use contract::config::{MMA_M, MMA_N, WARPGROUP_ROWS, WARPGROUP_WARPS};
use contract::geometry::BlockWork;

/// 64 keys of a warpgroup.
pub struct KeyStrip<'a, K: Sm90Backward> {
    problem: &'a ForwardArgs,
    /// dK, without the scale.
    pub dk: OutputStrip<K>,
    /// dV.
    pub dv: OutputStrip<K>,
    keys: OwnRows<K>,
    values: OwnRows<K>,
    /// Sᵀ.
    scores: Scores<1, N_TILES>,
    /// dPᵀ.
    d_p: Scores<1, N_TILES>,
    /// −LSE of the lane's columns.
    minus_lse: [[f32; 2]; N_TILES],
    p: [FragmentA; K_STEPS],
    /// dSᵀ, rounded.
    pub d_s: [FragmentA; K_STEPS],
    score_mod: K::ScoreMod,
    fetched: Fetched<K>,
    /// The head of K and V.
    work: BlockWork,
    queries: bounds::Queries,
    /// The warpgroup's first key.
    first_key: u32,
    /// Keys of the sequence.
    length: u32,
    lane: Lane,
}

/// Computes dK and dV of an item.
///
/// # Safety
/// Warpgroup together, for the items in order.
#[inline(always)]
pub unsafe fn gradients<K: Sm90Backward>(
    args: &BackwardArgs,
    (number, item): (u32, KeyItem<K>),
    places: &mut Places,
    memory: Memory<K>,
    turns: Turns,
    (warpgroup, lane): (u32, Lane),
) {
    let (problem, own) = (&args.problem, places.own);
    let (first_key, length) = (item.tile.first_row + warpgroup * WARPGROUP_ROWS, item.tile.length);
    let mut steps = item.steps(args);
    // SAFETY: warpgroup together; K and V have arrived behind the wait, and are released after their last use.
    unsafe {
        let staged = places.stage;
        if K::KEEPS_DQ {
            mbarrier::wait(memory.stage_full(staged), staged.parity);
            // Without statistics, but so that no thread is a phase ahead.
            mbarrier::wait(memory.computed(staged), staged.parity);
            places.next_stage::<K>();
        }
        mbarrier::wait(memory.own_full(own), own.parity);
        if first_key < length {
            let values = if K::KEEPS_DQ { memory.staged(staged, warpgroup) } else { memory.own(own, 1, warpgroup) };
            let rows = [memory.own(own, 0, warpgroup), values];
            let mut strip = KeyStrip::of(problem, rows, &item, first_key, lane);
            if K::KEEPS_DQ {
                release(memory, staged, lane.index);
            }
            if K::KEEPS_OWN_ROWS {
                arrive_together(memory.own_empty(own), lane.index);
            }
            accumulate(&mut strip, steps, places, memory, turns, lane);
            if !K::KEEPS_OWN_ROWS {
                arrive_together(memory.own_empty(own), lane.index);
            }
            if K::KEEPS_DQ {
                handover::hand_over_gradients(memory, places, (&mut strip.dk, &strip.dv), args.scale, lane);
            } else {
                let (Some(item), lane) = (KeyItem::<K>::again(args, number), lane.recomputed()) else { return };
                let (first_key, length) = (item.tile.first_row + warpgroup * WARPGROUP_ROWS, item.tile.length);
                let of = |tensor, strides| head_rows::<K>(tensor, strides, item.work, item.tile);
                let rows = (first_key + lane.warp % WARPGROUP_WARPS * MMA_M, length);
                store::<K>(&mut strip.dv, of(args.dv, &args.dv_strides), 1.0, rows, problem, lane);
                store::<K>(&mut strip.dk, of(args.dk, &args.dk_strides), args.scale, rows, problem, lane);
            }
        } else {
            if K::KEEPS_DQ {
                release(memory, staged, lane.index);
            }
            arrive_together(memory.own_empty(own), lane.index);
            while steps.next().is_some() {
                pass_over(places, memory, turns, lane);
            }
            if K::KEEPS_DQ {
                handover::hand_over_gradients(
                    memory,
                    places,
                    (&mut Fragments::zeros(), &Fragments::zeros()),
                    1.0,
                    lane,
                );
            }
        }
    }
    places.next_item::<K>();
}

/// The statistics of the lane's columns in 8-column tile `n`, from the address of its first column on.
///
/// # Safety
/// They are computed.
#[inline(always)]
unsafe fn of_two_columns(first: u32, n: usize) -> [f32; 2] {
    // SAFETY: the caller's promise.
    unsafe { memory::load_shared_pair(first + n as u32 * const { MMA_N * STATISTIC_BYTES }) }
}

/// Sets the scores of a warpgroup's keys from the first of `keys` on, of its length, that queries from `position` on do not attend to to −∞. Missing rows
/// have probability 0 by their LSE, and gradients of missing keys are not stored; but their dS must not reach dQ.
#[inline(always)]
fn mask<K: Sm90Backward, const TILES: usize>(
    problem: &ForwardArgs,
    scores: &mut Scores<1, TILES>,
    position: u32,
    (first_key, length): (u32, u32),
    lane: Lane,
) {
    let queries = const { TILES as u32 * MMA_N };
    let is_touched = K::Mask::touches::<K::Sequence>(problem, (position, queries), first_key, WARPGROUP_ROWS, length);
    if K::Mask::ALL_KEYS && K::HAS_QUERY_ITEMS || !is_touched {
        return;
    }
    let lane = lane.recomputed();
    let first_key = first_key + lane.warp % WARPGROUP_WARPS * MMA_M;
    let position = position.wrapping_add(lane.pair_column());
    unrolled!(at most 8; for n in TILES => {
        unrolled!(at most 2; for i in 2 => {
            let position = position.wrapping_add(n as u32 * MMA_N + i as u32);
            let end = K::Mask::keys_end(problem, position.wrapping_add(1), length);
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                let key = lane.row(first_key, 0, r);
                if key >= end || K::Mask::HAS_BEGIN && key < K::Mask::keys_begin(problem, position) {
                    scores[0][n][2 * r + i] = f32::NEG_INFINITY;
                }
            });
        });
    });
}

impl<'a, K: Sm90Backward> KeyStrip<'a, K> {
    /// That of an item's keys from `first_key` on, without any gradient.
    ///
    /// # Safety
    /// As for [`OwnRows::of`].
    #[inline(always)]
    pub unsafe fn of(
        problem: &'a ForwardArgs,
        [keys, values]: [Rows<K>; 2],
        item: &KeyItem<K>,
        first_key: u32,
        lane: Lane,
    ) -> Self {
        Self {
            problem,
            dk: Fragments::zeros(),
            dv: Fragments::zeros(),
            // SAFETY: the caller's promise.
            keys: unsafe { OwnRows::of(keys, lane) },
            // SAFETY: likewise.
            values: unsafe { OwnRows::of(values, lane) },
            scores: [[[0.0; 4]; N_TILES]],
            d_p: [[[0.0; 4]; N_TILES]],
            minus_lse: [[0.0; 2]; N_TILES],
            p: [[0; 4]; K_STEPS],
            d_s: [[0; 4]; K_STEPS],
            score_mod: K::ScoreMod::of_head(problem, item.work, 0),
            fetched: K::ScoreMod::nothing::<N_TILES>(),
            work: item.work,
            queries: item.queries,
            first_key,
            length: item.tile.length,
            lane,
        }
    }

    /// Position of the first query of a step among the keys.
    #[inline(always)]
    fn position(&self, step: Step) -> u32 {
        step.row.wrapping_add(self.queries.first_position)
    }

    /// Where the warp's scores of a step's queries from `first` on are.
    #[inline(always)]
    fn place(&self, step: Step, first: u32) -> Place {
        Place {
            first_row: self.position(step).wrapping_add(first),
            first_key: hidden::recompute(self.first_key) + self.lane.recomputed().warp % WARPGROUP_WARPS * MMA_M,
            length: self.queries.rows.length,
            kv_length: self.length,
        }
    }

    /// P of changed scores, times the derivatives of what changes them; P alone, rounded to elements.
    ///
    /// # Safety
    /// As for [`Strip::probabilities`].
    #[inline(always)]
    unsafe fn modified_probabilities(&mut self, memory: Memory<K>, stage: ring::Place, step: Step) {
        let (problem, lane) = (self.problem, self.lane.recomputed());
        let minus_lse = memory.minus_lse(stage, lane.pair_column());
        unrolled!(at most 2; for part in const { N_TILES / PART } => {
            let first = part * PART;
            let mut scores = tiles_of(&self.scores, first);
            K::ScoreMod::cap(problem, &mut scores);
            let capped = scores;
            let fetched = K::ScoreMod::part::<PART, N_TILES>(&self.fetched, first);
            let queries = first as u32 * MMA_N;
            let place = self.place(step, queries);
            // SAFETY: as promised to this function; statistics of two columns, which are computed.
            unsafe {
                self.score_mod.add_transposed::<K::Element, PART>(problem, &mut scores, fetched, place, lane);
                mask::<K, PART>(problem, &mut scores, place.first_row, (self.first_key, self.length), self.lane);
                unrolled!(at most 4; for n in PART => {
                    let minus_lse = of_two_columns(minus_lse, first + n);
                    unrolled!(at most 4; for i in 4 => {
                        scores[0][n][i] = probability(scores[0][n][i], problem.scale_log2, minus_lse[i % 2]);
                    });
                });
            }
            pack_part::<K>(&mut self.p, &scores, first);
            K::ScoreMod::uncap(problem, &mut scores, &capped);
            unrolled!(at most 4; for n in PART => { self.scores[0][first + n] = scores[0][n] });
        });
    }
}

impl<K: Sm90Backward> Strip<K> for KeyStrip<'_, K> {
    #[inline(always)]
    fn has(&self, step: Step) -> bool {
        let keys = (self.first_key, WARPGROUP_ROWS);
        bounds::attend::<K>(self.problem, (self.position(step), STEP), keys, self.length)
    }

    #[inline(always)]
    unsafe fn fetch(&mut self, step: Step) {
        if K::ScoreMod::MODIFIES {
            // What is derived from these would occupy registers beside dK and dV.
            let (problem, lane) = (self.problem, self.lane.recomputed());
            let head = hidden::recompute(self.work.head) * problem.group.get().get() + step.member;
            let work = BlockWork { batch: hidden::recompute(self.work.batch), head, query_tile: 0 };
            self.score_mod = K::ScoreMod::of_head(problem, work, 0);
            let place = self.place(step, 0);
            // SAFETY: as promised to this function.
            self.fetched = unsafe { self.score_mod.fetch_transposed::<K::Element, N_TILES>(problem, place, lane) };
        }
    }

    #[inline(always)]
    unsafe fn start_scores(&mut self, memory: Memory<K>, stage: ring::Place) {
        // SAFETY: as promised to this function.
        unsafe { self.keys.start_product(memory.staged(stage, 0), &mut self.scores) };
    }

    #[inline(always)]
    fn pin_read_scores(&mut self) {
        self.keys.pin_read(&mut self.scores);
    }

    #[inline(always)]
    fn pin_scores(&mut self) {
        self.keys.pin(&mut self.scores);
    }

    #[inline(always)]
    unsafe fn start_d_p(&mut self, memory: Memory<K>, stage: ring::Place) {
        // SAFETY: as promised to this function.
        unsafe { self.values.start_product(memory.staged(stage, 1), &mut self.d_p) };
    }

    #[inline(always)]
    fn pin_read_d_p(&mut self) {
        self.values.pin_read(&mut self.d_p);
    }

    #[inline(always)]
    fn pin_d_p(&mut self) {
        self.values.pin(&mut self.d_p);
    }

    #[inline(always)]
    unsafe fn load_lse(&mut self, memory: Memory<K>, stage: ring::Place) {
        let first = memory.minus_lse(stage, self.lane.recomputed().pair_column());
        unrolled!(at most 8; for n in N_TILES => {
            // SAFETY: those of two columns, which are computed.
            self.minus_lse[n] = unsafe { of_two_columns(first, n) };
        });
    }

    #[inline(always)]
    unsafe fn probabilities(&mut self, memory: Memory<K>, stage: ring::Place, step: Step) {
        if K::ScoreMod::MODIFIES {
            // SAFETY: as promised to this function.
            return unsafe { self.modified_probabilities(memory, stage, step) };
        }
        let (position, keys) = (self.position(step), (self.first_key, self.length));
        mask::<K, N_TILES>(self.problem, &mut self.scores, position, keys, self.lane);
        let scale_log2 = self.problem.scale_log2;
        let first = memory.minus_lse(stage, self.lane.recomputed().pair_column());
        unrolled!(at most 8; for n in N_TILES => {
            if !K::OVERLAPS_STEPS {
                // SAFETY: those of two columns, which are computed.
                self.minus_lse[n] = unsafe { of_two_columns(first, n) };
            }
            unrolled!(at most 4; for i in 4 => {
                self.scores[0][n][i] = probability(self.scores[0][n][i], scale_log2, self.minus_lse[n][i % 2]);
            });
        });
    }

    #[inline(always)]
    unsafe fn differentiate(&mut self, memory: Memory<K>, stage: ring::Place) {
        let first = memory.delta(stage, self.lane.recomputed().pair_column());
        unrolled!(at most 8; for n in N_TILES => {
            // SAFETY: those of two columns, which are computed.
            let delta = unsafe { of_two_columns(first, n) };
            unrolled!(at most 4; for i in 4 => {
                let p = if K::SAVES_REGISTERS {
                    K::Element::unpack(self.p[n / 2][n % 2 * 2 + i / 2])[i % 2]
                } else {
                    self.scores[0][n][i]
                };
                self.d_p[0][n][i] = p * (self.d_p[0][n][i] - delta[i % 2]);
            });
        });
    }

    #[inline(always)]
    fn pack(&mut self) {
        self.pack_p();
        self.pack_d_s();
    }

    #[inline(always)]
    unsafe fn hand_over(&mut self, memory: Memory<K>, places: &Places) {
        // SAFETY: as promised to this function.
        unsafe { handover::hand_over(memory, places.d_s.place(), &self.d_s, self.lane.recomputed()) };
    }

    #[inline(always)]
    unsafe fn start_gradients(&mut self, memory: Memory<K>, stage: ring::Place) {
        let tile = |index| Descriptor::<NMajor, Rows<K>>::new(hidden::recompute(memory.staged(stage, index).address()));
        let (q, d_o) = (tile(0), tile(1));
        // SAFETY: as promised to this function.
        unsafe {
            unrolled!(at most 4; for k in K_STEPS => {
                self.dv.multiply_fragment::<K::Element, _>(self.p[k], d_o.step(k), true);
            });
            unrolled!(at most 4; for k in K_STEPS => {
                self.dk.multiply_fragment::<K::Element, _>(self.d_s[k], q.step(k), true);
            });
        }
    }

    #[inline(always)]
    fn pin_gradients(&mut self) {
        self.p.pin();
        self.dv.pin();
        self.d_s.pin();
        self.dk.pin();
    }

    #[inline(always)]
    unsafe fn accumulate_following(
        &mut self,
        step: Step,
        steps: &mut Steps,
        places: &mut Places,
        memory: Memory<K>,
        turns: Turns,
        lane: Lane,
    ) -> Option<Step> {
        // SAFETY: as promised to this function.
        unsafe {
            if K::STAGGERS {
                staggered::accumulate_following(self, step, steps, places, memory, turns, lane)
            } else {
                strip::accumulate_following(self, step, steps, places, memory, turns, lane)
            }
        }
    }
}

impl<K: Sm90Backward> Staggered<K> for KeyStrip<'_, K> {
    #[inline(always)]
    fn pack_p(&mut self) {
        if !K::ScoreMod::MODIFIES {
            self.p = pack_columns::<K::Element, K_STEPS>(&self.scores[0]);
        }
    }

    #[inline(always)]
    fn pack_d_s(&mut self) {
        self.d_s = pack_columns::<K::Element, K_STEPS>(&self.d_p[0]);
    }

    #[inline(always)]
    unsafe fn start_dv(&mut self, memory: Memory<K>, stage: ring::Place) {
        let d_o = Descriptor::<NMajor, Rows<K>>::new(hidden::recompute(memory.staged(stage, 1).address()));
        unrolled!(at most 4; for k in K_STEPS => {
            // SAFETY: as promised to this function.
            unsafe { self.dv.multiply_fragment::<K::Element, _>(self.p[k], d_o.step(k), true) };
        });
    }

    #[inline(always)]
    unsafe fn start_dk(&mut self, memory: Memory<K>, stage: ring::Place, d_s: ring::Place) {
        let q = Descriptor::<NMajor, Rows<K>>::new(hidden::recompute(memory.staged(stage, 0).address()));
        let handed = memory.d_s(d_s, self.lane.recomputed().warp / WARPGROUP_WARPS).chunk(0, 0);
        let d_s = Descriptor::<KMajor, Square<K>>::new(hidden::recompute(handed));
        unrolled!(at most 4; for k in K_STEPS => {
            // SAFETY: as promised to this function.
            unsafe { self.dk.multiply_accumulate::<K::Element, _, _>(d_s.step(k), q.step(k)) };
        });
    }

    #[inline(always)]
    fn pin_dv(&mut self) {
        self.p.pin();
        self.dv.pin();
    }

    #[inline(always)]
    fn pin_dk(&mut self) {
        self.dk.pin();
    }
}
