//! Tiles of the sm_90a kernels that load with `cp.async`.

use super::block::{Block, accumulator_registers, check_copies, check_sequence, minimum, threads, tile_bytes};
use super::{Epilogue, RESCALE_ON_OVERFLOW, Rejection};
use crate::architecture::{ArchitectureLimits, REGISTERS_PER_THREAD};
use crate::config::{HEAD_DIM, MMA_K, MMA_N, Sequence, WARPGROUP_ROWS, WARPGROUP_WARPS};

/// Tile configuration of kernels that load with `cp.async` and compute with `wgmma`. They go through K and V once and read Q
/// from shared memory; the grid has one block per work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(deny_unknown_fields))]
pub struct Sm90CpAsync {
    /// Warpgroups of a block; each owns 64 query rows.
    pub warpgroups: u32,
    /// Keys per step of the K/V loop.
    pub block_n: u32,
    /// Number of K/V stages in shared memory (copies run `stages - 1` steps ahead).
    pub stages: u32,
    /// Blocks that must fit on a multiprocessor (`.minnctapersm`); bounds the registers of a thread.
    pub min_blocks: u32,
    /// Binary logarithm of how large the sum of a row's probabilities in one lane and step may grow under a stale shift before O
    /// and the row sums are rescaled. 0: the shift is the row max in every step. [`RESCALE_ON_OVERFLOW`]: as rarely as fp16
    /// allows.
    pub rescale_threshold: u32,
    /// How O is stored.
    pub epilogue: Epilogue,
}

impl Sm90CpAsync {
    /// A tile with the defaults for everything else.
    pub const fn new(warpgroups: u32, block_n: u32, stages: u32) -> Self {
        Self {
            warpgroups,
            block_n,
            stages,
            min_blocks: 1,
            rescale_threshold: RESCALE_ON_OVERFLOW,
            epilogue: Epilogue::SharedMemory,
        }
    }

    /// Query rows of one work item.
    pub const fn block_m(self) -> u32 {
        self.warpgroups.saturating_mul(WARPGROUP_ROWS)
    }

    /// Columns of the tiles.
    pub const fn columns(self) -> u32 {
        HEAD_DIM
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        threads(self.warpgroups.saturating_mul(WARPGROUP_WARPS))
    }

    /// 8-key `mma` tiles of one K/V step.
    pub const fn n_tiles(self) -> usize {
        (self.block_n / MMA_N) as usize
    }

    /// 16-key steps of one K/V step.
    pub const fn k_steps(self) -> usize {
        (self.block_n / MMA_K) as usize
    }

    /// Dynamic shared memory of a block, bytes: its tiles.
    pub const fn shared_bytes(self) -> u32 {
        tile_bytes(HEAD_DIM, self.block_m(), self.stages, self.block_n)
    }

    /// Registers of one thread for the accumulators of scores and output, and for the fragments of P; a lower bound.
    pub const fn accumulator_registers(self) -> u32 {
        accumulator_registers(HEAD_DIM, self.block_n / MMA_K, 1, self.block_n / MMA_N)
    }

    /// Checks everything that does not depend on the sequence.
    #[inline]
    pub const fn check_tile(self, limits: ArchitectureLimits) -> Result<(), Rejection> {
        if let Err(rejection) = self.block().check_threads(limits) {
            return Err(rejection);
        }
        if self.rescale_threshold > RESCALE_ON_OVERFLOW {
            return Err(Rejection::RescaleThreshold);
        }
        if !matches!(self.block_n, 64 | 128) {
            return Err(Rejection::WarpgroupKeysPerStep);
        }
        if self.stages < 2 {
            return Err(Rejection::Stages);
        }
        if let Err(rejection) = check_copies(HEAD_DIM, self.threads(), &[self.block_m(), self.block_n]) {
            return Err(rejection);
        }
        if self.accumulator_registers() > minimum(self.block().launch_registers(), REGISTERS_PER_THREAD) {
            return Err(Rejection::Registers);
        }
        self.block().check_shared_memory(limits)
    }

    /// Checks the configuration of a kernel for `sequence` on an architecture.
    #[inline]
    pub const fn check(self, sequence: Sequence, limits: ArchitectureLimits) -> Result<(), Rejection> {
        match self.check_tile(limits) {
            Ok(()) => check_sequence(sequence, self.block_m(), self.block_n),
            rejected => rejected,
        }
    }

    pub(super) const fn block(self) -> Block {
        Block { threads: self.threads(), shared_bytes: self.shared_bytes(), min_blocks: self.min_blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::MOST_GENEROUS;

    const GOOD: Sm90CpAsync = Sm90CpAsync { min_blocks: 2, ..Sm90CpAsync::new(1, 64, 2) };

    #[test]
    fn each_gate_names_its_reason() {
        let cases = [
            (GOOD, Ok(())),
            (Sm90CpAsync::new(2, 128, 2), Ok(())),
            (Sm90CpAsync { rescale_threshold: 8, epilogue: Epilogue::Exchange, ..GOOD }, Ok(())),
            (Sm90CpAsync { warpgroups: 0, ..GOOD }, Err(Rejection::Threads)),
            (Sm90CpAsync { warpgroups: 9, min_blocks: 1, ..GOOD }, Err(Rejection::Threads)),
            (Sm90CpAsync { min_blocks: 0, ..GOOD }, Err(Rejection::Threads)),
            (Sm90CpAsync { rescale_threshold: 15, ..GOOD }, Err(Rejection::RescaleThreshold)),
            (Sm90CpAsync { block_n: 32, ..GOOD }, Err(Rejection::WarpgroupKeysPerStep)),
            (Sm90CpAsync { stages: 1, ..GOOD }, Err(Rejection::Stages)),
            (Sm90CpAsync { warpgroups: 3, ..GOOD }, Err(Rejection::CopyChunks)),
            (Sm90CpAsync { block_n: 128, min_blocks: 5, ..GOOD }, Err(Rejection::Registers)),
            (Sm90CpAsync { stages: 7, ..GOOD }, Err(Rejection::SharedMemory)),
            (Sm90CpAsync { stages: u32::MAX, ..GOOD }, Err(Rejection::SharedMemory)),
            (Sm90CpAsync { warpgroups: u32::MAX, ..GOOD }, Err(Rejection::Threads)),
            (Sm90CpAsync { min_blocks: u32::MAX, ..GOOD }, Err(Rejection::Threads)),
        ];
        for (tile, expected) in cases {
            assert_eq!(tile.check(Sequence::Exact(512), MOST_GENEROUS), expected, "{tile:?}");
        }
        let rejected = GOOD.check(Sequence::Exact(500), MOST_GENEROUS);
        assert_eq!(rejected, Err(Rejection::SequenceDivisibility));
    }
}
