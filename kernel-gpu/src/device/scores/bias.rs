//! The additive bias of a head, as types by where its elements wait for the scores that they are added to.
//!
//! The elements of a step are requested before the exponentials of the step before: they take longer to arrive than the products.

#[cfg(feature = "sm_90a")]
mod in_shared_memory;

use crate::device::lane::{Lane, ROWS_PER_LANE, Scores};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{math, memory};
use crate::device::scores::place::Place;
use crate::device::unrolled;
use contract::args::ForwardArgs;
use contract::config::MMA_N;

#[cfg(feature = "sm_90a")]
pub use in_shared_memory::InSharedMemory;

/// Bytes of an element.
const ELEMENT_BYTES: u32 = 2;

/// The bias of a head.
pub trait Bias: Copy {
    /// The elements for scores of `M_TILES` strips and `N_TILES` 8-key tiles.
    type Fetched<const M_TILES: usize, const N_TILES: usize>: Copy;

    /// The bias whose element of row 0 and key 0 is at `address`; 0: none.
    fn at(address: u64) -> Self;

    /// Starts loading the elements for the scores at `place`.
    ///
    /// # Safety
    /// Warp together; the bias has an element for each row and key of the sequence. What was fetched before has
    /// been [added](Self::add).
    unsafe fn fetch<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        place: Place,
        lane: Lane,
    ) -> Self::Fetched<M_TILES, N_TILES>;

    /// Adds the elements that were fetched last to their scores, each divided by the scale.
    ///
    /// # Safety
    /// Warp together.
    unsafe fn add<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        scores: &mut Scores<M_TILES, N_TILES>,
        fetched: Self::Fetched<M_TILES, N_TILES>,
        lane: Lane,
    );
}

/// Whether a kernel has tiles in shared memory for a bias ([`contract::tile::BiasTiles`]), where they begin there, and whether there may be
/// a bias.
#[cfg(feature = "sm_90a")]
pub struct Tiles<const ARE_THERE: bool, const AT: u32, const MAY_EXIST: bool>;

/// Where a bias waits in such a kernel.
#[cfg(feature = "sm_90a")]
pub trait Waiting {
    /// The bias.
    type Bias: Bias;
}

#[cfg(feature = "sm_90a")]
impl<const AT: u32> Waiting for Tiles<true, AT, true> {
    type Bias = InSharedMemory<AT>;
}

#[cfg(feature = "sm_90a")]
impl<const AT: u32, const MAY_EXIST: bool> Waiting for Tiles<false, AT, MAY_EXIST> {
    type Bias = InRegisters<MAY_EXIST>;
}

/// A bias whose elements each lane loads to registers; none unless `MAY_EXIST`.
#[derive(Clone, Copy)]
pub struct InRegisters<const MAY_EXIST: bool> {
    address: u64,
}

/// Two neighbouring elements for each pair of scores that a lane holds.
type Pairs<const M_TILES: usize, const N_TILES: usize> = [[[u32; ROWS_PER_LANE]; N_TILES]; M_TILES];

impl<const MAY_EXIST: bool> Bias for InRegisters<MAY_EXIST> {
    type Fetched<const M_TILES: usize, const N_TILES: usize> = Pairs<M_TILES, N_TILES>;

    #[inline(always)]
    fn at(address: u64) -> Self {
        Self { address: if MAY_EXIST { address } else { 0 } }
    }

    #[inline(always)]
    unsafe fn fetch<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        place: Place,
        lane: Lane,
    ) -> Pairs<M_TILES, N_TILES> {
        let mut pairs = [[[0; ROWS_PER_LANE]; N_TILES]; M_TILES];
        if !MAY_EXIST || self.address == 0 {
            return pairs;
        }
        let pitch = pitch(args);
        // Uniform over the warp, as is whether all keys of the scores exist.
        let in_pairs =
            (self.address | pitch).is_multiple_of(4) && place.first_key + N_TILES as u32 * MMA_N <= place.kv_length;
        let first_key = place.first_key + lane.pair_column();
        let load = |pairs: &mut Pairs<M_TILES, N_TILES>, one: fn(u64, u32, u32) -> u32| {
            unrolled!(at most 4; for m in M_TILES => {
                unrolled!(at most 2; for r in ROWS_PER_LANE => {
                    // Rows beyond the last load its bias, which is not used.
                    let row = lane.row(place.first_row, m, r).min(place.length - 1);
                    let address = self.address + row as u64 * pitch + (first_key * ELEMENT_BYTES) as u64;
                    unrolled!(at most 16; for n in N_TILES => {
                        pairs[m][n][r] = one(address + n as u64 * 16, first_key + n as u32 * MMA_N, place.kv_length);
                    });
                });
            });
        };
        if in_pairs {
            // SAFETY: elements within a row of the bias, and pairs are aligned.
            load(&mut pairs, |address, _, _| unsafe { memory::load_global_4(address) });
        } else {
            // SAFETY: elements of a row of the bias, loaded only before its end.
            load(&mut pairs, |address, key, end| unsafe { load_pair_before_end(address, key, end) });
        }
        pairs
    }

    #[inline(always)]
    unsafe fn add<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        scores: &mut Scores<M_TILES, N_TILES>,
        fetched: Pairs<M_TILES, N_TILES>,
        _: Lane,
    ) {
        if !MAY_EXIST || self.address == 0 {
            return;
        }
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 16; for n in N_TILES => {
                unrolled!(at most 2; for r in ROWS_PER_LANE => {
                    add_pair::<E>(&mut scores[m][n], r, fetched[m][n][r], args.score_mod.inverse_scale);
                });
            });
        });
    }
}

impl<const MAY_EXIST: bool> InRegisters<MAY_EXIST> {
    /// A score with the element of row `row` and key `key`.
    ///
    /// # Safety
    /// The bias has that element.
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    pub unsafe fn add_to_one<E: Element>(self, args: &ForwardArgs, score: f32, row: u32, key: u32) -> f32 {
        let is_there = MAY_EXIST && self.address != 0;
        let address = self.address + row as u64 * pitch(args) + (key * ELEMENT_BYTES) as u64;
        // SAFETY: the caller's promise.
        let [element, _] = E::unpack(unsafe { memory::load_global_2_if(address, is_there) });
        if is_there { math::fma(element, args.score_mod.inverse_scale, score) } else { score }
    }

    /// [`Bias::fetch`] for scores whose rows are keys and whose columns are queries: pairs of neighbouring queries.
    ///
    /// # Safety
    /// As for [`Bias::fetch`].
    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    pub unsafe fn fetch_transposed<const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        place: Place,
        lane: Lane,
    ) -> Pairs<1, N_TILES> {
        let mut pairs = [[[0; ROWS_PER_LANE]; N_TILES]];
        if !MAY_EXIST || self.address == 0 {
            return pairs;
        }
        let (pitch, first_row) = (pitch(args), place.first_row + lane.pair_column());
        // Keys and rows beyond the last load those of the last, which are not used.
        let of_key = |r| {
            let key = lane.row(place.first_key, 0, r).min(place.kv_length - 1);
            self.address + (key * ELEMENT_BYTES) as u64
        };
        let of_keys = [of_key(0), of_key(1)];
        unrolled!(at most 8; for n in N_TILES => {
            let row = |i: u32| (first_row + n as u32 * MMA_N + i).min(place.length - 1) as u64 * pitch;
            let of_rows = [row(0), row(1)];
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                // SAFETY: elements of the bias.
                pairs[0][n][r] = unsafe {
                    let upper = memory::load_global_2_if(of_keys[r] + of_rows[0], true);
                    upper | memory::load_global_2_if(of_keys[r] + of_rows[1], true) << 16
                };
            });
        });
        pairs
    }
}

/// Bytes from one row of the bias to the next; 0 if all rows are the same.
#[inline(always)]
fn pitch(args: &ForwardArgs) -> u64 {
    args.score_mod.bias_strides.row * ELEMENT_BYTES as u64
}

/// Adds a pair of elements, multiplied by `inverse_scale`, to the scores of part `r` of the lane's rows.
#[inline(always)]
fn add_pair<E: Element>(scores: &mut FragmentC, r: usize, pair: u32, inverse_scale: f32) {
    let [left, right] = E::unpack(pair);
    scores[2 * r] = math::fma(left, inverse_scale, scores[2 * r]);
    scores[2 * r + 1] = math::fma(right, inverse_scale, scores[2 * r + 1]);
}

/// The elements at `address`, of key `key`, and after it, of the next key; 0 for keys from `end` on.
///
/// # Safety
/// The elements before the end are initialised, 2-byte aligned, and not written while the grid runs.
#[inline(always)]
unsafe fn load_pair_before_end(address: u64, key: u32, end: u32) -> u32 {
    // SAFETY: each is read only if its key is before the end.
    unsafe {
        let left = memory::load_global_2_if(address, key < end);
        let right = memory::load_global_2_if(address + 2, key + 1 < end);
        left | right << 16
    }
}
