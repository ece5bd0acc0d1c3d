//! The specialisation of a kernel of this family.

use crate::device::attention::kernel::Kernel;
use crate::device::attention::mask::Mask;
use contract::parts::strip_bytes;
use contract::tile::{Keys, Queries, Sm80};

/// A kernel of this family.
pub trait Sm80Kernel: Kernel {
    /// Its tile configuration.
    const TILE: Sm80;
    /// Number of warp groups that share the keys of a step.
    const GROUPS: u32 = Self::TILE.key_groups;
    /// Whether every row attends to all keys.
    const ALL_KEYS: bool = Self::Mask::ALL_KEYS;
    /// Whether blocks leave parts of an item if they are asked to ([`contract::parts`]).
    const LEAVES_PARTS: bool = matches!(Self::TILE.keys, Keys::InParts);
    /// Bytes that a group of warps or a part passes on for 16 rows: a fragment of shifts and sums, and O.
    const STRIP_BYTES: u32 = strip_bytes(Self::TILE.columns);
    /// Number of unrolled 16-key steps.
    const UNROLL: usize = Self::TILE.unrolled() as usize;
    /// The same where scores are masked. Few steps are, and with many columns what masks them takes too many registers.
    const UNROLL_MASKED: usize = if Self::TILE.columns < 96 { Self::UNROLL } else { 1 };
    /// How many of every [`EXPONENTIALS`](contract::tile::sm80::EXPONENTIALS) are computed on the FMA pipe.
    const BY_FMA: u32 = Self::TILE.fma_exponentials;
    /// Whether Q is read from shared memory for every 16 keys instead of being kept in registers.
    const SHARED_QUERIES: bool = matches!(Self::TILE.queries, Queries::Shared);
}
