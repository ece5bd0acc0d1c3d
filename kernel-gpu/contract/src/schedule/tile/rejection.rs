//! Why a tile configuration cannot work.

use core::fmt;

/// Why a tile configuration cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Zero warps or `min_blocks`, or too many threads for a block or, times `min_blocks`, for a multiprocessor.
    Threads,
    /// There are no kernels with this many columns.
    Columns,
    /// `block_m` is not a positive multiple of 16 rows per warp.
    QueryRowsPerWarp,
    /// Warps do not form groups of equal size, or what groups exchange does not fit into the memory of K and V.
    KeyGroups,
    /// `block_n` is not a positive multiple of 16 keys (the k of the PV product) per group of warps.
    KeysPerStep,
    /// Fewer than two stages: the next K/V block could not be copied while the current one is used.
    Stages,
    /// No stage is left over when each warpgroup keeps the last tile of its strip.
    StagesForStrips,
    /// The number of passes is neither 1 nor 2.
    Passes,
    /// With two passes, the item is not a whole head, or the stages do not hold one.
    WholeHead,
    /// Keys are split in a kernel that is not for any sequence length with one strip per warpgroup and one or two warpgroups.
    SplitKeys,
    /// Keys are split in parts in a kernel that has too few warps to combine them, too many columns of O per warp, or is not for any sequence
    /// length.
    Parts,
    /// The unroll factor does not divide the 16-key steps of a K/V block, or is too large.
    Unroll,
    /// The 16-byte chunks of a tile do not divide evenly among the threads.
    CopyChunks,
    /// Accumulators and fragments alone exceed the registers of a computing thread at `min_blocks` blocks.
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
            Rejection::Parts => {
                "keys in parts need 4 warps, at most 128 columns of O per warp, and a kernel for any sequence length"
            }
            Rejection::Stages => "stages must be at least 2",
            Rejection::StagesForStrips => {
                "stages must be more than warpgroups, each of which keeps one until the next work item's first tile has arrived"
            },
            Rejection::Passes => "passes must be 1 or 2",
            Rejection::WholeHead => {
                "with 2 passes the query rows of a block, and the keys of all stages, must be the exact sequence length"
            }
            Rejection::SplitKeys => {
                "keys are split among blocks of 1 or 2 warpgroups, in 1 pass, for sequences of any one length"
            }
            Rejection::Unroll => "unroll must divide the 16-key steps of block_n, and be at most 8",
            Rejection::CopyChunks => "the 16-byte chunks of a Q or K/V tile must divide evenly among the threads",
            Rejection::Registers => "accumulators and fragments need more registers than a thread has at min_blocks",
            Rejection::SharedMemory => "the tiles need more shared memory than a block can have at min_blocks",
            Rejection::SequenceDivisibility => "the exact sequence length must be a multiple of block_m and block_n",
        })
    }
}
