//! dQ of the queries of one warp, with the fragments of Q and dO in registers.

use super::{Accumulators, D_O_TILE, Memory, Own, Part, Q_TILE};
use crate::device::backward::rows::probability;
use crate::device::backward::sm80::kernel::Sm80Backward;
use crate::device::backward::sm80::output::{packed, store};
use crate::device::backward::sm80::statistics::Statistics;
use crate::device::kernel::Output;
use crate::device::lane::{ROWS_PER_LANE, Scores};
use crate::device::products::{self, QueryFragments};
use crate::device::scores::ScoreMod;
use crate::device::scores::differentiable::Differentiable;
use crate::device::tile::head_dim::Fragments;
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;

/// dQ of a warp's queries.
pub struct All<K: Sm80Backward, const M_TILES: usize> {
    dq: Output<K, M_TILES>,
    q: QueryFragments<K, M_TILES>,
    d_o: QueryFragments<K, M_TILES>,
    /// LSE and Δ of the lane's rows.
    statistics: [[[f32; 2]; ROWS_PER_LANE]; M_TILES],
}

impl<K: Sm80Backward, const M_TILES: usize> All<K, M_TILES> {
    /// dS of a part's keys with respect to scores that the launch's modifications are added to, and those scores, capped.
    ///
    /// # Safety
    /// Warp together; the tiles of K and V have arrived.
    #[inline(always)]
    pub unsafe fn d_s<const STEP: u32>(
        &self,
        own: &Own<'_, K, M_TILES>,
        part: &Part<K, STEP>,
    ) -> [Scores<M_TILES, 2>; 2] {
        let (problem, lane) = (&own.args.problem, own.lane);
        // SAFETY: the caller's promise.
        unsafe {
            let fetched = own.score_mod.fetch::<K::Element, M_TILES, 2>(problem, own.place(part.key), lane);
            let mut p = products::scores::<K, STEP, M_TILES>(&self.q, (part.keys, part.number), lane);
            let capped = own.modify(&mut p, fetched, part.key);
            let mut ds = products::scores::<K, STEP, M_TILES>(&self.d_o, (part.values, part.number), lane);
            unrolled!(at most 4; for m in M_TILES => {
                unrolled!(at most 2; for n in 2 => {
                    unrolled!(at most 4; for i in 4 => {
                        let [lse, delta] = self.statistics[m][i / 2];
                        p[m][n][i] = probability(p[m][n][i], problem.scale_log2, -lse);
                        ds[m][n][i] = p[m][n][i] * (ds[m][n][i] - delta);
                    });
                });
            });
            [ds, capped]
        }
    }
}

impl<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize> Accumulators<K, ROWS, STEP, M_TILES>
    for All<K, M_TILES>
{
    #[inline(always)]
    unsafe fn new(memory: Memory<K, ROWS, STEP>, &Own { warp_row, lane, .. }: &Own<'_, K, M_TILES>) -> Self {
        let statistics = Statistics::<K, ROWS>::at(memory.statistics(0, 0));
        // SAFETY: the warp is together; Q, dO and the statistics have arrived.
        unsafe {
            let mut all = Self {
                dq: [Fragments::zeros(); M_TILES],
                q: products::load_queries::<K, ROWS, M_TILES>(memory.own(Q_TILE), warp_row, lane),
                d_o: products::load_queries::<K, ROWS, M_TILES>(memory.own(D_O_TILE), warp_row, lane),
                statistics: [[[0.0; 2]; ROWS_PER_LANE]; M_TILES],
            };
            unrolled!(at most 4; for m in M_TILES => {
                unrolled!(at most 2; for r in ROWS_PER_LANE => {
                    all.statistics[m][r] = statistics.of(lane.row(warp_row, m, r));
                });
            });
            all
        }
    }

    #[inline(always)]
    unsafe fn add(&mut self, own: &Own<'_, K, M_TILES>, part: Part<K, STEP>) {
        let (problem, lane) = (&own.args.problem, own.lane);
        // SAFETY: the warp is together; K and V have arrived.
        unsafe {
            let [mut ds, capped] = self.d_s(own, &part);
            if own.stores_bias() {
                own.store_bias(&ds, part.key, None);
            }
            K::ScoreMod::uncap(problem, &mut ds, &capped);
            let weights = packed::<K, M_TILES>(&ds);
            products::accumulate_output::<K, STEP, M_TILES>(&mut self.dq, &weights, (part.keys, part.number), lane);
        }
    }

    #[inline(always)]
    unsafe fn store(mut self, own: &Own<'_, K, M_TILES>, head: HeadRows, rows: (u32, u32)) {
        // SAFETY: the caller's promise.
        unsafe { store::<K, M_TILES>(&mut self.dq, head, own.args.scale, rows, &own.args.problem, own.lane) };
    }
}
