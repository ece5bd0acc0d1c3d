//! Score modifications before the softmax, as types: none, or those of the launch ([`contract::problem::ScoreMod`]).
//!
//! They apply to unscaled scores, before the softmax multiplies by the scale, so what is added is divided by the scale first
//! ([`ScoreModArgs::inverse_scale`]). Masked scores are set to −∞ afterwards, whatever their bias.
//!
//! Each condition is evaluated once for all scores of a warp, outside of the unrolled loops over them: with a branch per element,
//! the branches dominated the time.

pub mod bias;
pub mod differentiable;
pub mod place;

use crate::device::lane::{Lane, ROWS_PER_LANE, Scores};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentC;
use crate::device::ptx::{math, memory};
use crate::device::unrolled;
use bias::Bias;
use contract::args::{ForwardArgs, ScoreModArgs};
use contract::config::MMA_N;
use contract::geometry::BlockWork;
use place::Place;

/// The score modifications of a head.
pub trait ScoreMod: Copy {
    /// Whether there are any.
    const MODIFIES: bool;
    /// Values prefetched from memory for scores of `M_TILES` strips and `N_TILES` 8-key tiles.
    type Fetched<const M_TILES: usize, const N_TILES: usize>: Copy;

    /// The score modifications of the head that `work` names, in a packed sequence; in a batch that is 0.
    fn of_head(args: &ForwardArgs, work: BlockWork, sequence: u32) -> Self;

    /// Starts loading the values that the scores at `place` need.
    ///
    /// # Safety
    /// The launch's bias has an element for each row and key of the sequence.
    unsafe fn fetch<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        place: Place,
        lane: Lane,
    ) -> Self::Fetched<M_TILES, N_TILES>;

    /// Applies the softcap alone to scores, wherever they are.
    fn cap<const M_TILES: usize, const N_TILES: usize>(args: &ForwardArgs, scores: &mut Scores<M_TILES, N_TILES>);

    /// Adds ALiBi's term and the bias to capped scores at `place`.
    ///
    /// # Safety
    /// As for [`Self::apply`].
    unsafe fn add<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        scores: &mut Scores<M_TILES, N_TILES>,
        fetched: Self::Fetched<M_TILES, N_TILES>,
        place: Place,
        lane: Lane,
    );

    /// Modifies the scores at `place`.
    ///
    /// # Safety
    /// Warp together; `fetched` is what was fetched last, for the same place.
    #[inline(always)]
    unsafe fn apply<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        scores: &mut Scores<M_TILES, N_TILES>,
        fetched: Self::Fetched<M_TILES, N_TILES>,
        place: Place,
        lane: Lane,
    ) {
        Self::cap(args, scores);
        // SAFETY: the caller's promise.
        unsafe { self.add::<E, M_TILES, N_TILES>(args, scores, fetched, place, lane) };
    }
}

/// No score modifications.
#[derive(Clone, Copy)]
pub struct Unmodified;

impl ScoreMod for Unmodified {
    const MODIFIES: bool = false;
    type Fetched<const M_TILES: usize, const N_TILES: usize> = ();

    #[inline(always)]
    fn of_head(_: &ForwardArgs, _: BlockWork, _: u32) -> Self {
        Self
    }

    #[inline(always)]
    unsafe fn fetch<E: Element, const M_TILES: usize, const N_TILES: usize>(self, _: &ForwardArgs, _: Place, _: Lane) {}

    #[inline(always)]
    fn cap<const M_TILES: usize, const N_TILES: usize>(_: &ForwardArgs, _: &mut Scores<M_TILES, N_TILES>) {}

    #[inline(always)]
    unsafe fn add<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        _: &ForwardArgs,
        _: &mut Scores<M_TILES, N_TILES>,
        (): (),
        _: Place,
        _: Lane,
    ) {
    }
}

/// Softcap, ALiBi and, for sequences that may have one, a bias; each only if the launch has it.
#[derive(Clone, Copy)]
pub struct Modified<B> {
    bias: B,
    /// The head's ALiBi slope, divided by the scale; 0: none.
    slope: f32,
}

impl<B: Bias> ScoreMod for Modified<B> {
    const MODIFIES: bool = true;
    type Fetched<const M_TILES: usize, const N_TILES: usize> = B::Fetched<M_TILES, N_TILES>;

    #[inline(always)]
    fn of_head(args: &ForwardArgs, BlockWork { batch, head, .. }: BlockWork, sequence: u32) -> Self {
        let ScoreModArgs { bias, slopes, bias_strides, slopes_batch, inverse_scale, .. } = args.score_mod;
        let elements = batch as u64 * bias_strides.batch + head as u64 * bias_strides.head;
        // One of both is 0.
        let slope_of = (batch + sequence) * slopes_batch + head;
        let slope = match slopes {
            0 => 0.0,
            // SAFETY: the launch's slopes have an element for the head, 4-byte aligned.
            _ => unsafe { f32::from_bits(memory::load_global_4(slopes + slope_of as u64 * 4)) },
        };
        Self { bias: B::at(if bias == 0 { 0 } else { bias + elements * 2 }), slope: slope * inverse_scale }
    }

    #[inline(always)]
    unsafe fn fetch<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        place: Place,
        lane: Lane,
    ) -> B::Fetched<M_TILES, N_TILES> {
        // SAFETY: as promised to this function.
        unsafe { self.bias.fetch::<E, M_TILES, N_TILES>(args, place, lane) }
    }

    #[inline(always)]
    fn cap<const M_TILES: usize, const N_TILES: usize>(args: &ForwardArgs, scores: &mut Scores<M_TILES, N_TILES>) {
        let softcap_exponent = args.score_mod.softcap_exponent;
        if softcap_exponent != 0.0 {
            for_each_tile(scores, |_, _, scores| {
                unrolled!(at most 4; for i in 4 => { scores[i] = tanh_of_half(softcap_exponent * scores[i]) });
            });
        }
    }

    #[inline(always)]
    unsafe fn add<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        scores: &mut Scores<M_TILES, N_TILES>,
        fetched: B::Fetched<M_TILES, N_TILES>,
        place: Place,
        lane: Lane,
    ) {
        if self.slope != 0.0 {
            // In most tiles all keys precede all rows, so distances need no absolute value.
            let last_key = (place.first_key + N_TILES as u32 * MMA_N - 1) as i32;
            let first_key = (place.first_key + lane.pair_column()) as i32 - args.score_mod.first_position;
            let position = |m, r| lane.row(place.first_row, m, r) as i32 - first_key;
            if place.first_row as i32 + args.score_mod.first_position >= last_key {
                self.shorten(scores, position, |distance| distance);
            } else {
                self.shorten(scores, position, math::abs);
            }
        }
        // SAFETY: as promised to this function.
        unsafe { self.bias.add::<E, M_TILES, N_TILES>(args, scores, fetched, lane) };
    }
}

impl<B> Modified<B> {
    /// Subtracts the ALiBi term from the scores. `magnitude` is applied to the position of a row minus that of a column, given that of part `r` of
    /// the lane's rows of a strip minus that of the lane's first column.
    #[inline(always)]
    fn shorten<const M_TILES: usize, const N_TILES: usize>(
        self,
        scores: &mut Scores<M_TILES, N_TILES>,
        position: impl Fn(usize, usize) -> i32,
        magnitude: impl Fn(f32) -> f32,
    ) {
        unrolled!(at most 4; for m in M_TILES => {
            unrolled!(at most 2; for r in ROWS_PER_LANE => {
                let position = position(m, r) as f32;
                unrolled!(at most 16; for n in N_TILES => {
                    unrolled!(at most 2; for i in 2 => {
                        let distance = magnitude(position - (n as u32 * MMA_N + i as u32) as f32);
                        scores[m][n][2 * r + i] = math::fma(-self.slope, distance, scores[m][n][2 * r + i]);
                    });
                });
            });
        });
    }
}

/// Calls `change` for each tile of 16 rows and 8 keys, with the indices of its strip and tile.
#[inline(always)]
fn for_each_tile<const M_TILES: usize, const N_TILES: usize>(
    scores: &mut Scores<M_TILES, N_TILES>,
    change: impl Fn(usize, usize, &mut FragmentC),
) {
    unrolled!(at most 4; for m in M_TILES => {
        unrolled!(at most 16; for n in N_TILES => { change(m, n, &mut scores[m][n]) });
    });
}

/// tanh(x / (2 · log₂e)), from 2ˣ: 1 − 2 / (2ˣ + 1), within 2⁻²² of 1.
#[inline(always)]
fn tanh_of_half(x: f32) -> f32 {
    math::fma(-2.0, math::reciprocal(math::exp2(x) + 1.0), 1.0)
}
