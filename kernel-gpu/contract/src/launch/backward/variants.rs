//! The list of backward entries.

use core::ops::RangeInclusive;

use crate::schedule::architecture::{REGISTER_ALLOCATION_UNIT, REGISTERS_PER_MULTIPROCESSOR};
use crate::schedule::tile::sm90_tma::{MBARRIER_BYTES, TENSOR_MAP_ROWS};
use crate::spec::config::{ELEMENT_BYTES, Element, Family, MMA_M, Mask, Scores, Sequence, WARP_SIZE, WARPGROUP_WARPS};
use crate::spec::shape::Shape;

/// How the blocks of a backward entry of sm_80 divide the work.
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

/// How the blocks of a backward entry of sm_90a divide the work. A block takes several items, one after another: 64 rows for each
/// computing warpgroup. One warpgroup more copies tiles through tensor maps and computes what the others need of query rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmaTile {
    /// Columns of its tiles, at least D.
    pub columns: u32,
    /// Computing warpgroups of a block.
    pub warpgroups: u32,
    /// Stages of the tiles of a step.
    pub stages: u32,
    /// Items whose own rows are in shared memory at once.
    pub own: u32,
    /// Blocks on a multiprocessor.
    pub blocks: u32,
    /// How dQ is computed.
    pub dq: Dq,
}

/// How dQ is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dq {
    /// By items of queries, which compute P and dS again.
    ByItems,
    /// Of all queries of a head of K and V, in shared memory, from the dS of its keys, which one block takes one after another. One warpgroup
    /// more computes it.
    InSharedMemory {
        /// Query rows, of all heads of Q that share the head of K and V.
        rows: u32,
        /// Tiles of dS in shared memory.
        d_s: u32,
    },
}

impl TmaTile {
    /// Rows that a block takes in a step.
    pub const STEP: u32 = TENSOR_MAP_ROWS;
    /// Registers of a thread that computes dQ in shared memory.
    pub const DQ_REGISTERS: u32 = 80;

    /// Registers of a thread that does not compute products.
    pub const fn producer_registers(self) -> u32 {
        if self.keeps_dq() { 32 } else { 40 }
    }

    /// Query rows of a head of K and V whose dQ is computed in shared memory.
    pub const fn dq_rows(self) -> u32 {
        match self.dq {
            Dq::ByItems => 0,
            Dq::InSharedMemory { rows, .. } => rows,
        }
    }

    /// Tiles of dS in shared memory, which it takes.
    pub const fn d_s(self) -> u32 {
        match self.dq {
            Dq::ByItems => 0,
            Dq::InSharedMemory { d_s, .. } => d_s,
        }
    }

    /// Whether dQ is computed in shared memory.
    pub const fn keeps_dq(self) -> bool {
        self.dq_rows() > 0
    }

    /// Columns of its tiles.
    pub const fn columns(self) -> u32 {
        self.columns
    }

    /// Rows of an item: keys whose dK and dV, or queries whose dQ, a block computes.
    pub const fn rows(self) -> u32 {
        self.warpgroups * TENSOR_MAP_ROWS
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        (self.warpgroups + self.keeps_dq() as u32 + 1) * WARPGROUP_WARPS * WARP_SIZE
    }

    /// Registers of a thread that computes products: those of the launch, and what the other threads give up.
    pub const fn consumer_registers(self) -> u32 {
        let at_launch = REGISTERS_PER_MULTIPROCESSOR / self.blocks / self.threads() / REGISTER_ALLOCATION_UNIT
            * REGISTER_ALLOCATION_UNIT;
        let of_dq = if self.keeps_dq() { at_launch - Self::DQ_REGISTERS } else { 0 };
        let given_up = at_launch - self.producer_registers() + of_dq;
        (at_launch + given_up / self.warpgroups) / REGISTER_ALLOCATION_UNIT * REGISTER_ALLOCATION_UNIT
    }

    /// Own tensors of an item: K and V, or Q and dO. If dQ is in shared memory, K alone; V is in a stage until it is in registers.
    pub const fn own_tensors(self) -> u32 {
        if self.keeps_dq() { 1 } else { 2 }
    }

    /// Bytes of the own rows of an item.
    pub const fn own_bytes(self) -> u32 {
        self.own_tensors() * self.rows() * self.columns * ELEMENT_BYTES as u32
    }

    /// Tiles of a stage: of Q, dO and O, or of K and V. O lies where dQ will be, if that is in shared memory.
    pub const fn staged(self) -> u32 {
        if self.keeps_dq() { 2 } else { 3 }
    }

    /// Bytes of a stage.
    pub const fn stage_bytes(self) -> u32 {
        self.staged() * Self::STEP * self.columns * ELEMENT_BYTES as u32
    }

    /// Query rows whose statistics are in a stage: those of a step, or of an item.
    pub const fn statistics_rows(self) -> u32 {
        if self.keeps_dq() { Self::STEP } else { self.rows() }
    }

    /// Bytes of the statistics of query rows in a stage.
    pub const fn statistics_bytes(self) -> u32 {
        self.statistics_rows() * STATISTICS_BYTES
    }

    /// Bytes of dQ in shared memory, f32.
    pub const fn dq_bytes(self) -> u32 {
        self.dq_rows() * self.columns * 4
    }

    /// Bytes of dS of a step.
    pub const fn d_s_bytes(self) -> u32 {
        self.rows() * Self::STEP * ELEMENT_BYTES as u32
    }

    /// Dynamic shared memory of a block, bytes: own rows, stages, dQ and dS, and mbarriers: full and empty of each, and of the statistics of
    /// each stage.
    pub const fn shared_bytes(self) -> u32 {
        self.own * (self.own_bytes() + 2 * MBARRIER_BYTES)
            + self.stages * (self.stage_bytes() + self.statistics_bytes() + 3 * MBARRIER_BYTES)
            + self.dq_bytes()
            + self.dq_rows() / Self::STEP * MBARRIER_BYTES
            + self.d_s() * (self.d_s_bytes() + 2 * MBARRIER_BYTES)
    }
}

/// How the blocks of a backward entry divide the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackwardTile {
    /// By `mma.sync`.
    Sm80(Tile),
    /// By `wgmma` and TMA.
    Sm90(TmaTile),
}

impl BackwardTile {
    /// Whether dQ is computed by items of its own.
    pub const fn has_query_items(self) -> bool {
        !matches!(self, Self::Sm90(tile) if tile.keeps_dq())
    }

    /// Rows of the query tiles that a launch counts.
    pub const fn query_rows(self) -> u32 {
        if self.has_query_items() { self.rows() } else { TmaTile::STEP }
    }

    /// Columns of its tiles.
    pub const fn columns(self) -> u32 {
        match self {
            Self::Sm80(tile) => tile.columns,
            Self::Sm90(tile) => tile.columns,
        }
    }

    /// Rows of an item: keys whose dK and dV, or queries whose dQ, a block computes.
    pub const fn rows(self) -> u32 {
        match self {
            Self::Sm80(tile) => tile.rows,
            Self::Sm90(tile) => tile.rows(),
        }
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        match self {
            Self::Sm80(tile) => tile.threads(),
            Self::Sm90(tile) => tile.threads(),
        }
    }

    /// Blocks that a multiprocessor should hold at least.
    pub const fn min_blocks(self) -> u32 {
        match self {
            Self::Sm80(tile) => tile.min_blocks,
            Self::Sm90(tile) => tile.blocks,
        }
    }

    /// Dynamic shared memory of a block, bytes.
    pub const fn shared_bytes(self) -> u32 {
        match self {
            Self::Sm80(tile) => tile.shared_bytes(),
            Self::Sm90(tile) => tile.shared_bytes(),
        }
    }
}

/// By how much whole heads are faster than items, as a fraction: its inverse is the part of the multiprocessors that they must keep busy.
const BUSY: (u64, u64) = (5, 4);

/// A backward entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackwardVariant {
    /// Name of the `.entry`.
    pub entry: &'static str,
    /// How its blocks divide the work.
    pub tile: BackwardTile,
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
        match self.tile {
            BackwardTile::Sm80(_) => Family::Sm80,
            BackwardTile::Sm90(_) => Family::Sm90a,
        }
    }

    /// Whether it computes this shape faster than the entries that follow it in the list, on so many multiprocessors.
    pub fn is_faster(&self, shape: Shape, multiprocessors: u32) -> bool {
        match self.tile {
            BackwardTile::Sm90(tile) if tile.keeps_dq() => {
                let queries =
                    u64::from(shape.group()) * u64::from(shape.sequence).next_multiple_of(TmaTile::STEP.into());
                let heads = u64::from(shape.batch) * u64::from(shape.kv_heads);
                // A block takes whole heads: its multiprocessor must not idle while others take one more.
                let rounds = heads.div_ceil(u64::from(multiprocessors.max(1)));
                let fits = queries <= u64::from(tile.dq_rows());
                // Of fewer rows, one warpgroup would idle.
                let is_long = shape.sequence.max(shape.kv_sequence) > TmaTile::STEP;
                fits && is_long && BUSY.0 * heads >= BUSY.1 * rounds * u64::from(multiprocessors)
            }
            // At most two items of keys a head, and two of queries.
            BackwardTile::Sm90(tile) if tile.warpgroups == 1 => {
                shape.sequence.max(shape.kv_sequence) <= 2 * tile.rows()
            }
            _ => true,
        }
    }

    /// Whether it copies through tensor maps, and takes them as a second argument.
    pub const fn uses_tensor_maps(&self) -> bool {
        matches!(self.tile, BackwardTile::Sm90(_))
    }

    /// The D that it computes.
    pub fn head_dims(&self) -> RangeInclusive<u32> {
        1..=self.tile.columns()
    }
}

/// Calls `$callback!` with every line `entry for F16, entry for Bf16: family tile, sequence, mask;` of the backward entries, with `, Modified`
/// after the mask of those with score modifications, as [`crate::for_every_variant`] does.
#[macro_export]
macro_rules! for_every_backward_variant {
    ($callback:ident) => {
        $callback! {
            fa512_sm90_backward_heads_full, fa512_sm90_bf16_backward_heads_full: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 3, own: 1, blocks: 1, dq: Dq::InSharedMemory { rows: 512, d_s: 2 } }, Any, Full;
            fa512_sm90_backward_heads_causal, fa512_sm90_bf16_backward_heads_causal: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 3, own: 1, blocks: 1, dq: Dq::InSharedMemory { rows: 512, d_s: 2 } }, Any, Causal;
            fa512_sm90_backward_short_full, fa512_sm90_bf16_backward_short_full: Sm90 TmaTile { columns: 64, warpgroups: 1, stages: 3, own: 2, blocks: 2, dq: Dq::ByItems }, Any, Full;
            fa512_sm90_backward_short_causal, fa512_sm90_bf16_backward_short_causal: Sm90 TmaTile { columns: 64, warpgroups: 1, stages: 3, own: 2, blocks: 2, dq: Dq::ByItems }, Any, Causal;
            fa512_sm90_backward_full, fa512_sm90_bf16_backward_full: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 4, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Full;
            fa512_sm90_backward_causal, fa512_sm90_bf16_backward_causal: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 4, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Causal;
            fa512_sm90_d128_backward_full, fa512_sm90_bf16_d128_backward_full: Sm90 TmaTile { columns: 128, warpgroups: 2, stages: 2, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Full;
            fa512_sm90_d128_backward_causal, fa512_sm90_bf16_d128_backward_causal: Sm90 TmaTile { columns: 128, warpgroups: 2, stages: 2, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Causal;
            fa512_sm80_backward_full, fa512_sm80_bf16_backward_full: Sm80 Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Any, Full;
            fa512_sm80_backward_causal, fa512_sm80_bf16_backward_causal: Sm80 Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Any, Causal;
            fa512_sm80_backward_modified, fa512_sm80_bf16_backward_modified: Sm80 Tile { columns: 64, rows: 64, step: 64, warps: 4, min_blocks: 2 }, Any, Window, Modified;
            fa512_sm80_backward_packed_full, fa512_sm80_bf16_backward_packed_full: Sm80 Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Packed, Full;
            fa512_sm80_backward_packed_causal, fa512_sm80_bf16_backward_packed_causal: Sm80 Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Packed, Causal;
            fa512_sm80_backward_packed_modified, fa512_sm80_bf16_backward_packed_modified: Sm80 Tile { columns: 64, rows: 64, step: 64, warps: 4, min_blocks: 2 }, Packed, Window, Modified;
            fa512_sm80_d128_backward_full, fa512_sm80_bf16_d128_backward_full: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Any, Full;
            fa512_sm80_d128_backward_causal, fa512_sm80_bf16_d128_backward_causal: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Any, Causal;
            fa512_sm80_d128_backward_modified, fa512_sm80_bf16_d128_backward_modified: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Any, Window, Modified;
            fa512_sm80_d128_backward_packed_full, fa512_sm80_bf16_d128_backward_packed_full: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Packed, Full;
            fa512_sm80_d128_backward_packed_causal, fa512_sm80_bf16_d128_backward_packed_causal: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Packed, Causal;
            fa512_sm80_d128_backward_packed_modified, fa512_sm80_bf16_d128_backward_packed_modified: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Packed, Window, Modified;
        }
    };
}

macro_rules! list {
    ($($f16:ident, $bf16:ident: $kind:ident $tile:expr, $sequence:ident, $mask:ident $(, $scores:ident)?;)*) => {
        /// Every backward entry. Among those that compute a gradient on a GPU, the first is taken.
        pub const BACKWARD_VARIANTS: &[BackwardVariant] = &[
            $(
                list!(@ $f16, F16, $kind $tile, $sequence, $mask, [$($scores)?]),
                list!(@ $bf16, Bf16, $kind $tile, $sequence, $mask, [$($scores)?]),
            )*
        ];
    };
    (@ $entry:ident, $element:ident, $kind:ident $tile:expr, $sequence:ident, $mask:ident, $scores:tt) => {
        BackwardVariant {
            entry: stringify!($entry),
            tile: BackwardTile::$kind($tile),
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
pub const fn file_of(family: Family) -> &'static str {
    match family {
        Family::Sm80 => "backward_sm_80.ptx",
        Family::Sm90a => "backward_sm_90a.ptx",
    }
}
