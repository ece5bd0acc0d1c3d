//! Tiles of the sm_90a kernels that load through tensor maps.

use super::block::{
    Block, accumulator_registers, allocated, check_columns, check_sequence, minimum, row_bytes, threads, tile_bytes,
};
use super::{BiasTiles, Grid, Overlap, Rejection};
use crate::schedule::architecture::{
    ArchitectureLimits, MOST_GENEROUS, REGISTER_ALLOCATION_UNIT, REGISTERS_PER_THREAD,
};
use crate::spec::config::{HEAD_DIM, MMA_K, MMA_N, Sequence, WARPGROUP_ROWS, WARPGROUP_WARPS};

/// Rows of a tensor map's box, which one copy moves to or from shared memory. A tile of more rows takes several
/// copies.
pub const TENSOR_MAP_ROWS: u32 = 64;
/// Maximum columns of that box: the widest swizzle spans 128 bytes.
pub const TENSOR_MAP_COLUMNS: u32 = 64;

/// Columns of a panel of tiles of `columns` columns: the span of a swizzle that makes all panels full.
pub const fn panel_columns(columns: u32) -> u32 {
    if columns % TENSOR_MAP_COLUMNS == 0 { TENSOR_MAP_COLUMNS } else { 32 }
}

/// Bytes of a row's statistics: its shift and its sum, f32 each.
pub const ROW_STATISTICS_BYTES: u32 = 8;
/// Bytes of a strip's description for packed sequences, where the sequence has to be looked up: one half holds the head and the
/// tile of the sequence, the other the number of keys.
pub const STRIP_TILE_BYTES: u32 = 32;
/// Work items of packed sequences that are found before their rows are copied.
pub const ITEMS_AHEAD: u32 = 2;
/// Bytes of what is said of one: in one half its head and tile, in the other its keys.
pub const ITEM_BYTES: u32 = 32;
/// Packed sequences whose sizes a block keeps, two bytes each.
pub const SIZES_KEPT: u32 = 256;
/// Alignment of what lies behind all else: the widest swizzle permutes chunks of this many bytes, so that it does not matter where
/// in its pattern the ones that sum P begin.
pub const TILE_ALIGNMENT: u32 = 128;
/// Bytes of an mbarrier.
pub const MBARRIER_BYTES: u32 = 8;
/// Minimum register count of `setmaxnreg`.
const SMALLEST_REGISTER_COUNT: u32 = 24;

/// Tile configuration of kernels that load by TMA (`cp.async.bulk.tensor`) and compute with `wgmma`. One thread of a producer
/// warpgroup, which computes nothing, starts copies of whole tiles through tensor maps; O is stored the same way. Q is read
/// from shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(deny_unknown_fields))]
pub struct Sm90Tma {
    /// Computing warpgroups of a block; each owns 64 query rows per pass.
    pub warpgroups: u32,
    /// Number of K/V stages in shared memory.
    pub stages: u32,
    /// Blocks that must fit on a multiprocessor (`.minnctapersm`); bounds the registers of a thread. A persistent grid launches this
    /// many per multiprocessor.
    pub min_blocks: u32,
    /// How often each warpgroup goes through K and V of a work item, each time with another strip of 64 query rows. With 2, the
    /// item is a whole head, whose K and V stay in shared memory.
    pub passes: u32,
    /// How work items are spread over blocks.
    pub grid: Grid,
    /// What the softmax of a warpgroup overlaps with.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub overlap: Overlap,
    /// Columns of the tiles of Q, K, V and O, at least D.
    #[cfg_attr(feature = "manifest", serde(default = "super::block::usual_columns"))]
    pub columns: u32,
    /// Room for a bias.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub bias_tiles: BiasTiles,
}

impl Sm90Tma {
    /// Keys per step of the K/V loop: the rows of a tensor map's box.
    pub const BLOCK_N: u32 = TENSOR_MAP_ROWS;

    /// A tile with the defaults for everything else.
    pub const fn new(warpgroups: u32, stages: u32) -> Self {
        Self {
            warpgroups,
            stages,
            min_blocks: 1,
            passes: 1,
            grid: Grid::OneShot,
            overlap: Overlap::BetweenWarpgroups,
            columns: HEAD_DIM,
            bias_tiles: BiasTiles::NoTiles,
        }
    }

    /// Query rows of one work item.
    pub const fn block_m(self) -> u32 {
        self.warpgroups.saturating_mul(WARPGROUP_ROWS).saturating_mul(self.passes)
    }

    /// Columns of the tiles.
    pub const fn columns(self) -> u32 {
        self.columns
    }

    /// Whether blocks share K and V of a head in the order of items under a causal mask
    /// ([`WorkOrder::LongestFirstTogether`](crate::schedule::longest_first::WorkOrder::LongestFirstTogether)): tiles of wide rows take long to read.
    #[inline(always)]
    pub const fn keeps_tiles_together(self) -> bool {
        self.columns > HEAD_DIM
    }

    /// Threads of a block, including the producer's warpgroup.
    pub const fn threads(self) -> u32 {
        threads(self.warpgroups.saturating_add(1).saturating_mul(WARPGROUP_WARPS))
    }

    /// Whether a work item is a whole head.
    pub const fn holds_whole_heads(self) -> bool {
        self.passes == 2
    }

    /// Whether the keys of a work item are split among blocks.
    pub const fn splits_keys(self) -> bool {
        matches!(self.grid, Grid::SplitKeys)
    }

    /// Whether a block of one or two warpgroups computes one strip per warpgroup for any sequence length, so that keys can be split.
    const fn is_one_strip_of(self, sequence: Sequence) -> bool {
        self.warpgroups <= 2 && self.passes == 1 && matches!(sequence, Sequence::Any)
    }

    /// Query rows that a block has room for in shared memory: those of a work item. If each warpgroup has a single strip of it, also
    /// those of the next item, which is loaded meanwhile.
    pub const fn query_rows(self) -> u32 {
        if self.passes == 1 && !self.splits_keys() { self.block_m().saturating_mul(2) } else { self.block_m() }
    }

    /// Mbarriers of a block: full, computed and empty for each strip of Q; full and empty for K and V of each stage and for each item
    /// that is found ahead.
    pub const fn mbarriers(self) -> u32 {
        let of_strips = (self.query_rows() / TENSOR_MAP_ROWS).saturating_mul(3);
        of_strips.saturating_add(self.stages.saturating_mul(2)).saturating_add(ITEMS_AHEAD * 2)
    }

    /// Dynamic shared memory of a block, bytes: its tiles, the row statistics that the warps that compute O pass to those that
    /// store LSE, its mbarriers, the descriptions of its strips and of the items ahead, the sizes of sequences, and what lies [behind](Self::behind_items).
    pub const fn shared_bytes(self) -> u32 {
        match self.ones_bytes().saturating_add(self.bias_bytes()) {
            0 => self.items_end(),
            last => self.behind_items().saturating_add(last),
        }
    }

    /// Where the descriptions of items and the sizes of sequences end in shared memory.
    const fn items_end(self) -> u32 {
        let statistics = self.query_rows().saturating_mul(ROW_STATISTICS_BYTES);
        let mbarriers = self.mbarriers().saturating_mul(MBARRIER_BYTES);
        let strip_tiles = (self.query_rows() / TENSOR_MAP_ROWS).saturating_mul(STRIP_TILE_BYTES);
        tile_bytes(self.columns, self.query_rows(), self.stages, Self::BLOCK_N)
            .saturating_add(statistics)
            .saturating_add(mbarriers)
            .saturating_add(strip_tiles)
            .saturating_add(ITEMS_AHEAD * ITEM_BYTES)
            .saturating_add(self.sizes_bytes())
    }

    /// Bytes of the sizes of packed sequences.
    pub const fn sizes_bytes(self) -> u32 {
        if self.splits_keys() { 0 } else { SIZES_KEPT * 2 }
    }

    /// Where the ones that sum P begin in shared memory, or the tiles of a bias.
    pub const fn behind_items(self) -> u32 {
        self.items_end().saturating_add(TILE_ALIGNMENT - 1) / TILE_ALIGNMENT * TILE_ALIGNMENT
    }

    /// Registers allocated per thread at launch: an equal share among `min_blocks` blocks.
    pub const fn launch_registers(self) -> u32 {
        self.block().launch_registers()
    }

    /// Registers that a producer thread keeps (`setmaxnreg.dec`); the computing threads take the others.
    pub const fn producer_registers(self) -> u32 {
        let taken = (self.consumer_registers() - self.launch_registers()) * self.warpgroups;
        self.launch_registers().saturating_sub(taken) / REGISTER_ALLOCATION_UNIT * REGISTER_ALLOCATION_UNIT
    }

    /// Registers of a computing thread: those of the launch, and its share of those that the producers give up
    /// (`setmaxnreg.inc`).
    pub const fn consumer_registers(self) -> u32 {
        // Copies of several panels would spill with the minimum.
        let kept = if self.columns > TENSOR_MAP_COLUMNS { 40 } else { SMALLEST_REGISTER_COUNT };
        let given_up = self.launch_registers().saturating_sub(kept);
        allocated(self.launch_registers() + given_up / self.warpgroups)
    }

    /// Registers of one thread for the accumulators of scores and output of one strip, and for the fragments of P; a lower bound. If
    /// the softmax overlaps with a product that reads P, it needs separate registers for its own probabilities.
    pub const fn accumulator_registers(self) -> u32 {
        let score_tiles = Self::BLOCK_N / MMA_N * if self.overlaps_own_products() { 2 } else { 1 };
        accumulator_registers(self.columns, Self::BLOCK_N / MMA_K, 1, score_tiles)
    }

    /// Whether row sums are products of P with ones, beside those with V: unless the softmax overlaps with them, a bias takes the ones'
    /// place, or shared memory is full.
    pub const fn sums_by_product(self) -> bool {
        let with_ones = self.block_with(self.behind_items().saturating_add(self.ones()));
        let has_room = matches!(with_ones.check_shared_memory(MOST_GENEROUS), Ok(()));
        has_room && !self.overlaps_own_products() && self.bias_bytes() == 0
    }

    /// Bytes of these ones, if there are any.
    pub const fn ones_bytes(self) -> u32 {
        if self.sums_by_product() { self.ones() } else { 0 }
    }

    /// As many rows as a product is deep, as wide as those of a panel of V, since one descriptor may cover both.
    const fn ones(self) -> u32 {
        MMA_K * row_bytes(panel_columns(self.columns))
    }

    /// Bytes of the tiles of a bias, each with an element for every score of a warpgroup's step.
    pub const fn bias_bytes(self) -> u32 {
        match self.bias_tiles {
            BiasTiles::NoTiles => 0,
            BiasTiles::OnePerWarpgroup => self.warpgroups.saturating_mul(WARPGROUP_ROWS * row_bytes(Self::BLOCK_N)),
        }
    }

    /// Whether the softmax of a warpgroup overlaps with its own products.
    pub const fn overlaps_own_products(self) -> bool {
        !matches!(self.overlap, Overlap::BetweenWarpgroups)
    }

    /// Checks everything that does not depend on the sequence.
    #[inline]
    pub const fn check_tile(self, limits: ArchitectureLimits) -> Result<(), Rejection> {
        // Without computing warpgroups only the producer's would remain.
        if self.warpgroups == 0 {
            return Err(Rejection::Threads);
        }
        if let Err(rejection) = self.block().check_threads(limits) {
            return Err(rejection);
        }
        if let Err(rejection) = check_columns(self.columns) {
            return Err(rejection);
        }
        if self.passes == 0 || self.passes > 2 {
            return Err(Rejection::Passes);
        }
        if self.stages < 2 {
            return Err(Rejection::Stages);
        }
        // A warpgroup keeps the last tile of its strip until the first tile of the next item has arrived. Under a causal mask the strips
        // of an item end at different tiles.
        if self.warpgroups >= self.stages {
            return Err(Rejection::StagesForStrips);
        }
        if self.holds_whole_heads() && self.block_m() != self.stages.saturating_mul(Self::BLOCK_N) {
            return Err(Rejection::WholeHead);
        }
        if self.accumulator_registers() > minimum(self.consumer_registers(), REGISTERS_PER_THREAD) {
            return Err(Rejection::Registers);
        }
        self.block().check_shared_memory(limits)
    }

    /// Checks the configuration of a kernel for `sequence` on an architecture.
    #[inline]
    pub const fn check(self, sequence: Sequence, limits: ArchitectureLimits) -> Result<(), Rejection> {
        if let Err(rejection) = self.check_tile(limits) {
            return Err(rejection);
        }
        match sequence {
            _ if self.splits_keys() && !self.is_one_strip_of(sequence) => Err(Rejection::SplitKeys),
            Sequence::Exact(length) if self.holds_whole_heads() && length == self.block_m() => Ok(()),
            _ if self.holds_whole_heads() => Err(Rejection::WholeHead),
            _ => check_sequence(sequence, self.block_m(), Self::BLOCK_N),
        }
    }

    pub(super) const fn block(self) -> Block {
        self.block_with(self.shared_bytes())
    }

    const fn block_with(self, shared_bytes: u32) -> Block {
        Block { threads: self.threads(), shared_bytes, min_blocks: self.min_blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::architecture::REGISTERS_PER_MULTIPROCESSOR;
    use crate::spec::config::WARP_SIZE;

    /// Four warpgroups that go through a whole head in two passes.
    const HEAD: Sm90Tma = Sm90Tma { passes: 2, ..Sm90Tma::new(4, 8) };

    #[test]
    fn each_gate_names_its_reason() {
        let (exact, small) = (Sequence::Exact(512), Sm90Tma::new(2, 8));
        let cases = [
            (HEAD, exact, Ok(())),
            (small, exact, Ok(())),
            (Sm90Tma::new(4, 8), Sequence::Any, Ok(())),
            (Sm90Tma { grid: Grid::Persistent, ..small }, Sequence::Any, Ok(())),
            (Sm90Tma { warpgroups: 0, ..small }, exact, Err(Rejection::Threads)),
            (Sm90Tma { warpgroups: 8, ..small }, exact, Err(Rejection::Threads)),
            (Sm90Tma { warpgroups: u32::MAX, ..small }, exact, Err(Rejection::Threads)),
            (Sm90Tma { min_blocks: 0, ..small }, exact, Err(Rejection::Threads)),
            (Sm90Tma { passes: 0, ..small }, exact, Err(Rejection::Passes)),
            (Sm90Tma { passes: 3, ..small }, exact, Err(Rejection::Passes)),
            (Sm90Tma { stages: 1, ..small }, exact, Err(Rejection::Stages)),
            (Sm90Tma { stages: 5, ..Sm90Tma::new(4, 8) }, exact, Ok(())),
            (Sm90Tma { stages: 4, ..Sm90Tma::new(4, 8) }, exact, Err(Rejection::StagesForStrips)),
            (HEAD, Sequence::Any, Err(Rejection::WholeHead)),
            (HEAD, Sequence::Exact(1024), Err(Rejection::WholeHead)),
            (Sm90Tma { stages: 7, ..HEAD }, exact, Err(Rejection::WholeHead)),
            (Sm90Tma { grid: Grid::SplitKeys, ..Sm90Tma::new(1, 4) }, Sequence::Any, Ok(())),
            (Sm90Tma { grid: Grid::SplitKeys, ..Sm90Tma::new(1, 4) }, exact, Err(Rejection::SplitKeys)),
            (Sm90Tma { grid: Grid::SplitKeys, ..small }, Sequence::Any, Ok(())),
            (Sm90Tma { grid: Grid::SplitKeys, ..Sm90Tma::new(3, 6) }, Sequence::Any, Err(Rejection::SplitKeys)),
            (Sm90Tma { warpgroups: 2, ..HEAD }, exact, Err(Rejection::WholeHead)),
            (Sm90Tma { min_blocks: 2, ..HEAD }, exact, Err(Rejection::Registers)),
            (Sm90Tma { columns: 128, overlap: Overlap::AcrossStrips, ..Sm90Tma::new(2, 5) }, Sequence::Any, Ok(())),
            (
                Sm90Tma { columns: 96, overlap: Overlap::WithinStrip, ..Sm90Tma::new(4, 5) },
                Sequence::Any,
                Err(Rejection::Registers),
            ),
            (Sm90Tma { stages: 13, ..small }, exact, Err(Rejection::SharedMemory)),
            (Sm90Tma { stages: u32::MAX, ..small }, exact, Err(Rejection::SharedMemory)),
            (small, Sequence::Exact(500), Err(Rejection::SequenceDivisibility)),
        ];
        for (tile, sequence, expected) in cases {
            assert_eq!(tile.check(sequence, MOST_GENEROUS), expected, "{tile:?} for {sequence:?}");
        }
    }

    #[test]
    fn registers_move_from_producers_to_consumers() {
        for (warpgroups, passes, min_blocks, expected) in
            [(2, 2, 1, (168, 240)), (3, 1, 1, (128, 160)), (4, 1, 1, (96, 112)), (1, 2, 2, (128, 232))]
        {
            let tile = Sm90Tma { passes, min_blocks, ..Sm90Tma::new(warpgroups, 8) };
            assert_eq!((tile.launch_registers(), tile.consumer_registers()), expected, "{tile:?}");
            let needed = tile.producer_registers() + warpgroups * tile.consumer_registers();
            let launched = (warpgroups + 1) * tile.launch_registers();
            assert!(tile.producer_registers() >= SMALLEST_REGISTER_COUNT, "setmaxnreg takes no fewer: {tile:?}");
            assert!(needed <= launched, "the last to ask would wait for ever: {tile:?}");
            let of_all = launched * WARPGROUP_WARPS * WARP_SIZE * min_blocks;
            assert!(of_all <= REGISTERS_PER_MULTIPROCESSOR, "{tile:?}");
        }
    }

    #[test]
    fn a_block_has_room_for_tiles_statistics_mbarriers_and_ones() {
        assert_eq!(HEAD.threads(), 20 * 32, "four warpgroups that compute and one that copies");
        let before_ones = (512 + 2 * 8 * 64) * 128 + 512 * 8 + (8 + 2) * 32 + (3 * 8 + 2 * 8 + 2 * 2) * 8 + 256 * 2;
        let padding = TILE_ALIGNMENT - before_ones % TILE_ALIGNMENT;
        assert_eq!(HEAD.shared_bytes(), before_ones + padding + 16 * 128, "ones for 16 keys, in rows like those of V");
        let overlapping = Sm90Tma { overlap: Overlap::WithinStrip, ..HEAD };
        assert_eq!(overlapping.shared_bytes(), before_ones, "its softmax adds");
        assert_eq!(Sm90Tma::new(4, 8).shared_bytes(), HEAD.shared_bytes(), "Q of the next item has a place too");
        let with_bias = Sm90Tma { bias_tiles: BiasTiles::OnePerWarpgroup, ..Sm90Tma::new(4, 7) };
        let end_of_items = before_ones - 2 * 64 * 128 - 2 * 8;
        let padding = TILE_ALIGNMENT - end_of_items % TILE_ALIGNMENT;
        assert_eq!(
            with_bias.shared_bytes(),
            end_of_items + padding + 4 * 64 * 128,
            "a bias takes the place of the ones"
        );
        assert!(!with_bias.sums_by_product());
    }
}
