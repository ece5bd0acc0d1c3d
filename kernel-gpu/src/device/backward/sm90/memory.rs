//! Where the tiles and mbarriers of a block lie in shared memory.
//!
//! First the own rows of items, two tensors of 64 rows for each warpgroup. Then the stages: tiles of 64 rows; then tiles of dS, and of dQ, or panels
//! of it on their way to the workspace. Then the statistics of query rows of each stage, and the mbarriers: "full" and "empty" for own rows, stages,
//! dS and panels, "computed" for statistics, "empty" for dQ. Last, the numbers of items.

use core::marker::PhantomData;

use super::kernel::{STEP, Sm90Backward};
use super::ring::{OfTwo, Place};
use super::role::Role;
use crate::device::codegen::shared;
use crate::device::hidden;
use crate::device::kernel::Kernel;
use crate::device::ptx::mbarrier;
use crate::device::tile::head_dim::HeadDim;
use crate::device::tma::rows::Rows;
use crate::shared_tile::{Row, SharedTile, Swizzle128};
use contract::backward::variants::{NUMBER_BYTES, PANEL_BYTES, STATISTICS_BYTES};
use contract::config::{WARP_SIZE, WARPGROUP_WARPS};

/// 64 rows and columns: dS of a step and a warpgroup's keys; a panel of K is like it.
pub type Square<K> = SharedTile<<K as Kernel>::Element, STEP, Row<STEP, Swizzle128>>;

/// Threads that compute statistics.
pub const STATISTICS_THREADS: u32 = 64;

/// Bytes of LSE or Δ of a row.
pub const STATISTIC_BYTES: u32 = STATISTICS_BYTES / 2;

/// The block's dynamic shared memory.
#[derive(Clone, Copy)]
pub struct Memory<K> {
    base: u32,
    _kernel: PhantomData<K>,
}

impl<K: Sm90Backward> Memory<K> {
    const OWN: u32 = K::TILE.own;
    const STAGES: u32 = K::TILE.stages;
    const STAGES_BEGIN: u32 = Self::OWN * K::TILE.own_bytes();
    const D_S: u32 = K::TILE.d_s();
    const DQ_TILES: u32 = K::TILE.dq_rows() / STEP;
    const D_S_BEGIN: u32 = Self::STAGES_BEGIN + Self::STAGES * K::TILE.stage_bytes();
    const DQ_BEGIN: u32 = Self::D_S_BEGIN + Self::D_S * K::TILE.d_s_bytes();
    const STATISTICS: u32 = Self::DQ_BEGIN + K::TILE.dq_bytes();
    const OWN_FULL: u32 = Self::STATISTICS + Self::STAGES * K::TILE.statistics_bytes();
    const OWN_EMPTY: u32 = Self::OWN_FULL + Self::OWN * mbarrier::BYTES;
    const STAGE_FULL: u32 = Self::OWN_EMPTY + Self::OWN * mbarrier::BYTES;
    const STAGE_EMPTY: u32 = Self::STAGE_FULL + Self::STAGES * mbarrier::BYTES;
    const COMPUTED: u32 = Self::STAGE_EMPTY + Self::STAGES * mbarrier::BYTES;
    const D_S_FULL: u32 = Self::COMPUTED + Self::STAGES * mbarrier::BYTES;
    const D_S_EMPTY: u32 = Self::D_S_FULL + Self::D_S * mbarrier::BYTES;
    const DQ_EMPTY: u32 = Self::D_S_EMPTY + Self::D_S * mbarrier::BYTES;
    const NUMBERS: u32 = Self::DQ_EMPTY + K::TILE.dq_barriers() * mbarrier::BYTES;
    const END: u32 = Self::NUMBERS + K::TILE.number_bytes();

    /// The shared memory of the calling thread's block.
    #[inline(always)]
    pub fn new() -> Self {
        const {
            assert!(Self::END == K::TILE.shared_bytes(), "the launch allocates what the kernel uses");
            assert!(K::HANDS_OVER || K::WARPGROUPS <= K::TILE.staged(), "O of an item's queries fills a stage");
            assert!(!K::KEEPS_DQ || K::HeadDim::COLUMNS == STEP, "a tile of dS is as wide as one of dV");
            assert!(Self::D_S == 0 || Rows::<K>::PANEL_COLUMNS == STEP, "a tile of dS is like a panel of K");
            assert!(!K::KEEPS_DQ || K::WARPGROUPS == K::TILE.staged(), "V fills a stage");
            assert!(
                !K::IS_OF_ONE_TILE || Self::OWN == 1,
                "when own rows arrive, all warps have read the dS of the head before"
            );
            assert!(
                (!K::HANDS_OVER || K::TILE.d_s() == OfTwo::COUNT)
                    && K::TILE.d_s() <= OfTwo::COUNT
                    && K::TILE.panels() <= K::TILE.d_s(),
                "they are filled and emptied in turn"
            );
        }
        Self { base: shared::dynamic_shared_mem(), _kernel: PhantomData }
    }

    /// Address `offset` bytes behind the first. Computed for each use: the addresses of all arrays would occupy registers from the beginning on.
    #[inline(always)]
    fn at(self, offset: u32) -> u32 {
        hidden::recompute(self.base) + offset
    }

    /// Own rows of a warpgroup.
    #[inline(always)]
    pub fn own(self, place: Place, tensor: u32, warpgroup: u32) -> Rows<K> {
        let index = (place.index * const { K::TILE.own_tensors() } + tensor) * K::WARPGROUPS + warpgroup;
        Rows::at(self.at(index * Rows::<K>::BYTES))
    }

    /// Tile `index` of a stage.
    #[inline(always)]
    pub fn staged(self, place: Place, index: u32) -> Rows<K> {
        Rows::at(self.at(Self::STAGES_BEGIN + (place.index * const { K::TILE.staged() } + index) * Rows::<K>::BYTES))
    }

    /// dS of a warpgroup's keys, a row each, whose columns are the queries of a step.
    #[inline(always)]
    pub fn d_s(self, place: Place, warpgroup: u32) -> Square<K> {
        let index = place.index * K::WARPGROUPS + warpgroup;
        Square::<K>::at(self.at(Self::D_S_BEGIN + index * Square::<K>::BYTES))
    }

    /// Address of a panel of dQ on its way to the workspace, in the registers' order.
    #[inline(always)]
    pub fn panel(self, place: Place) -> u32 {
        self.at(Self::DQ_BEGIN + place.index * PANEL_BYTES)
    }

    /// Address of the number of the item whose own rows are at a place.
    #[inline(always)]
    pub fn number(self, place: Place) -> u32 {
        self.at(Self::NUMBERS + place.index * NUMBER_BYTES)
    }

    /// Address of tile `tile` of dQ, in the registers' order.
    #[inline(always)]
    pub fn dq(self, tile: u32) -> u32 {
        self.at(Self::DQ_BEGIN + tile * const { STEP * K::HeadDim::COLUMNS * 4 })
    }

    /// O of the queries of tile `tile` of dQ, as long as there is no dQ.
    #[inline(always)]
    pub fn o(self, tile: u32) -> Rows<K> {
        Rows::at(self.dq(tile))
    }

    /// Address of −LSE of row `row` of a stage.
    #[inline(always)]
    pub fn minus_lse(self, place: Place, row: u32) -> u32 {
        self.at(Self::STATISTICS + place.index * K::TILE.statistics_bytes() + row * STATISTIC_BYTES)
    }

    /// Address of Δ of row `row` of a stage.
    #[inline(always)]
    pub fn delta(self, place: Place, row: u32) -> u32 {
        self.minus_lse(place, row) + const { K::TILE.statistics_rows() * STATISTIC_BYTES }
    }

    /// The mbarrier of arrived own rows.
    #[inline(always)]
    pub fn own_full(self, place: Place) -> u32 {
        self.at(Self::OWN_FULL + place.index * mbarrier::BYTES)
    }

    /// The mbarrier of own rows that may be overwritten.
    #[inline(always)]
    pub fn own_empty(self, place: Place) -> u32 {
        self.at(Self::OWN_EMPTY + place.index * mbarrier::BYTES)
    }

    /// The mbarrier of an arrived stage.
    #[inline(always)]
    pub fn stage_full(self, place: Place) -> u32 {
        self.at(Self::STAGE_FULL + place.index * mbarrier::BYTES)
    }

    /// The mbarrier of a stage that may be overwritten.
    #[inline(always)]
    pub fn stage_empty(self, place: Place) -> u32 {
        self.at(Self::STAGE_EMPTY + place.index * mbarrier::BYTES)
    }

    /// The mbarrier of computed statistics.
    #[inline(always)]
    pub fn computed(self, place: Place) -> u32 {
        self.at(Self::COMPUTED + place.index * mbarrier::BYTES)
    }

    /// The mbarrier of stored dS.
    #[inline(always)]
    pub fn d_s_full(self, place: Place) -> u32 {
        self.at(Self::D_S_FULL + place.index * mbarrier::BYTES)
    }

    /// The mbarrier of dS that may be overwritten.
    #[inline(always)]
    pub fn d_s_empty(self, place: Place) -> u32 {
        self.at(Self::D_S_EMPTY + place.index * mbarrier::BYTES)
    }

    /// The mbarrier of a tile of dQ that may be overwritten with O of the next head.
    #[inline(always)]
    pub fn dq_empty(self, tile: u32) -> u32 {
        self.at(Self::DQ_EMPTY + tile * mbarrier::BYTES)
    }

    /// The mbarrier of a panel of dQ to be added to its sum, or of a sum that was taken from it.
    #[inline(always)]
    pub fn panel_full(self, place: Place) -> u32 {
        self.at(Self::DQ_EMPTY + 3 * place.index * mbarrier::BYTES)
    }

    /// The mbarrier of a panel of dQ that may be overwritten.
    #[inline(always)]
    pub fn panel_empty(self, place: Place) -> u32 {
        self.panel_full(place) + mbarrier::BYTES
    }

    /// The mbarrier of a complete sum that has arrived there, which is not to be added to. For other panels it changes its phase, too.
    #[inline(always)]
    pub fn panel_sum(self, place: Place) -> u32 {
        self.panel_full(place) + 2 * mbarrier::BYTES
    }

    /// Initialises all mbarriers.
    ///
    /// # Safety
    /// One thread of the block calls this, before a barrier of the block.
    #[inline(always)]
    pub unsafe fn initialise(self) {
        let users = const { K::WARPGROUPS * WARPGROUP_WARPS };
        let computing = const { STATISTICS_THREADS / WARP_SIZE };
        let of_dq = const { if K::HANDS_OVER { WARPGROUP_WARPS } else { 0 } };
        let mut index = 0;
        // SAFETY: mbarriers inside the allocation, which nothing uses yet.
        unsafe {
            while index < Self::OWN {
                let place = Place { index, parity: 0 };
                mbarrier::init(self.own_full(place), 1);
                mbarrier::init(
                    self.own_empty(place),
                    users + if K::HANDS_OVER { of_dq + if K::DRAWS { Role::HELPERS } else { 0 } } else { computing },
                );
                index += 1;
            }
            index = 0;
            while index < Self::STAGES {
                let place = Place { index, parity: 0 };
                mbarrier::init(self.stage_full(place), 1);
                mbarrier::init(self.stage_empty(place), users);
                mbarrier::init(self.computed(place), computing);
                index += 1;
            }
            index = 0;
            while K::HANDS_OVER && index < Self::D_S {
                let place = Place { index, parity: 0 };
                mbarrier::init(self.d_s_full(place), users);
                mbarrier::init(self.d_s_empty(place), of_dq);
                index += 1;
            }
            index = 0;
            while index < Self::DQ_TILES {
                mbarrier::init(self.dq_empty(index), of_dq);
                index += 1;
            }
            index = 0;
            while index < const { K::TILE.panels() } {
                let place = Place { index, parity: 0 };
                mbarrier::init(self.panel_full(place), of_dq);
                mbarrier::init(self.panel_empty(place), 1);
                mbarrier::init(self.panel_sum(place), 1);
                index += 1;
            }
        }
        mbarrier::fence_init();
    }
}
