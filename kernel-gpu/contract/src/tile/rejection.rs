//! Why a tile configuration cannot work.

use core::fmt;

/// Why a tile configuration cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The warps or `min_blocks` are zero, or the threads exceed a block or, at `min_blocks` blocks, a multiprocessor.
    Threads,
    /// There are no kernels with tiles of so many columns.
    Columns,
    /// `block_m` is not a positive multiple of 16 rows for each warp.
    QueryRowsPerWarp,
    /// The warps are no groups of the same size, or what they exchange does not fit where K and V were.
    KeyGroups,
    /// `block_n` is not a positive multiple of 16 keys (the depth of the second matrix product) for each group of warps.
    KeysPerStep,
    /// `block_n` is not a width that the warpgroup's matrix products are written for.
    WarpgroupKeysPerStep,
    /// Fewer than two stages: the next K/V block could not be copied while this one is used.
    Stages,
    /// As many warpgroups keep the last tiles of their strips as there are stages.
    StagesForStrips,
    /// The passes are neither one nor two.
    Passes,
    /// The item of a kernel of two passes is not a whole head, or the stages do not hold one.
    WholeHead,
    /// Keys are split among blocks that do not compute one strip for any sequences.
    SplitKeys,
    /// More exponentials by the FMA pipe than there are, or any in a softmax that has none.
    FmaExponentials,
    /// The threshold is above what fp16 holds.
    RescaleThreshold,
    /// The 16-key steps of a K/V block are no multiple of those that are unrolled, or those are too many.
    Unroll,
    /// The 16-byte chunks of a tile do not divide evenly among the threads.
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
            Rejection::Threads => {
                "a block must have 1 to 32 warps, its producers included, and min_blocks blocks must fit on a multiprocessor"
            }
            Rejection::Columns => "columns must be 32, 64, 96 or 128",
            Rejection::QueryRowsPerWarp => "block_m must be a positive multiple of 16 * warps / key_groups",
            Rejection::KeyGroups => {
                "key_groups must divide the warps, and the stages must hold O and softmax of block_m rows of all groups but one"
            }
            Rejection::KeysPerStep => "block_n must be a positive multiple of 16 * key_groups",
            Rejection::WarpgroupKeysPerStep => "block_n must be 64 or 128",
            Rejection::Stages => "stages must be at least 2",
            Rejection::StagesForStrips => {
                "stages must be more than warpgroups, each of which keeps one until the next work item's first tile has arrived"
            },
            Rejection::Passes => "passes must be 1 or 2",
            Rejection::WholeHead => {
                "with 2 passes the query rows of a block, and the keys of all stages, must be the exact sequence length"
            }
            Rejection::SplitKeys => {
                "keys are split among blocks of 1 warpgroup, in 1 pass, without an exchange epilogue, for sequences of any one length"
            }
            Rejection::FmaExponentials => "fma_exponentials must be at most 8, and 0 where every step rescales",
            Rejection::RescaleThreshold => "rescale_threshold must be at most 14",
            Rejection::Unroll => "unroll must divide the 16-key steps of block_n, and be at most 8",
            Rejection::CopyChunks => "the 16-byte chunks of a Q or K/V tile must divide evenly among the threads",
            Rejection::Registers => "accumulators and fragments need more registers than a thread has at min_blocks",
            Rejection::SharedMemory => "the tiles need more shared memory than a block can have at min_blocks",
            Rejection::SequenceDivisibility => "the exact sequence length must be a multiple of block_m and block_n",
        })
    }
}
