//! The statistics of query rows in shared memory: LSE in base 2, and Δ = rowsum(dO ∘ O).

use core::marker::PhantomData;

use super::kernel::Sm80Backward;
use crate::device::backward::rows::add_products;
use crate::device::kernel::Tile;
use crate::device::lane::Lane;
use crate::device::ptx::{memory, shuffle};
use crate::device::unrolled;
use contract::backward::variants::STATISTICS_BYTES;

/// The statistics of `ROWS` query rows in shared memory. Some neighbouring threads of the block compute those of a row.
#[derive(Clone, Copy)]
pub struct Statistics<K, const ROWS: u32> {
    address: u32,
    _kernel: PhantomData<K>,
}

impl<K: Sm80Backward, const ROWS: u32> Statistics<K, ROWS> {
    /// Threads of a row.
    const SHARING: u32 = {
        let threads = K::TILE.threads();
        assert!(threads.is_multiple_of(ROWS) && (threads / ROWS).is_power_of_two() && threads / ROWS <= 8);
        threads / ROWS
    };

    /// The statistics at an address.
    #[inline(always)]
    pub fn at(address: u32) -> Self {
        Self { address, _kernel: PhantomData }
    }

    /// The row that the calling thread helps to compute.
    #[inline(always)]
    pub fn row_of(lane: Lane) -> u32 {
        lane.thread / const { Self::SHARING }
    }

    /// Writes `lse` and Δ of the calling thread's row, Δ from the tiles of dO and O.
    ///
    /// # Safety
    /// Block together; both tiles have arrived, and nothing else accesses the statistics until a barrier.
    #[inline(always)]
    pub unsafe fn write(self, d_o: Tile<K, ROWS>, o: Tile<K, ROWS>, lse: f32, lane: Lane) {
        let row = Self::row_of(lane);
        let first = lane.thread % const { Self::SHARING };
        let mut sums = [0.0; 2];
        unrolled!(at most 32; for i in const { (Tile::<K, ROWS>::CHUNKS_PER_ROW / Self::SHARING) as usize } => {
            let chunk = first + i as u32 * const { Self::SHARING };
            // SAFETY: a chunk of each tile.
            sums = unsafe { add_products::<K::Element>(sums, d_o.chunk(row, chunk), o.chunk(row, chunk)) };
        });
        let mut sum = sums[0] + sums[1];
        // SAFETY: warp together; one thread of a row writes its pair of words.
        unsafe {
            if const { Self::SHARING > 1 } {
                sum += shuffle::exchange::<1>(sum);
            }
            if const { Self::SHARING > 2 } {
                sum += shuffle::exchange::<2>(sum);
            }
            if const { Self::SHARING > 4 } {
                sum += shuffle::exchange::<4>(sum);
            }
            if first == 0 {
                memory::store_shared_pair(self.address + row * STATISTICS_BYTES, [lse, sum]);
            }
        }
    }

    /// LSE and Δ of `row`.
    ///
    /// # Safety
    /// A barrier separates the call from [`Self::write`].
    #[inline(always)]
    pub unsafe fn of(self, row: u32) -> [f32; 2] {
        // SAFETY: the caller's promise.
        unsafe { memory::load_shared_pair(self.address + row * STATISTICS_BYTES) }
    }

    /// LSE and Δ of `row`, which is even, and of the row after it.
    ///
    /// # Safety
    /// As for [`Self::of`].
    #[inline(always)]
    pub unsafe fn of_two(self, row: u32) -> [[f32; 2]; 2] {
        // SAFETY: the caller's promise.
        let [lse, delta, next_lse, next_delta] =
            unsafe { memory::load_shared_four(self.address + row * STATISTICS_BYTES) };
        [[lse, delta], [next_lse, next_delta]]
    }
}
