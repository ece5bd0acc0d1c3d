//! Tile configurations and the gates that decide, before anything is compiled, whether one can work.

use core::fmt;

use crate::args::TENSOR_MAP_ROWS;

/// Columns of Q, K, V and O.
pub const HEAD_DIM: u32 = 64;
/// Bytes of one fp16 row of [`HEAD_DIM`] elements.
pub const ROW_BYTES: u32 = HEAD_DIM * 2;
/// Lanes of a warp.
pub const WARP_SIZE: u32 = 32;
/// Rows of an `mma.m16n8k16` tile.
pub const MMA_M: u32 = 16;
/// Columns of an `mma.m16n8k16` tile.
pub const MMA_N: u32 = 8;
/// Depth of an `mma.m16n8k16` tile.
pub const MMA_K: u32 = 16;
/// Warps of a warpgroup, which executes `wgmma` together.
pub const WARPGROUP_WARPS: u32 = 4;
/// Rows of a `wgmma.m64nNk16` tile: 16 for each warp.
pub const WARPGROUP_ROWS: u32 = WARPGROUP_WARPS * MMA_M;

/// A kernel family: the instructions it is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Family {
    /// `cp.async`, `ldmatrix`, `mma.sync`: compute capability 8.0 and every later GPU.
    Sm80,
    /// `cp.async`, `wgmma`: compute capability 9.0 alone, since no other GPU has these instructions.
    Sm90a,
}

impl Family {
    /// Whether the family runs on `architecture`, as in 80 for `sm_80`.
    pub const fn runs_on(self, architecture: u32) -> bool {
        match self {
            Family::Sm80 => architecture >= 80,
            Family::Sm90a => architecture == 90,
        }
    }

    /// The architectures the family runs on, for people.
    pub const fn requirement(self) -> &'static str {
        match self {
            Family::Sm80 => "sm_80 or later",
            Family::Sm90a => "sm_90, as H100, H200 and GH200 have it",
        }
    }
}

/// Which keys a query may attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Mask {
    /// Every key.
    Full,
    /// Keys at or before the query's own position (top-left aligned).
    Causal,
}

impl Mask {
    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Mask::Full => "full",
            Mask::Causal => "causal",
        }
    }
}

/// Which sequence lengths an entry accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Sequence {
    /// Exactly this length, a compile-time constant in the kernel.
    Exact(u32),
    /// Any length from 1 up, with masked tails.
    Any,
}

impl Sequence {
    /// Whether an entry for `self` accepts sequences of `length`.
    pub const fn accepts(self, length: u32) -> bool {
        match self {
            Sequence::Exact(exact) => exact == length,
            Sequence::Any => length >= 1,
        }
    }
}

/// How Q, K and V get to shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Loads {
    /// `cp.async`: every thread copies its 16-byte chunks.
    #[default]
    CpAsync,
    /// `cp.async.bulk.tensor`: one thread of a producer warpgroup, which computes nothing, starts copies of whole tiles
    /// through tensor maps; O leaves in the same way.
    Tma,
}

/// How work items are spread over thread blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Grid {
    /// A block for each.
    #[default]
    OneShot,
    /// As many blocks as fit on the device at once; each computes one after the other.
    Persistent,
}

/// Where the product with K reads Q.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Queries {
    /// From registers, in which its fragments stay.
    #[default]
    Registers,
    /// From shared memory, in every step anew; `wgmma` always does.
    Shared,
}

/// How O gets from the accumulators to global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Epilogue {
    /// Through shared memory, where its rows become whole: then by 16-byte stores, with [`Loads::Tma`] by bulk copies.
    #[default]
    SharedMemory,
    /// By 16-byte stores of registers, when the lanes that hold parts of the same 16 bytes have exchanged them.
    Exchange,
}

/// Shape of the work of one thread block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
pub struct TileConfig {
    /// Query rows of one work item.
    pub block_m: u32,
    /// Keys of one step of the K/V loop.
    pub block_n: u32,
    /// Warps of one block that compute; each owns `block_m / warps` query rows: 16 for each pass in the sm_90a family,
    /// where four warps are a warpgroup.
    pub warps: u32,
    /// K/V blocks in shared memory at once (copied ahead by `stages - 1` steps).
    pub stages: u32,
    /// Blocks that must fit on one multiprocessor (`.minnctapersm`): bounds the registers of a thread. A persistent grid
    /// has so many on each.
    pub min_blocks: u32,
    /// How often each warpgroup goes through K and V of a work item, with another strip of 64 query rows each time: with 2,
    /// the item is a whole head, whose K and V stay in shared memory meanwhile; 1 for kernels without a producer.
    #[cfg_attr(feature = "manifest", serde(default = "one"))]
    pub passes: u32,
    /// How tiles get to shared memory.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub loads: Loads,
    /// How work items are spread over blocks.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub grid: Grid,
    /// Where Q is read.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub queries: Queries,
    /// Of every [`EXPONENTIALS`], how many the FMA pipe computes, by a polynomial, instead of the special-function unit.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub fma_exponentials: u32,
    /// Of the 16-key steps of a K/V block, how many follow each other in the code of the sm_80 family's loop; 0 for all.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub unroll: u32,
    /// To which power of two the probabilities under the shift of a row may add up in one lane and step before O and the
    /// sums are rescaled to a new shift: 0 for the row's maximum in every step, [`RESCALE_ON_OVERFLOW`] for as seldom as fp16
    /// allows.
    #[cfg_attr(feature = "manifest", serde(default = "rescale_on_overflow"))]
    pub rescale_threshold: u32,
    /// How O is stored.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub epilogue: Epilogue,
}

/// [`TileConfig::rescale_threshold`] of kernels that keep a shift as long as fp16, which ends below 2¹⁶, holds the
/// probabilities under it.
pub const RESCALE_ON_OVERFLOW: u32 = 14;

/// What [`TileConfig::fma_exponentials`] is a part of: the exponentials of a lane for 16 rows and 16 keys.
pub const EXPONENTIALS: u32 = 8;
/// Most 16-key steps that follow each other in the code.
const LONGEST_UNROLL: u32 = 8;

/// Passes of a kernel in a record that does not say: it was made before there was a choice, as with the other defaults.
#[cfg(feature = "manifest")]
fn one() -> u32 {
    1
}

/// As [`one`].
#[cfg(feature = "manifest")]
fn rescale_on_overflow() -> u32 {
    RESCALE_ON_OVERFLOW
}

/// What an architecture gives one thread block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchitectureLimits {
    /// As in `sm_80`.
    pub architecture: u32,
    /// Largest dynamic shared memory of a block, bytes.
    pub shared_bytes_per_block: u32,
    /// Shared memory of a multiprocessor, bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// Threads resident on a multiprocessor.
    pub threads_per_multiprocessor: u32,
}

/// Limits of the architectures the kernels are checked for (CUDA C++ Programming Guide, "Compute Capabilities").
pub const ARCHITECTURES: [ArchitectureLimits; 4] =
    [limits(80, 163, 164, 2048), limits(86, 99, 100, 1536), limits(89, 99, 100, 1536), limits(90, 227, 228, 2048)];

/// Registers of a multiprocessor on every architecture in [`ARCHITECTURES`].
pub const REGISTERS_PER_MULTIPROCESSOR: u32 = 65_536;
/// Registers a thread can address.
pub const REGISTERS_PER_THREAD: u32 = 255;
/// Threads of the largest block.
pub const THREADS_PER_BLOCK: u32 = 1024;

/// `u32::is_multiple_of`, which is newer than the oldest compiler of this crate.
const fn is_multiple(number: u32, of: u32) -> bool {
    match of {
        0 => number == 0,
        of => number % of == 0,
    }
}

const fn limits(architecture: u32, block_kib: u32, multiprocessor_kib: u32, threads: u32) -> ArchitectureLimits {
    ArchitectureLimits {
        architecture,
        shared_bytes_per_block: block_kib * 1024,
        shared_bytes_per_multiprocessor: multiprocessor_kib * 1024,
        threads_per_multiprocessor: threads,
    }
}

/// Why a [`TileConfig`] cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// `block_m` is not a positive multiple of 16 rows for each warp.
    QueryRowsPerWarp,
    /// `block_n` is not a positive multiple of 16 keys (the depth of the second matrix product).
    KeysPerStep,
    /// The family has no such loads, passes, keys of a step or place for Q.
    Feature,
    /// The family has no softmax with such a threshold.
    RescaleThreshold,
    /// The warps are not whole warpgroups with 64 rows in each pass.
    Warpgroups,
    /// `block_n` is not a width that the warpgroup's matrix products are written for.
    WarpgroupKeysPerStep,
    /// `warps`, `passes` or `min_blocks` is zero, or the threads exceed a block or, at `min_blocks` blocks, a multiprocessor.
    Threads,
    /// Fewer than two stages: the next K/V block could not be copied while this one is used; or, where an item is a whole
    /// head, not one for each block of it; or, where a producer fills them, fewer than warpgroups that take turns with them.
    Stages,
    /// The 16-key steps of a K/V block are no multiple of those that are unrolled, or those are too many.
    Unroll,
    /// The 16-byte chunks of a K/V block do not divide evenly among the threads.
    CopyChunks,
    /// Accumulators and fragments alone exceed the registers of a thread that computes, at `min_blocks` blocks.
    Registers,
    /// The tiles exceed the shared memory of a block, or of a multiprocessor at `min_blocks` blocks.
    SharedMemory,
    /// The exact sequence length is not a multiple of `block_m` and `block_n`.
    SequenceDivisibility,
}

impl fmt::Display for Rejection {
    #[inline]
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Rejection::QueryRowsPerWarp => "block_m must be a positive multiple of 16 * warps",
            Rejection::KeysPerStep => "block_n must be a positive multiple of 16",
            Rejection::Warpgroups => "warps must be a multiple of 4, and block_m 16 * warps * passes",
            Rejection::Feature => {
                "loads by TMA are for sm_90a, which reads Q from shared memory, with block_n 64; several passes are for those loads, \
                 and in sm_90a a persistent grid; unroll and fma_exponentials, at most 8, are for sm_80"
            }
            Rejection::RescaleThreshold => {
                "rescale_threshold must be at most 14, and in sm_80 either that or 0 without fma_exponentials"
            }
            Rejection::WarpgroupKeysPerStep => "block_n must be 64 or 128",
            Rejection::Threads => {
                "a block must have 1 to 32 warps, its producers included, and min_blocks blocks must fit on a multiprocessor"
            }
            Rejection::Stages => {
                "stages must be at least 2, with a producer as many as warpgroups; with 2 passes block_m and stages * block_n must \
                 be the exact sequence length"
            }
            Rejection::Unroll => "unroll must divide the 16-key steps of block_n, and be at most 8",
            Rejection::CopyChunks => "the 16-byte chunks of a Q or K/V tile must divide evenly among the threads",
            Rejection::Registers => "accumulators and fragments need more registers than a thread has at min_blocks",
            Rejection::SharedMemory => "the tiles need more shared memory than a block can have at min_blocks",
            Rejection::SequenceDivisibility => "the exact sequence length must be a multiple of block_m and block_n",
        })
    }
}

impl TileConfig {
    /// What a kernel of the sm_80 family has unless its variant says otherwise; the tile itself is empty.
    pub const SM_80: Self = Self {
        block_m: 0,
        block_n: 0,
        warps: 0,
        stages: 0,
        min_blocks: 1,
        passes: 1,
        loads: Loads::CpAsync,
        grid: Grid::OneShot,
        queries: Queries::Registers,
        fma_exponentials: 0,
        unroll: 0,
        rescale_threshold: RESCALE_ON_OVERFLOW,
        epilogue: Epilogue::SharedMemory,
    };
    /// What a kernel of the sm_90a family has.
    pub const SM_90A: Self = Self { queries: Queries::Shared, ..Self::SM_80 };
    /// What a kernel of the sm_90a family has whose tiles come through tensor maps.
    pub const SM_90A_TMA: Self = Self { loads: Loads::Tma, ..Self::SM_90A };

    /// Warps of a block that copy and do not compute.
    pub const fn producer_warps(self) -> u32 {
        match self.loads {
            Loads::CpAsync => 0,
            Loads::Tma => WARPGROUP_WARPS,
        }
    }

    /// Warpgroups of one block that compute.
    pub const fn warpgroups(self) -> u32 {
        self.warps / WARPGROUP_WARPS
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        (self.warps + self.producer_warps()) * WARP_SIZE
    }

    /// Query rows of one warp.
    pub const fn rows_per_warp(self) -> u32 {
        self.block_m / self.warps
    }

    /// 16-row `mma` tiles of one warp.
    pub const fn m_tiles(self) -> usize {
        (self.rows_per_warp() / MMA_M) as usize
    }

    /// 8-key `mma` tiles of one K/V step.
    pub const fn n_tiles(self) -> usize {
        (self.block_n / MMA_N) as usize
    }

    /// 16-key steps of one K/V step.
    pub const fn k_steps(self) -> usize {
        (self.block_n / MMA_K) as usize
    }

    /// Query rows that a block has room for in shared memory: those of a work item; where each warpgroup has only one
    /// strip of it and a producer, those of the next one too, which arrive meanwhile.
    pub const fn query_rows(self) -> u32 {
        match self.loads {
            Loads::Tma if self.passes == 1 => 2 * self.block_m,
            _ => self.block_m,
        }
    }

    /// Mbarriers of a block: full, computed and empty for each strip of Q, full and empty for K and V of each stage.
    pub const fn mbarriers(self) -> u32 {
        match self.loads {
            Loads::CpAsync => 0,
            Loads::Tma => 3 * self.query_rows() / TENSOR_MAP_ROWS + 2 * self.stages,
        }
    }

    /// Bytes of the statistics of a block's rows, which those who compute O leave to those who store LSE.
    pub const fn statistics_bytes(self) -> u32 {
        match self.loads {
            Loads::CpAsync => 0,
            Loads::Tma => self.query_rows() * ROW_STATISTICS_BYTES,
        }
    }

    /// Bytes of the tiles of a block: of Q, then of `stages` pairs of K and V.
    pub const fn tile_bytes(self) -> u32 {
        (self.query_rows() + 2 * self.stages * self.block_n) * ROW_BYTES
    }

    /// Dynamic shared memory of a block in bytes: its tiles, the statistics of its rows, then its mbarriers.
    pub const fn shared_bytes(self) -> u32 {
        self.tile_bytes() + self.statistics_bytes() + self.mbarriers() * MBARRIER_BYTES
    }

    /// Registers allocated to a thread at the launch: what `min_blocks` blocks leave each other.
    pub const fn launch_registers(self) -> u32 {
        let registers = REGISTERS_PER_MULTIPROCESSOR / (self.threads() * self.min_blocks);
        minimum(registers / REGISTER_ALLOCATION_UNIT * REGISTER_ALLOCATION_UNIT, LARGEST_REGISTER_COUNT)
    }

    /// Registers that a producer keeps (`setmaxnreg.dec`): what those who compute cannot take.
    #[inline]
    pub const fn producer_registers(self) -> u32 {
        if self.producer_warps() == 0 {
            return 0;
        }
        let taken = (self.consumer_registers() - self.launch_registers()) * self.warps;
        let registers = self.launch_registers().saturating_sub(taken.div_ceil(self.producer_warps()));
        registers / REGISTER_ALLOCATION_UNIT * REGISTER_ALLOCATION_UNIT
    }

    /// Registers allocated to a thread that computes: those of the launch, and its share of what the producers can give up
    /// (`setmaxnreg.inc`).
    #[inline]
    pub const fn consumer_registers(self) -> u32 {
        let given_up = self.launch_registers().saturating_sub(SMALLEST_REGISTER_COUNT) * self.producer_warps();
        let registers = self.launch_registers() + given_up / self.warps;
        minimum(registers / REGISTER_ALLOCATION_UNIT * REGISTER_ALLOCATION_UNIT, LARGEST_REGISTER_COUNT)
    }

    /// Registers that hold the accumulators of scores, row sums and output of one thread, and the fragments that are alive
    /// with them: of Q in the sm_80 family where it stays in registers, of P in the sm_90a family, which computes one strip
    /// at a time; a lower bound.
    pub const fn accumulator_registers(self, family: Family) -> u32 {
        let (fragments, accumulators) = match (family, self.queries) {
            (Family::Sm80, Queries::Registers) => (self.m_tiles() as u32 * HEAD_DIM / MMA_K, MMA_K / MMA_N + 1),
            (Family::Sm80, Queries::Shared) => (1, MMA_K / MMA_N + 1),
            (Family::Sm90a, _) => (self.block_n / MMA_K, self.block_n / MMA_N),
        };
        let m_tiles = self.m_tiles() as u32 / self.passes;
        4 * (fragments + m_tiles * (accumulators + HEAD_DIM / MMA_N))
    }

    /// Blocks that fit on one multiprocessor when a thread uses `registers`.
    #[inline]
    pub const fn blocks_per_multiprocessor(self, registers: u32, limits: ArchitectureLimits) -> u32 {
        let registers = registers.next_multiple_of(REGISTER_ALLOCATION_UNIT);
        let by_registers = REGISTERS_PER_MULTIPROCESSOR / (registers * self.threads());
        let by_threads = limits.threads_per_multiprocessor / self.threads();
        let by_shared = limits.shared_bytes_per_multiprocessor / (self.shared_bytes() + SYSTEM_SHARED_BYTES_PER_BLOCK);
        minimum(minimum(by_registers, by_threads), by_shared)
    }

    /// Checks the configuration of a kernel of `family` for `sequence` on an architecture; the tuner and the kernels'
    /// const assertions both call this.
    #[inline]
    pub const fn check(self, family: Family, sequence: Sequence, limits: ArchitectureLimits) -> Result<(), Rejection> {
        if self.warps == 0
            || self.passes == 0
            || self.min_blocks == 0
            || self.threads() > THREADS_PER_BLOCK
            || self.threads() * self.min_blocks > limits.threads_per_multiprocessor
        {
            return Err(Rejection::Threads);
        }
        if !self.has_features_of(family) {
            return Err(Rejection::Feature);
        }
        if !self.has_softmax_of(family) {
            return Err(Rejection::RescaleThreshold);
        }
        if self.block_m == 0 || !is_multiple(self.block_m, MMA_M * self.warps) {
            return Err(Rejection::QueryRowsPerWarp);
        }
        if self.block_n == 0 || !is_multiple(self.block_n, MMA_K) {
            return Err(Rejection::KeysPerStep);
        }
        if let Family::Sm90a = family {
            if !is_multiple(self.warps, WARPGROUP_WARPS) || self.rows_per_warp() != MMA_M * self.passes {
                return Err(Rejection::Warpgroups);
            }
            if !matches!(self.block_n, 64 | 128) {
                return Err(Rejection::WarpgroupKeysPerStep);
            }
        }
        if self.stages < 2 || !self.has_stages_for_turns() || !self.holds_whole_heads(sequence) {
            return Err(Rejection::Stages);
        }
        if matches!(family, Family::Sm80)
            && (self.unrolled() > LONGEST_UNROLL || !is_multiple(self.block_n / MMA_K, self.unrolled()))
        {
            return Err(Rejection::Unroll);
        }
        if !self.copies_divide_evenly() {
            return Err(Rejection::CopyChunks);
        }
        if self.accumulator_registers(family) > minimum(self.consumer_registers(), REGISTERS_PER_THREAD) {
            return Err(Rejection::Registers);
        }
        let resident_bytes = (self.shared_bytes() + SYSTEM_SHARED_BYTES_PER_BLOCK) * self.min_blocks;
        if self.shared_bytes() > limits.shared_bytes_per_block
            || resident_bytes > limits.shared_bytes_per_multiprocessor
        {
            return Err(Rejection::SharedMemory);
        }
        if let Sequence::Exact(length) = sequence {
            if !(is_multiple(length, self.block_m) && is_multiple(length, self.block_n)) {
                return Err(Rejection::SequenceDivisibility);
            }
        }
        Ok(())
    }

    /// 16-key steps that follow each other in the code.
    pub const fn unrolled(self) -> u32 {
        if self.unroll == 0 { self.block_n / MMA_K } else { self.unroll }
    }

    /// Whether no warpgroup that has nothing to do lets the others pass more turns than there are stages.
    const fn has_stages_for_turns(self) -> bool {
        matches!(self.loads, Loads::CpAsync) || self.warpgroups() <= self.stages
    }

    /// Whether a kernel of two passes has a stage for every tile of a head, and an item is a head.
    const fn holds_whole_heads(self, sequence: Sequence) -> bool {
        match (self.passes, sequence) {
            (1, _) => true,
            (2, Sequence::Exact(length)) => self.block_m == length && self.stages * self.block_n == length,
            _ => false,
        }
    }

    const fn has_features_of(self, family: Family) -> bool {
        if self.fma_exponentials > EXPONENTIALS {
            return false;
        }
        if matches!(family, Family::Sm90a) && (self.fma_exponentials > 0 || self.unroll > 0) {
            return false;
        }
        match (family, self.loads, self.queries) {
            (Family::Sm80, Loads::CpAsync, _) => self.passes == 1,
            (Family::Sm90a, Loads::CpAsync, Queries::Shared) => self.passes == 1 && matches!(self.grid, Grid::OneShot),
            (Family::Sm90a, Loads::Tma, Queries::Shared) => self.block_n == TENSOR_MAP_ROWS,
            _ => false,
        }
    }

    /// The sm_80 family guesses shifts, which hold or do not, or has the maximum of each step.
    const fn has_softmax_of(self, family: Family) -> bool {
        match (family, self.rescale_threshold) {
            (Family::Sm80, 0) => self.fma_exponentials == 0,
            (Family::Sm80, threshold) => threshold == RESCALE_ON_OVERFLOW,
            (Family::Sm90a, threshold) => threshold <= RESCALE_ON_OVERFLOW,
        }
    }

    /// Whether tiles consist of whole copies: of a chunk by each thread, or of the box of a tensor map.
    const fn copies_divide_evenly(self) -> bool {
        let rows = match self.loads {
            Loads::CpAsync => self.threads() * 16 / ROW_BYTES,
            Loads::Tma => TENSOR_MAP_ROWS,
        };
        is_multiple(self.block_n, rows) && is_multiple(self.block_m, rows)
    }
}

/// Bytes of the statistics of a row: its shift and its sum, in f32.
pub const ROW_STATISTICS_BYTES: u32 = 8;
/// Bytes of an mbarrier.
pub const MBARRIER_BYTES: u32 = 8;
/// Fewest registers that `setmaxnreg` leaves a thread.
const SMALLEST_REGISTER_COUNT: u32 = 24;
/// Most registers that are allocated to a thread.
const LARGEST_REGISTER_COUNT: u32 = 256;
/// Shared memory that the system takes from each resident block (CUDA C++ Programming Guide, "Shared Memory").
const SYSTEM_SHARED_BYTES_PER_BLOCK: u32 = 1024;
/// Registers of a thread are allocated in multiples of this.
const REGISTER_ALLOCATION_UNIT: u32 = 8;

const fn minimum(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: TileConfig =
        TileConfig { block_m: 64, block_n: 64, warps: 4, stages: 2, min_blocks: 2, ..TileConfig::SM_80 };
    /// A good one of the sm_90a family.
    const HOPPER: TileConfig = TileConfig { queries: Queries::Shared, ..GOOD };
    /// One whose tiles come through tensor maps: four warpgroups that go through a whole head twice.
    const TMA: TileConfig =
        TileConfig { block_m: 512, block_n: 64, warps: 16, stages: 8, passes: 2, ..TileConfig::SM_90A_TMA };
    const SM_80: ArchitectureLimits = ARCHITECTURES[0];
    const SM_86: ArchitectureLimits = ARCHITECTURES[1];
    const SM_90: ArchitectureLimits = ARCHITECTURES[3];

    #[test]
    fn a_sound_configuration_passes_every_gate() {
        for limits in ARCHITECTURES {
            assert_eq!(GOOD.check(Family::Sm80, Sequence::Exact(512), limits), Ok(()), "sm_{}", limits.architecture);
        }
    }

    #[test]
    fn each_gate_names_its_reason() {
        let exact = Sequence::Exact(512);
        let cases = [
            (TileConfig { warps: 0, ..GOOD }, exact, Rejection::Threads),
            (TileConfig { warps: 33, ..GOOD }, exact, Rejection::Threads),
            (TileConfig { min_blocks: 0, ..GOOD }, exact, Rejection::Threads),
            (TileConfig { min_blocks: 17, ..GOOD }, exact, Rejection::Threads),
            (TileConfig { block_m: 0, ..GOOD }, exact, Rejection::QueryRowsPerWarp),
            (TileConfig { block_m: 72, ..GOOD }, exact, Rejection::QueryRowsPerWarp),
            (TileConfig { block_n: 24, ..GOOD }, exact, Rejection::KeysPerStep),
            (TileConfig { stages: 1, ..GOOD }, exact, Rejection::Stages),
            (TileConfig { block_m: 128, warps: 8, block_n: 16, ..GOOD }, exact, Rejection::CopyChunks),
            (TileConfig { block_m: 256, warps: 2, ..GOOD }, exact, Rejection::Registers),
            (TileConfig { block_m: 128, min_blocks: 5, ..GOOD }, exact, Rejection::Registers),
            (TileConfig { unroll: 3, ..GOOD }, exact, Rejection::Unroll),
            (TileConfig { block_n: 256, ..GOOD }, exact, Rejection::Unroll),
            (TileConfig { fma_exponentials: 9, ..GOOD }, exact, Rejection::Feature),
            (TileConfig { stages: 12, min_blocks: 1, ..GOOD }, exact, Rejection::SharedMemory),
            (GOOD, Sequence::Exact(500), Rejection::SequenceDivisibility),
        ];
        for (config, sequence, expected) in cases {
            assert_eq!(config.check(Family::Sm80, sequence, SM_80), Err(expected), "{config:?} for {sequence:?}");
        }
    }

    #[test]
    fn warpgroups_have_gates_of_their_own() {
        let exact = Sequence::Exact(512);
        let cases = [
            (HOPPER, Ok(())),
            (TileConfig { block_m: 128, warps: 8, block_n: 128, min_blocks: 1, ..HOPPER }, Ok(())),
            (TileConfig { block_m: 128, ..HOPPER }, Err(Rejection::Warpgroups)),
            (TileConfig { block_m: 32, warps: 2, ..HOPPER }, Err(Rejection::Warpgroups)),
            (TileConfig { block_n: 32, ..HOPPER }, Err(Rejection::WarpgroupKeysPerStep)),
            (TileConfig { block_n: 128, min_blocks: 5, ..HOPPER }, Err(Rejection::Registers)),
        ];
        for (config, expected) in cases {
            assert_eq!(config.check(Family::Sm90a, exact, SM_90), expected, "{config:?}");
        }
    }

    #[test]
    fn producers_and_passes_have_gates_of_their_own() {
        let exact = Sequence::Exact(512);
        let small = TileConfig { block_m: 128, warps: 8, passes: 1, ..TMA };
        let cases = [
            (TMA, exact, Ok(())),
            (small, exact, Ok(())),
            (TileConfig { block_m: 256, passes: 1, ..TMA }, Sequence::Any, Ok(())),
            (TileConfig { block_n: 128, stages: 4, ..TMA }, exact, Err(Rejection::Feature)),
            (TileConfig { warps: 8, ..TMA }, exact, Err(Rejection::Warpgroups)),
            (TileConfig { passes: 0, ..TMA }, exact, Err(Rejection::Threads)),
            (TileConfig { warps: 32, passes: 1, ..TMA }, exact, Err(Rejection::Threads)),
            (TMA, Sequence::Any, Err(Rejection::Stages)),
            (TMA, Sequence::Exact(1024), Err(Rejection::Stages)),
            (TileConfig { stages: 7, ..TMA }, exact, Err(Rejection::Stages)),
            (TileConfig { stages: 3, block_m: 256, passes: 1, ..TMA }, exact, Err(Rejection::Stages)),
            (TileConfig { min_blocks: 2, ..TMA }, exact, Err(Rejection::Registers)),
            (TileConfig { stages: 13, ..small }, exact, Err(Rejection::SharedMemory)),
        ];
        for (config, sequence, expected) in cases {
            assert_eq!(config.check(Family::Sm90a, sequence, SM_90), expected, "{config:?} for {sequence:?}");
        }
    }

    #[test]
    fn a_family_has_only_what_its_kernels_know() {
        let cases = [
            (Family::Sm80, GOOD, true),
            (Family::Sm80, TileConfig { queries: Queries::Shared, ..GOOD }, true),
            (Family::Sm80, TileConfig { grid: Grid::Persistent, ..GOOD }, true),
            (Family::Sm80, TileConfig { passes: 2, ..GOOD }, false),
            (Family::Sm80, TMA, false),
            (Family::Sm90a, HOPPER, true),
            (Family::Sm90a, TileConfig { grid: Grid::Persistent, ..HOPPER }, false),
            (Family::Sm90a, TileConfig { queries: Queries::Registers, ..TMA }, false),
            (Family::Sm90a, TileConfig { block_m: 128, passes: 2, ..HOPPER }, false),
            (Family::Sm80, TileConfig { epilogue: Epilogue::Exchange, ..GOOD }, true),
            (Family::Sm90a, TileConfig { epilogue: Epilogue::Exchange, passes: 1, block_m: 256, ..TMA }, true),
        ];
        for (family, config, known) in cases {
            let refused = config.check(family, Sequence::Any, SM_90) == Err(Rejection::Feature);
            assert_eq!(refused, !known, "{family:?} {config:?}");
        }
    }

    #[test]
    fn a_family_has_only_the_softmax_that_its_kernels_know() {
        let cases = [
            (Family::Sm80, GOOD, Ok(())),
            (Family::Sm80, TileConfig { rescale_threshold: 0, ..GOOD }, Ok(())),
            (Family::Sm80, TileConfig { rescale_threshold: 8, ..GOOD }, Err(Rejection::RescaleThreshold)),
            (
                Family::Sm80,
                TileConfig { rescale_threshold: 0, fma_exponentials: 1, ..GOOD },
                Err(Rejection::RescaleThreshold),
            ),
            (Family::Sm90a, TileConfig { rescale_threshold: 8, ..HOPPER }, Ok(())),
            (Family::Sm90a, TileConfig { rescale_threshold: 15, ..HOPPER }, Err(Rejection::RescaleThreshold)),
        ];
        for (family, config, expected) in cases {
            assert_eq!(config.check(family, Sequence::Exact(512), SM_90), expected, "{family:?} {config:?}");
        }
    }

    #[test]
    fn registers_move_from_producers_to_consumers() {
        for (warps, passes, min_blocks, expected) in
            [(8, 2, 1, (168, 240)), (12, 1, 1, (128, 160)), (16, 1, 1, (96, 112)), (4, 2, 2, (128, 232))]
        {
            let config = TileConfig { warps, passes, min_blocks, block_m: 16 * warps * passes, ..TMA };
            assert_eq!((config.launch_registers(), config.consumer_registers()), expected, "{config:?}");
            let needed = WARPGROUP_WARPS * config.producer_registers() + warps * config.consumer_registers();
            let launched = (warps + WARPGROUP_WARPS) * config.launch_registers();
            assert!(config.producer_registers() >= SMALLEST_REGISTER_COUNT, "setmaxnreg takes no fewer: {config:?}");
            assert!(needed <= launched, "the last to ask would wait for ever: {config:?}");
            assert!(launched * WARP_SIZE * min_blocks <= REGISTERS_PER_MULTIPROCESSOR, "{config:?}");
        }
        assert_eq!(GOOD.consumer_registers(), GOOD.launch_registers(), "nobody gives registers up without producers");
    }

    #[test]
    fn a_block_has_room_for_tiles_statistics_and_mbarriers() {
        assert_eq!(GOOD.shared_bytes(), (64 + 2 * 2 * 64) * 128);
        assert_eq!(TMA.threads(), 20 * 32, "four warpgroups that compute and one that copies");
        assert_eq!(TMA.shared_bytes(), (512 + 2 * 8 * 64) * 128 + 512 * 8 + (3 * 8 + 2 * 8) * 8);
        let streamed = TileConfig { block_m: 256, passes: 1, ..TMA };
        assert_eq!(streamed.shared_bytes(), TMA.shared_bytes(), "Q of the next item has a place too");
    }

    #[test]
    fn a_family_runs_where_its_instructions_are() {
        let runs_on = |family: Family| ARCHITECTURES.map(|limits| family.runs_on(limits.architecture));
        assert_eq!(runs_on(Family::Sm80), [true; 4]);
        assert_eq!(runs_on(Family::Sm90a), [false, false, false, true]);
        assert!(Family::Sm80.runs_on(100) && !Family::Sm90a.runs_on(100), "sm_90a code does not run on later GPUs");
    }

    #[test]
    fn shared_memory_is_judged_by_architecture() {
        let config = TileConfig { stages: 6, min_blocks: 1, ..GOOD };
        assert_eq!(config.check(Family::Sm80, Sequence::Any, SM_80), Ok(()));
        assert_eq!(config.check(Family::Sm80, Sequence::Any, SM_86), Err(Rejection::SharedMemory));
    }

    #[test]
    fn occupancy_is_the_scarcest_resource() {
        assert_eq!(GOOD.blocks_per_multiprocessor(168, SM_80), 3, "168 registers leave room for 3 blocks");
        assert_eq!(GOOD.blocks_per_multiprocessor(64, SM_80), 4, "41 KiB of shared memory leave room for 4 of 164");
        assert_eq!(GOOD.blocks_per_multiprocessor(64, SM_86), 2, "and for 2 of 100");
    }
}
