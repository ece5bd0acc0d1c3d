//! dK and dV of a block's keys.
//!
//! A warp has keys as rows and queries as columns: Sᵀ = K·Qᵀ and dPᵀ = V·dOᵀ. Then Pᵀ and dSᵀ are the left operands of dV += Pᵀ·dO and
//! dK += dSᵀ·Q in the registers in which they were computed.
//!
//! [`alone`] has the products of a warp that accumulates both, [`paired`] those of one that accumulates one of them.

pub mod alone;
pub mod paired;

use super::kernel::Sm80Backward;
use super::memory::SharedMemory;
use super::output::clear_other_rows;
use super::statistics::Statistics;
use crate::device::backward::bounds;
use crate::device::backward::rows::base_2_lse;
use crate::device::copy::start_copy;
use crate::device::hidden::{not_unrolled, recompute};
use crate::device::kernel::Tile;
use crate::device::lane::{Lane, ROWS_PER_LANE, Scores};
use crate::device::mask::Mask;
use crate::device::ptx::{cp_async, sync};
use crate::device::scores::ScoreMod;
use crate::device::scores::differentiable::Differentiable;
use crate::device::sequence::{Of, Sequence};
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;
use contract::args::Strides;
use contract::backward::args::BackwardArgs;
use contract::backward::variants::STAGES;
use contract::config::{MMA_K, MMA_M, MMA_N};
use contract::geometry::BlockWork;
use contract::packed::{Rows, SequenceTile};

/// Tiles of the block's own rows: K and V.
const OWN: u32 = 2;
const K_TILE: u32 = 0;
const V_TILE: u32 = 1;
/// Tiles of a stage: Q, dO and O.
const STAGED: u32 = 3;
const Q_TILE: u32 = 0;
const D_O_TILE: u32 = 1;
const O_TILE: u32 = 2;

type Memory<K, const ROWS: u32, const STEP: u32> = SharedMemory<K, OWN, ROWS, STAGED, STEP>;

/// The queries of a head that may attend to the block's keys.
#[derive(Clone, Copy)]
pub struct Queries<'a> {
    args: &'a BackwardArgs,
    work: BlockWork,
    /// The sequence of the keys.
    keys: SequenceTile,
    /// The rows of Q of that sequence.
    rows: Rows,
    /// Position of the first of them among the keys.
    first_position: u32,
    /// End of the rows that attend to any of the block's keys.
    end: u32,
}

impl Queries<'_> {
    /// The rows of a tensor.
    #[inline(always)]
    fn rows_of<K: Sm80Backward>(&self, tensor: u64, strides: &Strides) -> HeadRows {
        HeadRows::new::<K::Element>(tensor, strides, self.work(), self.rows.begin)
    }

    /// The head. What is derived from it is computed for every step: kept, three tensors would occupy twelve registers beside dK and dV.
    #[inline(always)]
    fn work(&self) -> BlockWork {
        BlockWork { batch: recompute(self.work.batch), head: recompute(self.work.head), query_tile: 0 }
    }

    /// LSE in base 2 of a row.
    ///
    /// # Safety
    /// The launch's LSE is complete.
    #[inline(always)]
    unsafe fn lse<K: Sm80Backward>(&self, row: u32) -> f32 {
        let problem = &self.args.problem;
        let tile = SequenceTile { begin: self.rows.begin, ..self.keys };
        let first = K::Sequence::lse_row(problem, self.work, tile) * size_of::<f32>() as u64;
        // SAFETY: LSE has an element for each row of the sequence.
        unsafe { base_2_lse(problem.lse + first, row, self.rows.length) }
    }

    /// Starts copying the step from `row` on to a stage, if there is one. There is a commit group in any case.
    ///
    /// # Safety
    /// Block together; nobody reads the stage.
    #[inline(always)]
    unsafe fn start<K: Sm80Backward, const ROWS: u32, const STEP: u32>(
        &self,
        memory: Memory<K, ROWS, STEP>,
        stage: u32,
        row: u32,
        lane: Lane,
    ) {
        if row < self.end {
            // What is derived from the lane would occupy registers beside dK and dV.
            let (args, problem, lane) = (self.args, &self.args.problem, lane.recomputed_from_thread());
            let (rows, copiers) = ((row, self.rows.length), K::copiers(problem.head_dim));
            K::for_each::<{ STAGED as usize }>(|index| {
                let (tensor, strides) = match index {
                    Q_TILE => (problem.q, problem.q_strides),
                    D_O_TILE => (args.d_o, args.d_o_strides),
                    _ => (problem.o, problem.o_strides),
                };
                let head = self.rows_of::<K>(tensor, &strides);
                // SAFETY: all threads are here, and nobody reads the stage.
                unsafe { start_copy::<K, STEP>(memory.staged(stage, index), head, rows, &copiers, lane) };
            });
        }
        cp_async::commit_group();
    }
}

/// The keys of a warp.
#[derive(Clone, Copy)]
pub struct Own<const M_TILES: usize> {
    /// Its first row in the block's tiles.
    warp_row: u32,
    /// Its first key.
    first_key: u32,
    lane: Lane,
}

/// 16 queries of a step.
#[derive(Clone, Copy)]
pub struct Part<K: Sm80Backward, const STEP: u32> {
    /// The tiles of Q, dO and O.
    q: Tile<K, STEP>,
    d_o: Tile<K, STEP>,
    o: Tile<K, STEP>,
    statistics: Statistics<K, STEP>,
    /// Index of the part in the step.
    number: u32,
    /// Its first row.
    row: u32,
}

/// What a warp accumulates of dK and dV.
pub trait Accumulators<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize>: Sized {
    /// Begins with zeros.
    ///
    /// # Safety
    /// Block together; all copies that were started are those of K and V.
    unsafe fn new(memory: Memory<K, ROWS, STEP>, own: Own<M_TILES>) -> Self;

    /// Adds what 16 queries contribute.
    ///
    /// # Safety
    /// Warp together, and with it all warps that share its keys; the tiles of Q and dO and the statistics have arrived, and nobody reads O.
    unsafe fn add(&mut self, own: Own<M_TILES>, queries: &Queries<'_>, part: Part<K, STEP>);

    /// Stores the gradients of the warp's keys, those from the first of `rows` on, of its length, from row `begin` of the tensors on.
    ///
    /// # Safety
    /// Warp together; no other block has its keys.
    unsafe fn store(self, args: &BackwardArgs, place: (BlockWork, u32), rows: (u32, u32), lane: Lane);
}

/// Computes dK and dV of block `block` of those that do.
///
/// # Safety
/// Block together.
#[inline(always)]
pub unsafe fn gradients<K, A, const ROWS: u32, const STEP: u32, const M_TILES: usize>(
    args: &BackwardArgs,
    block: u32,
    lane: Lane,
) where
    K: Sm80Backward,
    A: Accumulators<K, ROWS, STEP, M_TILES>,
{
    let problem = &args.problem;
    let work = K::Sequence::key_work(args, block);
    let (gradients, shares) = ([(args.dk, &args.dk_strides), (args.dv, &args.dv_strides)], args.key_tiles.get().get());
    // SAFETY: the blocks of a head have its tiles, each once.
    unsafe { clear_other_rows::<K, 2>(problem, gradients, Of::Keys, (work, shares), lane) };
    let Some(tile) = K::Sequence::key_tile(problem, work, ROWS) else { return };
    let (copiers, memory) = (K::copiers(problem.head_dim), Memory::<K, ROWS, STEP>::new());
    let of = |tensor, strides| HeadRows::new::<K::Element>(tensor, strides, work, tile.begin);
    // SAFETY: all threads are here, and nothing is in shared memory yet.
    unsafe {
        let rows = (tile.first_row, tile.length);
        start_copy::<K, ROWS>(memory.own(K_TILE), of(problem.k, &problem.k_strides), rows, &copiers, lane);
        start_copy::<K, ROWS>(memory.own(V_TILE), of(problem.v, &problem.v_strides), rows, &copiers, lane);
        cp_async::commit_group();
    }
    let warp_row = K::team(lane) * const { M_TILES as u32 * MMA_M };
    let own = Own { warp_row, first_key: tile.first_row + warp_row, lane };
    // SAFETY: all threads are here, and have started the copies of K and V.
    let mut accumulators = unsafe { A::new(memory, own) };
    let bounds::Queries { rows, first_position, begin, end } = bounds::Queries::of::<K>(problem, tile, ROWS, STEP);
    let group = problem.group.get().get();
    let mut number = 0;
    while number < not_unrolled(group) {
        let work = BlockWork { head: work.head * group + number, ..work };
        let queries = Queries { args, work, keys: tile, rows, first_position, end };
        // SAFETY: all threads are here; the number of heads is the launch's.
        unsafe { own.add_head(&mut accumulators, queries, begin, memory) };
        number += 1;
    }
    // SAFETY: the warp is together, and its keys are its own.
    unsafe { accumulators.store(args, (work, tile.begin), (own.first_key, tile.length), lane) };
}

impl<const M_TILES: usize> Own<M_TILES> {
    /// Adds what the queries of a head from row `row` on contribute to the block's keys.
    ///
    /// # Safety
    /// Block together; nobody reads a stage.
    #[inline(always)]
    unsafe fn add_head<K: Sm80Backward, const ROWS: u32, const STEP: u32>(
        self,
        accumulators: &mut impl Accumulators<K, ROWS, STEP, M_TILES>,
        queries: Queries<'_>,
        mut row: u32,
        memory: Memory<K, ROWS, STEP>,
    ) {
        const { assert!(STAGES == 2) };
        let (lane, mut stage) = (self.lane, 0);
        let threads_row = Statistics::<K, STEP>::row_of(lane);
        // SAFETY: all threads are here; the barriers separate a stage's copies from its readers, and the statistics from theirs.
        unsafe {
            queries.start(memory, stage, row, lane);
            let mut lse = queries.lse::<K>(row + threads_row);
            while row < queries.end {
                cp_async::wait_until_fewer_than::<1>();
                sync::block();
                queries.start(memory, stage ^ 1, row + STEP, lane);
                let tile = |index| memory.staged(stage, index);
                let (q, d_o, o) = (tile(Q_TILE), tile(D_O_TILE), tile(O_TILE));
                let statistics = Statistics::<K, STEP>::at(memory.statistics(stage, STEP));
                statistics.write(d_o, o, lse, lane);
                lse = queries.lse::<K>(row + STEP + threads_row);
                sync::block();
                let mut number = 0;
                while number < not_unrolled(const { STEP / MMA_K }) {
                    let part = Part { q, d_o, o, statistics, number, row: row + number * MMA_K };
                    if self.is_attended::<K>(&queries, part.row) {
                        accumulators.add(self, &queries, part);
                    }
                    number += 1;
                }
                row += STEP;
                stage ^= 1;
            }
            // The next head's copies go to a stage that others may still read.
            cp_async::wait_until_fewer_than::<1>();
            sync::block();
        }
    }

    /// Whether any of the 16 queries from `row` on is there and attends to any of the warp's keys.
    #[inline(always)]
    fn is_attended<K: Sm80Backward>(self, queries: &Queries<'_>, row: u32) -> bool {
        let positions = (row.wrapping_add(queries.first_position), MMA_K);
        let keys = (self.first_key, const { M_TILES as u32 * MMA_M });
        row < queries.rows.length
            && (K::Mask::ALL_KEYS || bounds::attend::<K>(&queries.args.problem, positions, keys, queries.keys.length))
    }

    /// Caps the scores of a part, and changes and masks them. Returns the capped ones.
    ///
    /// # Safety
    /// The launch's bias has an element for each row and key.
    #[inline(always)]
    unsafe fn modify<K: Sm80Backward>(
        self,
        queries: &Queries<'_>,
        scores: &mut Scores<M_TILES, 2>,
        row: u32,
    ) -> Scores<M_TILES, 2> {
        K::ScoreMod::cap(&queries.args.problem, scores);
        let capped = *scores;
        // SAFETY: the caller's promise.
        unsafe { self.add_score_mod::<K>(queries, scores, row) };
        self.mask::<K>(queries, scores, row);
        capped
    }

    /// Calls `change` with the score of each key and each of the queries from `row` on, the query's position, and the key.
    #[inline(always)]
    fn for_each<K: Sm80Backward>(
        self,
        queries: &Queries<'_>,
        scores: &mut Scores<M_TILES, 2>,
        row: u32,
        change: impl Fn(&mut f32, u32, u32),
    ) {
        let position = row.wrapping_add(queries.first_position).wrapping_add(self.lane.pair_column());
        K::for_each::<2>(|n| {
            let position = position.wrapping_add(n * MMA_N);
            unrolled!(at most 4; for m in M_TILES => {
                let [mut tile, next] = scores[m];
                unrolled!(at most 2; for i in 2 => {
                    unrolled!(at most 2; for r in ROWS_PER_LANE => {
                        let key = self.lane.row(self.first_key, m, r);
                        change(&mut tile[2 * r + i], position.wrapping_add(i as u32), key);
                    });
                });
                // A loop cannot index registers: the tiles take turns.
                scores[m] = [next, tile];
            });
        });
    }

    /// Adds ALiBi's term and the bias. Those of rows and keys that do not exist are of ones that do, and are not used.
    ///
    /// # Safety
    /// The launch's bias has an element for each row and key.
    #[inline(always)]
    unsafe fn add_score_mod<K: Sm80Backward>(self, queries: &Queries<'_>, scores: &mut Scores<M_TILES, 2>, row: u32) {
        if !K::ScoreMod::MODIFIES {
            return;
        }
        let problem = &queries.args.problem;
        let work = if const { K::TILE.is_paired() } { queries.work() } else { queries.work };
        let score_mod = K::ScoreMod::of_head(problem, work, queries.keys.sequence);
        let last_position = queries.rows.length.wrapping_sub(1).wrapping_add(queries.first_position);
        self.for_each::<K>(queries, scores, row, |score, position, key| {
            let position = (position as i32).min(last_position as i32) as u32;
            // SAFETY: a row and a key that exist.
            *score = unsafe {
                score_mod.add_to_one::<K::Element>(problem, *score, position, key.min(queries.keys.length - 1))
            };
        });
    }

    /// Sets the scores of keys that a query does not attend to to −∞. Missing rows have probability 0 by their LSE, and gradients of missing
    /// keys are not stored.
    #[inline(always)]
    fn mask<K: Sm80Backward>(self, queries: &Queries<'_>, scores: &mut Scores<M_TILES, 2>, row: u32) {
        let (problem, keys, length) = (&queries.args.problem, const { M_TILES as u32 * MMA_M }, queries.keys.length);
        let position = row.wrapping_add(queries.first_position);
        if K::Mask::ALL_KEYS
            || !K::Mask::touches::<K::Sequence>(problem, (position, MMA_K), self.first_key, keys, length)
        {
            return;
        }
        self.for_each::<K>(queries, scores, row, |score, position, key| {
            let is_behind = key >= K::Mask::keys_end(problem, position.wrapping_add(1), length);
            if is_behind || K::Mask::HAS_BEGIN && key < K::Mask::keys_begin(problem, position) {
                *score = f32::NEG_INFINITY;
            }
        });
    }
}
