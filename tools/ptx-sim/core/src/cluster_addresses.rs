//! Addresses of the shared memory of a cluster's blocks.

/// Bits of an address below the rank of its block.
const RANK_SHIFT: u32 = 24;

/// The rank of the block whose shared memory an address lies in.
pub(crate) fn shared_rank(address: u64) -> u64 {
    address >> RANK_SHIFT
}

/// The shared address as seen by the block that owns it.
pub(crate) fn own_shared(address: u64) -> u64 {
    address & ((1 << RANK_SHIFT) - 1)
}

/// The first address of the shared memory of a block.
pub(crate) fn shared_base(rank: u64) -> u64 {
    rank << RANK_SHIFT
}
