//! Half of the columns of dQ of the queries of a pair of warps. The first warp has the fragments of Q and computes P, the second one has those of
//! dO and computes dP; both multiply them.

use super::{Accumulators, D_O_TILE, Memory, O_TILE, OWN, Own, Part, Q_TILE, STAGED};
use crate::device::backward::output::store_share;
use crate::device::backward::rows::probability;
use crate::device::backward::sm80::kernel::Sm80Backward;
use crate::device::backward::sm80::output::packed;
use crate::device::backward::sm80::pairs::{Pair, multiply};
use crate::device::backward::sm80::statistics::Statistics;
use crate::device::kernel::{HalfOutput, Tile};
use crate::device::lane::{ROWS_PER_LANE, Scores};
use crate::device::products::{self, QueryFragments};
use crate::device::ptx::sync;
use crate::device::scores::ScoreMod;
use crate::device::scores::differentiable::Differentiable;
use crate::device::tile::head_dim::Fragments;
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;
use contract::backward::variants::STAGES;
use contract::config::MMA_M;

/// Half of dQ of a pair's queries.
pub struct Half<K: Sm80Backward, const M_TILES: usize> {
    dq: HalfOutput<K, M_TILES>,
    /// Q or dO.
    fragments: QueryFragments<K, M_TILES>,
    /// LSE or Δ of the lane's rows.
    statistics: [[f32; ROWS_PER_LANE]; M_TILES],
    /// Address of the memory in which scores are exchanged.
    exchange: u32,
    pair: Pair,
}

impl<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize> Accumulators<K, ROWS, STEP, M_TILES>
    for Half<K, M_TILES>
{
    #[inline(always)]
    unsafe fn new(memory: Memory<K, ROWS, STEP>, &Own { warp_row, lane, .. }: &Own<'_, K, M_TILES>) -> Self {
        const {
            assert!(STAGES * STAGED * STEP <= (OWN - 1) * ROWS, "the stages do not reach O");
            assert!(Pair::exchanged_bytes::<K, M_TILES>(2) <= Tile::<K, ROWS>::BYTES);
        }
        let pair = Pair::of::<K>(lane);
        let tile = memory.own(if pair.is_first() { Q_TILE } else { D_O_TILE });
        let statistics = Statistics::<K, ROWS>::at(memory.statistics(0, 0));
        // SAFETY: all threads are here; the barrier separates the loads from the copies of the first step, to the same place.
        unsafe {
            let mut half = Self {
                dq: [Fragments::zeros(); M_TILES],
                fragments: products::load_queries::<K, ROWS, M_TILES>(tile, warp_row, lane),
                statistics: [[0.0; ROWS_PER_LANE]; M_TILES],
                exchange: memory.own(O_TILE).chunk(0, 0),
                pair,
            };
            unrolled!(at most 4; for m in M_TILES => {
                unrolled!(at most 2; for r in ROWS_PER_LANE => {
                    let [lse, delta] = statistics.of(lane.row(warp_row, m, r));
                    half.statistics[m][r] = if pair.is_first() { lse } else { delta };
                });
            });
            sync::block();
            half
        }
    }

    #[inline(always)]
    unsafe fn add(&mut self, own: &Own<'_, K, M_TILES>, Part { keys, values, number, key }: Part<K, STEP>) {
        let (problem, lane, pair) = (&own.args.problem, own.lane, self.pair);
        let right = if pair.is_first() { keys } else { values };
        // SAFETY: the pair is together; K and V have arrived.
        unsafe {
            // The second warp does not use it, but a branch would let the first one wait for memory.
            let fetched = own.score_mod.fetch::<K::Element, M_TILES, 2>(problem, own.place(key), lane);
            let mut scores = products::scores::<K, STEP, M_TILES>(&self.fragments, (right, number), lane);
            if pair.is_first() {
                let capped = own.modify(&mut scores, fetched, key);
                self.for_each(&mut scores, |score, lse| probability(score, problem.scale_log2, -lse));
                K::ScoreMod::uncap(problem, &mut scores, &capped);
            } else {
                self.for_each(&mut scores, |score, delta| score - delta);
            }
            pair.write::<K, M_TILES>(self.exchange, number, &scores, lane);
            pair.wait::<K>(number);
            let others = pair.read::<K, M_TILES>(self.exchange, (1 - pair.member, number), lane);
            multiply(&mut scores, &others);
            if own.stores_bias() {
                own.store_bias(&scores, key, Some(pair.member));
            }
            let (dq, weights) = ((&mut self.dq, pair.member), packed::<K, M_TILES>(&scores));
            products::accumulate_share::<K, _, STEP, M_TILES>(dq, &weights, (keys, number), lane);
        }
    }

    #[inline(always)]
    unsafe fn store(mut self, own: &Own<'_, K, M_TILES>, head: HeadRows, (first_row, length): (u32, u32)) {
        let (args, share) = (own.args, self.pair.member);
        unrolled!(at most 4; for m in M_TILES => {
            let rows = (first_row + m as u32 * MMA_M, length);
            // SAFETY: the caller's promise.
            unsafe { store_share::<K, _>((&mut self.dq[m], share), head, args.scale, rows, &args.problem, own.lane) };
        });
    }
}

impl<K: Sm80Backward, const M_TILES: usize> Half<K, M_TILES> {
    /// Replaces each score by `changed` of it and of the statistics of its row.
    #[inline(always)]
    fn for_each(&self, scores: &mut Scores<M_TILES, 2>, changed: impl Fn(f32, f32) -> f32) {
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for n in 2 => {
                unrolled!(at most 4; for i in 4 => {
                    scores[m][n][i] = changed(scores[m][n][i], self.statistics[m][i / 2]);
                });
            });
        });
    }
}
