//! dQ of a block's queries.
//!
//! A warp has queries as rows and keys as columns, as in the forward pass: dS is the left operand of dQ += dS·K in the registers in which it
//! was computed.
//!
//! [`alone`] has the products of a warp that accumulates all columns of dQ, [`paired`] those of one that accumulates half of them.

pub mod alone;
pub mod paired;

use super::bias_elements::store_fragment;
use super::kernel::{Sm80Backward, WholeBlock};
use super::memory::SharedMemory;
use super::output::clear_other_rows;
use super::statistics::Statistics;
use crate::device::backward::bounds;
use crate::device::backward::rows::base_2_lse;
use crate::device::codegen::thread;
use crate::device::copy::start_copy;
use crate::device::hidden::not_unrolled;
use crate::device::kernel::{Kernel, Tile};
use crate::device::lane::{Lane, Scores};
use crate::device::ptx::{cp_async, sync};
use crate::device::scores::ScoreMod;
use crate::device::scores::place::Place;
use crate::device::sequence::{Of, Sequence};
use crate::device::softmax::apply_mask;
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::backward::args::BackwardArgs;
use contract::config::{MMA_K, MMA_M, MMA_N};
use contract::geometry::BlockWork;
use contract::longest_first::WorkOrder;
use contract::packed::{Rows, SequenceTile};

/// Tiles of the block's own rows: Q, dO and O.
const OWN: u32 = 3;
pub(super) const Q_TILE: u32 = 0;
pub(super) const D_O_TILE: u32 = 1;
pub(super) const O_TILE: u32 = 2;
/// Tiles of a stage: K and V.
const STAGED: u32 = 2;
pub(super) const K_TILE: u32 = 0;
pub(super) const V_TILE: u32 = 1;

pub(super) type Memory<K, const ROWS: u32, const STEP: u32> = SharedMemory<K, OWN, ROWS, STAGED, STEP>;
/// What score modifications fetch for the scores of a part.
type Fetched<K, const M_TILES: usize> = <<K as Kernel>::ScoreMod as ScoreMod>::Fetched<M_TILES, 2>;

/// The queries of a warp.
#[derive(Clone, Copy)]
pub struct Own<'a, K: Sm80Backward, const M_TILES: usize> {
    args: &'a BackwardArgs,
    score_mod: K::ScoreMod,
    /// Its first row in the block's tiles.
    warp_row: u32,
    /// Position of its first query among the keys.
    position: u32,
    /// Rows of Q and of K of the sequence.
    lengths: [u32; 2],
    lane: Lane,
}

/// 16 keys of a step.
#[derive(Clone, Copy)]
pub struct Part<K: Sm80Backward, const STEP: u32> {
    /// The tiles of K and V.
    pub(super) keys: Tile<K, STEP>,
    pub(super) values: Tile<K, STEP>,
    /// Index of the part in the step.
    pub(super) number: u32,
    /// Its first key.
    pub(super) key: u32,
}

/// What a warp accumulates of dQ.
pub trait Accumulators<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize>: Sized {
    /// Begins with zeros.
    ///
    /// # Safety
    /// Block together; Q, dO and the statistics have arrived, and nobody reads O.
    unsafe fn new(memory: Memory<K, ROWS, STEP>, own: &Own<'_, K, M_TILES>) -> Self;

    /// Adds what 16 keys contribute, and stores their dBias, if it is asked for.
    ///
    /// # Safety
    /// Warp together, and with it all warps that share its queries; the tiles of K and V have arrived.
    unsafe fn add(&mut self, own: &Own<'_, K, M_TILES>, part: Part<K, STEP>);

    /// Stores dQ of the warp's queries, those from the first of `rows` on, of its length, to a head.
    ///
    /// # Safety
    /// Warp together; no other block has its queries.
    unsafe fn store(self, own: &Own<'_, K, M_TILES>, head: HeadRows, rows: (u32, u32));
}

/// Computes dQ of block `item` of those that do, and its dBias, if that is asked for and shared with no other block.
///
/// # Safety
/// Block together.
#[inline(always)]
pub unsafe fn gradients<K, A, const ROWS: u32, const STEP: u32, const M_TILES: usize>(
    args: &BackwardArgs,
    item: u32,
    lane: Lane,
) where
    K: Sm80Backward,
    A: Accumulators<K, ROWS, STEP, M_TILES>,
{
    let problem = &args.problem;
    let work = K::Sequence::only_work(problem, WorkOrder::HeadByHead, item);
    let shares = problem.query_tiles.get().get();
    // SAFETY: the blocks of a head have its tiles, each once.
    unsafe { clear_other_rows::<K, 1>(problem, [(args.dq, &args.dq_strides)], Of::Queries, (work, shares), lane) };
    let Some(tile) = K::Sequence::tile(problem, work, ROWS) else { return };
    let (copiers, memory) = (K::copiers(problem.head_dim), Memory::<K, ROWS, STEP>::new());
    let attended = bounds::Keys::of::<K>(problem, tile, ROWS, STEP);
    let bounds::Keys { rows: Rows { begin, length: kv_length }, begin: mut key, end, .. } = attended;
    let of_keys = problem.of_keys(work);
    let keys = HeadRows::new::<K::Element>(problem.k, &problem.k_strides, of_keys, begin);
    let values = HeadRows::new::<K::Element>(problem.v, &problem.v_strides, of_keys, begin);
    let copies = Copies::<K, ROWS, STEP> { memory, keys, values, end, length: kv_length, copiers, lane };
    // SAFETY: all threads are here, and nothing is in shared memory yet.
    unsafe {
        start_rows(args, work, tile, memory, lane);
        cp_async::commit_group();
        // The first stage of pairs lies where these rows are.
        if const { !K::TILE.is_paired() } {
            copies.start(0, key);
        }
        let own_lse = own_lse::<K, ROWS>(problem, work, tile, lane);
        if const { K::TILE.is_paired() } {
            cp_async::wait_until_fewer_than::<1>();
        } else {
            cp_async::wait_until_fewer_than::<2>();
        }
        sync::block();
        let statistics = Statistics::<K, ROWS>::at(memory.statistics(0, 0));
        statistics.write(memory.own(D_O_TILE), memory.own(O_TILE), own_lse, lane);
        sync::block();
    }
    let own = Own::<K, M_TILES>::new(args, work, tile, &attended, lane);
    let mut stage = 0;
    // SAFETY: all threads are here; Q, dO and the statistics have arrived. A barrier separates the readers of a stage from its next copies.
    unsafe {
        let mut accumulators = A::new(memory, &own);
        if const { K::TILE.is_paired() } {
            copies.start(0, key);
        }
        while key < end {
            cp_async::wait_until_fewer_than::<1>();
            sync::block();
            copies.start(stage ^ 1, key + STEP);
            let (keys, values) = (memory.staged(stage, K_TILE), memory.staged(stage, V_TILE));
            let mut number = 0;
            while number < not_unrolled(const { STEP / MMA_K }) {
                let part = Part { keys, values, number, key: key + number * MMA_K };
                if own.attends(part.key) {
                    accumulators.add(&own, part);
                }
                number += 1;
            }
            key += STEP;
            stage ^= 1;
        }
        let dq = HeadRows::new::<K::Element>(args.dq, &args.dq_strides, work, tile.begin);
        accumulators.store(&own, dq, (tile.first_row + own.warp_row, tile.length));
    }
}

/// Starts copying Q, dO and O of a query tile.
///
/// # Safety
/// Block together; nobody reads their tiles.
#[inline(always)]
pub(super) unsafe fn start_rows<K: Sm80Backward, const ROWS: u32, const STEP: u32>(
    args: &BackwardArgs,
    work: BlockWork,
    tile: SequenceTile,
    memory: Memory<K, ROWS, STEP>,
    lane: Lane,
) {
    let problem = &args.problem;
    let (copiers, rows) = (K::copiers(problem.head_dim), (tile.first_row, tile.length));
    let of = |tensor, strides| HeadRows::new::<K::Element>(tensor, strides, work, tile.begin);
    // SAFETY: the caller's promise.
    unsafe {
        start_copy::<K, ROWS>(memory.own(Q_TILE), of(problem.q, &problem.q_strides), rows, &copiers, lane);
        start_copy::<K, ROWS>(memory.own(D_O_TILE), of(args.d_o, &args.d_o_strides), rows, &copiers, lane);
        start_copy::<K, ROWS>(memory.own(O_TILE), of(problem.o, &problem.o_strides), rows, &copiers, lane);
    }
}

/// LSE in base 2 of the row of a query tile that the calling thread computes the statistics of.
///
/// # Safety
/// The launch's LSE has an element for each row.
#[inline(always)]
pub(super) unsafe fn own_lse<K: Sm80Backward, const ROWS: u32>(
    problem: &ForwardArgs,
    work: BlockWork,
    tile: SequenceTile,
    lane: Lane,
) -> f32 {
    let lse = problem.lse + K::Sequence::lse_row(problem, work, tile) * size_of::<f32>() as u64;
    // SAFETY: the caller's promise.
    unsafe { base_2_lse(lse, tile.first_row + Statistics::<K, ROWS>::row_of(lane), tile.length) }
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

impl<'a, K: Sm80Backward, const M_TILES: usize> Own<'a, K, M_TILES> {
    /// Those of the calling warp, of a query tile and the keys that it attends to.
    #[inline(always)]
    pub fn new(args: &'a BackwardArgs, work: BlockWork, tile: SequenceTile, keys: &bounds::Keys, lane: Lane) -> Self {
        let warp_row = K::team(lane) * const { M_TILES as u32 * MMA_M };
        Self {
            args,
            score_mod: K::ScoreMod::of_head(&args.problem, work, tile.sequence),
            warp_row,
            position: keys.position.wrapping_add(warp_row),
            lengths: [tile.length, keys.rows.length],
            lane,
        }
    }

    /// Whether any of the warp's queries attends to any of the 16 keys from `key` on.
    #[inline(always)]
    pub(super) fn attends(&self, key: u32) -> bool {
        let positions = (self.position, const { M_TILES as u32 * MMA_M });
        bounds::attend::<K>(&self.args.problem, positions, (key, MMA_K), self.lengths[1])
    }

    /// Where the scores of the keys from `key` on are.
    #[inline(always)]
    fn place(&self, key: u32) -> Place {
        let [length, kv_length] = self.lengths;
        Place { first_row: self.position, first_key: key, length, kv_length }
    }

    /// Changes scores, given what was fetched for them, and masks them. Returns the capped ones.
    ///
    /// # Safety
    /// Warp together.
    #[inline(always)]
    unsafe fn modify(
        &self,
        scores: &mut Scores<M_TILES, 2>,
        fetched: Fetched<K, M_TILES>,
        key: u32,
    ) -> Scores<M_TILES, 2> {
        let (problem, lane) = (&self.args.problem, self.lane);
        let mut capped = *scores;
        K::ScoreMod::cap(problem, &mut capped);
        // SAFETY: the caller's promise.
        unsafe { self.score_mod.apply::<K::Element, M_TILES, 2>(problem, scores, fetched, self.place(key), lane) };
        let rows = (self.position, const { M_TILES as u32 * MMA_M });
        apply_mask::<K, M_TILES, 2>(problem, scores, rows, 0, key, self.lengths[1], lane);
        capped
    }

    /// Whether it stores dBias, too.
    #[inline(always)]
    fn stores_bias(&self) -> bool {
        K::COMPUTES_D_BIAS && self.args.bias.is_of_queries()
    }

    /// Stores dS of the keys from `key` on as dBias; of `share`, if a warp has no more.
    ///
    /// # Safety
    /// No other warp has these scores.
    #[inline(always)]
    unsafe fn store_bias(&self, ds: &Scores<M_TILES, 2>, key: u32, share: Option<u32>) {
        let args = self.args;
        // Found again, since there are no registers to keep it in.
        let item = thread::block_idx_x() - args.key_blocks;
        let work = K::Sequence::only_work(&args.problem, WorkOrder::HeadByHead, item);
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for n in 2 => {
                if share.is_none_or(|share| share == n as u32) {
                    // With a bias, a query's position among the keys is its row.
                    let first = (self.position.wrapping_add(m as u32 * MMA_M), key + n as u32 * MMA_N);
                    // SAFETY: the caller's promise.
                    unsafe { store_fragment::<K::Element>(&ds[m][n], (&args.bias, work), first, self.lengths, self.lane) };
                }
            });
        });
    }
}
