//! What the gradients need of a query row: LSE in base 2, and Δ = rowsum(dO ∘ O).

use core::marker::PhantomData;

use super::kernel::Sm80Backward;
use crate::device::kernel::Tile;
use crate::device::lane::Lane;
use crate::device::ptx::element::Element;
use crate::device::ptx::{math, memory, shuffle};
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
        assert!(threads.is_multiple_of(ROWS) && (threads / ROWS).is_power_of_two() && threads / ROWS <= 4);
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
        let mut sum = 0.0;
        unrolled!(at most 32; for i in const { (Tile::<K, ROWS>::CHUNKS_PER_ROW / Self::SHARING) as usize } => {
            let chunk = first + i as u32 * const { Self::SHARING };
            // SAFETY: a chunk of each tile.
            let (a, b) = unsafe {
                (memory::load_shared_16(d_o.chunk(row, chunk)), memory::load_shared_16(o.chunk(row, chunk)))
            };
            unrolled!(at most 4; for pair in 4 => {
                let ([a0, a1], [b0, b1]) = (K::Element::unpack(a[pair]), K::Element::unpack(b[pair]));
                sum = math::fma(a1, b1, math::fma(a0, b0, sum));
            });
        });
        // SAFETY: warp together; one thread of a row writes its pair of words.
        unsafe {
            if const { Self::SHARING > 1 } {
                sum += shuffle::exchange::<1>(sum);
            }
            if const { Self::SHARING > 2 } {
                sum += shuffle::exchange::<2>(sum);
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

/// LSE in base 2 of `row` of a head with `length` rows; +∞, under which every probability is 0, for a row that does not exist, and for one
/// without a key, whose LSE is −∞.
///
/// # Safety
/// `lse` is the address of LSE of row 0.
#[inline(always)]
pub unsafe fn base_2_lse(lse: u64, row: u32, length: u32) -> f32 {
    if row >= length {
        return f32::INFINITY;
    }
    // SAFETY: an element of LSE.
    let natural = f32::from_bits(unsafe { memory::load_global_4(lse + row as u64 * size_of::<f32>() as u64) });
    if natural == f32::NEG_INFINITY { f32::INFINITY } else { natural * core::f32::consts::LOG2_E }
}

/// P of a score: 2^(c·s − LSE₂).
#[inline(always)]
pub fn probability(score: f32, scale_log2: f32, lse: f32) -> f32 {
    math::exp2(math::fma(score, scale_log2, -lse))
}
