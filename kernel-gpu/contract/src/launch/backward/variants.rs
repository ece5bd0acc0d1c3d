//! The list of backward entries.

use core::ops::RangeInclusive;

use crate::schedule::architecture::{REGISTER_ALLOCATION_UNIT, REGISTERS_PER_MULTIPROCESSOR};
use crate::schedule::tile::sm90_tma::{MBARRIER_BYTES, TENSOR_MAP_ROWS};
use crate::spec::config::{ELEMENT_BYTES, Element, Family, MMA_M, Mask, Scores, Sequence, WARP_SIZE, WARPGROUP_WARPS};
use crate::spec::gpu::Gpu;
use crate::spec::limits::MAXIMUM_WORK_ITEMS;
use crate::spec::refusal::Refusal;
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
    /// Warps of a block, each with an equal share of its rows. If they are more than its strips of 16 rows, each strip has a pair.
    pub warps: u32,
    /// Blocks that a multiprocessor should hold at least.
    pub min_blocks: u32,
}

/// Stages of the tiles of a step.
pub const STAGES: u32 = 2;
/// Bytes of what a block knows of a query row: LSE in base 2, and the sum over dO ∘ O.
pub const STATISTICS_BYTES: u32 = 8;
/// Tiles of dS, and panels of dQ, that are handed over at once.
const IN_FLIGHT: u32 = 2;
/// Columns of a panel of dQ.
pub const PANEL_COLUMNS: u32 = 64;
/// Bytes of a panel of dQ, f32.
pub const PANEL_BYTES: u32 = TmaTile::STEP * PANEL_COLUMNS * 4;
/// Bytes of the number of an item in shared memory.
pub const NUMBER_BYTES: u32 = 8;

impl Tile {
    /// Columns of its tiles.
    pub const fn columns(self) -> u32 {
        self.columns
    }

    /// Whether pairs of warps share rows, where one warp has no registers for all columns. Then the fragments of a block's own rows are in
    /// registers, and the stages lie where these rows were.
    pub const fn is_paired(self) -> bool {
        self.warps * MMA_M > self.rows
    }

    /// Pairs of warps, or warps.
    pub const fn teams(self) -> u32 {
        if self.is_paired() { self.warps / 2 } else { self.warps }
    }

    /// Strips of 16 rows of a warp.
    pub const fn m_tiles(self) -> usize {
        (self.rows / self.teams() / MMA_M) as usize
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        self.warps * WARP_SIZE
    }

    /// Bytes of a row of a tile.
    const fn pitch(self) -> u32 {
        self.columns * ELEMENT_BYTES as u32
    }

    /// Bytes of `own` tiles of a block's own rows and of `staged` tiles in each stage.
    pub const fn tile_bytes(self, own: u32, staged: u32) -> u32 {
        let (own, staged) = (own * self.rows * self.pitch(), STAGES * staged * self.step * self.pitch());
        match self.is_paired() {
            true if own > staged => own,
            true => staged,
            false => own + staged,
        }
    }

    /// Dynamic shared memory of a block, bytes: that of a block which computes dK and dV, or of one which computes dQ, if that is larger.
    pub const fn shared_bytes(self) -> u32 {
        let of_keys = self.tile_bytes(2, 3) + STAGES * self.step * STATISTICS_BYTES;
        let of_queries = self.tile_bytes(3, 2) + self.rows * STATISTICS_BYTES;
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
    },
    /// By the item that computes all gradients of a head, which has one tile of queries and one of keys.
    OfOneTile,
    /// Of a step's queries, from the dS of an item's keys. The items add it to a sum in a workspace, one after another, so that the sum has the
    /// same bits every time; the last one stores it. One warpgroup more computes it.
    InWorkspace,
}

impl TmaTile {
    /// Rows that a block takes in a step.
    pub const STEP: u32 = TENSOR_MAP_ROWS;

    /// Registers of a thread that computes dQ from dS that was handed over.
    pub const fn dq_registers(self) -> u32 {
        if self.sums_in_workspace() { 72 } else { 80 }
    }

    /// Registers of a thread that does not compute products.
    pub const fn producer_registers(self) -> u32 {
        match self.dq {
            Dq::ByItems | Dq::OfOneTile => 40,
            Dq::InSharedMemory { .. } => 32,
            Dq::InWorkspace => 24,
        }
    }

    /// Query rows of a head of K and V whose dQ is computed in shared memory.
    pub const fn dq_rows(self) -> u32 {
        match self.dq {
            Dq::InSharedMemory { rows, .. } => rows,
            Dq::ByItems | Dq::OfOneTile | Dq::InWorkspace => 0,
        }
    }

    /// Tiles of dS in shared memory, through which it is handed over, or read by a product.
    pub const fn d_s(self) -> u32 {
        match self.dq {
            Dq::ByItems => 0,
            Dq::OfOneTile => 1,
            Dq::InSharedMemory { .. } | Dq::InWorkspace => IN_FLIGHT,
        }
    }

    /// Panels of dQ in shared memory on their way to the workspace.
    pub const fn panels(self) -> u32 {
        if self.sums_in_workspace() { IN_FLIGHT } else { 0 }
    }

    /// Whether dQ is computed in shared memory.
    pub const fn keeps_dq(self) -> bool {
        matches!(self.dq, Dq::InSharedMemory { .. })
    }

    /// Whether items add dQ to a sum in a workspace.
    pub const fn sums_in_workspace(self) -> bool {
        matches!(self.dq, Dq::InWorkspace)
    }

    /// Whether dQ is computed by items of its own, not from the dS of the items of keys.
    pub const fn has_query_items(self) -> bool {
        matches!(self.dq, Dq::ByItems)
    }

    /// Whether an item computes all gradients of a head.
    pub const fn is_of_one_tile(self) -> bool {
        matches!(self.dq, Dq::OfOneTile)
    }

    /// Whether dQ is computed from the dS of the items of keys, by a warpgroup of its own.
    pub const fn hands_over(self) -> bool {
        matches!(self.dq, Dq::InSharedMemory { .. } | Dq::InWorkspace)
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
        (self.warpgroups + self.hands_over() as u32 + 1) * WARPGROUP_WARPS * WARP_SIZE
    }

    /// Registers of a thread that computes products: those of the launch, and what the other threads give up.
    pub const fn consumer_registers(self) -> u32 {
        let at_launch = REGISTERS_PER_MULTIPROCESSOR / self.blocks / self.threads() / REGISTER_ALLOCATION_UNIT
            * REGISTER_ALLOCATION_UNIT;
        let of_dq = if self.hands_over() { at_launch - self.dq_registers() } else { 0 };
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

    /// Tiles of a stage: of Q and dO, or of K and V; and of O, unless it lies where dQ will be, or is read before.
    pub const fn staged(self) -> u32 {
        if self.hands_over() { 2 } else { 3 }
    }

    /// Bytes of a stage.
    pub const fn stage_bytes(self) -> u32 {
        self.staged() * Self::STEP * self.columns * ELEMENT_BYTES as u32
    }

    /// Query rows whose statistics are in a stage: those of a step, or of an item.
    pub const fn statistics_rows(self) -> u32 {
        if self.hands_over() { Self::STEP } else { self.rows() }
    }

    /// Bytes of the statistics of query rows in a stage.
    pub const fn statistics_bytes(self) -> u32 {
        self.statistics_rows() * STATISTICS_BYTES
    }

    /// Bytes of dQ in shared memory, f32: all of it, or panels on their way to the workspace.
    pub const fn dq_bytes(self) -> u32 {
        self.dq_rows() * self.columns * 4 + self.panels() * PANEL_BYTES
    }

    /// Mbarriers of dQ: one for each tile that is kept, three for each panel.
    pub const fn dq_barriers(self) -> u32 {
        self.dq_rows() / Self::STEP + 3 * self.panels()
    }

    /// Bytes of dS of a step.
    pub const fn d_s_bytes(self) -> u32 {
        self.rows() * Self::STEP * ELEMENT_BYTES as u32
    }

    /// Bytes of the numbers of the items in shared memory, which a producer draws where items add to sums.
    pub const fn number_bytes(self) -> u32 {
        if self.sums_in_workspace() { self.own * NUMBER_BYTES } else { 0 }
    }

    /// Mbarriers of a block: full and empty of own rows, stages and dS, those of the statistics of each stage, and of dQ.
    pub const fn mbarriers(self) -> u32 {
        2 * self.own + 3 * self.stages + 2 * self.d_s() + self.dq_barriers()
    }

    /// Dynamic shared memory of a block, bytes: own rows, stages, dQ and dS, and mbarriers.
    pub const fn shared_bytes(self) -> u32 {
        self.own * self.own_bytes()
            + self.stages * (self.stage_bytes() + self.statistics_bytes())
            + self.dq_bytes()
            + self.d_s() * self.d_s_bytes()
            + self.number_bytes()
            + self.mbarriers() * MBARRIER_BYTES
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
        !matches!(self, Self::Sm90(tile) if !tile.has_query_items())
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

    /// Mbarriers of a block.
    pub const fn mbarriers(self) -> u32 {
        match self {
            Self::Sm80(_) => 0,
            Self::Sm90(tile) => tile.mbarriers(),
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

/// Queries of a head from which on a workspace is worth its cost on an H200: of up to 64 columns, if the mask has all keys and if it is causal, and of
/// more columns. Up to 512 none is used.
const LONG: u32 = 700;
const LONG_CAUSAL: u32 = 1280;
const LONG_WIDE: u32 = 513;
/// Keys of a window from which on it is, likewise.
const FAR: u32 = 512;
const FAR_WIDE: u32 = 256;
/// Keys of a query, and queries of a head whose scores are changed, from which on items of up to 64 columns are faster than the blocks of sm_80, of which
/// more run at once.
const NEAR: u32 = 96;
const CHANGED: u32 = 384;
/// The part of the multiprocessors that items of all keys of narrow heads must keep busy, where these take turns on them.
const BUSY_WITH_ITEMS: (u64, u64) = (10, 7);

/// What [`Divisor`](crate::schedule::divisor::Divisor) divides is less.
const MOST_DIVIDED: u64 = 1 << 31;
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
    /// Whether it computes dBias.
    pub computes_d_bias: bool,
}

impl BackwardVariant {
    /// Instruction family.
    pub const fn family(&self) -> Family {
        match self.tile {
            BackwardTile::Sm80(_) => Family::Sm80,
            BackwardTile::Sm90(_) => Family::Sm90a,
        }
    }

    /// Requires `gpu` to have its instructions and enough shared memory.
    ///
    /// # Errors
    /// [`Refusal::OtherArchitecture`] or [`Refusal::SharedMemory`].
    pub fn check_fits(&self, gpu: &Gpu<'_>) -> Result<(), Refusal> {
        let (family, architecture) = (self.family(), gpu.architecture);
        if !family.runs_on(architecture) {
            return Err(Refusal::OtherArchitecture { family, architecture });
        }
        let (needed, available) = (self.tile.shared_bytes(), gpu.shared_bytes_per_block);
        if available < needed { Err(Refusal::SharedMemory { needed, available }) } else { Ok(()) }
    }

    /// Whether it computes this shape, whose queries attend to at most `keys` keys, faster than the entries that follow it in the list, on so many
    /// multiprocessors.
    pub fn is_faster(&self, shape: Shape, keys: u32, multiprocessors: u32) -> bool {
        if !self.takes_rows(shape, multiprocessors) {
            return false;
        }
        let longest = shape.sequence.max(shape.kv_sequence);
        match self.tile {
            BackwardTile::Sm90(tile) if tile.keeps_dq() => {
                let heads = u64::from(shape.batch) * u64::from(shape.kv_heads);
                // A block takes whole heads: its multiprocessor must not idle while others take one more.
                let rounds = heads.div_ceil(u64::from(multiprocessors.max(1)));
                // Of fewer rows, one warpgroup would idle.
                longest > TmaTile::STEP && BUSY.0 * heads >= BUSY.1 * rounds * u64::from(multiprocessors)
            }
            BackwardTile::Sm90(tile) if tile.sums_in_workspace() => {
                self.is_worth_a_workspace(tile, shape, keys, multiprocessors)
            }
            BackwardTile::Sm90(tile) if tile.is_of_one_tile() => true,
            BackwardTile::Sm90(_) if self.scores == Scores::Modified => keys >= NEAR && shape.sequence >= CHANGED,
            BackwardTile::Sm90(tile) if self.mask == Mask::Window => {
                let (is_wide, is_narrow) = (tile.columns > PANEL_COLUMNS, shape.head_dim <= PANEL_COLUMNS);
                is_wide != is_narrow && (is_wide || keys >= NEAR) && longest > tile.rows()
            }
            // At most two items of keys a head, and two of queries.
            BackwardTile::Sm90(tile) if tile.warpgroups == 1 => longest <= 2 * tile.rows(),
            // Of fewer rows, one warpgroup would idle; the blocks of sm_80, of which more run at once, take half the time.
            BackwardTile::Sm90(tile) if tile.columns > PANEL_COLUMNS => longest > TmaTile::STEP,
            _ => true,
        }
    }

    /// Whether summing dQ in a workspace is faster than computing it by items of queries.
    fn is_worth_a_workspace(&self, tile: TmaTile, shape: Shape, keys: u32, multiprocessors: u32) -> bool {
        let product = |counts: [u32; 3]| counts.into_iter().fold(1, |all: u64, count| all.saturating_mul(count.into()));
        let items = product([shape.batch, shape.kv_heads, shape.kv_sequence.div_ceil(tile.rows())]);
        let at_once = u64::from(multiprocessors.max(1));
        let places = items.div_ceil(at_once) * at_once;
        let (shortest, keep_busy) = match (self.mask, tile.columns > PANEL_COLUMNS) {
            (Mask::Window, is_wide) => (LONG_WIDE, keys >= if is_wide { FAR_WIDE } else { FAR } && items >= at_once),
            // Causal items of a head wait for each other in the beginning.
            (Mask::Causal, is_wide) => (if is_wide { LONG_WIDE } else { LONG_CAUSAL }, items >= at_once),
            // Fewer leave multiprocessors idle on which items of queries would run.
            (_, false) if items > at_once => (LONG, BUSY_WITH_ITEMS.0 * items >= BUSY_WITH_ITEMS.1 * places),
            (_, is_wide) => (if is_wide { LONG_WIDE } else { LONG }, 2 * items >= at_once),
        };
        // Of narrow heads, most of a tile would be zeros.
        shape.sequence >= shortest && keep_busy && 2 * shape.head_dim > tile.columns
    }

    /// The most query rows, in whole tiles, of the heads of Q that share a head of K and V, and the most keys of a head.
    pub const fn most_rows(&self) -> [u32; 2] {
        match self.tile {
            BackwardTile::Sm90(tile) if tile.keeps_dq() => [tile.dq_rows(), u32::MAX],
            BackwardTile::Sm90(tile) if tile.is_of_one_tile() => [TmaTile::STEP; 2],
            _ => [u32::MAX; 2],
        }
    }

    /// Whether it can compute heads of so many rows; where it adds to sums, with a block on each multiprocessor, which have to count them.
    pub fn takes_rows(&self, shape: Shape, multiprocessors: u32) -> bool {
        let [of_queries, of_keys] = self.most_rows();
        let queries = u64::from(shape.group()) * u64::from(shape.sequence).next_multiple_of(TmaTile::STEP.into());
        let has_room = of_queries == u32::MAX || queries <= of_queries.into();
        has_room && shape.kv_sequence <= of_keys && (!self.sums_in_workspace() || self.counts(shape, multiprocessors))
    }

    /// Whether its blocks, one for each multiprocessor, can count the sums of this shape.
    fn counts(&self, shape: Shape, multiprocessors: u32) -> bool {
        let tiles = |heads: u32| u64::from(heads) * u64::from(shape.sequence.div_ceil(TmaTile::STEP));
        tiles(shape.batch.saturating_mul(shape.heads)) <= MAXIMUM_WORK_ITEMS
            && (!self.rotates() || tiles(shape.group()) * u64::from(multiprocessors) <= MOST_DIVIDED)
    }

    /// Whether its items that run at once begin at different queries and add to sums in that order: those of all keys, which have the same queries.
    pub(super) fn rotates(&self) -> bool {
        self.sums_in_workspace() && self.mask == Mask::Full
    }

    /// Whether its items add dQ to sums in a workspace, which a launch before theirs prepares.
    pub const fn sums_in_workspace(&self) -> bool {
        matches!(self.tile, BackwardTile::Sm90(tile) if tile.sums_in_workspace())
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
/// after the mask of those with score modifications, as [`crate::for_every_variant`] does, and `, DBias` after that of those that compute it.
#[macro_export]
macro_rules! for_every_backward_variant {
    ($callback:ident) => {
        $callback! {
            fa512_sm90_backward_heads_full, fa512_sm90_bf16_backward_heads_full: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 3, own: 1, blocks: 1, dq: Dq::InSharedMemory { rows: 512 } }, Any, Full;
            fa512_sm90_backward_heads_causal, fa512_sm90_bf16_backward_heads_causal: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 3, own: 1, blocks: 1, dq: Dq::InSharedMemory { rows: 512 } }, Any, Causal;
            fa512_sm90_backward_ordered_full, fa512_sm90_bf16_backward_ordered_full: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 4, own: 2, blocks: 1, dq: Dq::InWorkspace }, Any, Full;
            fa512_sm90_backward_ordered_causal, fa512_sm90_bf16_backward_ordered_causal: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 4, own: 2, blocks: 1, dq: Dq::InWorkspace }, Any, Causal;
            fa512_sm90_d128_backward_ordered_full, fa512_sm90_bf16_d128_backward_ordered_full: Sm90 TmaTile { columns: 128, warpgroups: 2, stages: 3, own: 1, blocks: 1, dq: Dq::InWorkspace }, Any, Full;
            fa512_sm90_d128_backward_ordered_causal, fa512_sm90_bf16_d128_backward_ordered_causal: Sm90 TmaTile { columns: 128, warpgroups: 2, stages: 3, own: 1, blocks: 1, dq: Dq::InWorkspace }, Any, Causal;
            fa512_sm90_backward_single_full, fa512_sm90_bf16_backward_single_full: Sm90 TmaTile { columns: 64, warpgroups: 1, stages: 2, own: 1, blocks: 2, dq: Dq::OfOneTile }, Any, Full;
            fa512_sm90_backward_single_causal, fa512_sm90_bf16_backward_single_causal: Sm90 TmaTile { columns: 64, warpgroups: 1, stages: 2, own: 1, blocks: 2, dq: Dq::OfOneTile }, Any, Causal;
            fa512_sm90_d128_backward_single_full, fa512_sm90_bf16_d128_backward_single_full: Sm90 TmaTile { columns: 128, warpgroups: 1, stages: 1, own: 1, blocks: 2, dq: Dq::OfOneTile }, Any, Full;
            fa512_sm90_d128_backward_single_causal, fa512_sm90_bf16_d128_backward_single_causal: Sm90 TmaTile { columns: 128, warpgroups: 1, stages: 1, own: 1, blocks: 2, dq: Dq::OfOneTile }, Any, Causal;
            fa512_sm90_backward_short_full, fa512_sm90_bf16_backward_short_full: Sm90 TmaTile { columns: 64, warpgroups: 1, stages: 3, own: 2, blocks: 2, dq: Dq::ByItems }, Any, Full;
            fa512_sm90_backward_short_causal, fa512_sm90_bf16_backward_short_causal: Sm90 TmaTile { columns: 64, warpgroups: 1, stages: 3, own: 2, blocks: 2, dq: Dq::ByItems }, Any, Causal;
            fa512_sm90_backward_ordered_window, fa512_sm90_bf16_backward_ordered_window: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 4, own: 2, blocks: 1, dq: Dq::InWorkspace }, Any, Window;
            fa512_sm90_d128_backward_ordered_window, fa512_sm90_bf16_d128_backward_ordered_window: Sm90 TmaTile { columns: 128, warpgroups: 2, stages: 3, own: 1, blocks: 1, dq: Dq::InWorkspace }, Any, Window;
            fa512_sm90_backward_window, fa512_sm90_bf16_backward_window: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 4, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Window;
            fa512_sm90_backward_modified, fa512_sm90_bf16_backward_modified: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 4, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Window, Modified;
            fa512_sm90_d128_backward_window, fa512_sm90_bf16_d128_backward_window: Sm90 TmaTile { columns: 128, warpgroups: 2, stages: 2, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Window;
            fa512_sm90_backward_full, fa512_sm90_bf16_backward_full: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 4, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Full;
            fa512_sm90_backward_causal, fa512_sm90_bf16_backward_causal: Sm90 TmaTile { columns: 64, warpgroups: 2, stages: 4, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Causal;
            fa512_sm90_d128_backward_full, fa512_sm90_bf16_d128_backward_full: Sm90 TmaTile { columns: 128, warpgroups: 2, stages: 2, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Full;
            fa512_sm90_d128_backward_causal, fa512_sm90_bf16_d128_backward_causal: Sm90 TmaTile { columns: 128, warpgroups: 2, stages: 2, own: 2, blocks: 1, dq: Dq::ByItems }, Any, Causal;
            fa512_sm80_backward_full, fa512_sm80_bf16_backward_full: Sm80 Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Any, Full;
            fa512_sm80_backward_causal, fa512_sm80_bf16_backward_causal: Sm80 Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Any, Causal;
            fa512_sm80_backward_modified, fa512_sm80_bf16_backward_modified: Sm80 Tile { columns: 64, rows: 64, step: 64, warps: 4, min_blocks: 3 }, Any, Window, Modified;
            fa512_sm80_backward_dbias, fa512_sm80_bf16_backward_dbias: Sm80 Tile { columns: 64, rows: 64, step: 64, warps: 4, min_blocks: 3 }, Any, Window, Modified, DBias;
            fa512_sm80_backward_packed_full, fa512_sm80_bf16_backward_packed_full: Sm80 Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Packed, Full;
            fa512_sm80_backward_packed_causal, fa512_sm80_bf16_backward_packed_causal: Sm80 Tile { columns: 64, rows: 128, step: 64, warps: 4, min_blocks: 2 }, Packed, Causal;
            fa512_sm80_backward_packed_modified, fa512_sm80_bf16_backward_packed_modified: Sm80 Tile { columns: 64, rows: 64, step: 64, warps: 4, min_blocks: 3 }, Packed, Window, Modified;
            fa512_sm80_d128_backward_full, fa512_sm80_bf16_d128_backward_full: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Any, Full;
            fa512_sm80_d128_backward_causal, fa512_sm80_bf16_d128_backward_causal: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Any, Causal;
            fa512_sm80_d128_backward_modified, fa512_sm80_bf16_d128_backward_modified: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Any, Window, Modified;
            fa512_sm80_d128_backward_dbias, fa512_sm80_bf16_d128_backward_dbias: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Any, Window, Modified, DBias;
            fa512_sm80_d128_backward_packed_full, fa512_sm80_bf16_d128_backward_packed_full: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Packed, Full;
            fa512_sm80_d128_backward_packed_causal, fa512_sm80_bf16_d128_backward_packed_causal: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Packed, Causal;
            fa512_sm80_d128_backward_packed_modified, fa512_sm80_bf16_d128_backward_packed_modified: Sm80 Tile { columns: 128, rows: 64, step: 32, warps: 4, min_blocks: 2 }, Packed, Window, Modified;
            fa512_sm80_d192_backward_full, fa512_sm80_bf16_d192_backward_full: Sm80 Tile { columns: 192, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Any, Full;
            fa512_sm80_d192_backward_causal, fa512_sm80_bf16_d192_backward_causal: Sm80 Tile { columns: 192, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Any, Causal;
            fa512_sm80_d192_backward_modified, fa512_sm80_bf16_d192_backward_modified: Sm80 Tile { columns: 192, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Any, Window, Modified;
            fa512_sm80_d192_backward_dbias, fa512_sm80_bf16_d192_backward_dbias: Sm80 Tile { columns: 192, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Any, Window, Modified, DBias;
            fa512_sm80_d192_backward_packed_full, fa512_sm80_bf16_d192_backward_packed_full: Sm80 Tile { columns: 192, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Packed, Full;
            fa512_sm80_d192_backward_packed_causal, fa512_sm80_bf16_d192_backward_packed_causal: Sm80 Tile { columns: 192, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Packed, Causal;
            fa512_sm80_d192_backward_packed_modified, fa512_sm80_bf16_d192_backward_packed_modified: Sm80 Tile { columns: 192, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Packed, Window, Modified;
            fa512_sm80_d256_backward_full, fa512_sm80_bf16_d256_backward_full: Sm80 Tile { columns: 256, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Any, Full;
            fa512_sm80_d256_backward_causal, fa512_sm80_bf16_d256_backward_causal: Sm80 Tile { columns: 256, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Any, Causal;
            fa512_sm80_d256_backward_modified, fa512_sm80_bf16_d256_backward_modified: Sm80 Tile { columns: 256, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Any, Window, Modified;
            fa512_sm80_d256_backward_dbias, fa512_sm80_bf16_d256_backward_dbias: Sm80 Tile { columns: 256, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Any, Window, Modified, DBias;
            fa512_sm80_d256_backward_packed_full, fa512_sm80_bf16_d256_backward_packed_full: Sm80 Tile { columns: 256, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Packed, Full;
            fa512_sm80_d256_backward_packed_causal, fa512_sm80_bf16_d256_backward_packed_causal: Sm80 Tile { columns: 256, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Packed, Causal;
            fa512_sm80_d256_backward_packed_modified, fa512_sm80_bf16_d256_backward_packed_modified: Sm80 Tile { columns: 256, rows: 64, step: 32, warps: 8, min_blocks: 1 }, Packed, Window, Modified;
        }
    };
}

macro_rules! list {
    ($($f16:ident, $bf16:ident: $kind:ident $tile:expr, $sequence:ident, $mask:ident $(, $scores:ident $(, $d_bias:ident)?)?;)*) => {
        /// Every backward entry. Among those that compute a gradient on a GPU, the first is taken.
        pub const BACKWARD_VARIANTS: &[BackwardVariant] = &[
            $(
                list!(@ $f16, F16, $kind $tile, $sequence, $mask, [$($scores $(, $d_bias)?)?]),
                list!(@ $bf16, Bf16, $kind $tile, $sequence, $mask, [$($scores $(, $d_bias)?)?]),
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
            computes_d_bias: list!(@computes_d_bias $scores),
        }
    };
    (@scores []) => { Scores::Unmodified };
    (@scores [$scores:ident $(, DBias)?]) => { Scores::$scores };
    (@computes_d_bias [$scores:ident, DBias]) => { true };
    (@computes_d_bias $scores:tt) => { false };
}

for_every_backward_variant!(list);

/// File of the PTX of a family's backward entries.
pub const fn file_of(family: Family) -> &'static str {
    match family {
        Family::Sm80 => "backward_sm_80.ptx",
        Family::Sm90a => "backward_sm_90a.ptx",
    }
}
