//! Tiles of the sm_80 family.

use super::block::{
    Block, accumulator_registers, check_columns, check_copies, check_sequence, minimum, row_bytes, threads, tile_bytes,
};
use super::{Epilogue, Keys, Rejection, Rescale};
use crate::schedule::architecture::{ArchitectureLimits, REGISTERS_PER_THREAD};
use crate::schedule::parts::{COMBINED_COLUMNS, strip_bytes};
use crate::spec::config::{HEAD_DIM, MMA_K, MMA_M, MMA_N, Sequence};

/// Scores of a lane for 16 rows and 16 keys.
const SCORES: u32 = 8;
/// Minimum warps of a block that leaves parts: one for each [`COMBINED_COLUMNS`] of the widest tile.
const FEWEST_WARPS_OF_PARTS: u32 = 4;
/// Maximum columns of O of one of its warps, over all strips.
const MOST_COLUMNS_OF_PARTS: u32 = 128;
/// Maximum columns of Q that a warp keeps in registers.
const MOST_COLUMNS_OF_QUERIES: u32 = 128;
/// Maximum number of unrolled 16-key steps.
const LONGEST_UNROLL: u32 = 8;
/// Maximum number of strips of 16 rows by 16 keys whose scores a warp holds at once. With more, ptxas finds slower code for the main loop.
const MOST_TOGETHER: usize = 4;
/// Registers of a thread for everything but O, Q and scores.
const OTHER_REGISTERS: u32 = 72;

/// Tile configuration of the sm_80 family. Its grid has one block per work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(deny_unknown_fields))]
pub struct Sm80 {
    /// Query rows of one work item.
    pub block_m: u32,
    /// Keys per step of the K/V loop.
    pub block_n: u32,
    /// Warps of a block, in `key_groups` groups; the warps of a group own equally many query rows.
    pub warps: u32,
    /// Number of K/V stages in shared memory (copies run `stages - 1` steps ahead).
    pub stages: u32,
    /// Blocks that must fit on a multiprocessor (`.minnctapersm`); bounds the registers of a thread.
    pub min_blocks: u32,
    /// Number of 16-key steps of a K/V block that are unrolled in the loop; 0: all.
    pub unroll: u32,
    /// When O and the row sums are rescaled.
    pub rescale: Rescale,
    /// How O is stored.
    pub epilogue: Epilogue,
    /// Columns of the tiles of Q, K, V and O, at least D.
    #[cfg_attr(feature = "manifest", serde(default = "super::block::usual_columns"))]
    pub columns: u32,
    /// Number of warp groups, each of which has all query rows and a share of the keys of a step.
    #[cfg_attr(feature = "manifest", serde(default = "super::block::one_group"))]
    pub key_groups: u32,
    /// Whether the keys of an item may be split among blocks.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub keys: Keys,
}

impl Sm80 {
    /// A tile with the defaults for everything else.
    pub const fn new(block_m: u32, block_n: u32, warps: u32, stages: u32) -> Self {
        Self {
            block_m,
            block_n,
            warps,
            stages,
            min_blocks: 1,
            unroll: 0,
            rescale: Rescale::OnOverflow,
            epilogue: Epilogue::SharedMemory,
            columns: HEAD_DIM,
            key_groups: 1,
            keys: Keys::Whole,
        }
    }

    /// Columns of the tiles.
    pub const fn columns(self) -> u32 {
        self.columns
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        threads(self.warps)
    }

    /// Warps of a group.
    pub const fn warps_of_group(self) -> u32 {
        self.warps / self.key_groups
    }

    /// Strips of 16 query rows of one warp.
    pub const fn m_tiles(self) -> usize {
        (self.block_m / self.warps_of_group() / MMA_M) as usize
    }

    /// 16-key steps of a warp in one K/V step.
    pub const fn k_steps(self) -> usize {
        (self.block_n / self.key_groups / MMA_K) as usize
    }

    /// Number of unrolled 16-key steps.
    pub const fn unrolled(self) -> u32 {
        if self.unroll == 0 { self.block_n / self.key_groups / MMA_K } else { self.unroll }
    }

    /// Whether fragments of Q are read from shared memory for each product, and not kept in registers.
    pub const fn reads_queries_again(self) -> bool {
        self.columns > MOST_COLUMNS_OF_QUERIES
    }

    /// Number of 16-key steps whose scores a warp holds at once while its shifts follow the row maxima. O is rescaled once for all of
    /// them. As many as there are registers for, beside O and half of the fragments of Q, which are loaded again.
    pub const fn k_steps_together(self) -> usize {
        let limit = minimum(self.block().launch_registers(), REGISTERS_PER_THREAD);
        let (strips, output) = (self.m_tiles() as u32, self.columns / 2);
        let mut together = MOST_TOGETHER / minimum(strips, MOST_TOGETHER as u32) as usize;
        while together > 1
            && (self.k_steps() % together != 0
                || strips * (output + self.columns / 8 + together as u32 * SCORES) + OTHER_REGISTERS > limit)
        {
            together -= 1;
        }
        together
    }

    /// Dynamic shared memory of a block, bytes: its tiles.
    pub const fn shared_bytes(self) -> u32 {
        tile_bytes(self.columns, self.block_m, self.stages, self.block_n)
    }

    /// Bytes with which all groups but the first pass on O, and shift and sum of both rows of a lane, in the memory of K and V.
    pub const fn exchanged_bytes(self) -> u32 {
        (self.key_groups - 1)
            .saturating_mul(self.block_m)
            .saturating_mul((self.columns + MMA_N) * size_of::<f32>() as u32)
    }

    /// Registers of one thread for the accumulators of scores, row sums and output, and for the fragments of Q; a lower bound.
    pub const fn accumulator_registers(self) -> u32 {
        let strips = self.m_tiles() as u32;
        let queries = if self.reads_queries_again() { 1 } else { self.columns / MMA_K };
        accumulator_registers(self.columns, strips.saturating_mul(queries), strips, MMA_K / MMA_N + 1)
    }

    /// Whether its blocks can leave [parts](crate::schedule::parts): they have enough warps to combine them, which exchange what they have combined in
    /// shared memory, and O takes at most a fourth of a thread's registers. The kernels in which it takes more would spill; where there are
    /// few items, those of fewer rows are faster anyway.
    const fn can_leave_parts(self) -> bool {
        self.warps >= FEWEST_WARPS_OF_PARTS
            && self.m_tiles() as u32 * self.columns <= MOST_COLUMNS_OF_PARTS
            && self.warps * strip_bytes(COMBINED_COLUMNS) <= self.shared_bytes()
    }

    /// Checks everything that does not depend on the sequence.
    #[inline]
    pub const fn check_tile(self, limits: ArchitectureLimits) -> Result<(), Rejection> {
        if let Err(rejection) = self.block().check_threads(limits) {
            return Err(rejection);
        }
        if let Err(rejection) = check_columns(self.columns) {
            return Err(rejection);
        }
        if self.key_groups == 0 || self.warps % self.key_groups != 0 {
            return Err(Rejection::KeyGroups);
        }
        if self.block_m == 0 || self.block_m % (MMA_M * self.warps_of_group()) != 0 {
            return Err(Rejection::QueryRowsPerWarp);
        }
        if self.block_n == 0 || self.block_n % (MMA_K * self.key_groups) != 0 {
            return Err(Rejection::KeysPerStep);
        }
        if self.stages < 2 {
            return Err(Rejection::Stages);
        }
        if self.unrolled() > LONGEST_UNROLL || self.k_steps() as u32 % self.unrolled() != 0 {
            return Err(Rejection::Unroll);
        }
        if let Err(rejection) = check_copies(self.columns, self.threads(), &[self.block_m, self.block_n]) {
            return Err(rejection);
        }
        if self.accumulator_registers() > minimum(self.block().launch_registers(), REGISTERS_PER_THREAD) {
            return Err(Rejection::Registers);
        }
        if self.exchanged_bytes() > self.shared_bytes() - self.block_m * row_bytes(self.columns) {
            return Err(Rejection::KeyGroups);
        }
        if matches!(self.keys, Keys::InParts) && !self.can_leave_parts() {
            return Err(Rejection::Parts);
        }
        self.block().check_shared_memory(limits)
    }

    /// Checks the configuration of a kernel for `sequence` on an architecture.
    #[inline]
    pub const fn check(self, sequence: Sequence, limits: ArchitectureLimits) -> Result<(), Rejection> {
        match self.check_tile(limits) {
            Ok(()) if matches!(self.keys, Keys::InParts) && !matches!(sequence, Sequence::Any) => Err(Rejection::Parts),
            Ok(()) => check_sequence(sequence, self.block_m, self.block_n),
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
    use crate::schedule::architecture::ARCHITECTURES;

    const GOOD: Sm80 = Sm80 { min_blocks: 2, ..Sm80::new(64, 64, 4, 2) };
    const EXACT: Sequence = Sequence::Exact(512);
    const SM_80: ArchitectureLimits = ARCHITECTURES[0];
    const SM_86: ArchitectureLimits = ARCHITECTURES[1];

    #[test]
    fn a_sound_configuration_passes_every_gate() {
        let others = [
            GOOD,
            Sm80 { rescale: Rescale::EveryStep, ..GOOD },
            Sm80 { epilogue: Epilogue::Exchange, ..GOOD },
            Sm80 { unroll: 1, ..GOOD },
            Sm80 { key_groups: 2, ..GOOD },
            Sm80 { columns: 96, min_blocks: 1, ..GOOD },
            Sm80 { columns: 96, min_blocks: 1, block_m: 128, block_n: 32, stages: 3, ..GOOD },
            Sm80 { key_groups: 4, block_m: 16, ..GOOD },
            Sm80 { warps: 8, min_blocks: 1, key_groups: 8, block_m: 16, block_n: 128, ..GOOD },
        ];
        for (tile, limits) in others.into_iter().flat_map(|tile| ARCHITECTURES.map(|limits| (tile, limits))) {
            assert_eq!(tile.check(EXACT, limits), Ok(()), "{tile:?} on sm_{}", limits.architecture);
        }
    }

    #[test]
    fn each_gate_names_its_reason() {
        let cases = [
            (Sm80 { warps: 0, ..GOOD }, Rejection::Threads),
            (Sm80 { warps: 33, ..GOOD }, Rejection::Threads),
            (Sm80 { min_blocks: 0, ..GOOD }, Rejection::Threads),
            (Sm80 { min_blocks: 17, ..GOOD }, Rejection::Threads),
            (Sm80 { block_m: 0, ..GOOD }, Rejection::QueryRowsPerWarp),
            (Sm80 { block_m: 72, ..GOOD }, Rejection::QueryRowsPerWarp),
            (Sm80 { block_n: 0, ..GOOD }, Rejection::KeysPerStep),
            (Sm80 { block_n: 24, ..GOOD }, Rejection::KeysPerStep),
            (Sm80 { stages: 1, ..GOOD }, Rejection::Stages),
            (Sm80 { columns: 80, ..GOOD }, Rejection::Columns),
            (Sm80 { block_m: 128, warps: 8, block_n: 48, ..GOOD }, Rejection::CopyChunks),
            (Sm80 { columns: 96, block_n: 48, ..GOOD }, Rejection::CopyChunks),
            (Sm80 { block_m: 256, warps: 2, ..GOOD }, Rejection::Registers),
            (Sm80 { block_m: 128, min_blocks: 5, ..GOOD }, Rejection::Registers),
            (Sm80 { key_groups: 0, ..GOOD }, Rejection::KeyGroups),
            (Sm80 { key_groups: 3, ..GOOD }, Rejection::KeyGroups),
            (Sm80 { key_groups: 4, warps: 16, min_blocks: 1, ..GOOD }, Rejection::KeyGroups),
            (Sm80 { key_groups: 4, block_m: 16, block_n: 32, ..GOOD }, Rejection::KeysPerStep),
            (Sm80 { keys: Keys::InParts, warps: 2, ..GOOD }, Rejection::Parts),
            (Sm80 { keys: Keys::InParts, columns: 128, block_m: 128, min_blocks: 1, ..GOOD }, Rejection::Parts),
            (Sm80 { keys: Keys::InParts, ..GOOD }, Rejection::Parts),
            (Sm80 { unroll: 3, ..GOOD }, Rejection::Unroll),
            (Sm80 { block_n: 256, ..GOOD }, Rejection::Unroll),
            (Sm80 { stages: 12, min_blocks: 1, ..GOOD }, Rejection::SharedMemory),
        ];
        for (tile, expected) in cases {
            assert_eq!(tile.check(EXACT, SM_80), Err(expected), "{tile:?}");
        }
        assert_eq!(GOOD.check(Sequence::Exact(500), SM_80), Err(Rejection::SequenceDivisibility));
    }

    #[test]
    fn numbers_of_any_size_are_rejected_and_not_added_up_wrongly() {
        for large in [1 << 16, 1 << 28, 1 << 31, u32::MAX - 15, u32::MAX] {
            let cases = [
                Sm80 { block_m: large, ..GOOD },
                Sm80 { block_n: large, unroll: 1, ..GOOD },
                Sm80 { warps: large, ..GOOD },
                Sm80 { stages: large, ..GOOD },
                Sm80 { min_blocks: large, ..GOOD },
                Sm80 { unroll: large, ..GOOD },
                Sm80 { key_groups: large, ..GOOD },
            ];
            for tile in cases {
                assert!(tile.check(Sequence::Any, SM_80).is_err(), "{tile:?}");
            }
        }
    }

    #[test]
    fn scores_that_are_held_at_once_divide_a_step_and_leave_registers() {
        let cases = [
            (GOOD, 4),
            (Sm80 { block_m: 128, ..GOOD }, 2),
            (Sm80 { block_m: 128, block_n: 32, ..GOOD }, 2),
            (Sm80 { block_m: 128, block_n: 32, columns: 128, min_blocks: 1, ..GOOD }, 1),
            (Sm80 { key_groups: 4, warps: 12, block_m: 48, block_n: 192, min_blocks: 1, ..GOOD }, 3),
            (Sm80 { block_n: 16, ..GOOD }, 1),
        ];
        for (tile, together) in cases {
            assert_eq!(tile.k_steps_together(), together, "{tile:?}");
        }
    }

    #[test]
    fn shared_memory_is_judged_by_architecture() {
        let tile = Sm80 { stages: 6, min_blocks: 1, ..GOOD };
        assert_eq!(tile.check(Sequence::Any, SM_80), Ok(()));
        assert_eq!(tile.check(Sequence::Any, SM_86), Err(Rejection::SharedMemory));
        assert_eq!(GOOD.shared_bytes(), (64 + 2 * 2 * 64) * 128);
    }
}
