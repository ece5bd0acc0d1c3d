//! Where the shared memory of the blocks of a cluster lies.

/// Bits of an address below the rank of its block.
const RANK_SHIFT: u32 = 24;

/// The rank of the block whose shared memory an address lies in.
pub(crate) fn shared_rank(address: u64) -> u64 {
    address >> RANK_SHIFT
}

/// An address of shared memory as every block has it for its own.
pub(crate) fn own_shared(address: u64) -> u64 {
    address & ((1 << RANK_SHIFT) - 1)
}

/// The first address of the shared memory of a block.
pub(crate) fn shared_base(rank: u64) -> u64 {
    rank << RANK_SHIFT
}
