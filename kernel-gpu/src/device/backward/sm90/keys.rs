//! dK and dV of an item's keys, whose warpgroup has keys as rows and queries as columns: Sᵀ = K·Qᵀ, dPᵀ = V·dOᵀ.

use super::handover;
use super::items::{KeyItem, Step, Steps};
use super::kernel::{K_STEPS, N_TILES, STEP, Sm90Backward};
use super::memory::{Memory, STATISTIC_BYTES, Square};
use super::output::head_rows;
use super::own::OwnRows;
use super::ring::{Place, Places, arrive_together};
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
use crate::device::tile::head_dim::Fragments;
use crate::device::tma::rows::Rows;
use crate::device::tma::turns::Turns;
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::backward::args::BackwardArgs;
use contract::config::{MMA_M, MMA_N, WARPGROUP_ROWS, WARPGROUP_WARPS};

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
            let mut strip = KeyStrip::of(problem, rows, item.queries, (first_key, length), lane);
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

/// The statistics of the lane's columns in 8-column tile `N`, from the address of its first column on.
///
/// # Safety
/// They are computed.
#[inline(always)]
unsafe fn of_two_columns<const N: usize>(first: u32) -> [f32; 2] {
    // SAFETY: the caller's promise.
    unsafe { memory::load_shared_pair(first + const { N as u32 * MMA_N * STATISTIC_BYTES }) }
}

impl<'a, K: Sm90Backward> KeyStrip<'a, K> {
    /// That of keys from the first of `keys` on, of its length, without any gradient.
    ///
    /// # Safety
    /// As for [`OwnRows::of`].
    #[inline(always)]
    pub unsafe fn of(
        problem: &'a ForwardArgs,
        [keys, values]: [Rows<K>; 2],
        queries: bounds::Queries,
        (first_key, length): (u32, u32),
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
            queries,
            first_key,
            length,
            lane,
        }
    }

    /// Position of the first query of a step among the keys.
    #[inline(always)]
    fn position(&self, step: Step) -> u32 {
        step.row.wrapping_add(self.queries.first_position)
    }

    /// Sets the scores of keys that a query does not attend to to −∞. Missing rows have probability 0 by their LSE, and gradients of missing
    /// keys are not stored; but their dS must not reach dQ.
    #[inline(always)]
    fn mask(&mut self, step: Step) {
        let (problem, length, position) = (self.problem, self.length, self.position(step));
        let is_touched =
            K::Mask::touches::<K::Sequence>(problem, (position, STEP), self.first_key, WARPGROUP_ROWS, length);
        if K::Mask::ALL_KEYS && K::HAS_QUERY_ITEMS || !is_touched {
            return;
        }
        let lane = self.lane.recomputed();
        let first_key = self.first_key + lane.warp % WARPGROUP_WARPS * MMA_M;
        let position = position.wrapping_add(lane.pair_column());
        unrolled!(at most 8; for n in N_TILES => {
            unrolled!(at most 2; for i in 2 => {
                let position = position.wrapping_add(n as u32 * MMA_N + i as u32);
                let end = K::Mask::keys_end(problem, position.wrapping_add(1), length);
                unrolled!(at most 2; for r in ROWS_PER_LANE => {
                    let key = lane.row(first_key, 0, r);
                    if key >= end || K::Mask::HAS_BEGIN && key < K::Mask::keys_begin(problem, position) {
                        self.scores[0][n][2 * r + i] = f32::NEG_INFINITY;
                    }
                });
            });
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
    unsafe fn start_scores(&mut self, memory: Memory<K>, stage: Place) {
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
    unsafe fn start_d_p(&mut self, memory: Memory<K>, stage: Place) {
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
    unsafe fn load_lse(&mut self, memory: Memory<K>, stage: Place) {
        let first = memory.minus_lse(stage, self.lane.recomputed().pair_column());
        unrolled!(at most 8; for n in N_TILES => {
            // SAFETY: those of two columns, which are computed.
            self.minus_lse[n] = unsafe { of_two_columns::<n>(first) };
        });
    }

    #[inline(always)]
    unsafe fn probabilities(&mut self, memory: Memory<K>, stage: Place, step: Step) {
        self.mask(step);
        let scale_log2 = self.problem.scale_log2;
        let first = memory.minus_lse(stage, self.lane.recomputed().pair_column());
        unrolled!(at most 8; for n in N_TILES => {
            if !K::OVERLAPS_STEPS {
                // SAFETY: those of two columns, which are computed.
                self.minus_lse[n] = unsafe { of_two_columns::<n>(first) };
            }
            unrolled!(at most 4; for i in 4 => {
                self.scores[0][n][i] = probability(self.scores[0][n][i], scale_log2, self.minus_lse[n][i % 2]);
            });
        });
    }

    #[inline(always)]
    unsafe fn differentiate(&mut self, memory: Memory<K>, stage: Place) {
        let first = memory.delta(stage, self.lane.recomputed().pair_column());
        unrolled!(at most 8; for n in N_TILES => {
            // SAFETY: those of two columns, which are computed.
            let delta = unsafe { of_two_columns::<n>(first) };
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
    unsafe fn start_gradients(&mut self, memory: Memory<K>, stage: Place) {
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
        self.p = pack_columns::<K::Element, K_STEPS>(&self.scores[0]);
    }

    #[inline(always)]
    fn pack_d_s(&mut self) {
        self.d_s = pack_columns::<K::Element, K_STEPS>(&self.d_p[0]);
    }

    #[inline(always)]
    unsafe fn start_dv(&mut self, memory: Memory<K>, stage: Place) {
        let d_o = Descriptor::<NMajor, Rows<K>>::new(hidden::recompute(memory.staged(stage, 1).address()));
        unrolled!(at most 4; for k in K_STEPS => {
            // SAFETY: as promised to this function.
            unsafe { self.dv.multiply_fragment::<K::Element, _>(self.p[k], d_o.step(k), true) };
        });
    }

    #[inline(always)]
    unsafe fn start_dk(&mut self, memory: Memory<K>, stage: Place, d_s: Place) {
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
