//! What the backward pass needs of score modifications: the derivative of the softcap, and scores whose rows are keys.

use super::bias::InRegisters;
#[cfg(feature = "sm_90a")]
use super::place::Place;
use super::{Modified, ScoreMod, Unmodified};
#[cfg(feature = "sm_90a")]
use crate::device::lane::Lane;
use crate::device::lane::Scores;
use crate::device::ptx::element::Element;
use crate::device::ptx::math;
use crate::device::unrolled;
use contract::args::ForwardArgs;
#[cfg(feature = "sm_90a")]
use contract::config::MMA_M;

/// Score modifications with a derivative.
pub trait Differentiable: ScoreMod {
    /// Multiplies numbers by the derivatives of the softcap, given the capped scores.
    fn uncap<const M_TILES: usize, const N_TILES: usize>(
        args: &ForwardArgs,
        numbers: &mut Scores<M_TILES, N_TILES>,
        capped: &Scores<M_TILES, N_TILES>,
    );

    /// A capped score with ALiBi's term and the bias of a key and of the query at `position`, which is its row if there is a bias.
    ///
    /// # Safety
    /// The launch's bias has an element for each row and key of the sequence, and these are of it.
    #[cfg(feature = "sm_80")]
    unsafe fn add_to_one<E: Element>(self, args: &ForwardArgs, score: f32, position: u32, key: u32) -> f32;

    /// [`ScoreMod::fetch`] for scores at `place` whose rows are keys and whose columns are queries.
    ///
    /// # Safety
    /// As for [`ScoreMod::fetch`].
    #[cfg(feature = "sm_90a")]
    unsafe fn fetch_transposed<E: Element, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        place: Place,
        lane: Lane,
    ) -> Self::Fetched<1, N_TILES>;

    /// [`ScoreMod::add`] to scores at `place` whose rows are keys and whose columns are queries.
    ///
    /// # Safety
    /// As for [`ScoreMod::add`].
    #[cfg(feature = "sm_90a")]
    unsafe fn add_transposed<E: Element, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        scores: &mut Scores<1, N_TILES>,
        fetched: Self::Fetched<1, N_TILES>,
        place: Place,
        lane: Lane,
    );

    /// Nothing fetched.
    #[cfg(feature = "sm_90a")]
    fn nothing<const N_TILES: usize>() -> Self::Fetched<1, N_TILES>;

    /// What was fetched for `N_TILES` of `ALL` tiles, from tile `FIRST` on.
    #[cfg(feature = "sm_90a")]
    fn part<const N_TILES: usize, const ALL: usize>(
        fetched: &Self::Fetched<1, ALL>,
        first: usize,
    ) -> Self::Fetched<1, N_TILES>;
}

impl Differentiable for Unmodified {
    #[inline(always)]
    fn uncap<const M_TILES: usize, const N_TILES: usize>(
        _: &ForwardArgs,
        _: &mut Scores<M_TILES, N_TILES>,
        _: &Scores<M_TILES, N_TILES>,
    ) {
    }

    #[cfg(feature = "sm_80")]
    #[inline(always)]
    unsafe fn add_to_one<E: Element>(self, _: &ForwardArgs, score: f32, _position: u32, _key: u32) -> f32 {
        score
    }

    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    unsafe fn fetch_transposed<E: Element, const N_TILES: usize>(self, _: &ForwardArgs, _: Place, _: Lane) {}

    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    unsafe fn add_transposed<E: Element, const N_TILES: usize>(
        self,
        _: &ForwardArgs,
        _: &mut Scores<1, N_TILES>,
        (): (),
        _: Place,
        _: Lane,
    ) {
    }

    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    fn nothing<const N_TILES: usize>() {}

    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    fn part<const N_TILES: usize, const ALL: usize>((): &(), _: usize) {}
}

impl<const MAY_EXIST: bool> Differentiable for Modified<InRegisters<MAY_EXIST>> {
    #[inline(always)]
    fn uncap<const M_TILES: usize, const N_TILES: usize>(
        args: &ForwardArgs,
        numbers: &mut Scores<M_TILES, N_TILES>,
        capped: &Scores<M_TILES, N_TILES>,
    ) {
        if args.score_mod.softcap_exponent != 0.0 {
            super::for_each_tile(numbers, |m, n, numbers| {
                // The derivative of tanh is 1 − tanh².
                unrolled!(at most 4; for i in 4 => {
                    numbers[i] = math::fma(-capped[m][n][i] * capped[m][n][i], numbers[i], numbers[i]);
                });
            });
        }
    }

    #[cfg(feature = "sm_80")]
    #[inline(always)]
    unsafe fn add_to_one<E: Element>(self, args: &ForwardArgs, score: f32, position: u32, key: u32) -> f32 {
        let distance = (position.wrapping_sub(key) as i32 + args.score_mod.first_position) as f32;
        let score = math::fma(-self.slope, math::abs(distance), score);
        // SAFETY: as promised to this function.
        unsafe { self.bias.add_to_one::<E>(args, score, position, key) }
    }

    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    unsafe fn fetch_transposed<E: Element, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        place: Place,
        lane: Lane,
    ) -> Self::Fetched<1, N_TILES> {
        // SAFETY: as promised to this function.
        unsafe { self.bias.fetch_transposed::<N_TILES>(args, place, lane) }
    }

    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    unsafe fn add_transposed<E: Element, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        scores: &mut Scores<1, N_TILES>,
        fetched: Self::Fetched<1, N_TILES>,
        place: Place,
        lane: Lane,
    ) {
        if self.slope != 0.0 {
            let first_position = place.first_row as i32 + args.score_mod.first_position;
            let first_column = first_position + lane.pair_column() as i32;
            let position = |m, r| lane.row(place.first_key, m, r) as i32 - first_column;
            // In most tiles all keys precede all queries, so distances need no absolute value.
            if first_position >= place.first_key as i32 + const { MMA_M as i32 - 1 } {
                self.shorten(scores, position, |distance| -distance);
            } else {
                self.shorten(scores, position, math::abs);
            }
        }
        // The elements lie like those of rows of queries.
        // SAFETY: as promised to this function.
        unsafe { super::bias::Bias::add::<E, 1, N_TILES>(self.bias, args, scores, fetched, lane) };
    }

    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    fn nothing<const N_TILES: usize>() -> Self::Fetched<1, N_TILES> {
        [[[0; 2]; N_TILES]]
    }

    #[cfg(feature = "sm_90a")]
    #[inline(always)]
    fn part<const N_TILES: usize, const ALL: usize>(
        fetched: &Self::Fetched<1, ALL>,
        first: usize,
    ) -> Self::Fetched<1, N_TILES> {
        let mut part = Self::nothing::<N_TILES>();
        unrolled!(at most 8; for n in N_TILES => { part[0][n] = fetched[0][first + n] });
        part
    }
}
