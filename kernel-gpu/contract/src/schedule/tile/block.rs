//! Resources of a thread block, and how many blocks fit on a multiprocessor.

use super::Rejection;
use crate::schedule::architecture::{
    ArchitectureLimits, LARGEST_REGISTER_COUNT, REGISTER_ALLOCATION_UNIT, REGISTERS_PER_MULTIPROCESSOR,
    SYSTEM_SHARED_BYTES_PER_BLOCK, THREADS_PER_BLOCK,
};
use crate::spec::config::{Sequence, WARP_SIZE};

// Values may come from a file. Sums and products saturate, and are then too large for every gate.

/// Resources of a thread block.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub threads: u32,
    pub shared_bytes: u32,
    /// Minimum number of blocks that must fit on a multiprocessor.
    pub min_blocks: u32,
}

impl Block {
    /// Checks that the threads fit a block, and `min_blocks` times a multiprocessor.
    pub const fn check_threads(self, limits: ArchitectureLimits) -> Result<(), Rejection> {
        if self.threads == 0
            || self.min_blocks == 0
            || self.threads > THREADS_PER_BLOCK
            || self.threads.saturating_mul(self.min_blocks) > limits.threads_per_multiprocessor
        {
            return Err(Rejection::Threads);
        }
        Ok(())
    }

    /// Checks that the shared memory fits a block, and `min_blocks` times a multiprocessor.
    pub const fn check_shared_memory(self, limits: ArchitectureLimits) -> Result<(), Rejection> {
        if self.shared_bytes > limits.shared_bytes_per_block
            || self.resident_bytes().saturating_mul(self.min_blocks) > limits.shared_bytes_per_multiprocessor
        {
            return Err(Rejection::SharedMemory);
        }
        Ok(())
    }

    /// Registers allocated per thread at launch: an equal share among `min_blocks` blocks.
    pub const fn launch_registers(self) -> u32 {
        let registers = REGISTERS_PER_MULTIPROCESSOR / self.threads.saturating_mul(self.min_blocks);
        allocated(registers)
    }

    /// Blocks that fit on a multiprocessor if a thread uses `registers`.
    pub const fn per_multiprocessor(self, registers: u32, limits: ArchitectureLimits) -> u32 {
        let registers = registers.next_multiple_of(REGISTER_ALLOCATION_UNIT);
        let by_registers = REGISTERS_PER_MULTIPROCESSOR / (registers * self.threads);
        let by_threads = limits.threads_per_multiprocessor / self.threads;
        let by_shared = limits.shared_bytes_per_multiprocessor / self.resident_bytes();
        minimum(minimum(by_registers, by_threads), by_shared)
    }

    /// Shared memory of a resident block, including the system's share.
    const fn resident_bytes(self) -> u32 {
        self.shared_bytes.saturating_add(SYSTEM_SHARED_BYTES_PER_BLOCK)
    }
}

/// Registers that can be allocated per thread if `registers` are available.
pub(super) const fn allocated(registers: u32) -> u32 {
    minimum(registers / REGISTER_ALLOCATION_UNIT * REGISTER_ALLOCATION_UNIT, LARGEST_REGISTER_COUNT)
}

/// Default columns, for files from before there were several.
#[cfg(feature = "manifest")]
pub(super) const fn usual_columns() -> u32 {
    crate::spec::config::HEAD_DIM
}

/// Default number of key groups, for files from before there were several.
#[cfg(feature = "manifest")]
pub(super) const fn one_group() -> u32 {
    1
}

/// Bytes of a row of a tile of `columns` columns (2-byte elements).
pub(super) const fn row_bytes(columns: u32) -> u32 {
    columns.saturating_mul(2)
}

/// Bytes of the tiles of a block: `query_rows` rows of Q, then `stages` pairs of K and V, with `columns` columns.
pub(super) const fn tile_bytes(columns: u32, query_rows: u32, stages: u32, block_n: u32) -> u32 {
    let keys = stages.saturating_mul(2).saturating_mul(block_n);
    query_rows.saturating_add(keys).saturating_mul(row_bytes(columns))
}

/// Registers of one thread's accumulators: 4 for each 8-column tile of scores (`score_tiles`) and of the output (`columns`), in
/// each of `strips` strips of 16 rows, plus 4 for each of `fragments` fragments.
pub(super) const fn accumulator_registers(columns: u32, fragments: u32, strips: u32, score_tiles: u32) -> u32 {
    strips.saturating_mul(score_tiles + columns / 8).saturating_add(fragments).saturating_mul(4)
}

/// Checks that there are kernels with this many columns.
pub(super) const fn check_columns(columns: u32) -> Result<(), Rejection> {
    match columns {
        32 | 64 | 96 | 128 | 192 | 256 => Ok(()),
        _ => Err(Rejection::Columns),
    }
}

/// Checks that tiles of `columns` columns are a whole number of 16-byte copies per thread, or one copy by some of the `threads`
/// threads. The largest power of two that divides a row's number of chunks is the number of threads per row.
pub(super) const fn check_copies(columns: u32, threads: u32, rows: &[u32]) -> Result<(), Rejection> {
    let rows_per_copy = threads >> (row_bytes(columns) / 16).trailing_zeros();
    let mut index = 0;
    while index < rows.len() {
        if rows[index] > rows_per_copy && rows[index] % rows_per_copy != 0 {
            return Err(Rejection::CopyChunks);
        }
        index += 1;
    }
    Ok(())
}

/// Checks that tiles of `block_m` query rows and `block_n` keys divide an exact sequence length.
pub(super) const fn check_sequence(sequence: Sequence, block_m: u32, block_n: u32) -> Result<(), Rejection> {
    match sequence {
        Sequence::Exact(length) if length % block_m != 0 || length % block_n != 0 => {
            Err(Rejection::SequenceDivisibility)
        }
        _ => Ok(()),
    }
}

/// Threads of `warps` warps.
pub(super) const fn threads(warps: u32) -> u32 {
    warps.saturating_mul(WARP_SIZE)
}

pub(super) const fn minimum(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}
