//! What Q, K and V hold where an entry is tried.

use anyhow::Result;
use cli::element::{Bits, Encoding};
use cli::inputs::{Distribution, Inputs};
use contract::problem::{Problem, Shape};
use contract::refusal::Tensor;

/// Seed of the inputs.
const INPUT_SEED: u64 = 512;

/// Keys from one lone peak to the next.
const LONE_PEAKS_APART: usize = 37;

/// A way to fill Q, K and V. Those that are no distribution are for contiguous tensors.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A distribution.
    Of(Distribution),
    /// Every score is −128: far below the start of a maximum that wrongly begins at 0.
    LowScores,
    /// Rows of large and of small scores, eight at a time in turns: a shift that comes of another row is far off. All scores
    /// of a row are about the same, so that large rows find their shift in any of them and none overflows.
    UnevenRows,
    /// The same scores for all keys but the second 64, which are larger by 9 in base 2: p of 2⁹ under a shift that comes of the
    /// first ones, just too many for the softmax that keeps it. What the first keys add to O then matters as long as it is
    /// rescaled by 2⁻⁹, no more and no less.
    LateRise,
    /// Scores that are larger by 9 in base 2 from the 17th key on, in eight rows of sixteen: shifts that come of the first 16 keys do, but
    /// sums under them show that larger ones would do better.
    EarlyUnevenRise,
    /// The same scores for the first 16 keys, larger ones by 9 in base 2 for 16 more, and for the rest others that are smaller by 9.3. The
    /// rest alone has values: O is what their p of 6 · 2⁻²⁴ add, where a row's shift is raised until its sum of p is 2. Raised by 2 more,
    /// they are 1.5 · 2⁻²⁴, which fp16 does not resolve.
    FaintRest,
    /// The same low score for all keys, −384, to which every product of two elements adds as much: one that meets an element
    /// so many columns off adds the opposite. A maximum of scores of which a sixteenth is wrong is so large that no p is left.
    OpposedColumns(usize),
    /// Scores of standard deviation 1 about −56, to which each 16 columns add −14: a maximum of scores that lacks those of a product is
    /// so large that p are left, but none that is precise.
    EqualProducts,
    /// One row of each head has large scores of the keys from this one on, another one in each: a shift that comes of the first keys
    /// will not do for it, and nothing else says so.
    LoneRise(u32),
    /// Scores that rise by 24 from key to key up to the 16th: under a causal mask, one too many for a row makes all others
    /// vanish.
    SteepStart,
    /// Rows of large and of small scores, eight at a time in turns, whose first 64 scores are all 0: a shift that comes of
    /// those will not do for the large ones, and one that comes of all of them, but of another row, will do for neither.
    LateUnevenRise,
    /// One key of each row has a score far above all others, so that a maximum without it is too small by far: the row's own key,
    /// one 8 before it, one so many before it or 8 more, which 16 rows of a head have in common and others otherwise. Any of them
    /// may be the one that a lane holds at a place of its scores.
    Peaks(u32),
    /// One row of 16 has one key beyond the first 16 whose score is far above all others, another one from 16 rows to the next, so that
    /// every place of the scores that lanes hold is once the only one to say that the shift will not do. The other rows' scores are 0.
    LonePeaks,
    /// In the last head very low scores, −192 for the first 16 keys and −128 for the rest: the rise has a block begin again, and one
    /// key beyond the end, of score 0, makes all others vanish. In the others scores of one size.
    LowRise,
}

/// Where an element lies: its head, in all of the batch, its row of it and its column.
#[derive(Clone, Copy)]
struct Place {
    head: usize,
    row: usize,
    column: usize,
}

impl Values {
    /// Inputs of `problem` with these values.
    ///
    /// # Errors
    /// When they do not fit it.
    pub fn inputs(self, problem: Problem) -> Result<Inputs> {
        let Shape { batch, heads, sequence, .. } = problem.shape();
        let (heads, sequence) = ((batch * heads) as usize, sequence as usize);
        let is_large = |at: Place| ((at.head * sequence + at.row) / 8).is_multiple_of(2);
        let constant = |value: f32| move |_: Place, _: f32| value;
        match self {
            Self::Of(distribution) => Ok(Inputs::generate(problem, distribution, INPUT_SEED)?),
            Self::LowScores => with_scores(problem, constant(-4.0), constant(4.0)),
            Self::UnevenRows => {
                let is_eighth = |at: Place| at.column.is_multiple_of(8);
                let queries = |at: Place, normal| if is_eighth(at) && is_large(at) { 40.0 } else { normal };
                with_scores(problem, queries, |at, normal| if is_eighth(at) { 4.0 } else { normal })
            }
            Self::LateRise => {
                let keys = |at: Place, _| if (64..128).contains(&at.row) { 0.785_156_25 } else { 0.0 };
                with_values(problem, constant(1.0), keys, constant(64.0))
            }
            Self::EarlyUnevenRise => {
                let queries = |at: Place, _| if is_large(at) { 1.0 } else { 0.0 };
                with_scores(problem, queries, |at, _| if at.row >= 16 { 0.785_156_25 } else { 0.0 })
            }
            Self::FaintRest => {
                let keys = |at: Place, _| match at.row {
                    ..16 => 0.0,
                    16..32 => 0.785_156_25,
                    _ => -0.81,
                };
                with_values(problem, constant(1.0), keys, |at, _| if at.row < 32 { 0.0 } else { 64.0 })
            }
            Self::OpposedColumns(width) => {
                let alternating =
                    |value: f32| move |at: Place, _: f32| if at.column % (2 * width) < width { value } else { -value };
                with_scores(problem, alternating(4.0), alternating(-12.0))
            }
            Self::EqualProducts => with_scores(problem, constant(4.0), |_, normal| normal / 4.0 - 1.75),
            Self::LoneRise(first) => {
                let queries = |at: Place, _| if at.row == sequence - 1 - 8 * at.head { 4.0 } else { 0.0 };
                with_scores(problem, queries, |at, _| if at.row >= first as usize { 12.0 } else { 0.0 })
            }
            Self::SteepStart => with_scores(problem, constant(4.0), |at, _| 0.75 * at.row.min(15) as f32),
            Self::LateUnevenRise => {
                let queries = |at: Place, _| if is_large(at) { 4.0 } else { 0.0 };
                with_scores(problem, queries, |at, _| if at.row >= 64 { 12.0 } else { 0.0 })
            }
            Self::Peaks(distance) => {
                let before = [0, 8, distance as usize, distance as usize + 8];
                let sign = |row: usize, column: usize| if is_set(row, column) { 8.0 } else { -8.0 };
                let peak = |at: Place| at.row - before[(at.head + at.row / 16) % before.len()].min(at.row);
                with_scores(problem, |at, _| sign(peak(at), at.column), |at, _| sign(at.row, at.column))
            }
            Self::LonePeaks => {
                let size = (20.0 / f64::from(problem.shape().head_dim).sqrt()).sqrt() as f32;
                let sign = |row: usize, column: usize| if is_set(row, column) { size } else { -size };
                let peak = |at: Place| {
                    let number = at.row / 16 + at.head * sequence.div_ceil(16);
                    let last = if at.row > 16 { at.row } else { sequence - 1 };
                    16 + number * LONE_PEAKS_APART % (last - 15)
                };
                // Upper and lower rows of a strip in turns.
                let has_peak = |at: Place| at.row % 16 == (at.row / 16 + at.head) % 2 * 8 + 3;
                let queries = |at: Place, _| if has_peak(at) { sign(peak(at), at.column) } else { 0.0 };
                with_scores(problem, queries, |at, _| sign(at.row, at.column))
            }
            Self::LowRise => {
                let low = |at: Place, low: f32, normal: f32| if at.head == 1.min(heads - 1) { low } else { normal };
                let keys = |at: Place, normal| low(at, if at.row < 16 { 6.0 } else { 4.0 }, normal);
                let is_undefined = |at: Place| at.head == 2 && at.row % 16 == 1;
                let queries = |at: Place, normal| if is_undefined(at) { f32::NAN } else { low(at, -4.0, normal) };
                with_scores(problem, queries, keys)
            }
        }
    }
}

/// Inputs of `problem`, which is contiguous, whose Q and K are made from normal ones; V is normal.
fn with_scores(
    problem: Problem,
    queries: impl Fn(Place, f32) -> f32,
    keys: impl Fn(Place, f32) -> f32,
) -> Result<Inputs> {
    with_values(problem, queries, keys, |_, normal| normal)
}

/// The same with V made from a normal one, too.
fn with_values(
    problem: Problem,
    queries: impl Fn(Place, f32) -> f32,
    keys: impl Fn(Place, f32) -> f32,
    values: impl Fn(Place, f32) -> f32,
) -> Result<Inputs> {
    let normal = Inputs::generate(problem, Distribution::Normal, INPUT_SEED)?;
    let [q, k, v] = normal.storages();
    let (queries, keys) = (elementwise(problem, Tensor::Q, q, queries), elementwise(problem, Tensor::K, k, keys));
    Ok(Inputs::new(problem, queries, keys, elementwise(problem, Tensor::V, v, values))?)
}

/// A tensor of `problem`, which is contiguous, with elements by their places and what `normal` has there.
fn elementwise(problem: Problem, tensor: Tensor, normal: &[Bits], value: impl Fn(Place, f32) -> f32) -> Vec<Bits> {
    let Shape { sequence, head_dim, .. } = problem.shape().of(tensor);
    let (rows, columns) = (sequence as usize, head_dim as usize);
    let place =
        |index: usize| Place { head: index / columns / rows, row: index / columns % rows, column: index % columns };
    let element = problem.element();
    let changed = |(index, &bits): (usize, &Bits)| {
        let normal = element.decode(bits);
        element.encode(value(place(index), normal as f32).into())
    };
    normal.iter().enumerate().map(changed).collect()
}

/// A bit that looks random, of its own for each row and column.
fn is_set(row: usize, column: usize) -> bool {
    let mut bits = ((row * 4096 + column) as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (bits >> 63) == 1
}
