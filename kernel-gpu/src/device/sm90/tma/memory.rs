//! Where the tiles and mbarriers of a block lie in shared memory.
//!
//! Two strips of Q for each warpgroup, or one where it computes only one, then K and V of each stage, the statistics of the rows of each strip, then the
//! mbarriers: for every strip and every stage one that says that it is full (its bytes have arrived) and one that says that
//! it is empty (its users have left it); for every strip also one that says that it is computed (O has taken Q's place). Last,
//! what is said of each strip and of each item ahead where sequences are looked up, and the mbarriers of these items.

use core::marker::PhantomData;

use super::kernel::{ROWS, TmaKernel};
use super::rows::Rows;
use crate::device::attention::ROWS_PER_LANE;
use crate::device::codegen::shared;
use crate::device::ptx::mbarrier;
use contract::config::WARP_SIZE;
use contract::tile::sm90_tma::{ITEM_BYTES, ITEMS_AHEAD, ROW_STATISTICS_BYTES, STRIP_TILE_BYTES};

/// The block's dynamic shared memory.
#[derive(Clone, Copy)]
pub struct Memory<K> {
    base: u32,
    _kernel: PhantomData<K>,
}

impl<K: TmaKernel> Memory<K> {
    /// Strips of Q: while a warpgroup computes one, its next one arrives.
    pub const STRIPS: u32 = if K::TILE.splits_keys() { K::WARPGROUPS } else { 2 * K::WARPGROUPS };
    /// Bytes from one stage to the next.
    pub const STAGE_BYTES: u32 = 2 * Rows::<K>::BYTES;

    const STAGES_BEGIN: u32 = Self::STRIPS * Rows::<K>::BYTES;
    const STATISTICS: u32 = Self::STAGES_BEGIN + K::STAGES * Self::STAGE_BYTES;
    const STRIP_FULL: u32 = Self::STATISTICS + Self::STRIPS * ROWS * ROW_STATISTICS_BYTES;
    const STRIP_COMPUTED: u32 = Self::STRIP_FULL + Self::STRIPS * mbarrier::BYTES;
    const STRIP_EMPTY: u32 = Self::STRIP_COMPUTED + Self::STRIPS * mbarrier::BYTES;
    const STAGE_FULL: u32 = Self::STRIP_EMPTY + Self::STRIPS * mbarrier::BYTES;
    const STAGE_EMPTY: u32 = Self::STAGE_FULL + K::STAGES * mbarrier::BYTES;
    const STRIP_TILE: u32 = Self::STAGE_EMPTY + K::STAGES * mbarrier::BYTES;
    const ITEM: u32 = Self::STRIP_TILE + Self::STRIPS * STRIP_TILE_BYTES;
    const ITEM_FULL: u32 = Self::ITEM + ITEMS_AHEAD * ITEM_BYTES;
    const ITEM_EMPTY: u32 = Self::ITEM_FULL + ITEMS_AHEAD * mbarrier::BYTES;

    const STRIP_TILES_ARE_ALIGNED: () = assert!(Self::STRIP_TILE.is_multiple_of(STRIP_TILE_BYTES / 2));

    /// That of the calling thread's block.
    #[inline(always)]
    pub fn new() -> Self {
        Self { base: shared::dynamic_shared_mem(), _kernel: PhantomData }
    }

    /// A strip of Q, later of O.
    #[inline(always)]
    pub fn strip(self, strip: u32) -> Rows<K> {
        Rows::<K>::at(self.base + strip * Rows::<K>::BYTES)
    }

    /// K of a stage.
    #[inline(always)]
    pub fn keys(self, stage: u32) -> Rows<K> {
        Rows::<K>::at(self.base + Self::STAGES_BEGIN + stage * Self::STAGE_BYTES)
    }

    /// V of a stage.
    #[inline(always)]
    pub fn values(self, stage: u32) -> Rows<K> {
        Rows::<K>::at(self.base + Self::STAGES_BEGIN + stage * Self::STAGE_BYTES + Rows::<K>::BYTES)
    }

    /// Shift and sum of row `row` of a strip.
    #[inline(always)]
    pub fn statistics(self, strip: u32, row: u32) -> u32 {
        self.base + Self::STATISTICS + (strip * ROWS + row) * ROW_STATISTICS_BYTES
    }

    /// The mbarrier that a strip of Q has arrived.
    #[inline(always)]
    pub fn strip_full(self, strip: u32) -> u32 {
        self.base + Self::STRIP_FULL + strip * mbarrier::BYTES
    }

    /// The mbarrier that O of a strip lies where its Q was.
    #[inline(always)]
    pub fn strip_computed(self, strip: u32) -> u32 {
        self.base + Self::STRIP_COMPUTED + strip * mbarrier::BYTES
    }

    /// The mbarrier that a strip of Q may be overwritten.
    #[inline(always)]
    pub fn strip_empty(self, strip: u32) -> u32 {
        self.base + Self::STRIP_EMPTY + strip * mbarrier::BYTES
    }

    /// The head and sequence of a strip, where they are looked up.
    #[inline(always)]
    pub fn strip_tile(self, strip: u32) -> u32 {
        const { Self::STRIP_TILES_ARE_ALIGNED };
        self.base + Self::STRIP_TILE + strip * STRIP_TILE_BYTES
    }

    /// How many keys it has, behind that.
    #[inline(always)]
    pub fn strip_keys(self, strip: u32) -> u32 {
        self.strip_tile(strip) + STRIP_TILE_BYTES / 2
    }

    /// What is said of an item ahead, by its number: its head and tile, and in the other half its keys.
    #[inline(always)]
    pub fn item(self, number: u32) -> [u32; 2] {
        const { Self::STRIP_TILES_ARE_ALIGNED };
        let address = self.base + Self::ITEM + number % ITEMS_AHEAD * ITEM_BYTES;
        [address, address + ITEM_BYTES / 2]
    }

    /// The mbarrier that it is said.
    #[inline(always)]
    pub fn item_full(self, number: u32) -> u32 {
        self.base + Self::ITEM_FULL + number % ITEMS_AHEAD * mbarrier::BYTES
    }

    /// The mbarrier that it is heard.
    #[inline(always)]
    pub fn item_empty(self, number: u32) -> u32 {
        self.base + Self::ITEM_EMPTY + number % ITEMS_AHEAD * mbarrier::BYTES
    }

    /// The mbarrier that K and V of a stage have arrived.
    #[inline(always)]
    pub fn stage_full(self, stage: u32) -> u32 {
        self.base + Self::STAGE_FULL + stage * mbarrier::BYTES
    }

    /// The mbarrier that K and V of a stage may be overwritten.
    #[inline(always)]
    pub fn stage_empty(self, stage: u32) -> u32 {
        self.base + Self::STAGE_EMPTY + stage * mbarrier::BYTES
    }

    /// Initialises the mbarriers at which copies to shared memory count: all that the first copies need.
    ///
    /// # Safety
    /// One thread calls this once, before its first copy, and before a barrier of the block that precedes all other use.
    #[inline(always)]
    pub unsafe fn initialise_full(self) {
        // SAFETY: addresses of mbarriers, each initialised once.
        unsafe {
            let mut strip = 0;
            while strip < Self::STRIPS {
                mbarrier::init(self.strip_full(strip), 1);
                strip += 1;
            }
            let mut stage = 0;
            while stage < K::STAGES {
                mbarrier::init(self.stage_full(stage), 1);
                stage += 1;
            }
            mbarrier::fence_init();
        }
    }

    /// Initialises the other mbarriers. A strip is computed by the lanes of a warpgroup that [leave
    /// statistics](Self::statistics) and emptied by the lanes of the warp that stores it, a stage by `users(stage)` warps. Of items
    /// one thread says which they are, and one hears it.
    ///
    /// # Safety
    /// One thread calls this once, before a barrier of the block that precedes all use.
    #[inline(always)]
    pub unsafe fn initialise_others(self, users: impl Fn(u32) -> u32) {
        // SAFETY: as above.
        unsafe {
            let mut strip = 0;
            while strip < Self::STRIPS {
                mbarrier::init(self.strip_computed(strip), ROWS / ROWS_PER_LANE as u32);
                mbarrier::init(self.strip_empty(strip), WARP_SIZE);
                strip += 1;
            }
            let mut stage = 0;
            while stage < K::STAGES {
                mbarrier::init(self.stage_empty(stage), users(stage));
                stage += 1;
            }
            let mut item = 0;
            while K::FINDS_ITEMS_AHEAD && item < ITEMS_AHEAD {
                mbarrier::init(self.item_full(item), 1);
                mbarrier::init(self.item_empty(item), 1);
                item += 1;
            }
        }
    }
}
