//! The argument of the backward entries.

use crate::launch::args::{ForwardArgs, Strides, TENSOR_MAP_BYTES};
use crate::schedule::divisor::Divisor;
use crate::spec::tensor::Tensor;

/// Argument of a backward entry, passed by value. All addresses are device addresses.
///
/// Both sides of the launch read this definition, as that of [`ForwardArgs`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BackwardArgs {
    /// The problem: Q, K, V, O and LSE are read. Its query tiles have the [rows](super::variants::BackwardTile::rows) of an item, and its work
    /// items are those of keys and of queries.
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
    /// Items of a head of K and V: its key tiles, and the query tiles of the heads of Q that share it; of all heads that are interleaved, if
    /// any are.
    pub head_items: Divisor,
    /// By how many items the first one of a head differs from that of the head before.
    pub turn: u32,
    /// Blocks that compute dK and dV, the first ones, where a block has one item; the others compute dQ.
    pub key_blocks: u32,
    /// The factor on the scores.
    pub scale: f32,
    /// The sums of dQ in a workspace.
    pub workspace: SumsArgs,
    /// dBias.
    pub bias: BiasArgs,
}

/// Bytes of a count of [`SumsArgs::counts`].
pub const COUNT_BYTES: u64 = 4;

/// The workspace in which the items of keys add up dQ, and their order. A tile is one of 64 queries; those of a head follow one another, and the
/// heads of an entry of the batch, and the entries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SumsArgs {
    /// dQ of each tile, f32, in panels of 64 columns in the order of the registers.
    pub sums: u64,
    /// −LSE in base 2 and Δ of the 64 rows of each tile, f32.
    pub statistics: u64,
    /// The number of the next item; then for each panel of the sums how many items have added to it; u32.
    pub counts: u64,
    /// Heads of K and V whose items are interleaved.
    pub interleaved: Divisor,
    /// Those that are left for the last time.
    pub interleaved_last: Divisor,
    /// How often there are [`Self::interleaved`] of them.
    pub interleavings: u32,
    /// Blocks, where each takes one item of so many that follow one another.
    pub at_once: Divisor,
    /// Tiles of the heads that share one of K and V.
    pub tiles: Divisor,
    /// Whether this launch computes the statistics and sets the counts to 0, before the one that computes gradients.
    pub prepares: u32,
}

impl SumsArgs {
    /// There is no workspace.
    pub(super) const NONE: Self = {
        let one = Divisor::new(core::num::NonZeroU32::MIN);
        Self {
            sums: 0,
            statistics: 0,
            counts: 0,
            interleaved: one,
            interleaved_last: one,
            interleavings: 0,
            at_once: one,
            tiles: one,
            prepares: 0,
        }
    };
}

/// dBias, and the first blocks of the launch, which compute it unless the blocks of queries do. A tile of it has the queries of a query tile, and
/// the keys of a step.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BiasArgs {
    /// dBias, of the type of Q, `[B,H,S_q,S_k]` by `strides`, 2-byte aligned; 0: it is not asked for.
    pub d_bias: u64,
    /// The sums of parts in a workspace, f32, in the order of the registers: of each part all tiles.
    pub sums: u64,
    /// Strides of dBias; where one is 0, what shares an element is added up.
    pub strides: Strides,
    /// Tiles of keys.
    pub key_tiles: Divisor,
    /// Tiles of queries that have elements of their own, or 1.
    pub query_tiles: Divisor,
    /// Heads, likewise.
    pub heads: Divisor,
    /// Batch entries, likewise.
    pub batch: Divisor,
    /// Tiles of queries that share elements, or 1.
    pub shared_query_tiles: Divisor,
    /// Heads, likewise.
    pub shared_heads: Divisor,
    /// Summands of a tile: the batch entries, heads and query tiles that share its elements.
    pub summands: u32,
    /// Those of a part.
    pub of_part: u32,
    /// Parts.
    pub parts: u32,
    /// Tiles.
    pub tiles: u32,
    /// Blocks: one for each part of each tile; 0 if dBias is not asked for, or the blocks of queries store it.
    pub blocks: u32,
    /// Whether this launch adds the parts of each tile, after the one that computes gradients.
    pub adds_parts: u32,
}

impl BiasArgs {
    /// Whether the blocks of queries store dBias.
    #[inline(always)]
    pub const fn is_of_queries(&self) -> bool {
        self.d_bias != 0 && self.blocks == 0
    }

    /// dBias is not asked for.
    pub(super) const NONE: Self = {
        let one = Divisor::new(core::num::NonZeroU32::MIN);
        Self {
            d_bias: 0,
            sums: 0,
            strides: Strides { batch: 0, head: 0, row: 0 },
            key_tiles: one,
            query_tiles: one,
            heads: one,
            batch: one,
            shared_query_tiles: one,
            shared_heads: one,
            summands: 0,
            of_part: 0,
            parts: 0,
            tiles: 0,
            blocks: 0,
            adds_parts: 0,
        }
    };
}

const _: () = assert!(
    size_of::<BackwardArgs>()
        == size_of::<ForwardArgs>()
            + 4 * 8
            + 4 * 24
            + 3 * size_of::<Divisor>()
            + 3 * 4
            + size_of::<SumsArgs>()
            + size_of::<BiasArgs>()
        && size_of::<BiasArgs>() == 5 * 8 + 6 * size_of::<Divisor>() + 6 * 4,
    "there is no padding"
);

/// Second argument of the entries that copy through tensor maps: those of Q, K, V, O and dO.
#[cfg_attr(not(target_arch = "nvptx64"), repr(C, align(64)))]
#[cfg_attr(target_arch = "nvptx64", repr(C, align(16)))]
#[derive(Clone, Copy, Debug)]
pub struct BackwardMaps(pub [[u8; TENSOR_MAP_BYTES as usize]; 5]);

/// The tensors of [`BackwardMaps`], in their order.
pub const MAPPED: [Tensor; 5] = [Tensor::Q, Tensor::K, Tensor::V, Tensor::O, Tensor::DO];
