//! Copies of tiles from global to shared memory by all threads of a block, 16 bytes each at a time.

use super::block::Block;
use super::head_rows::{HeadRows, has_chunk};
use super::kernel::Kernel;
use super::sequence::Sequence;
use super::{Lane, Tile};
use crate::device::ptx::cp_async;
use crate::device::unrolled;

/// Starts copying rows `[first_row, first_row + ROWS)` of `length` to `tile`, with neighbouring threads on neighbouring chunks; what is
/// beyond the last row and beyond the end of a row become zeros.
///
/// # Safety
/// All threads of the block call this together; `rows` are those of one of its tensors; `tile` is not accessed
/// until a wait for the copies and a barrier.
#[inline(always)]
pub unsafe fn start_copy<K: Kernel, const ROWS: u32>(
    tile: Tile<K, ROWS>,
    rows: HeadRows,
    (first_row, length): (u32, u32),
    block: &Block<'_, K>,
    lane: Lane,
) {
    let together = Tile::<K, ROWS>::CHUNKS_TOGETHER;
    let rows_per_pass = block.threads / together;
    let (row, chunk) = (lane.thread / together, lane.thread % together);
    // What is beyond the end of a row is like what is beyond the last row.
    let length = |section: u32| if has_chunk(block.args, section * together + chunk) { length } else { 0 };
    let (mut pass_row, mut global) = (row, rows.chunk(first_row + row, chunk));
    let mut copy_pass = || {
        let shared = tile.chunk(pass_row, chunk);
        unrolled!(at most 4; for section in Tile::<K, ROWS>::SECTIONS => {
            let offset = section as u32 * Tile::<K, ROWS>::SECTION_BYTES;
            let (shared, global) = (shared + offset, global + offset as u64);
            // SAFETY: both chunks are 16-byte aligned by the tile's layout and the launch's checks; what is beyond the end
            // is not read.
            unsafe {
                if K::Sequence::HAS_TAIL {
                    cp_async::copy_16_or_zeros(shared, global, first_row + pass_row < length(section as u32));
                } else {
                    cp_async::copy_16(shared, global);
                }
            }
        });
        pass_row += rows_per_pass;
        global += rows_per_pass as u64 * rows.pitch;
    };
    // As many passes as are worth unrolling: every condition is a constant, as is the number of passes that are left. A tile
    // with fewer chunks than there are threads leaves some of them nothing to copy.
    unrolled!(at most 16; for pass in 16 => {
        if pass as u32 * rows_per_pass < ROWS && (rows_per_pass <= ROWS || row < ROWS) {
            copy_pass();
        }
    });
    for _ in 16..ROWS.div_ceil(rows_per_pass) {
        copy_pass();
    }
}
