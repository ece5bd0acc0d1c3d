//! dK and dV of the keys of one warp. Beside them there are no registers for K and V, whose fragments are loaded for each product.

use super::{Accumulators, K_TILE, Memory, Own, Part, Queries, V_TILE};
use crate::device::backward::rows::probability;
use crate::device::backward::sm80::kernel::Sm80Backward;
use crate::device::backward::sm80::output::{packed, store};
use crate::device::kernel::{Output, Tile};
use crate::device::lane::Lane;
use crate::device::products;
use crate::device::scores::differentiable::Differentiable;
use crate::device::tile::head_dim::Fragments;
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;
use contract::backward::args::BackwardArgs;
use contract::config::{MMA_K, MMA_N};
use contract::geometry::BlockWork;

/// dK and dV of a warp's keys.
pub struct Both<K: Sm80Backward, const ROWS: u32, const M_TILES: usize> {
    dk: Output<K, M_TILES>,
    dv: Output<K, M_TILES>,
    keys: Tile<K, ROWS>,
    values: Tile<K, ROWS>,
}

impl<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize> Accumulators<K, ROWS, STEP, M_TILES>
    for Both<K, ROWS, M_TILES>
{
    #[inline(always)]
    unsafe fn new(memory: Memory<K, ROWS, STEP>, _: Own<M_TILES>) -> Self {
        let (keys, values) = (memory.own(K_TILE), memory.own(V_TILE));
        Self { dk: [Fragments::zeros(); M_TILES], dv: [Fragments::zeros(); M_TILES], keys, values }
    }

    #[inline(always)]
    unsafe fn add(&mut self, own: Own<M_TILES>, queries: &Queries<'_>, part: Part<K, STEP>) {
        let (lane, problem) = (own.lane, &queries.args.problem);
        let (q, d_o) = ((part.q, part.number), (part.d_o, part.number));
        // SAFETY: the warp is together; K, V, Q, dO and the statistics have arrived.
        unsafe {
            let of_own =
                |tile, other| products::scores_of_shared::<K, ROWS, STEP, M_TILES>((tile, own.warp_row), other, lane);
            let mut p = of_own(self.keys, q);
            let capped = own.modify::<K>(queries, &mut p, part.row);
            let mut ds = of_own(self.values, d_o);
            unrolled!(at most 2; for n in 2 => {
                let column = part.number * MMA_K + n as u32 * MMA_N + lane.pair_column();
                let rows = part.statistics.of_two(column);
                unrolled!(at most 4; for m in M_TILES => {
                    unrolled!(at most 4; for i in 4 => {
                        let [lse, delta] = rows[i % 2];
                        p[m][n][i] = probability(p[m][n][i], problem.scale_log2, -lse);
                        ds[m][n][i] = p[m][n][i] * (ds[m][n][i] - delta);
                    });
                });
            });
            K::ScoreMod::uncap(problem, &mut ds, &capped);
            products::accumulate_output::<K, STEP, M_TILES>(&mut self.dv, &packed::<K, M_TILES>(&p), d_o, lane);
            products::accumulate_output::<K, STEP, M_TILES>(&mut self.dk, &packed::<K, M_TILES>(&ds), q, lane);
        }
    }

    #[inline(always)]
    unsafe fn store(mut self, args: &BackwardArgs, (work, begin): (BlockWork, u32), rows: (u32, u32), lane: Lane) {
        let of = |tensor, strides| HeadRows::new::<K::Element>(tensor, strides, work, begin);
        // SAFETY: the caller's promise.
        unsafe {
            store::<K, M_TILES>(&mut self.dk, of(args.dk, &args.dk_strides), args.scale, rows, &args.problem, lane);
            store::<K, M_TILES>(&mut self.dv, of(args.dv, &args.dv_strides), 1.0, rows, &args.problem, lane);
        }
    }
}
