//! O and LSE of strips whose keys were split among the blocks of a cluster.
//!
//! Let mᵢ, lᵢ and Oᵢ be the shift, the sum and the unnormalised output of part i, and m the largest shift. They combine to:
//!
//! ```text
//! l = Σ 2^(mᵢ − m) lᵢ     O = Σ 2^(mᵢ − m) Oᵢ / l     LSE = ln 2 · (m + log₂ l)
//! ```
//!
//! Each block writes its part to its own shared memory, in the memory of K and V; then each combines some rows of all parts. Sending the
//! parts takes longer, by asynchronous stores as well as by bulk copies (docs/results/ladder.md, "Later steps").

use crate::device::forward::sm90::epilogue;
use crate::device::kernel::OutputStrip;
use crate::device::lane::{Lane, ROWS_PER_LANE};
use crate::device::order::SplitKeys;
use crate::device::ptx::element::Element;
use crate::device::ptx::{cluster, math, memory, sync};
use crate::device::sequence::Sequence;
use crate::device::softmax::{Statistics, finite_or_zero, log_sum_exp, normaliser};
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::tile::head_rows::{HeadRows, has_chunk};
use crate::device::tma::context::Context;
use crate::device::tma::kernel::{ROWS, TmaKernel};
use crate::device::tma::memory::Memory;
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::config::{MMA_N, WARP_SIZE, WARPGROUP_WARPS};
use contract::packed::SequenceTile;
use contract::split_keys::{MOST_BLOCKS, MOST_OF_A_FULL_GPU};

/// Columns of O that a thread loads at once: 16 bytes of a part.
const QUAD_COLUMNS: u32 = 4;
/// Bytes of a quad's elements of O.
const QUAD_BYTES: u32 = 8;
/// Maximum number of quads of a thread in a row.
const MOST_QUADS: usize = 4;
/// Maximum number of rows that a thread combines at once.
const MOST_ROWS: usize = 2;
/// Maximum number of parts of a strip.
const MOST_PARTS: usize = MOST_BLOCKS as usize;
/// Maximum number of parts in the smaller clusters, which most launches have.
const USUAL_PARTS: usize = MOST_OF_A_FULL_GPU as usize;
/// Maximum number of parts in the smallest clusters. A cluster may be a single block.
const FEW_PARTS: usize = 2;
/// Threads of a warpgroup.
const WARPGROUP_THREADS: u32 = WARPGROUP_WARPS * WARP_SIZE;
/// The named barrier of those threads, after those of [turns](crate::device::tma::turns), which has at most four warpgroups.
const BARRIER: u32 = 5;
/// Bytes of an element of a part.
const F32_BYTES: u32 = size_of::<f32>() as u32;

/// The parts' O in shared memory: rows of f32.
struct Part<K>(core::marker::PhantomData<K>);

impl<K: TmaKernel> Part<K> {
    const COLUMNS: u32 = K::TILE.columns;
    /// 32 bytes more than a row, so that the 8 rows that a warp writes at a time lie in different banks.
    const PITCH: u32 = Self::COLUMNS * F32_BYTES + 32;
    const QUADS_PER_ROW: u32 = Self::COLUMNS / QUAD_COLUMNS;
    /// Rows of a work item.
    const ROWS: u32 = K::WARPGROUPS * ROWS;
    /// Threads that compute, and then combine.
    const THREADS: u32 = K::WARPGROUPS * WARPGROUP_THREADS;
    const FITS: () =
        assert!(Self::ROWS * Self::PITCH <= K::STAGES * Memory::<K>::STAGE_BYTES, "it lies where K and V were");

    /// Threads that combine a row of `parts` parts.
    const fn row_threads(parts: usize) -> u32 {
        let is_wide = Self::QUADS_PER_ROW > 8 * MOST_QUADS as u32;
        if is_wide || parts > USUAL_PARTS && Self::QUADS_PER_ROW.is_multiple_of(16) { 16 } else { 8 }
    }

    /// Quads of a row that each of them combines.
    const fn row_quads(parts: usize) -> usize {
        (Self::QUADS_PER_ROW / Self::row_threads(parts)) as usize
    }

    /// Rows that a thread combines at once: all of its own, where the number of blocks divides them and they are few.
    const fn rows_at_once(parts: usize) -> usize {
        let rows = Self::ROWS * Self::row_threads(parts) / Self::THREADS / parts as u32;
        match rows as usize {
            0 => 1,
            rows if rows > MOST_ROWS => MOST_ROWS,
            rows => rows,
        }
    }

    /// Distance between the first quad of a thread and quad `number`, bytes.
    const fn quad_offset(parts: usize, number: usize) -> u32 {
        number as u32 * Self::row_threads(parts) * QUAD_COLUMNS * F32_BYTES
    }

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
pub unsafe fn publish_part<K: TmaKernel>(output: &OutputStrip<K>, memory: Memory<K>, lane: Lane) {
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
        unrolled!(at most 32; for n in K::HeadDim::N_TILES => {
            let fragment = output.all()[n];
            let address = first + n as u32 * MMA_N * F32_BYTES;
            // SAFETY: two elements of the warp's own rows, 8-byte aligned.
            unsafe { memory::store_shared_pair(address, [fragment[2 * r], fragment[2 * r + 1]]) };
        });
    });
}

/// [`publish_part`], and the statistics, for a warpgroup that attended to nothing.
///
/// # Safety
/// All computing warps call this together; nothing is copied to the memory of K and V.
#[inline(always)]
pub unsafe fn publish_no_part<K: TmaKernel>(memory: Memory<K>, lane: Lane) {
    let nothing = Statistics { shift: [[f32::NEG_INFINITY; ROWS_PER_LANE]], sum: [[0.0; ROWS_PER_LANE]] };
    // SAFETY: the caller has the warps together, and no product was started.
    unsafe {
        epilogue::write_statistics(&nothing, memory, strip_of(lane), lane);
        publish_part(&Fragments::zeros(), memory, lane);
    }
}

/// Combines and stores O and LSE of the cluster's strips; each block does its share of the rows.
///
/// # Safety
/// The computing warps call this together after [`publish_part`] or [`publish_no_part`], while all other warps of the cluster
/// call [`wait_for_others`]; rows before the end lie within the launch's O, and nothing else writes them.
#[inline(always)]
pub unsafe fn combine<K: TmaKernel>(context: &Context<'_, K>, lane: Lane) {
    // SAFETY: all threads of the cluster reach both barriers. The parts are read after the first and before the arrival at the second;
    // behind that one no block accesses another's shared memory.
    unsafe {
        wait_for_parts();
        let blocks = cluster::blocks();
        if blocks <= FEW_PARTS as u32 {
            combine_rows::<K, FEW_PARTS>(context, lane);
        } else if blocks <= USUAL_PARTS as u32 {
            combine_rows::<K, USUAL_PARTS>(context, lane);
        } else {
            combine_rows::<K, MOST_PARTS>(context, lane);
        }
        cluster::wait();
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
        wait_for_parts();
        cluster::arrive();
        cluster::wait();
    }
}

/// Waits until every block of the cluster has left its part: the first barrier of [`combine`].
///
/// # Safety
/// All threads of the cluster call this together.
#[inline(always)]
unsafe fn wait_for_parts() {
    // SAFETY: the caller has all of them.
    unsafe {
        sync::converge_warp();
        cluster::arrive();
        cluster::wait();
    }
}

/// The rows of [`combine`], of at most `PARTS` parts, and the arrival at its second barrier: block r mod n of n blocks combines row r.
///
/// All parts of a thread's elements are loaded at once, since the latency of other blocks' memory dominates. The arrival follows the
/// last load: behind the stores it would wait for them, too.
///
/// # Safety
/// As for [`combine`], after its first barrier.
#[inline(always)]
unsafe fn combine_rows<K: TmaKernel, const PARTS: usize>(context: &Context<'_, K>, lane: Lane) {
    let Context { args, memory, length, .. } = *context;
    let work = SplitKeys::work(context);
    let tile = SequenceTile { sequence: 0, begin: 0, length, first_row: SplitKeys::first_row::<K>(work) };
    let rows = HeadRows::new::<K::Element>(args.o, &args.o_strides, work, 0);
    let lse = args.lse + K::Sequence::lse_row(args, work, tile) * u64::from(F32_BYTES);
    let (rank, blocks) = (cluster::rank(), cluster::blocks());
    let (number, quad) = (lane.thread / Part::<K>::row_threads(PARTS), lane.thread % Part::<K>::row_threads(PARTS));
    let pitch = const { Part::<K>::THREADS / Part::<K>::row_threads(PARTS) } * blocks;
    let row_of = |begin: u32, i: usize| begin + rank + number * blocks + i as u32 * pitch;
    let end = Part::<K>::ROWS.min(length - tile.first_row);
    let mut begin = 0;
    loop {
        let mut loaded = [Parts::<PARTS>::none(); MOST_ROWS];
        unrolled!(at most 2; for i in const { Part::<K>::rows_at_once(PARTS) } => {
            let row = row_of(begin, i);
            if row < end {
                // SAFETY: between the barriers, a row of the strips.
                loaded[i] = unsafe { Parts::load::<K>(memory, row, quad, blocks) };
            }
        });
        let next = begin + const { Part::<K>::rows_at_once(PARTS) as u32 } * pitch;
        let is_last = next >= Part::<K>::ROWS;
        if is_last {
            // SAFETY: the condition is uniform over the block, and these were the last loads.
            unsafe {
                sync::converge_warp();
                cluster::arrive();
            }
        }
        unrolled!(at most 2; for i in const { Part::<K>::rows_at_once(PARTS) } => {
            let row = row_of(begin, i);
            if row < end {
                let row = tile.first_row + row;
                // SAFETY: a row before the end.
                unsafe {
                    let (shift, sum) = loaded[i].store::<K>(args, rows, row, quad);
                    if quad == 0 && args.lse != 0 {
                        memory::store_global_f32(lse + u64::from(row) * u64::from(F32_BYTES), log_sum_exp(shift, sum));
                    }
                }
            }
        });
        if is_last {
            return;
        }
        begin = next;
    }
}

/// The parts of a thread's columns of a row: every [`Part::row_threads`]th quad.
#[derive(Clone, Copy)]
struct Parts<const PARTS: usize> {
    shifts: [f32; PARTS],
    sums: [f32; PARTS],
    quads: [[[f32; 4]; PARTS]; MOST_QUADS],
}

impl<const PARTS: usize> Parts<PARTS> {
    #[inline(always)]
    fn none() -> Self {
        Self { shifts: [f32::NEG_INFINITY; PARTS], sums: [0.0; PARTS], quads: [[[0.0; 4]; PARTS]; MOST_QUADS] }
    }

    /// Loads a thread's quads of row `row`, from `quad` on, of all parts: the block's own first, so that not all load from the same one.
    ///
    /// # Safety
    /// All `blocks` blocks, at most `PARTS`, have written their parts, and do not exit before this has returned.
    #[inline(always)]
    unsafe fn load<K: TmaKernel>(memory: Memory<K>, row: u32, quad: u32, blocks: u32) -> Self {
        let statistics = memory.statistics(0, row);
        let address = Part::<K>::address(memory, row, quad * QUAD_COLUMNS);
        let mut parts = Self::none();
        let mut of = cluster::rank();
        // SAFETY: addresses of statistics, and of four columns each, which every block has written.
        unsafe {
            [parts.shifts[0], parts.sums[0]] = memory::load_shared_pair(statistics);
            unrolled!(at most 4; for q in const { Part::<K>::row_quads(PARTS) } => {
                parts.quads[q][0] = memory::load_shared_four(address + Part::<K>::quad_offset(PARTS, q));
            });
            unrolled!(at most 8; for later in const { PARTS - 1 } => {
                let i = later + 1;
                if (i as u32) < blocks {
                    of = if of + 1 == blocks { 0 } else { of + 1 };
                    [parts.shifts[i], parts.sums[i]] = cluster::load_pair(cluster::address_in_block(statistics, of));
                    let address = cluster::address_in_block(address, of);
                    unrolled!(at most 4; for q in const { Part::<K>::row_quads(PARTS) } => {
                        parts.quads[q][i] = cluster::load_four(address + Part::<K>::quad_offset(PARTS, q));
                    });
                }
            });
        }
        parts
    }

    /// Combines the parts, and stores O of row `row`. Returns the row's shift and sum.
    ///
    /// # Safety
    /// Only the thread writes these elements of O, which exist.
    #[inline(always)]
    unsafe fn store<K: TmaKernel>(&self, args: &ForwardArgs, rows: HeadRows, row: u32, quad: u32) -> (f32, f32) {
        let mut shift = f32::NEG_INFINITY;
        unrolled!(at most 8; for i in PARTS => { shift = math::max(shift, self.shifts[i]) });
        let (mut factors, mut sum) = ([0.0; PARTS], 0.0);
        unrolled!(at most 8; for i in PARTS => {
            // The shift is −∞ for a part that does not exist or attended to nothing; the largest shift may be −∞, too.
            factors[i] = math::exp2(self.shifts[i] - finite_or_zero(shift));
            sum = math::fma(factors[i], self.sums[i], sum);
        });
        let scale = normaliser(sum);
        unrolled!(at most 8; for i in PARTS => { factors[i] *= scale });
        let first = rows.chunk(row, quad / 2) + u64::from(quad % 2 * QUAD_BYTES);
        unrolled!(at most 4; for q in const { Part::<K>::row_quads(PARTS) } => {
            let mut output = [0.0; 4];
            unrolled!(at most 8; for i in PARTS => {
                unrolled!(at most 4; for c in 4 => {
                    output[c] = math::fma(factors[i], self.quads[q][i][c], output[c]);
                });
            });
            let number = const { q as u32 * Part::<K>::row_threads(PARTS) };
            if has_chunk(args.head_dim, (quad + number) / 2) {
                let [a, b, c, d] = output;
                // SAFETY: four elements of the row.
                unsafe {
                    memory::store_global_8(
                        first + u64::from(number * QUAD_BYTES),
                        [K::Element::pack(a, b), K::Element::pack(c, d)],
                    )
                };
            }
        });
        (shift, sum)
    }
}
