//! Copies of tiles from global to shared memory by all threads of a block, 16 bytes per thread at a time.

use crate::device::hidden;
use crate::device::kernel::{Kernel, Tile};
use crate::device::lane::Lane;
use crate::device::ptx::cp_async;
use crate::device::sequence::Sequence;
use crate::device::tile::head_rows::{HeadRows, has_chunk};
use crate::device::unrolled;
use crate::shared_tile::{CHUNK_BYTES, Sections};
use core::marker::PhantomData;

/// The block that copies.
pub trait Copiers {
    /// Its threads.
    fn threads(&self) -> u32;

    /// D, columns of a row in global memory.
    fn head_dim(&self) -> u32;
}

/// The calling thread's part of the copies of a head's rows: a chunk per section of some rows.
#[derive(Clone, Copy)]
pub struct Copies {
    /// Address of its first chunk in the next tile.
    global: u64,
    /// Bytes from one row to the next.
    pitch: u64,
}

impl Copies {
    /// Copies `rows` from `first_row` on to tiles of `ROWS` rows.
    #[inline(always)]
    pub fn new<K: Kernel, const ROWS: u32>(rows: HeadRows, first_row: u32, lane: Lane) -> Self {
        let (row, chunk) = place::<K, ROWS>(lane);
        Self { global: rows.chunk(first_row + row, chunk), pitch: rows.pitch }
    }

    /// Starts copying the next `ROWS` rows to `tile`: rows `first_row` on, of `length`. Rows beyond the last, and columns beyond
    /// the end of a row, become zeros.
    ///
    /// With `IN_TURN`, each address is computed from the previous one. Otherwise the compiler may compute them from values that it
    /// keeps in registers.
    ///
    /// # Safety
    /// Block together; the rows belong to a tensor of the launch; `tile` is not accessed until a wait
    /// for the copies and a barrier.
    #[inline(always)]
    pub unsafe fn start<K: Kernel, const ROWS: u32, const IN_TURN: bool>(
        &mut self,
        tile: Tile<K, ROWS>,
        (first_row, length): (u32, u32),
        copiers: &impl Copiers,
        lane: Lane,
    ) {
        let rows_per_pass = copiers.threads() / Parts::<K, ROWS>::CHUNKS * Parts::<K, ROWS>::ROWS;
        // What sections of several rows add would occupy registers.
        let (lane, pitch) = match IN_TURN && Parts::<K, ROWS>::ROWS > 1 {
            true => (lane.recomputed_from_thread(), hidden::recompute_address(self.pitch)),
            false => (lane, self.pitch),
        };
        let (row, chunk) = place::<K, ROWS>(lane);
        // By value: a reference to the arguments that the closures share would force them into local memory.
        let head_dim = copiers.head_dim();
        // Columns beyond the end of a row are treated like rows beyond the last.
        let length = |chunk: u32| if has_chunk(head_dim, chunk) { length } else { 0 };
        let (mut first_row, mut shared) = (first_row + row, tile.chunk(row, chunk));
        if IN_TURN {
            (first_row, shared) = (hidden::recompute(first_row), hidden::recompute(shared));
        }
        let is_relative =
            rows_per_pass.is_power_of_two() || rows_per_pass.is_multiple_of(Tile::<K, ROWS>::SWIZZLE_ROWS);
        let mut copy_pass = |pass: u32| {
            let rows = pass * rows_per_pass;
            let shared = match is_relative {
                true => Tile::<K, ROWS>::relative_chunk(shared, rows, 0),
                false => tile.chunk(row + rows, chunk),
            };
            unrolled!(at most 4; for section in Parts::<K, ROWS>::COUNT => {
                let (below, further) = const { Parts::<K, ROWS>::SECTIONS }.distance(chunk, section as u32);
                let shared = shared + section as u32 * Parts::<K, ROWS>::BYTES;
                let global = (self.global + below as u64 * pitch)
                    .wrapping_add_signed((further * CHUNK_BYTES as i32) as i64);
                let chunk = chunk.wrapping_add_signed(further);
                // SAFETY: both chunks are 16-byte aligned by the tile's layout and the launch's checks; nothing beyond the end is
                // read.
                unsafe {
                    if K::Sequence::HAS_TAIL {
                        cp_async::copy_16_or_zeros(shared, global, first_row + rows + below < length(chunk));
                    } else {
                        cp_async::copy_16(shared, global);
                    }
                }
            });
            self.global += rows_per_pass.min(ROWS) as u64 * pitch;
            if IN_TURN {
                self.global = hidden::recompute_address(self.global);
            }
        };
        // Unrolled as far as it pays: every condition is a constant, and so is the number of remaining passes. If a tile has fewer
        // chunks than there are threads, some threads copy nothing.
        unrolled!(at most 16; for pass in 16 => {
            if pass as u32 * rows_per_pass < ROWS && (rows_per_pass <= ROWS || row < ROWS) {
                copy_pass(pass as u32);
            }
        });
        for pass in 16..ROWS.div_ceil(rows_per_pass) {
            copy_pass(pass);
        }
    }
}

/// How the block's threads divide the chunks of some rows: in whole lines of 128 bytes, if the rows may be contiguous.
struct Parts<K, const ROWS: u32>(PhantomData<K>);

// One constant each: with fields of a structure, LLVM orders the computation of addresses otherwise.
impl<K: Kernel, const ROWS: u32> Parts<K, ROWS> {
    const SECTIONS: Sections = match K::Sequence::MAY_BE_CONTIGUOUS {
        true => Tile::<K, ROWS>::LINE_SECTIONS,
        false => Tile::<K, ROWS>::ROW_SECTIONS,
    };
    const ROWS: u32 = Self::SECTIONS.rows;
    const CHUNKS: u32 = Self::SECTIONS.chunks;
    const COUNT: usize = Self::SECTIONS.count;
    const BYTES: u32 = Self::SECTIONS.bytes;
}

/// The first row and chunk of a tile that the calling thread copies.
#[inline(always)]
fn place<K: Kernel, const ROWS: u32>(lane: Lane) -> (u32, u32) {
    (lane.thread / Parts::<K, ROWS>::CHUNKS * Parts::<K, ROWS>::ROWS, lane.thread % Parts::<K, ROWS>::CHUNKS)
}

/// [`Copies::start`] of rows `[first_row, first_row + ROWS)` of `rows`.
///
/// # Safety
/// Block together, as for [`Copies::start`].
#[inline(always)]
pub unsafe fn start_copy<K: Kernel, const ROWS: u32>(
    tile: Tile<K, ROWS>,
    rows: HeadRows,
    (first_row, length): (u32, u32),
    copiers: &impl Copiers,
    lane: Lane,
) {
    let mut copies = Copies::new::<K, ROWS>(rows, first_row, lane);
    // SAFETY: as here.
    unsafe { copies.start::<K, ROWS, false>(tile, (first_row, length), copiers, lane) };
}
