//! The two matrix products of a warpgroup, S = Q·Kᵀ and O += P·V, which run asynchronously to the warps.

use crate::device::attention::head_dim::HeadDim;
use crate::device::attention::kernel::Kernel;
use crate::device::attention::{Output, OutputStrip, Scores, Tile, pack_probabilities};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::{FragmentA, FragmentC};
use crate::device::ptx::wgmma::{self, Accumulators, Descriptor, KMajor, NMajor, Registers};
use crate::device::unrolled;

/// P of one warp, rounded to elements: a fragment per 16 keys.
pub type Probabilities<const K_STEPS: usize> = [FragmentA; K_STEPS];

/// Registers that a group of products in flight reads or writes; inaccessible until it has completed.
#[must_use]
pub struct InFlight<R>(R);

impl<R: Registers> InFlight<R> {
    /// Waits until at most `LATER` groups are in flight, and returns the registers.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together; at most `LATER` groups were started after the one of these registers.
    #[inline(always)]
    pub unsafe fn wait<const LATER: u32>(mut self) -> R {
        // SAFETY: the caller has the warpgroup together.
        unsafe { wgmma::wait_group::<LATER>() };
        self.0.pin();
        self.0
    }
}

/// Starts S = Q·Kᵀ for the 64 rows of Q from `first_row` on, a multiple of 64, and the tile's keys.
///
/// # Safety
/// All warps of the warpgroup call this together; both tiles are complete and visible to the async proxy, and are not
/// written before the wait.
#[inline(always)]
pub unsafe fn start_scores<K: Kernel, const ROWS: u32, const BLOCK_N: u32, const N_TILES: usize>(
    queries: Tile<K, ROWS>,
    first_row: u32,
    keys: Tile<K, BLOCK_N>,
) -> InFlight<Scores<1, N_TILES>>
where
    [FragmentC; N_TILES]: Accumulators,
{
    let queries = Descriptor::<KMajor, Tile<K, ROWS>>::new(queries.chunk(first_row, 0));
    let keys = Descriptor::<KMajor, Tile<K, BLOCK_N>>::new(keys.chunk(0, 0));
    // SAFETY: the caller has the warpgroup together and the tiles complete; the accumulators are new.
    unsafe {
        wgmma::fence();
        let mut scores = <[FragmentC; N_TILES]>::multiply::<K::Element, _, _>(queries, keys);
        unrolled!(at most 8; for k in K::HeadDim::K_STEPS => {
            if k != 0 {
                scores.multiply_accumulate::<K::Element, _, _>(queries.step(k), keys.step(k));
            }
        });
        wgmma::commit_group();
        InFlight([scores])
    }
}

/// P as fragments of A.
#[inline(always)]
pub fn pack<E: Element, const N_TILES: usize, const K_STEPS: usize>(
    scores: &Scores<1, N_TILES>,
) -> Probabilities<K_STEPS> {
    const { assert!(2 * K_STEPS == N_TILES) };
    let mut probabilities = [[0; 4]; K_STEPS];
    unrolled!(at most 8; for k in K_STEPS => {
        probabilities[k] = pack_probabilities::<E>(scores[0][2 * k], scores[0][2 * k + 1]);
    });
    probabilities
}

/// Starts O += P·V for the warpgroup's rows and the tile's keys.
///
/// # Safety
/// As for [`start_scores`].
#[inline(always)]
pub unsafe fn start_output<K: Kernel, const BLOCK_N: u32, const K_STEPS: usize>(
    mut output: Output<K, 1>,
    mut probabilities: Probabilities<K_STEPS>,
    values: Tile<K, BLOCK_N>,
) -> InFlight<(Output<K, 1>, Probabilities<K_STEPS>)>
where
    OutputStrip<K>: Accumulators + Registers,
{
    let values = Descriptor::<NMajor, Tile<K, BLOCK_N>>::new(values.chunk(0, 0));
    output.pin();
    probabilities.pin();
    // SAFETY: as in [`start_scores`]; the registers were not touched since they were pinned.
    unsafe {
        wgmma::fence();
        unrolled!(at most 8; for k in K_STEPS => {
            output[0].multiply_fragment::<K::Element, _>(probabilities[k], values.step(k), true);
        });
        wgmma::commit_group();
    }
    InFlight((output, probabilities))
}
