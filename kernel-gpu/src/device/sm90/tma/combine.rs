//! O and LSE of strips whose keys were split among the blocks of a cluster.
//!
//! Let mᵢ, lᵢ and Oᵢ be the shift, the sum and the unnormalised output of part i, and m the largest shift. They combine to:
//!
//! ```text
//! l = Σ 2^(mᵢ − m) lᵢ     O = Σ 2^(mᵢ − m) Oᵢ / l     LSE = ln 2 · (m + log₂ l)
//! ```
//!
//! Each block writes its part to its own shared memory, in the memory of K and V; then each combines some rows of all parts.

use super::context::Context;
use super::epilogue;
use super::kernel::{ROWS, TmaKernel};
use super::memory::Memory;
use super::order::SplitKeys;
use crate::device::attention::epilogue::{log_sum_exp, normaliser};
use crate::device::attention::head_dim::{Fragments, HeadDim};
use crate::device::attention::head_rows::{HeadRows, has_chunk};
use crate::device::attention::sequence::Sequence;
use crate::device::attention::softmax::{RunningSoftmax, finite_or_zero};
use crate::device::attention::{Lane, OutputStrip, ROWS_PER_LANE};
use crate::device::ptx::element::Element;
use crate::device::ptx::{cluster, math, memory, sync};
use crate::device::unrolled;
use contract::config::{MMA_N, WARP_SIZE, WARPGROUP_WARPS};
use contract::packed::SequenceTile;
use contract::split_keys::{MOST_BLOCKS, MOST_OF_A_FULL_GPU};

/// Columns of O per 16-byte chunk.
const CHUNK_COLUMNS: u32 = 8;
/// Maximum number of parts of a strip.
const MOST_PARTS: usize = MOST_BLOCKS as usize;
/// Maximum number of parts in the smaller clusters, which most launches have.
const USUAL_PARTS: usize = MOST_OF_A_FULL_GPU as usize;
/// Threads of a warpgroup.
const WARPGROUP_THREADS: u32 = WARPGROUP_WARPS * WARP_SIZE;
/// The named barrier of those threads, after those of [turns](super::turns), which has at most four warpgroups.
const BARRIER: u32 = 5;
/// Bytes of an element of a part.
const F32_BYTES: u32 = size_of::<f32>() as u32;

/// The parts' O in shared memory: rows of f32.
struct Part<K>(core::marker::PhantomData<K>);

impl<K: TmaKernel> Part<K> {
    const COLUMNS: u32 = K::TILE.columns;
    /// 32 bytes more than a row, so that the 8 rows that a warp writes at a time lie in different banks.
    const PITCH: u32 = Self::COLUMNS * F32_BYTES + 32;
    const CHUNKS_PER_ROW: u32 = Self::COLUMNS / CHUNK_COLUMNS;
    /// Rows of a work item.
    const ROWS: u32 = K::WARPGROUPS * ROWS;
    /// Threads that compute, and then combine.
    const THREADS: u32 = K::WARPGROUPS * WARPGROUP_THREADS;
    const FITS: () =
        assert!(Self::ROWS * Self::PITCH <= K::STAGES * Memory::<K>::STAGE_BYTES, "it lies where K and V were");

    /// Address of a column of a row in the block's own shared memory.
    #[inline(always)]
    fn address(memory: Memory<K>, row: u32, column: u32) -> u32 {
        const { Self::FITS };
        memory.keys(0).address() + row * Self::PITCH + column * F32_BYTES
    }
}

/// The strip of the item that the lane's warpgroup computed.
#[inline(always)]
fn strip_of(lane: Lane) -> u32 {
    lane.warp / WARPGROUP_WARPS
}

/// Writes the unnormalised O of the warp's rows for the blocks of the cluster. Their statistics are already there.
///
/// # Safety
/// All computing warps call this together, each after its last product has completed; nothing is copied to the memory of K and V
/// any more.
#[inline(always)]
pub unsafe fn leave_part<K: TmaKernel>(output: &OutputStrip<K>, memory: Memory<K>, lane: Lane) {
    // SAFETY: all of them are here, and nothing else uses the barrier. It orders the writes after the other warps' products with K and V.
    unsafe {
        const { assert!(!K::TILE.splits_keys() || K::WARPGROUPS <= 2, "the barrier is of one or two warpgroups") };
        if K::WARPGROUPS == 1 {
            sync::some::<WARPGROUP_THREADS>(BARRIER);
        } else {
            sync::some::<{ 2 * WARPGROUP_THREADS }>(BARRIER);
        }
    }
    let strip = strip_of(lane);
    unrolled!(at most 2; for r in ROWS_PER_LANE => {
        let row = strip * ROWS + lane.row(epilogue::warp_row(lane), 0, r);
        let first = Part::<K>::address(memory, row, lane.pair_column());
        unrolled!(at most 16; for n in K::HeadDim::N_TILES => {
            let fragment = output.all()[n];
            let address = first + n as u32 * MMA_N * F32_BYTES;
            // SAFETY: two elements of the warp's own rows, 8-byte aligned.
            unsafe { memory::store_shared_pair(address, [fragment[2 * r], fragment[2 * r + 1]]) };
        });
    });
}

/// [`leave_part`], and the statistics, for a warpgroup that attended to nothing.
///
/// # Safety
/// All computing warps call this together; nothing is copied to the memory of K and V.
#[inline(always)]
pub unsafe fn leave_no_part<K: TmaKernel>(memory: Memory<K>, lane: Lane) {
    let nothing = RunningSoftmax { shift: [[f32::NEG_INFINITY; ROWS_PER_LANE]], sum: [[0.0; ROWS_PER_LANE]] };
    // SAFETY: the caller has the warps together, and no product was started.
    unsafe {
        epilogue::leave_statistics(&nothing, memory, strip_of(lane), lane);
        leave_part(&Fragments::zeros(), memory, lane);
    }
}

/// Combines and stores O and LSE of the cluster's strips; each block does its share of the rows.
///
/// # Safety
/// The computing warps call this together after [`leave_part`] or [`leave_no_part`], while all other warps of the cluster
/// call [`wait_for_others`]; rows before the end lie within the launch's O, and nothing else writes them.
#[inline(always)]
pub unsafe fn combine<K: TmaKernel>(context: &Context<'_, K>, lane: Lane) {
    // SAFETY: all threads of the cluster reach both barriers. The parts are read between them, and after the second one no
    // block accesses another's shared memory.
    unsafe {
        sync::converge_warp();
        cluster::synchronise();
        combine_rows(context, lane);
        sync::converge_warp();
        cluster::synchronise();
    }
}

/// Takes part in the barriers of [`combine`].
///
/// # Safety
/// As for [`combine`].
#[inline(always)]
pub unsafe fn wait_for_others() {
    // SAFETY: all threads of the cluster reach both barriers.
    unsafe {
        sync::converge_warp();
        cluster::synchronise();
        cluster::synchronise();
    }
}

/// The rows of [`combine`], by the computing threads.
///
/// # Safety
/// As for [`combine`], between its barriers.
#[inline(always)]
unsafe fn combine_rows<K: TmaKernel>(context: &Context<'_, K>, lane: Lane) {
    let Context { args, memory, length, .. } = *context;
    let work = SplitKeys::work(context);
    let tile = SequenceTile { sequence: 0, begin: 0, length, first_row: SplitKeys::first_row::<K>(work) };
    let rows = HeadRows::new::<K::Element>(args.o, &args.o_strides, work, 0);
    let lse = args.lse + K::Sequence::lse_row(args, work, tile) * u64::from(F32_BYTES);
    let (rank, blocks) = (cluster::rank(), cluster::blocks());
    let (chunk, first) = (lane.thread % Part::<K>::CHUNKS_PER_ROW, lane.thread / Part::<K>::CHUNKS_PER_ROW);
    let mut row = rank + first * blocks;
    while row < Part::<K>::ROWS && tile.first_row + row < length {
        // SAFETY: between the barriers, rows of the strips before the end.
        unsafe {
            let Combined { output, shift, sum } = if blocks > USUAL_PARTS as u32 {
                Combined::of::<K, MOST_PARTS>(memory, row, chunk, blocks)
            } else {
                Combined::of::<K, USUAL_PARTS>(memory, row, chunk, blocks)
            };
            if has_chunk(args, chunk) {
                let scale = normaliser(sum);
                let pack = |a: f32, b: f32| K::Element::pack(a * scale, b * scale);
                let [[a, b, c, d], [e, f, g, h]] = output;
                let packed = [pack(a, b), pack(c, d), pack(e, f), pack(g, h)];
                memory::store_global_16(rows.chunk(tile.first_row + row, chunk), packed);
            }
            if chunk == 0 && args.lse != 0 {
                let element = lse + u64::from(tile.first_row + row) * u64::from(F32_BYTES);
                memory::store_global_f32(element, log_sum_exp(shift, sum));
            }
        }
        row += blocks * (Part::<K>::THREADS / Part::<K>::CHUNKS_PER_ROW);
    }
}

/// The parts of a row combined, for the columns of a chunk.
struct Combined {
    /// O, unnormalised.
    output: [[f32; 4]; 2],
    shift: f32,
    sum: f32,
}

impl Combined {
    /// Combines row `row` of the parts of `blocks` blocks, at most `PARTS`.
    ///
    /// All loads are issued at once: the latency of other blocks' memory dominates.
    ///
    /// # Safety
    /// All these blocks have written their parts, and do not exit before this has returned.
    #[inline(always)]
    unsafe fn of<K: TmaKernel, const PARTS: usize>(memory: Memory<K>, row: u32, chunk: u32, blocks: u32) -> Self {
        let statistics = memory.statistics(0, row);
        let address = Part::<K>::address(memory, row, chunk * CHUNK_COLUMNS);
        let (mut shifts, mut sums) = ([f32::NEG_INFINITY; PARTS], [0.0; PARTS]);
        let mut parts = [[[0.0; 4]; 2]; PARTS];
        // SAFETY: addresses of statistics, and of two times four columns, which every block has written.
        unsafe {
            unrolled!(at most 8; for rank in PARTS => {
                let of = rank as u32;
                if of < blocks {
                    [shifts[rank], sums[rank]] = cluster::load_pair(cluster::address_in_block(statistics, of));
                    let columns = cluster::address_in_block(address, of);
                    parts[rank] = [cluster::load_four(columns), cluster::load_four(columns + 4 * F32_BYTES)];
                }
            });
        }
        let mut shift = f32::NEG_INFINITY;
        unrolled!(at most 8; for rank in PARTS => { shift = math::max(shift, shifts[rank]) });
        let mut combined = Self { output: [[0.0; 4]; 2], shift, sum: 0.0 };
        unrolled!(at most 8; for rank in PARTS => {
            // The shift is −∞ for a part that does not exist or attended to nothing; the largest shift may be −∞, too.
            let factor = math::exp2(shifts[rank] - finite_or_zero(shift));
            combined.sum = math::fma(factor, sums[rank], combined.sum);
            unrolled!(at most 4; for i in 4 => {
                combined.output[0][i] = math::fma(factor, parts[rank][0][i], combined.output[0][i]);
                combined.output[1][i] = math::fma(factor, parts[rank][1][i], combined.output[1][i]);
            });
        });
        combined
    }
}
