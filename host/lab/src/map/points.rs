//! Chooses the cases of a map.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use contract::config::{Element, Mask};
use contract::problem::Shape;
use contract::view::Layout;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use cli::record::{Case, Ceilings};

/// Maximum heads per batch entry.
const MOST_HEADS: u32 = 32;

/// Ranges of batch × heads and of the sequence length that sizes are chosen from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Heads of all batch entries together.
    pub heads: RangeInclusive<u32>,
    /// Sequence lengths.
    pub sequence: RangeInclusive<u32>,
}

impl Sizes {
    /// Every pair of steps of both ranges, shuffled by `seed`, so that any prefix is spread over the map.
    pub fn grid(&self, seed: u64) -> Vec<Shape> {
        let sequences = steps(&self.sequence);
        let pairs = steps(&self.heads).into_iter().flat_map(|heads| sequences.iter().map(move |&s| shape(heads, s)));
        let mut shapes: Vec<_> = pairs.collect();
        shapes.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        shapes
    }

    /// `count` pairs of sizes, log-uniform in both ranges.
    pub fn random(&self, count: usize, seed: u64) -> Vec<Shape> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..count).map(|_| shape(draw(&self.heads, &mut random), draw(&self.sequence, &mut random))).collect()
    }
}

/// The powers of two in `range`, and between neighbours the odd number nearest to their geometric mean.
fn steps(range: &RangeInclusive<u32>) -> Vec<u32> {
    let powers = (0..u32::BITS - 1).map(|exponent| 1u32 << exponent);
    let between = |power: u32| (f64::from(power) * std::f64::consts::SQRT_2) as u32 | 1;
    powers.flat_map(|power| [power, between(power)]).filter(|size| range.contains(size)).collect::<Deduplicated>().0
}

/// Numbers without consecutive duplicates.
struct Deduplicated(Vec<u32>);

impl FromIterator<u32> for Deduplicated {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut numbers: Vec<_> = numbers.into_iter().collect();
        numbers.dedup();
        Self(numbers)
    }
}

fn draw(range: &RangeInclusive<u32>, random: &mut ChaCha8Rng) -> u32 {
    let (low, high) = (f64::from(*range.start()).ln(), (f64::from(*range.end()) + 1.0).ln());
    (random.random_range(low..high).exp() as u32).clamp(*range.start(), *range.end())
}

/// A shape with so many heads of this length, distributed evenly over batch entries of at most `MOST_HEADS`.
pub fn shape(heads: u32, sequence: u32) -> Shape {
    let of_an_entry = (1..=heads.min(MOST_HEADS)).rev().find(|count| heads.is_multiple_of(*count)).unwrap_or(1);
    Shape::new(heads / of_an_entry, of_an_entry, sequence)
}

/// Limits on the cost of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of Q, K, V, O and LSE together.
    pub bytes: f64,
    /// Maximum of [`floor_us`], µs.
    pub floor_us: f64,
}

/// Lower bound of a call's time, µs: its operations at the peak rate of matrix products, or its bytes at copy
/// bandwidth.
pub fn floor_us(shape: Shape, mask: Mask, ceilings: &Ceilings) -> f64 {
    let time = |amount: f64, per_microsecond: Option<f64>| per_microsecond.map_or(0.0, |rate| amount / (rate * 1e6));
    time(shape.operations(mask), ceilings.teraflops()).max(time(shape.bytes(), ceilings.copy_terabytes_per_second))
}

/// `shapes` with each of `elements` and `masks`, without those beyond `limits` and without duplicates.
pub fn cases(
    shapes: &[Shape],
    elements: &[Element],
    masks: &[Mask],
    layout: Layout,
    limits: &Limits,
    ceilings: &Ceilings,
) -> Vec<Case> {
    let mut seen = HashSet::new();
    let kinds: Vec<_> = elements.iter().flat_map(|&element| masks.iter().map(move |&mask| (element, mask))).collect();
    let case = |shape: &Shape, (element, mask)| Case::plain(*shape, element, mask, layout);
    let all = shapes.iter().flat_map(|shape| kinds.iter().map(move |&kind| case(shape, kind)));
    let fits = |case: &Case| {
        case.shape.bytes() <= limits.bytes && floor_us(case.shape, case.mask, ceilings) <= limits.floor_us
    };
    all.filter(fits).filter(|case| seen.insert(case.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cli::record::TensorCeiling;

    const RANGES: Sizes = Sizes { heads: 1..=4096, sequence: 16..=8192 };

    #[test]
    fn a_grid_has_powers_of_two_and_an_odd_size_between() {
        assert_eq!(steps(&(1..=40)), [1, 2, 3, 4, 5, 8, 11, 16, 23, 32]);
        let shapes = Sizes { heads: 1..=4, sequence: 16..=32 }.grid(1);
        assert_eq!(shapes.len(), 4 * 3);
        assert!(shapes.contains(&Shape::new(1, 3, 23)), "{shapes:?}");
        assert_ne!(shapes, Sizes { heads: 1..=4, sequence: 16..=32 }.grid(2), "in another order");
    }

    #[test]
    fn random_sizes_repeat_by_their_seed_and_reach_every_octave() {
        let shapes = RANGES.random(2000, 7);
        assert_eq!(shapes, RANGES.random(2000, 7));
        assert_ne!(shapes, RANGES.random(2000, 8));
        let heads = |shape: &Shape| shape.batch * shape.heads;
        assert!(shapes.iter().all(|shape| RANGES.heads.contains(&heads(shape))));
        assert!(shapes.iter().all(|shape| RANGES.sequence.contains(&shape.sequence)));
        for octave in 0..12 {
            let share = shapes.iter().filter(|shape| heads(shape).ilog2() == octave).count();
            assert!((100..260).contains(&share), "{share} of 2,000 have 2^{octave} heads or a little more");
        }
    }

    #[test]
    fn batch_entries_have_as_many_heads_as_divide_them_evenly() {
        assert_eq!(shape(96, 64), Shape::new(3, 32, 64));
        assert_eq!(shape(133, 64), Shape::new(7, 19, 64));
        assert_eq!(shape(37, 64), Shape::new(37, 1, 64));
        assert_eq!(shape(17, 64), Shape::new(1, 17, 64));
    }

    #[test]
    fn points_beyond_a_limit_and_doubles_are_left_out() {
        let tensor = vec![TensorCeiling { instruction: "wgmma".into(), teraflops: 600.0 }];
        let ceilings = Ceilings { copy_terabytes_per_second: Some(4.0), tensor };
        let long = shape(128, 8192);
        assert!((floor_us(long, Mask::Full, &ceilings) - 3665.0).abs() < 1.0, "by its operations");
        assert!((floor_us(shape(4096, 16), Mask::Full, &ceilings) - 8.45).abs() < 0.01, "by its bytes");
        let limits = Limits { bytes: 1e9, floor_us: 3000.0 };
        let shapes = [long, shape(4096, 512), shape(4, 64), shape(4, 64)];
        let masks = [Mask::Full, Mask::Causal];
        let kept = |elements: &[Element]| {
            let cases = cases(&shapes, elements, &masks, Layout::Bhsd, &limits, &ceilings);
            cases.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(kept(&[Element::F16]), ["4x32x8192 causal", "1x4x64 full", "1x4x64 causal"]);
        assert_eq!(kept(&Element::ALL)[2..4], ["1x4x64 full", "1x4x64 causal"]);
        assert_eq!(kept(&Element::ALL)[4..], ["1x4x64 full bf16", "1x4x64 causal bf16"]);
    }
}
