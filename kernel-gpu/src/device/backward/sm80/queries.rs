//! dQ of a block's queries.
//!
//! A warp has queries as rows and keys as columns, as in the forward pass: dS is the left operand of dQ += dS·K in the registers in which it
//! was computed.

use super::kernel::{Sm80Backward, WholeBlock};
use super::memory::SharedMemory;
use super::output::{clear_other_rows, packed, store};
use super::statistics::Statistics;
use crate::device::backward::bounds;
use crate::device::backward::rows::{base_2_lse, probability};
use crate::device::copy::start_copy;
use crate::device::hidden::not_unrolled;
use crate::device::kernel::{Output, Tile};
use crate::device::lane::{Lane, ROWS_PER_LANE};
use crate::device::products::{self, QueryFragments};
use crate::device::ptx::{cp_async, sync};
use crate::device::scores::ScoreMod;
use crate::device::scores::place::Place;
use crate::device::sequence::{Of, Sequence};
use crate::device::softmax::apply_mask;
use crate::device::tile::head_dim::Fragments;
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;
use contract::backward::args::BackwardArgs;
use contract::config::{MMA_K, MMA_M};
use contract::longest_first::WorkOrder;
use contract::packed::Rows;

/// Tiles of the block's own rows: Q, dO and O.
const OWN: u32 = 3;
const Q_TILE: u32 = 0;
const D_O_TILE: u32 = 1;
const O_TILE: u32 = 2;
/// Tiles of a stage: K and V.
const STAGED: u32 = 2;
const K_TILE: u32 = 0;
const V_TILE: u32 = 1;

type Memory<K, const ROWS: u32, const STEP: u32> = SharedMemory<K, OWN, ROWS, STAGED, STEP>;

/// The accumulators of a warp, and what it knows of its queries.
struct Warp<'a, K: Sm80Backward, const M_TILES: usize> {
    args: &'a BackwardArgs,
    dq: Output<K, M_TILES>,
    q: QueryFragments<K, M_TILES>,
    d_o: QueryFragments<K, M_TILES>,
    /// LSE and Δ of the lane's rows.
    statistics: [[[f32; 2]; ROWS_PER_LANE]; M_TILES],
    score_mod: K::ScoreMod,
    /// Position of the warp's first query among the keys.
    position: u32,
    /// Rows of Q and of K of the sequence.
    lengths: [u32; 2],
    lane: Lane,
}

/// Computes dQ of block `item` of those that do.
///
/// # Safety
/// Block together.
#[inline(always)]
pub unsafe fn gradients<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize>(
    args: &BackwardArgs,
    item: u32,
    lane: Lane,
) {
    let problem = &args.problem;
    let work = K::Sequence::only_work(problem, WorkOrder::HeadByHead, item);
    let shares = problem.query_tiles.get().get();
    // SAFETY: the blocks of a head have its tiles, each once.
    unsafe { clear_other_rows::<K, 1>(problem, [(args.dq, &args.dq_strides)], Of::Queries, (work, shares), lane) };
    let Some(tile) = K::Sequence::tile(problem, work, ROWS) else { return };
    let (copiers, memory) = (K::copiers(problem.head_dim), Memory::<K, ROWS, STEP>::new());
    let bounds::Keys { rows, position, begin: mut key, end } = bounds::Keys::of::<K>(problem, tile, ROWS, STEP);
    let Rows { begin, length: kv_length } = rows;
    let of_keys = problem.of_keys(work);
    let keys = HeadRows::new::<K::Element>(problem.k, &problem.k_strides, of_keys, begin);
    let values = HeadRows::new::<K::Element>(problem.v, &problem.v_strides, of_keys, begin);
    let copies = Copies::<K, ROWS, STEP> { memory, keys, values, end, length: kv_length, copiers, lane };
    // SAFETY: all threads are here, and nothing is in shared memory yet.
    let statistics = unsafe {
        let rows = (tile.first_row, tile.length);
        let of = |tensor, strides| HeadRows::new::<K::Element>(tensor, strides, work, tile.begin);
        start_copy::<K, ROWS>(memory.own(Q_TILE), of(problem.q, &problem.q_strides), rows, &copiers, lane);
        start_copy::<K, ROWS>(memory.own(D_O_TILE), of(args.d_o, &args.d_o_strides), rows, &copiers, lane);
        start_copy::<K, ROWS>(memory.own(O_TILE), of(problem.o, &problem.o_strides), rows, &copiers, lane);
        cp_async::commit_group();
        copies.start(0, key);
        let lse = problem.lse + K::Sequence::lse_row(problem, work, tile) * size_of::<f32>() as u64;
        let own_lse = base_2_lse(lse, tile.first_row + Statistics::<K, ROWS>::row_of(lane), tile.length);
        cp_async::wait_until_fewer_than::<2>();
        sync::block();
        let statistics = Statistics::<K, ROWS>::at(memory.statistics(0, 0));
        statistics.write(memory.own(D_O_TILE), memory.own(O_TILE), own_lse, lane);
        sync::block();
        statistics
    };
    let warp_row = lane.warp * const { M_TILES as u32 * MMA_M };
    // SAFETY: the warp is together; Q, dO and the statistics have arrived.
    let mut warp = unsafe {
        let mut warp = Warp::<K, M_TILES> {
            args,
            dq: [Fragments::zeros(); M_TILES],
            q: products::load_queries::<K, ROWS, M_TILES>(memory.own(Q_TILE), warp_row, lane),
            d_o: products::load_queries::<K, ROWS, M_TILES>(memory.own(D_O_TILE), warp_row, lane),
            statistics: [[[0.0; 2]; ROWS_PER_LANE]; M_TILES],
            score_mod: K::ScoreMod::of_head(problem, work, tile.sequence),
            position: position.wrapping_add(warp_row),
            lengths: [tile.length, kv_length],
            lane,
        };
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                warp.statistics[m][r] = statistics.of(lane.row(warp_row, m, r));
            });
        });
        warp
    };
    let mut stage = 0;
    // SAFETY: all threads are here; a barrier separates the readers of a stage from its next copies.
    unsafe {
        while key < end {
            cp_async::wait_until_fewer_than::<1>();
            sync::block();
            copies.start(stage ^ 1, key + STEP);
            warp.add_step::<STEP>((memory.staged(stage, K_TILE), memory.staged(stage, V_TILE)), key);
            key += STEP;
            stage ^= 1;
        }
        let dq = HeadRows::new::<K::Element>(args.dq, &args.dq_strides, work, tile.begin);
        let rows = (tile.first_row + warp_row, tile.length);
        store::<K, M_TILES>(&mut warp.dq, dq, args.scale, rows, problem, lane);
    }
}

/// The copies of a block's steps.
struct Copies<K: Sm80Backward, const ROWS: u32, const STEP: u32> {
    memory: Memory<K, ROWS, STEP>,
    keys: HeadRows,
    values: HeadRows,
    /// End of the keys that the block attends to.
    end: u32,
    /// Rows of K and V of the sequence.
    length: u32,
    copiers: WholeBlock<K>,
    lane: Lane,
}

impl<K: Sm80Backward, const ROWS: u32, const STEP: u32> Copies<K, ROWS, STEP> {
    /// Starts copying the step from `key` on to a stage, if there is one. There is a commit group in any case.
    ///
    /// # Safety
    /// Block together; nobody reads the stage.
    #[inline(always)]
    unsafe fn start(&self, stage: u32, key: u32) {
        if key < self.end {
            let rows = (key, self.length);
            // SAFETY: all threads are here, and nobody reads the stage.
            unsafe {
                let (k, v) = (self.memory.staged(stage, K_TILE), self.memory.staged(stage, V_TILE));
                start_copy::<K, STEP>(k, self.keys, rows, &self.copiers, self.lane);
                start_copy::<K, STEP>(v, self.values, rows, &self.copiers, self.lane);
            }
        }
        cp_async::commit_group();
    }
}

impl<K: Sm80Backward, const M_TILES: usize> Warp<'_, K, M_TILES> {
    /// Adds what the keys of a step contribute, from key `first_key` on.
    ///
    /// # Safety
    /// Warp together; K and V have arrived.
    #[inline(always)]
    unsafe fn add_step<const STEP: u32>(&mut self, tiles: (Tile<K, STEP>, Tile<K, STEP>), first_key: u32) {
        let mut part = 0;
        while part < not_unrolled(const { STEP / MMA_K }) {
            // SAFETY: the caller's promise; the branch is the warp's.
            unsafe {
                if self.attends(first_key + part * MMA_K) {
                    self.add_part(tiles, part, first_key + part * MMA_K);
                }
            }
            part += 1;
        }
    }

    /// Whether any of the warp's queries attends to any of the 16 keys from `key` on.
    #[inline(always)]
    fn attends(&self, key: u32) -> bool {
        let positions = (self.position, const { M_TILES as u32 * MMA_M });
        bounds::attend::<K>(&self.args.problem, positions, (key, MMA_K), self.lengths[1])
    }

    /// Adds what 16 keys contribute, those from `key` on, in part `part` of the tiles.
    ///
    /// # Safety
    /// As for [`Self::add_step`].
    #[inline(always)]
    unsafe fn add_part<const STEP: u32>(&mut self, (k, v): (Tile<K, STEP>, Tile<K, STEP>), part: u32, key: u32) {
        let (problem, lane, [length, kv_length]) = (&self.args.problem, self.lane, self.lengths);
        // SAFETY: the warp is together; K and V have arrived.
        unsafe {
            let place = Place { first_row: self.position, first_key: key, length, kv_length };
            let fetched = self.score_mod.fetch::<K::Element, M_TILES, 2>(problem, place, lane);
            let mut p = products::scores::<K, STEP, M_TILES>(&self.q, (k, part), lane);
            let mut capped = p;
            K::ScoreMod::cap(problem, &mut capped);
            self.score_mod.apply::<K::Element, M_TILES, 2>(problem, &mut p, fetched, place, lane);
            let rows = (self.position, const { M_TILES as u32 * MMA_M });
            apply_mask::<K, M_TILES, 2>(problem, &mut p, rows, 0, key, kv_length, lane);
            let mut ds = products::scores::<K, STEP, M_TILES>(&self.d_o, (v, part), lane);
            unrolled!(at most 4; for m in M_TILES => {
                unrolled!(at most 2; for n in 2 => {
                    unrolled!(at most 4; for i in 4 => {
                        let [lse, delta] = self.statistics[m][i / 2];
                        p[m][n][i] = probability(p[m][n][i], problem.scale_log2, -lse);
                        ds[m][n][i] = p[m][n][i] * (ds[m][n][i] - delta);
                    });
                });
            });
            K::ScoreMod::uncap(problem, &mut ds, &capped);
            products::accumulate_output::<K, STEP, M_TILES>(&mut self.dq, &packed::<K, M_TILES>(&ds), (k, part), lane);
        }
    }
}
