//! Where the tiles and mbarriers of a block lie in shared memory.
//!
//! First two strips of Q per warpgroup, or one if it computes only one. Then K and V of each stage, the row statistics of each strip,
//! and the mbarriers: for every strip and every stage one for "full" (its bytes have arrived) and one for "empty" (its users have
//! released it), for every strip also one for "computed" (O has replaced Q). Then, if sequences are looked up, the descriptions of
//! each strip and of each item ahead, and the mbarriers of these items. Last, the ones that sum P, or the
//! tiles of a bias.

use core::marker::PhantomData;

use crate::device::codegen::shared;
use crate::device::hidden;
use crate::device::kernel::Kernel;
use crate::device::lane::ROWS_PER_LANE;
use crate::device::ptx::element::Element;
use crate::device::ptx::{mbarrier, memory, proxy};
use crate::device::tile::head_dim::HeadDim;
use crate::device::tma::kernel::{ROWS, TmaKernel};
use crate::device::tma::mapped::Mapped;
use crate::device::tma::rows::Rows;
use crate::shared_tile::SharedTile;
use contract::config::{MMA_K, WARP_SIZE, WARPGROUP_WARPS};
use contract::tile::sm90_tma::{ITEM_BYTES, ITEMS_AHEAD, ROW_STATISTICS_BYTES, STRIP_TILE_BYTES};

/// The ones that sum P: as many rows as a product is deep, as wide as those of a panel of V.
pub type Ones<K> = SharedTile<<K as Kernel>::Element, MMA_K, <<K as Kernel>::HeadDim as HeadDim>::Panel>;

/// The block's dynamic shared memory.
#[derive(Clone, Copy)]
pub struct Memory<K> {
    base: u32,
    _kernel: PhantomData<K>,
}

impl<K: TmaKernel> Memory<K> {
    /// Number of strips of Q: while a warpgroup computes one, its next one is loaded.
    pub const STRIPS: u32 = if K::TILE.splits_keys() { K::WARPGROUPS } else { 2 * K::WARPGROUPS };
    /// Distance between stages, bytes.
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
    const SIZES: u32 = Self::ITEM_EMPTY + ITEMS_AHEAD * mbarrier::BYTES;
    const ONES: u32 = {
        let ones = K::TILE.behind_items();
        assert!(ones >= Self::SIZES + K::TILE.sizes_bytes(), "the contract has room for all of this");
        ones
    };

    const STRIP_TILES_ARE_ALIGNED: () =
        assert!(!K::Sequence::IS_LOOKED_UP || Self::STRIP_TILE.is_multiple_of(STRIP_TILE_BYTES / 2));

    /// The shared memory of the calling thread's block.
    #[inline(always)]
    pub fn new() -> Self {
        Self { base: shared::dynamic_shared_mem(), _kernel: PhantomData }
    }

    /// The same memory, with addresses recomputed from its beginning ([`hidden::recompute`]).
    #[inline(always)]
    pub fn recomputed(self) -> Self {
        Self { base: hidden::recompute(self.base), ..self }
    }

    /// The place of a strip of Q, later of O.
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

    /// Address of the [ones](Ones) that sum P: eight more columns of any V, as a panel of their own.
    #[inline(always)]
    pub fn ones(self) -> u32 {
        self.base + Self::ONES
    }

    /// Writes the ones.
    ///
    /// # Safety
    /// All computing threads call this together, before a barrier of the block that precedes all products.
    #[inline(always)]
    pub unsafe fn write_ones(self, thread: u32) {
        const CHUNK_BYTES: u32 = 16;
        const THREADS: u32 = WARPGROUP_WARPS * WARP_SIZE;
        const { assert!(K::TILE.ones_bytes() <= THREADS * CHUNK_BYTES, "a warpgroup writes them at once") };
        let at = thread * CHUNK_BYTES;
        if at < const { K::TILE.ones_bytes() } {
            // SAFETY: a chunk of the ones, which this thread alone writes.
            unsafe { memory::store_shared_16(self.ones() + at, [K::Element::ONES; 4]) };
            proxy::fence_async_shared();
        }
    }

    /// Address of shift and sum of row `row` of a strip.
    #[inline(always)]
    pub fn statistics(self, strip: u32, row: u32) -> u32 {
        self.base + Self::STATISTICS + (strip * ROWS + row) * ROW_STATISTICS_BYTES
    }

    /// The mbarrier for: a strip of Q has arrived; with the first strip the first K, if [V comes apart](TmaKernel::FIRST_VALUES_APART).
    #[inline(always)]
    pub fn strip_full(self, strip: u32) -> u32 {
        self.base + Self::STRIP_FULL + strip * mbarrier::BYTES
    }

    /// The mbarrier for: O of a strip has replaced its Q.
    #[inline(always)]
    pub fn strip_computed(self, strip: u32) -> u32 {
        self.base + Self::STRIP_COMPUTED + strip * mbarrier::BYTES
    }

    /// The mbarrier for: a strip of Q may be overwritten.
    #[inline(always)]
    pub fn strip_empty(self, strip: u32) -> u32 {
        self.base + Self::STRIP_EMPTY + strip * mbarrier::BYTES
    }

    /// Address of the head and sequence of a strip, if they are looked up.
    #[inline(always)]
    pub fn strip_tile(self, strip: u32) -> u32 {
        const { Self::STRIP_TILES_ARE_ALIGNED };
        self.base + Self::STRIP_TILE + strip * STRIP_TILE_BYTES
    }

    /// Address of its number of keys, after those.
    #[inline(always)]
    pub fn strip_keys(self, strip: u32) -> u32 {
        self.strip_tile(strip) + STRIP_TILE_BYTES / 2
    }

    /// Address of its sequence, after that; only where scores are changed.
    #[inline(always)]
    pub fn strip_sequence(self, strip: u32) -> u32 {
        self.strip_keys(strip) + size_of::<u32>() as u32
    }

    /// The queue entry of an item: head and tile in one half, keys in the other.
    #[inline(always)]
    pub fn item(self, number: u32) -> [u32; 2] {
        const { Self::STRIP_TILES_ARE_ALIGNED };
        let address = self.base + Self::ITEM + number % ITEMS_AHEAD * ITEM_BYTES;
        [address, address + ITEM_BYTES / 2]
    }

    /// The mbarrier that the entry is full.
    #[inline(always)]
    pub fn item_full(self, number: u32) -> u32 {
        self.base + Self::ITEM_FULL + number % ITEMS_AHEAD * mbarrier::BYTES
    }

    /// The mbarrier that the entry is empty.
    #[inline(always)]
    pub fn item_empty(self, number: u32) -> u32 {
        self.base + Self::ITEM_EMPTY + number % ITEMS_AHEAD * mbarrier::BYTES
    }

    /// Address of a word for the sizes of two sequences, if they are looked up.
    #[inline(always)]
    pub fn sizes(self, word: u32) -> u32 {
        self.base + Self::SIZES + word * size_of::<u32>() as u32
    }

    /// The mbarrier for: K and V of a stage have arrived; at first V alone, if [it comes apart](TmaKernel::FIRST_VALUES_APART).
    #[inline(always)]
    pub fn stage_full(self, stage: u32) -> u32 {
        self.base + Self::STAGE_FULL + stage * mbarrier::BYTES
    }

    /// The mbarrier for: K and V of a stage may be overwritten.
    #[inline(always)]
    pub fn stage_empty(self, stage: u32) -> u32 {
        self.base + Self::STAGE_EMPTY + stage * mbarrier::BYTES
    }

    /// Initialises the mbarriers that copies to shared memory signal: all that the first copies need.
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

    /// Initialises the other mbarriers. "Computed" of a strip counts the lanes of a warpgroup that [write
    /// statistics](Self::statistics), "empty" of a strip the lanes of the storing warp, "empty" of a stage `users(stage)` warps. Of items
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
