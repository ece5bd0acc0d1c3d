//! What a kernel of this family is made for.

use crate::device::attention::kernel::Kernel;
use contract::tile::{Queries, Sm80};

/// A kernel of this family.
pub trait Sm80Kernel: Kernel {
    /// Its tile configuration.
    const TILE: Sm80;
    /// Groups of warps that share the keys of a step.
    const GROUPS: u32 = Self::TILE.key_groups;
    /// 16-key steps that follow each other in the code.
    const UNROLL: usize = Self::TILE.unrolled() as usize;
    /// Of every [`EXPONENTIALS`](contract::tile::sm80::EXPONENTIALS), how many the FMA pipe computes.
    const BY_FMA: u32 = Self::TILE.fma_exponentials;
    /// Whether Q is read from shared memory for every 16 keys and not kept in registers.
    const SHARED_QUERIES: bool = matches!(Self::TILE.queries, Queries::Shared);
}
