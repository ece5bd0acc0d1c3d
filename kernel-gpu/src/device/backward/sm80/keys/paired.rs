//! dK or dV of the keys of a pair of warps. The first warp computes P and accumulates dV, the second one dP and dK. Beside one gradient there
//! are registers for the fragments of K or V.

use super::{Accumulators, K_TILE, Memory, Own, Part, Queries, V_TILE};
use crate::device::backward::rows::probability;
use crate::device::backward::sm80::kernel::Sm80Backward;
use crate::device::backward::sm80::output::{packed, store};
use crate::device::backward::sm80::pairs::{Pair, multiply};
use crate::device::kernel::{Output, Tile};
use crate::device::lane::{Lane, Scores};
use crate::device::products::{self, QueryFragments};
use crate::device::ptx::{cp_async, sync};
use crate::device::scores::differentiable::Differentiable;
use crate::device::tile::head_dim::Fragments;
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;
use contract::backward::args::BackwardArgs;
use contract::config::{MMA_K, MMA_N};
use contract::geometry::BlockWork;

/// dV of a pair's keys if the warp is its first one, otherwise dK.
pub struct One<K: Sm80Backward, const M_TILES: usize> {
    gradient: Output<K, M_TILES>,
    /// K or V.
    own: QueryFragments<K, M_TILES>,
}

impl<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize> Accumulators<K, ROWS, STEP, M_TILES>
    for One<K, M_TILES>
{
    #[inline(always)]
    unsafe fn new(memory: Memory<K, ROWS, STEP>, Own { warp_row, lane, .. }: Own<M_TILES>) -> Self {
        let pair = Pair::of::<K>(lane);
        let tile = memory.own(if pair.is_first() { K_TILE } else { V_TILE });
        // SAFETY: all threads are here; the second barrier separates the loads from the copies of the first step, to the same place.
        let own = unsafe {
            cp_async::wait_until_fewer_than::<1>();
            sync::block();
            let own = products::load_queries::<K, ROWS, M_TILES>(tile, warp_row, lane);
            sync::block();
            own
        };
        Self { gradient: [Fragments::zeros(); M_TILES], own }
    }

    #[inline(always)]
    unsafe fn add(&mut self, own: Own<M_TILES>, queries: &Queries<'_>, part: Part<K, STEP>) {
        const { assert!(Pair::exchanged_bytes::<K, M_TILES>(1) <= Tile::<K, STEP>::BYTES) };
        // What is derived from the lane would occupy registers beside the gradient.
        let lane = own.lane.recomputed_from_thread();
        let (pair, number, exchange) = (Pair::of::<K>(lane), part.number, part.o.chunk(0, 0));
        let (right, other) = if pair.is_first() { (part.q, part.d_o) } else { (part.d_o, part.q) };
        // SAFETY: the pair is together; Q, dO and the statistics have arrived, and O is not read any more.
        unsafe {
            let mut scores = products::scores::<K, STEP, M_TILES>(&self.own, (right, number), lane);
            if pair.is_first() {
                let capped = own.modify::<K>(queries, &mut scores, part.row);
                let problem = &queries.args.problem;
                for_each(&part, &mut scores, lane, |score, [lse, _]| probability(score, problem.scale_log2, -lse));
                let mut weights = scores;
                K::ScoreMod::uncap(problem, &mut weights, &capped);
                pair.write::<K, M_TILES>(exchange, number, &weights, lane);
                pair.arrive::<K>(number);
            } else {
                for_each(&part, &mut scores, lane, |score, [_, delta]| score - delta);
                pair.wait::<K>(number);
                let weights = pair.read::<K, M_TILES>(exchange, (0, number), lane);
                multiply(&mut scores, &weights);
            }
            let weights = packed::<K, M_TILES>(&scores);
            products::accumulate_output::<K, STEP, M_TILES>(&mut self.gradient, &weights, (other, number), lane);
        }
    }

    #[inline(always)]
    unsafe fn store(mut self, args: &BackwardArgs, (work, begin): (BlockWork, u32), rows: (u32, u32), lane: Lane) {
        let (tensor, strides, scale) = match Pair::of::<K>(lane).is_first() {
            true => (args.dv, args.dv_strides, 1.0),
            false => (args.dk, args.dk_strides, args.scale),
        };
        let head = HeadRows::new::<K::Element>(tensor, &strides, work, begin);
        // SAFETY: the caller's promise.
        unsafe { store::<K, M_TILES>(&mut self.gradient, head, scale, rows, &args.problem, lane) };
    }
}

/// Replaces each score by `changed` of it and of the statistics of its query.
///
/// # Safety
/// The statistics have arrived.
#[inline(always)]
unsafe fn for_each<K: Sm80Backward, const STEP: u32, const M_TILES: usize>(
    part: &Part<K, STEP>,
    scores: &mut Scores<M_TILES, 2>,
    lane: Lane,
    changed: impl Fn(f32, [f32; 2]) -> f32,
) {
    unrolled!(at most 2; for n in 2 => {
        let column = part.number * MMA_K + n as u32 * MMA_N + lane.pair_column();
        // SAFETY: the caller's promise.
        let rows = unsafe { part.statistics.of_two(column) };
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 4; for i in 4 => { scores[m][n][i] = changed(scores[m][n][i], rows[i % 2]) });
        });
    });
}
