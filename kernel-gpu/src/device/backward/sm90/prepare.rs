//! The launch that prepares the workspace: the statistics of all query rows, and counts of 0. A block has a tile of 64 queries. If a window leaves
//! it without a key, the block stores its dQ.

use super::kernel::{STEP, Sm90Backward};
use super::memory::STATISTIC_BYTES;
use super::output::head_rows;
use super::sums::Sum;
use crate::device::backward::bounds;
use crate::device::backward::rows::{base_2_lse, products};
use crate::device::codegen::thread;
use crate::device::lane::Lane;
use crate::device::mask::Mask;
use crate::device::ptx::{memory, shuffle};
use crate::device::sequence::Sequence;
use crate::device::tile::head_rows::has_chunk;
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use contract::backward::args::BackwardArgs;
use contract::geometry::BlockWork;
use contract::packed::SequenceTile;

/// Threads of a row.
const SHARING: u32 = 8;

/// Computes −LSE in base 2 and Δ of the block's tile.
///
/// # Safety
/// Block together; the workspace is as large as the launch's plan says.
#[inline(always)]
pub unsafe fn statistics<K: Sm90Backward>(args: &BackwardArgs, lane: Lane) {
    const { assert!(!K::SUMS_IN_WORKSPACE || K::TILE.threads() == STEP * SHARING, "some threads for each row") };
    let (problem, sums) = (&args.problem, &args.workspace);
    let tile = thread::block_idx_x();
    let (of_batch, query_tile) = problem.query_tiles.divide(tile);
    let (batch, head) = problem.heads.divide(of_batch);
    let (row, first_chunk) = (lane.thread / SHARING, lane.thread % SHARING);
    let work = BlockWork { batch, head, query_tile };
    let Some(of_tile) = K::Sequence::tile(problem, work, STEP) else { return };
    let at = of_tile.first_row + row;
    let o = head_rows::<K>(problem.o, &problem.o_strides, work, of_tile);
    let d_o = head_rows::<K>(args.d_o, &args.d_o_strides, work, of_tile);
    let (mut sum, mut chunk) = (0.0, first_chunk);
    // SAFETY: chunks of rows of both tensors; the tile's own statistics and count, and the launch's number, each written by one thread.
    unsafe {
        while at < of_tile.length && has_chunk(problem.head_dim, chunk) {
            let (a, b) = (memory::load_global_16(o.chunk(at, chunk)), memory::load_global_16(d_o.chunk(at, chunk)));
            let [even, odd] = products::<K::Element>([0.0; 2], a, b);
            sum += even + odd;
            chunk += SHARING;
        }
        sum += shuffle::exchange::<1>(sum);
        sum += shuffle::exchange::<2>(sum);
        sum += shuffle::exchange::<4>(sum);
        if K::Mask::HAS_BEGIN {
            clear_unless_attending::<K>(args, (work, of_tile), (at, first_chunk));
        }
        if first_chunk == 0 {
            let lse = problem.lse + K::Sequence::lse_row(problem, work, of_tile) * size_of::<f32>() as u64;
            let to = sums.statistics + tile as u64 * const { K::TILE.statistics_bytes() as u64 };
            let minus_lse = to + (row * STATISTIC_BYTES) as u64;
            memory::store_global_f32(minus_lse, -base_2_lse(lse, at, of_tile.length));
            memory::store_global_f32(minus_lse + const { (STEP * STATISTIC_BYTES) as u64 }, sum);
        }
        if lane.thread == 0 {
            unrolled!(at most 4; for panel in const { Rows::<K>::PANELS as usize } => {
                memory::store_global_4(Sum::<K>::of_tile(args, tile).count(panel as u32), 0);
            });
            if tile == 0 {
                memory::store_global_4(sums.counts, 0);
            }
        }
    }
}

/// Stores dQ of row `at` of a tile whose queries attend to no key: no item does.
///
/// # Safety
/// The threads of the row, each with its first chunk.
#[inline(always)]
unsafe fn clear_unless_attending<K: Sm90Backward>(
    args: &BackwardArgs,
    (work, tile): (BlockWork, SequenceTile),
    (at, first_chunk): (u32, u32),
) {
    let keys = bounds::Keys::of::<K>(&args.problem, tile, STEP, 1);
    if keys.begin < keys.end {
        return;
    }
    let dq = head_rows::<K>(args.dq, &args.dq_strides, work, tile);
    let mut chunk = first_chunk;
    while at < tile.length && has_chunk(args.problem.head_dim, chunk) {
        // SAFETY: a chunk of the row.
        unsafe { memory::store_global_16(dq.chunk(at, chunk), [0; 4]) };
        chunk += SHARING;
    }
}
