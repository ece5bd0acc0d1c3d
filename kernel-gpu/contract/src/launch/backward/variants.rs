//! The list of backward entries.

use core::ops::RangeInclusive;

use crate::spec::config::{ELEMENT_BYTES, Element, Family, MMA_M, Mask, Scores, Sequence, WARP_SIZE};

/// How the blocks of a backward entry divide the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Columns of its tiles, at least D.
    pub columns: u32,
    /// Rows of a block: keys whose dK and dV, or queries whose dQ, it computes.
    pub rows: u32,
    /// Rows of the other tensors that it takes in a step.
    pub step: u32,
    /// Warps of a block, each with an equal share of its rows.
    pub warps: u32,
    /// Blocks that a multiprocessor should hold at least.
    pub min_blocks: u32,
}

/// Stages of the tiles of a step.
pub const STAGES: u32 = 2;
/// Bytes of what a block knows of a query row: LSE in base 2, and the sum over dO ∘ O.
pub const STATISTICS_BYTES: u32 = 8;

impl Tile {
    /// Columns of its tiles.
    pub const fn columns(self) -> u32 {
        self.columns
    }

    /// Strips of 16 rows of a warp.
    pub const fn m_tiles(self) -> usize {
        (self.rows / self.warps / MMA_M) as usize
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        self.warps * WARP_SIZE
    }

    /// Bytes of a row of a tile.
    const fn pitch(self) -> u32 {
        self.columns * ELEMENT_BYTES as u32
    }

    /// Dynamic shared memory of a block, bytes: that of a block which computes dK and dV, or of one which computes dQ, if that is larger.
    pub const fn shared_bytes(self) -> u32 {
        let of_keys = (2 * self.rows + STAGES * 3 * self.step) * self.pitch() + STAGES * self.step * STATISTICS_BYTES;
        let of_queries = (3 * self.rows + STAGES * 2 * self.step) * self.pitch() + self.rows * STATISTICS_BYTES;
        if of_keys > of_queries { of_keys } else { of_queries }
    }
}

/// A backward entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackwardVariant {
    /// Name of the `.entry`.
    pub entry: &'static str,
    /// How its blocks divide the work.
    pub tile: Tile,
    /// Element type of its tensors.
    pub element: Element,
    /// Sequence lengths it accepts.
    pub sequence: Sequence,
    /// Mask it applies; every mask, as a window, if it supports score modifications.
    pub mask: Mask,
    /// Whether it supports score modifications.
    pub scores: Scores,
}

impl BackwardVariant {
    /// Instruction family.
    pub const fn family(&self) -> Family {
        Family::Sm80
    }

    /// The D that it computes.
    pub fn head_dims(&self) -> RangeInclusive<u32> {
        1..=self.tile.columns
    }
}

/// Calls `$callback!` with every line `entry for F16, entry for Bf16: tile, sequence, mask;` of the backward entries, with `, Modified`
/// after the mask of those with score modifications, as [`crate::for_every_variant`] does.
#[macro_export]
macro_rules! for_every_backward_variant {
    ($callback:ident) => {
        $callback! {
            fa512_sm80_backward_full, fa512_sm80_bf16_backward_full: Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Any, Full;
            fa512_sm80_backward_causal, fa512_sm80_bf16_backward_causal: Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Any, Causal;
            fa512_sm80_backward_modified, fa512_sm80_bf16_backward_modified: Tile { columns: 64, rows: 64, step: 64, warps: 4, min_blocks: 2 }, Any, Window, Modified;
            fa512_sm80_backward_packed_full, fa512_sm80_bf16_backward_packed_full: Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Packed, Full;
            fa512_sm80_backward_packed_causal, fa512_sm80_bf16_backward_packed_causal: Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Packed, Causal;
            fa512_sm80_backward_packed_modified, fa512_sm80_bf16_backward_packed_modified: Tile { columns: 64, rows: 64, step: 64, warps: 4, min_blocks: 2 }, Packed, Window, Modified;
            fa512_sm80_d128_backward_full, fa512_sm80_bf16_d128_backward_full: Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Any, Full;
            fa512_sm80_d128_backward_causal, fa512_sm80_bf16_d128_backward_causal: Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Any, Causal;
            fa512_sm80_d128_backward_modified, fa512_sm80_bf16_d128_backward_modified: Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Any, Window, Modified;
            fa512_sm80_d128_backward_packed_full, fa512_sm80_bf16_d128_backward_packed_full: Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Packed, Full;
            fa512_sm80_d128_backward_packed_causal, fa512_sm80_bf16_d128_backward_packed_causal: Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Packed, Causal;
            fa512_sm80_d128_backward_packed_modified, fa512_sm80_bf16_d128_backward_packed_modified: Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Packed, Window, Modified;
        }
    };
}

macro_rules! list {
    ($($f16:ident, $bf16:ident: $tile:expr, $sequence:ident, $mask:ident $(, $scores:ident)?;)*) => {
        /// Every backward entry. Among those that compute a gradient, the first is taken.
        pub const BACKWARD_VARIANTS: &[BackwardVariant] = &[
            $(
                list!(@ $f16, F16, $tile, $sequence, $mask, [$($scores)?]),
                list!(@ $bf16, Bf16, $tile, $sequence, $mask, [$($scores)?]),
            )*
        ];
    };
    (@ $entry:ident, $element:ident, $tile:expr, $sequence:ident, $mask:ident, $scores:tt) => {
        BackwardVariant {
            entry: stringify!($entry),
            tile: $tile,
            element: Element::$element,
            sequence: Sequence::$sequence,
            mask: Mask::$mask,
            scores: list!(@scores $scores),
        }
    };
    (@scores []) => { Scores::Unmodified };
    (@scores [$scores:ident]) => { Scores::$scores };
}

for_every_backward_variant!(list);

/// File of the PTX of a family's backward entries.
pub const fn file_of(family: Family) -> Option<&'static str> {
    match family {
        Family::Sm80 => Some("backward_sm_80.ptx"),
        Family::Sm90a => None,
    }
}
