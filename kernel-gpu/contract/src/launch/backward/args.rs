//! The argument of the backward entries.

use crate::launch::args::{ForwardArgs, Strides};
use crate::schedule::divisor::Divisor;

/// Argument of a backward entry, passed by value. All addresses are device addresses.
///
/// Both sides of the launch read this definition, as that of [`ForwardArgs`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BackwardArgs {
    /// The problem: Q, K, V, O and LSE are read. Its query tiles have the [rows](super::variants::Tile::rows) of a block.
    pub problem: ForwardArgs,
    /// dO, `[B,H,S,D]` by `d_o_strides`, 16-byte aligned.
    pub d_o: u64,
    /// dQ, like Q by `dq_strides`, 16-byte aligned; every element is written.
    pub dq: u64,
    /// dK, like K by `dk_strides`, likewise.
    pub dk: u64,
    /// dV, like V by `dv_strides`, likewise.
    pub dv: u64,
    /// Strides of dO.
    pub d_o_strides: Strides,
    /// Strides of dQ.
    pub dq_strides: Strides,
    /// Strides of dK.
    pub dk_strides: Strides,
    /// Strides of dV.
    pub dv_strides: Strides,
    /// Key tiles of a head of K and V: `ceil(S_k / rows)`.
    pub key_tiles: Divisor,
    /// Heads of K and V.
    pub kv_heads: Divisor,
    /// Blocks that compute dK and dV, the first ones; the others compute dQ.
    pub key_blocks: u32,
    /// The factor on the scores.
    pub scale: f32,
}

const _: () = assert!(
    size_of::<BackwardArgs>() == size_of::<ForwardArgs>() + 4 * 8 + 4 * 24 + 2 * size_of::<Divisor>() + 2 * 4,
    "there is no padding"
);
