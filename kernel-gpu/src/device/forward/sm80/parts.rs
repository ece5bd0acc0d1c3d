//! Parts of the keys of a work item ([`contract::parts`]): which part a block attends to, what it leaves in memory, and the launch that
//! combines the parts, by the equations of [`combination`](super::combination).

use super::block::Block;
use super::kernel::Sm80Kernel;
use super::{combination, epilogue};
use crate::device::codegen::{shared, thread};
use crate::device::hidden::not_unrolled;
use crate::device::kernel::{Output, Tile};
use crate::device::lane::{Lane, ROWS_PER_LANE};
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{memory, sync};
use crate::device::softmax::Statistics;
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::config::{MMA_M, MMA_N, WARP_SIZE};
use contract::parts::{COMBINED_COLUMNS, FRAGMENT_BYTES, column_groups_of_a_block, fewest_steps, strip_bytes, strips};
use contract::split_keys::part_begin;
use core::num::NonZeroU32;

/// Fragments that a warp combines at once.
const COMBINED_TILES: usize = (COMBINED_COLUMNS / MMA_N) as usize;
/// Parts whose fragments a warp loads together, since each load takes long.
const LOADED_TOGETHER: usize = 4;

/// The steps of a part.
#[derive(Clone, Copy)]
pub struct Part {
    /// The first.
    pub begin: u32,
    /// After the last; equal to the first if the item has fewer parts.
    pub end: u32,
}

impl Part {
    /// The calling block's part of an item of `steps` steps.
    #[inline(always)]
    pub fn of_block<K: Sm80Kernel, const BLOCK_M: u32, const BLOCK_N: u32>(args: &ForwardArgs, steps: u32) -> Self {
        if !K::LEAVES_PARTS || args.part_results == 0 {
            return Self { begin: 0, end: steps };
        }
        let parts = parts_of_item::<K, BLOCK_M, BLOCK_N>(steps, thread::grid_dim_y());
        let begin = |part: u32| part_begin(steps, part.min(parts.get()), parts);
        Self { begin: begin(thread::block_idx_y()), end: begin(thread::block_idx_y() + 1) }
    }
}

/// Parts of an item of `steps` steps in a launch of up to `parts` of them.
#[inline(always)]
fn parts_of_item<K: Sm80Kernel, const BLOCK_M: u32, const BLOCK_N: u32>(steps: u32, parts: u32) -> NonZeroU32 {
    let fewest = const { fewest_steps(BLOCK_M, BLOCK_N, K::ALL_KEYS) };
    NonZeroU32::new(parts.min(steps / fewest)).unwrap_or(NonZeroU32::MIN)
}

/// Stores O and LSE of a warp's rows, or leaves them to the combining launch if they are those of a part.
///
/// # Safety
/// As for [`epilogue::store`].
#[inline(always)]
pub unsafe fn store<K: Sm80Kernel, const BLOCK_M: u32, const M_TILES: usize>(
    output: Output<K, M_TILES>,
    softmax: &Statistics<M_TILES>,
    tile: Tile<K, BLOCK_M>,
    warp_row: u32,
    block: &Block<'_, K>,
    lane: Lane,
) {
    if K::LEAVES_PARTS && block.args.part_results != 0 {
        // SAFETY: warp together, for rows that only it has in this part.
        unsafe { publish::<K, BLOCK_M, M_TILES>(&output, softmax, warp_row, block, lane) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { epilogue::store(output, softmax, tile, warp_row, block, lane) };
}

/// Address of what part `part` of `parts` leaves for the strip of 16 rows from `row` of the block's item on, for the calling lane.
#[inline(always)]
fn place<K: Sm80Kernel, const BLOCK_M: u32>(
    args: &ForwardArgs,
    (part, parts): (u32, u32),
    row: u32,
    lane: Lane,
) -> u64 {
    let number = (thread::block_idx_x() as u64 * parts as u64 + part as u64) * const { strips(BLOCK_M) as u64 };
    let strip = number + (row / MMA_M) as u64;
    args.part_results + strip * const { K::STRIP_BYTES as u64 } + (lane.index * size_of::<FragmentC>() as u32) as u64
}

/// Leaves O and the softmax state of a warp's rows.
///
/// # Safety
/// Warp together.
#[inline(always)]
unsafe fn publish<K: Sm80Kernel, const BLOCK_M: u32, const M_TILES: usize>(
    output: &Output<K, M_TILES>,
    softmax: &Statistics<M_TILES>,
    warp_row: u32,
    block: &Block<'_, K>,
    lane: Lane,
) {
    let part = (thread::block_idx_y(), thread::grid_dim_y());
    unrolled!(at most 4; for m in M_TILES => {
        let row = warp_row + m as u32 * MMA_M;
        if block.first_row() + row < block.length() {
            let place = place::<K, BLOCK_M>(block.args, part, row, lane);
            // SAFETY: the workspace has a place for every strip of every part; it is this lane's.
            unsafe { combination::store_strip::<K>(&output[m], (softmax.shift[m], softmax.sum[m]), |offset, value| {
                memory::store_global_four(place + offset as u64, value);
            }) };
        }
    });
}

/// What a warp has combined of a strip so far: its softmax state and some of its columns of O.
struct Combined {
    shift: [f32; ROWS_PER_LANE],
    sum: [f32; ROWS_PER_LANE],
    output: [FragmentC; COMBINED_TILES],
}

/// A part of a strip, as its lanes left it.
#[derive(Clone, Copy)]
struct Left {
    softmax: FragmentC,
    output: [FragmentC; COMBINED_TILES],
}

impl Left {
    /// A part in which the rows attended to nothing.
    // Not a constant: the compiler would copy it from memory.
    #[inline(always)]
    fn nothing() -> Self {
        Self { softmax: [0.0; 4], output: [[0.0; 4]; COMBINED_TILES] }
    }
}

impl Combined {
    /// Adds a part.
    #[inline(always)]
    fn add(&mut self, part: &Left) {
        let [a, b, c, d] = part.softmax;
        let weights = combination::add_softmax((&mut self.shift, &mut self.sum), ([a, b], [c, d]));
        unrolled!(at most 4; for n in COMBINED_TILES => {
            combination::add_fragment(&mut self.output[n], part.output[n], weights);
        });
    }
}

/// Combines the parts of a strip of 16 rows: the launch after the one that left them.
///
/// Each warp has [`COMBINED_COLUMNS`] of the columns; if there are many warps or parts, several warps share the parts of the same
/// columns and combine their results through shared memory.
///
/// # Safety
/// Block together. The parts of the block's item are complete.
#[inline(always)]
pub unsafe fn combine<K: Sm80Kernel, const BLOCK_M: u32, const BLOCK_N: u32>(args: &ForwardArgs) {
    let lane = Lane::current();
    let (groups, warps) = const { (K::TILE.columns / COMBINED_COLUMNS, K::TILE.warps) };
    let Some(block) = Block::<K>::current(args, BLOCK_M, warps * WARP_SIZE) else { return };
    let own_groups = column_groups_of_a_block(args.combined_parts, K::TILE.columns);
    let (strip, others) = if own_groups == groups {
        (thread::block_idx_y(), 0)
    } else {
        (thread::block_idx_y() / groups, thread::block_idx_y() % groups)
    };
    let row = strip * MMA_M;
    if block.first_row() + row >= block.length() {
        return;
    }
    let sharing =
        if own_groups == groups { const { K::TILE.warps / (K::TILE.columns / COMBINED_COLUMNS) } } else { warps };
    let (share, group) = (lane.warp / own_groups, others + lane.warp % own_groups);
    let steps = block.attended().steps(BLOCK_N);
    let parts = parts_of_item::<K, BLOCK_M, BLOCK_N>(steps, args.combined_parts).get();
    let first_tile = group * COMBINED_TILES as u32;

    let mut combined = Combined {
        shift: [f32::NEG_INFINITY; ROWS_PER_LANE],
        sum: [0.0; ROWS_PER_LANE],
        output: [[0.0; 4]; COMBINED_TILES],
    };
    let mut part = if share < sharing { share } else { parts };
    while part < not_unrolled(parts) {
        let mut left = [Left::nothing(); LOADED_TOGETHER];
        unrolled!(at most 4; for i in LOADED_TOGETHER => {
            let part = part + i as u32 * sharing;
            if part < parts {
                let place = place::<K, BLOCK_M>(args, (part, args.combined_parts), row, lane);
                // SAFETY: the part was left by an earlier launch.
                left[i] = unsafe { load(place, first_tile) };
            }
        });
        unrolled!(at most 4; for i in LOADED_TOGETHER => { combined.add(&left[i]) });
        part += LOADED_TOGETHER as u32 * sharing;
    }

    // SAFETY: all threads are here; each warp writes to its own place in shared memory, which is read after the barrier.
    unsafe {
        let place = |warp: u32| {
            shared::dynamic_shared_mem()
                + warp * const { strip_bytes(COMBINED_COLUMNS) }
                + lane.index * size_of::<FragmentC>() as u32
        };
        if share > 0 && share < sharing {
            let ([a, b], [c, d]) = (combined.shift, combined.sum);
            memory::store_shared_four(place(lane.warp), [a, b, c, d]);
            unrolled!(at most 4; for n in COMBINED_TILES => {
                memory::store_shared_four(place(lane.warp) + (n as u32 + 1) * FRAGMENT_BYTES, combined.output[n]);
            });
        }
        sync::block();
        if share > 0 {
            return;
        }
        let mut other = lane.warp + own_groups;
        while other < own_groups * not_unrolled(sharing) {
            let mut left = Left { softmax: memory::load_shared_four(place(other)), ..Left::nothing() };
            unrolled!(at most 4; for n in COMBINED_TILES => {
                left.output[n] = memory::load_shared_four(place(other) + (n as u32 + 1) * FRAGMENT_BYTES);
            });
            combined.add(&left);
            other += own_groups;
        }
        let Combined { shift, sum, output } = combined;
        epilogue::store_columns(output, first_tile, row, (shift, sum), &block, lane);
    }
}

/// Loads the fragments from `first_tile` on that a part left at `place`.
///
/// # Safety
/// The lane's own place, which was written by an earlier launch.
#[inline(always)]
unsafe fn load(place: u64, first_tile: u32) -> Left {
    let first = place + ((first_tile + 1) * FRAGMENT_BYTES) as u64;
    // SAFETY: the caller's promise.
    let mut left = unsafe { Left { softmax: memory::load_global_four(place), ..Left::nothing() } };
    unrolled!(at most 4; for n in COMBINED_TILES => {
        // SAFETY: likewise.
        left.output[n] = unsafe { memory::load_global_four(first + (n as u32 * FRAGMENT_BYTES) as u64) };
    });
    left
}
