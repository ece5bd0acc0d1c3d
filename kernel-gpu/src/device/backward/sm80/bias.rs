//! dBias: dS, stored by the blocks of queries, or summed over the batch entries, heads and queries that share its elements.
//!
//! A block computes a tile of it: dS of a query tile and of the keys of a step, as for dQ, of one summand after another, in registers. Sums of parts
//! go to a workspace, from which another launch takes and adds them, in order.

use super::bias_elements::{store_fragment, store_shared};
use super::kernel::Sm80Backward;
use super::queries::alone::All;
use super::queries::{Accumulators, D_O_TILE, K_TILE, Memory, O_TILE, Own, Part, Q_TILE, V_TILE, own_lse, start_rows};
use super::statistics::Statistics;
use crate::device::backward::bounds;
use crate::device::copy::start_copy;
use crate::device::kernel::Tile;
use crate::device::lane::{Lane, Scores};
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{cp_async, memory, shuffle, sync};
use crate::device::sequence::Sequence;
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;
use contract::backward::args::{BackwardArgs, BiasArgs};
use contract::config::{MMA_K, MMA_M, MMA_N, WARP_SIZE};
use contract::geometry::BlockWork;

/// The most parts of 16 keys that a warp has.
const MOST_PARTS: usize = 4;
/// Bytes of an element of a sum.
const SUM_BYTES: u32 = size_of::<f32>() as u32;
/// Bytes of a fragment of sums.
const FRAGMENT_BYTES: u64 = size_of::<FragmentC>() as u64;

/// The sums of a warp: for each part of its keys.
type Sums<const M_TILES: usize> = [Scores<M_TILES, 2>; MOST_PARTS];

/// A tile of dBias.
#[derive(Clone, Copy)]
struct TileOfBias {
    /// Its first query tile, head and batch entry.
    work: BlockWork,
    first_key: u32,
    /// The number of the part of its sum.
    part: u32,
}

impl TileOfBias {
    /// That of block `block` of those that compute dBias.
    #[inline(always)]
    fn of(bias: &BiasArgs, block: u32, step: u32) -> Self {
        let (rest, key_tile) = bias.key_tiles.divide(block);
        let (rest, query_tile) = bias.query_tiles.divide(rest);
        let (rest, head) = bias.heads.divide(rest);
        let (part, batch) = bias.batch.divide(rest);
        let work = BlockWork { batch, head, query_tile };
        Self { work, first_key: key_tile * step, part }
    }
}

/// The keys of a tile that a warp has.
struct KeysOfWarp<K>(core::marker::PhantomData<K>);

impl<K: Sm80Backward> KeysOfWarp<K> {
    /// Warps that share rows, each with other keys.
    const GROUPS: u32 = K::TILE.warps / K::TILE.teams();
    /// Parts of 16 keys of a warp.
    const PARTS: u32 = K::TILE.step / Self::GROUPS / MMA_K;
}

/// Computes block `block` of those that compute dBias, or adds the parts of tile `block`.
///
/// # Safety
/// Block together.
#[inline(always)]
pub unsafe fn gradient<K, const ROWS: u32, const STEP: u32, const M_TILES: usize>(
    args: &BackwardArgs,
    block: u32,
    lane: Lane,
) where
    K: Sm80Backward,
{
    let bias = &args.bias;
    let tile = TileOfBias::of(bias, block, STEP);
    let mut sums: Sums<M_TILES> = [[[[0.0; 4]; 2]; M_TILES]; MOST_PARTS];
    // SAFETY: all threads are here, and the branches are the launch's.
    unsafe {
        if bias.adds_parts != 0 {
            let mut part = 0;
            while part < bias.parts {
                add_part::<K, M_TILES>(&mut sums, bias, part * bias.tiles + block, lane);
                part += 1;
            }
        } else {
            let mut summand = tile.part * bias.of_part;
            let end = (summand + bias.of_part).min(bias.summands);
            while summand < end {
                add::<K, ROWS, STEP, M_TILES>(&mut sums, args, tile, summand, lane);
                summand += 1;
            }
            if bias.parts > 1 {
                leave_part::<K, M_TILES>(&mut sums, bias, block, lane);
                return;
            }
        }
        if bias.strides.row == 0 {
            store_row::<K, ROWS, STEP, M_TILES>(&sums, args, tile, lane);
        } else {
            store::<K, M_TILES>(&sums, args, tile, lane);
        }
    }
}

/// Adds a summand: dS of a query tile of a head.
///
/// # Safety
/// Block together.
#[inline(always)]
unsafe fn add<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize>(
    sums: &mut Sums<M_TILES>,
    args: &BackwardArgs,
    TileOfBias { work, first_key, .. }: TileOfBias,
    summand: u32,
    lane: Lane,
) {
    let problem = &args.problem;
    let (rest, query_tile) = args.bias.shared_query_tiles.divide(summand);
    let (batch, head) = args.bias.shared_heads.divide(rest);
    let work =
        BlockWork { batch: work.batch + batch, head: work.head + head, query_tile: work.query_tile + query_tile };
    let Some(tile) = K::Sequence::tile(problem, work, ROWS) else { return };
    let attended = bounds::Keys::of::<K>(problem, tile, ROWS, STEP);
    if first_key >= attended.end || first_key + STEP <= attended.begin {
        return;
    }
    let (copiers, memory, keys) = (K::copiers(problem.head_dim), Memory::<K, ROWS, STEP>::new(), attended.rows);
    let of_keys = problem.of_keys(work);
    let [k_tile, v_tile] = key_tiles(memory);
    let copy_keys = || {
        let (rows, begin) = ((first_key, keys.length), keys.begin);
        let of = |tensor, strides| HeadRows::new::<K::Element>(tensor, strides, of_keys, begin);
        // SAFETY: all threads are here, and nobody reads these tiles.
        unsafe {
            start_copy::<K, STEP>(k_tile, of(problem.k, &problem.k_strides), rows, &copiers, lane);
            start_copy::<K, STEP>(v_tile, of(problem.v, &problem.v_strides), rows, &copiers, lane);
        }
    };
    // SAFETY: all threads are here. The first barrier separates the readers of the summand before from the copies, the others copies from readers.
    unsafe {
        sync::block();
        start_rows(args, work, tile, memory, lane);
        if const { !K::TILE.is_paired() } {
            copy_keys();
        }
        cp_async::commit_group();
        let own_lse = own_lse::<K, ROWS>(problem, work, tile, lane);
        cp_async::wait_until_fewer_than::<1>();
        sync::block();
        let statistics = Statistics::<K, ROWS>::at(memory.statistics(0, 0));
        statistics.write(memory.own(D_O_TILE), memory.own(O_TILE), own_lse, lane);
        sync::block();
        if const { K::TILE.is_paired() } {
            copy_keys();
            cp_async::commit_group();
            cp_async::wait_until_fewer_than::<1>();
            sync::block();
        }
        let own = Own::<K, M_TILES>::new(args, work, tile, &attended, lane);
        let rows = <All<K, M_TILES> as Accumulators<K, ROWS, STEP, M_TILES>>::new(memory, &own);
        unrolled!(at most 4; for index in const { KeysOfWarp::<K>::PARTS as usize } => {
            let number = first_part::<K>(lane) + index as u32;
            let part = Part::<K, STEP> { keys: k_tile, values: v_tile, number, key: first_key + number * MMA_K };
            if own.attends(part.key) {
                let [ds, _] = rows.d_s(&own, &part);
                sums[index] = plus(&sums[index], &ds);
            }
        });
    }
}

/// The tiles of K and V: those of a stage, or where O was.
#[inline(always)]
fn key_tiles<K: Sm80Backward, const ROWS: u32, const STEP: u32>(memory: Memory<K, ROWS, STEP>) -> [Tile<K, STEP>; 2] {
    if const { K::TILE.is_paired() } {
        const { assert!(!K::TILE.is_paired() || 2 * STEP <= ROWS, "K and V fit where O was") };
        let first = memory.own(O_TILE).chunk(0, 0);
        [Tile::<K, STEP>::at(first), Tile::<K, STEP>::at(first + Tile::<K, STEP>::BYTES)]
    } else {
        [memory.staged(0, K_TILE), memory.staged(0, V_TILE)]
    }
}

/// The first part of the warp's keys.
#[inline(always)]
fn first_part<K: Sm80Backward>(lane: Lane) -> u32 {
    if const { KeysOfWarp::<K>::GROUPS == 1 } {
        0
    } else {
        lane.warp / const { K::TILE.teams() } * KeysOfWarp::<K>::PARTS
    }
}

/// The sums of scores.
#[inline(always)]
fn plus<const M_TILES: usize>(a: &Scores<M_TILES, 2>, b: &Scores<M_TILES, 2>) -> Scores<M_TILES, 2> {
    let mut sums = *a;
    unrolled!(at most 4; for m in M_TILES => {
        unrolled!(at most 2; for n in 2 => {
            unrolled!(at most 4; for i in 4 => { sums[m][n][i] += b[m][n][i] });
        });
    });
    sums
}

/// Address of the lane's fragment `index` of the part with number `number` in the workspace.
#[inline(always)]
fn place_of_part<K: Sm80Backward, const M_TILES: usize>(bias: &BiasArgs, number: u32, index: usize, lane: Lane) -> u64 {
    let fragments = number as u64 * const { KeysOfWarp::<K>::PARTS as u64 * M_TILES as u64 * 2 } + index as u64;
    bias.sums + (fragments * const { K::TILE.threads() as u64 } + lane.thread as u64) * FRAGMENT_BYTES
}

/// Calls `use_it` with each fragment of the lane's sums, and its address in the part with number `number` in the workspace.
#[inline(always)]
fn for_each_fragment<K: Sm80Backward, const M_TILES: usize>(
    sums: &mut Sums<M_TILES>,
    bias: &BiasArgs,
    number: u32,
    lane: Lane,
    use_it: impl Fn(u64, &mut FragmentC),
) {
    unrolled!(at most 4; for part in const { KeysOfWarp::<K>::PARTS as usize } => {
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for n in 2 => {
                let address = place_of_part::<K, M_TILES>(bias, number, (part * M_TILES + m) * 2 + n, lane);
                use_it(address, &mut sums[part][m][n]);
            });
        });
    });
}

/// Writes the sums of a part to the workspace.
///
/// # Safety
/// No other block has the part.
#[inline(always)]
unsafe fn leave_part<K: Sm80Backward, const M_TILES: usize>(
    sums: &mut Sums<M_TILES>,
    bias: &BiasArgs,
    number: u32,
    lane: Lane,
) {
    for_each_fragment::<K, M_TILES>(sums, bias, number, lane, |address, sum| {
        // SAFETY: the lane's place in the workspace.
        unsafe { memory::store_global_four(address, *sum) };
    });
}

/// Adds the sums of a part from the workspace.
///
/// # Safety
/// The launch before has written them.
#[inline(always)]
unsafe fn add_part<K: Sm80Backward, const M_TILES: usize>(
    sums: &mut Sums<M_TILES>,
    bias: &BiasArgs,
    number: u32,
    lane: Lane,
) {
    for_each_fragment::<K, M_TILES>(sums, bias, number, lane, |address, sum| {
        // SAFETY: the lane's place in the workspace.
        let fragment = unsafe { memory::load_global_four(address) };
        unrolled!(at most 4; for i in 4 => { sum[i] += fragment[i] });
    });
}

/// Stores a tile of dBias whose rows have elements of their own.
///
/// # Safety
/// No other block has the tile.
#[inline(always)]
unsafe fn store<K: Sm80Backward, const M_TILES: usize>(
    sums: &Sums<M_TILES>,
    args: &BackwardArgs,
    TileOfBias { work, first_key, .. }: TileOfBias,
    lane: Lane,
) {
    let warp_row = K::team(lane) * const { M_TILES as u32 * MMA_M };
    let first_row = work.query_tile * const { K::TILE.rows } + warp_row;
    let lengths = [args.problem.sequence, args.problem.kv_sequence];
    unrolled!(at most 4; for part in const { KeysOfWarp::<K>::PARTS as usize } => {
        let key = first_key + (first_part::<K>(lane) + part as u32) * MMA_K;
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for n in 2 => {
                let first = (first_row + m as u32 * MMA_M, key + n as u32 * MMA_N);
                // SAFETY: the caller's promise.
                unsafe { store_fragment::<K::Element>(&sums[part][m][n], (&args.bias, work), first, lengths, lane) };
            });
        });
    });
}

/// Adds up the rows of a tile of dBias that share elements, and stores them.
///
/// # Safety
/// Block together; no other block has the tile.
#[inline(always)]
unsafe fn store_row<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize>(
    sums: &Sums<M_TILES>,
    args: &BackwardArgs,
    TileOfBias { work, first_key, .. }: TileOfBias,
    lane: Lane,
) {
    let of_strips = Memory::<K, ROWS, STEP>::new().own(Q_TILE).chunk(0, 0);
    // SAFETY: all threads are here; the barriers separate the sums from the tiles before them, and from their readers.
    unsafe {
        sync::block();
        unrolled!(at most 4; for part in const { KeysOfWarp::<K>::PARTS as usize } => {
            unrolled!(at most 2; for n in 2 => {
                let mut of_rows = [0.0; 2];
                unrolled!(at most 4; for m in M_TILES => {
                    unrolled!(at most 2; for i in 2 => { of_rows[i] += sums[part][m][n][i] + sums[part][m][n][2 + i] });
                });
                unrolled!(at most 2; for i in 2 => {
                    of_rows[i] += shuffle::exchange::<4>(of_rows[i]);
                    of_rows[i] += shuffle::exchange::<8>(of_rows[i]);
                    of_rows[i] += shuffle::exchange::<16>(of_rows[i]);
                });
                if lane.index < WARP_SIZE / 8 {
                    let number = first_part::<K>(lane) + part as u32;
                    let column = number * MMA_K + n as u32 * MMA_N + lane.pair_column();
                    memory::store_shared_pair(of_strips + (K::team(lane) * STEP + column) * SUM_BYTES, of_rows);
                }
            });
        });
        sync::block();
        let column = lane.thread;
        if column < STEP && first_key + column < args.problem.kv_sequence {
            let mut sum = 0.0;
            let mut strip = 0;
            while strip < const { K::TILE.teams() } {
                sum += f32::from_bits(memory::load_shared_4(of_strips + (strip * STEP + column) * SUM_BYTES));
                strip += 1;
            }
            store_shared::<K::Element>(sum, &args.bias, work, first_key + column);
        }
    }
}
