//! The specialisation of a kernel of this family.

use crate::device::kernel::Kernel;
use crate::device::mask::Mask;
use crate::device::sequence::Sequence;
use contract::architecture::REGISTERS_PER_THREAD;
use contract::parts::strip_bytes;
use contract::tile::{Epilogue, Keys, Sm80};

/// A kernel of this family.
pub trait Sm80Kernel: Kernel {
    /// Its tile configuration.
    const TILE: Sm80;
    /// Number of warp groups that share the keys of a step.
    const GROUPS: u32 = Self::TILE.key_groups;
    /// Whether fragments of Q are read from shared memory for each product: beside a wide O there are no registers for them.
    const SHARED_QUERIES: bool = Self::TILE.reads_queries_again();
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
    /// Whether guessed shifts are looked at before the end ([`Pipeline::is_checkpoint`](super::pipeline::Pipeline::is_checkpoint)). Not where
    /// a length of 512 keys and fewer is known: it would take a causal mask's short blocks 6 % longer.
    const HAS_CHECKPOINTS: bool = Self::Mask::ALL_KEYS || Self::Sequence::HAS_TAIL;
    /// Whether a block whose guessed shifts fail starts over at the next checkpoint, not only at its end. Not where O takes half of the
    /// registers, or groups share the keys.
    const STOPS_EARLY: bool = Self::RESCALE_THRESHOLD > 0
        && Self::GROUPS == 1
        && Self::TILE.m_tiles() as u32 * Self::TILE.columns < REGISTERS_PER_THREAD;
    /// Binary logarithm of how large probabilities may grow under a guessed shift; 0: shifts follow the row maxima from the start.
    // A number: with a `bool`, LLVM orders the instructions of most kernels otherwise.
    const RESCALE_THRESHOLD: u32 = Self::TILE.rescale.threshold();
    /// Whether O is stored from registers, bypassing shared memory.
    const EXCHANGE: bool = matches!(Self::TILE.epilogue, Epilogue::Exchange);
}
