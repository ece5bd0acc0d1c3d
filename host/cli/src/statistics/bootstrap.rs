//! Bootstrap intervals: how far a median, or the ratio of two, would vary if the measurement were repeated.

use std::num::NonZeroUsize;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Samples;
use super::samples::quantile;

/// Number of resamples per interval.
pub const RESAMPLES: usize = 10_000;
/// Probability that an interval covers the true value.
pub const CONFIDENCE: f64 = 0.95;

/// Resamples that share a random stream, the unit of parallel work.
const RESAMPLES_PER_STREAM: usize = 500;

/// A closed interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies in it.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Whether both may be intervals of the same samples from different random numbers: their ends differ by at most
    /// the width of `other`, or by a thousandth if the samples are nearly equal.
    pub fn is_near(&self, other: &Self) -> bool {
        let most = (other.high - other.low).max(1e-3 * other.high.abs());
        self.low <= self.high && (self.low - other.low).abs() <= most && (self.high - other.high).abs() <= most
    }

    /// Whether the intervals are disjoint.
    pub fn is_apart_from(&self, other: &Self) -> bool {
        self.high < other.low || other.high < self.low
    }
}

/// A seeded bootstrap (Efron 1979) with percentile intervals of [`CONFIDENCE`].
///
/// Neighbouring samples of a GPU resemble each other, since clocks and temperature change slowly, so it resamples blocks
/// of ∛n consecutive samples, wrapped around the end (circular block bootstrap, Politis & Romano 1992). Percentile
/// intervals, because the acceleration of BCa comes from the jackknife, which fails for medians (Efron & Tibshirani 1993,
/// section 11.6).
#[derive(Clone, Copy, Debug)]
pub struct Bootstrap {
    seed: u64,
    resamples: usize,
    block: Option<NonZeroUsize>,
}

impl Bootstrap {
    /// A bootstrap of [`RESAMPLES`]; the same seed and samples give the same interval on every machine.
    pub fn new(seed: u64) -> Self {
        Self { seed, resamples: RESAMPLES, block: None }
    }

    /// The same bootstrap with another number of resamples, at least 1.
    pub fn with_resamples(self, resamples: usize) -> Self {
        Self { resamples: resamples.max(1), ..self }
    }

    /// The same bootstrap with blocks of `block` samples; 1 assumes independent samples.
    pub fn with_blocks_of(self, block: NonZeroUsize) -> Self {
        Self { block: Some(block), ..self }
    }

    /// The interval of the median of `samples`.
    pub fn median(&self, samples: &Samples) -> Interval {
        let values = samples.in_order();
        let block = self.block_length(values.len());
        self.interval(|random, scratch| {
            let starts = block_starts(random, values.len(), block);
            resampled_median(values, starts, block, scratch)
        })
    }

    /// The interval of median(`numerator`) / median(`denominator`) for independent measurements.
    pub fn ratio_of_medians(&self, numerator: &Samples, denominator: &Samples) -> Interval {
        let [numerator, denominator] = [numerator, denominator].map(Samples::in_order);
        self.interval(|random, scratch| {
            let [numerator, denominator] = [numerator, denominator].map(|values| {
                let block = self.block_length(values.len());
                let starts = block_starts(random, values.len(), block);
                resampled_median(values, starts, block, scratch)
            });
            numerator / denominator
        })
    }

    /// The interval of median(`numerator`) / median(`denominator`) for samples taken in the same turns: sample i of one
    /// is paired with sample i of the other, since disturbances of a turn affect both. Unpaired samples are dropped.
    pub fn paired_ratio_of_medians(&self, numerator: &Samples, denominator: &Samples) -> Interval {
        let turns = numerator.count().min(denominator.count());
        let [numerator, denominator] = [numerator, denominator].map(|samples| &samples.in_order()[..turns]);
        let block = self.block_length(turns);
        self.interval(|random, scratch| {
            let starts: Vec<_> = block_starts(random, turns, block).collect();
            let [numerator, denominator] =
                [numerator, denominator].map(|values| resampled_median(values, starts.iter().copied(), block, scratch));
            numerator / denominator
        })
    }

    /// Samples per block: ∛n unless given, the order that minimises the error of the variance (Hall, Horowitz & Jing
    /// 1995).
    fn block_length(&self, count: usize) -> usize {
        self.block.map_or((count as f64).cbrt().round() as usize, NonZeroUsize::get)
    }

    /// The percentile interval of `statistic`, which gets random numbers and scratch space.
    fn interval(&self, statistic: impl Fn(&mut ChaCha8Rng, &mut Vec<f64>) -> f64 + Sync) -> Interval {
        let streams = self.resamples.div_ceil(RESAMPLES_PER_STREAM);
        let mut statistics: Vec<f64> = (0..streams)
            .into_par_iter()
            .flat_map_iter(|stream| {
                let mut random = ChaCha8Rng::seed_from_u64(self.seed);
                random.set_stream(stream as u64);
                let mut scratch = Vec::new();
                let first = stream * RESAMPLES_PER_STREAM;
                let resamples = first..(first + RESAMPLES_PER_STREAM).min(self.resamples);
                resamples.map(|_| statistic(&mut random, &mut scratch)).collect::<Vec<_>>()
            })
            .collect();
        statistics.sort_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        Interval { low: quantile(&statistics, tail), high: quantile(&statistics, 1.0 - tail) }
    }
}

/// Start indices of the blocks of one resample.
fn block_starts(random: &mut ChaCha8Rng, count: usize, block: usize) -> impl Iterator<Item = usize> {
    (0..count.div_ceil(block)).map(move |_| random.random_range(0..count))
}

/// The median of a resample of the same size, from the blocks at `starts`.
fn resampled_median(values: &[f64], starts: impl Iterator<Item = usize>, block: usize, scratch: &mut Vec<f64>) -> f64 {
    scratch.clear();
    for start in starts {
        let end = start + block;
        scratch.extend_from_slice(&values[start..end.min(values.len())]);
        // Blocks wrap around the end, several times if longer than the values.
        let mut rest = end.saturating_sub(values.len());
        while rest > 0 {
            scratch.extend_from_slice(&values[..rest.min(values.len())]);
            rest = rest.saturating_sub(values.len());
        }
    }
    scratch.truncate(values.len());
    let middle = scratch.len() / 2;
    let (below, &mut upper, _) = scratch.select_nth_unstable_by(middle, f64::total_cmp);
    match values.len() % 2 {
        1 => upper,
        _ => below.iter().copied().fold(f64::MIN, f64::max).midpoint(upper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::summary::tests::scattered;
    use rand_distr::{Distribution, StandardNormal};

    /// A bootstrap that assumes independent samples, as SciPy does.
    fn independent(resamples: usize) -> Bootstrap {
        Bootstrap::new(3).with_resamples(resamples).with_blocks_of(NonZeroUsize::MIN)
    }

    fn assert_interval(actual: Interval, [low, high]: [f64; 2], tolerance: f64) {
        let close = (actual.low - low).abs() <= tolerance && (actual.high - high).abs() <= tolerance;
        assert!(close, "{actual:?} is not {low} to {high} ± {tolerance}");
    }

    #[test]
    fn the_interval_of_a_median_is_that_of_the_binomial_distribution() {
        // The median of a resample of n = 101 exceeds the k-th smallest value with the probability that fewer than 51 of
        // 101 draws with probability k/101 are successes (scipy.stats.binom of SciPy 1.17.1).
        assert_interval(independent(RESAMPLES).median(&scattered(101, 37, 101)), [10.4, 10.6], 0.0101);
    }

    #[test]
    fn intervals_are_scipys() {
        // scipy.stats.bootstrap(method='percentile', n_resamples=200000) of SciPy 1.17.1
        let (first, second) = (scattered(100, 37, 101), scattered(80, 29, 103));
        let second = Samples::new(second.in_order().iter().map(|sample| sample * 1.1).collect()).unwrap();
        assert_interval(independent(RESAMPLES).median(&first), [10.4, 10.59], 0.0101);
        let ratio = independent(RESAMPLES).ratio_of_medians(&first, &second);
        assert_interval(ratio, [0.895_316_804_4, 0.921_200_588_4], 6e-4);
    }

    /// `count` times around 50 with a standard deviation of 1.5, each correlated with the one before by `correlation`.
    fn measured(random: &mut ChaCha8Rng, count: usize, correlation: f64) -> Vec<f64> {
        let mut state: f64 = StandardNormal.sample(random);
        let mut next = || {
            let noise: f64 = StandardNormal.sample(random);
            state = correlation * state + (1.0 - correlation * correlation).sqrt() * noise;
            50.0 + 1.5 * state
        };
        (0..count).map(|_| next()).collect()
    }

    /// Fraction of 1,000 trials in which `interval` contains 1.
    fn coverage(mut interval: impl FnMut(&mut ChaCha8Rng) -> Interval) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        (0..1000).filter(|_| interval(&mut random).contains(1.0)).count() as f64 / 1000.0
    }

    #[test]
    fn an_interval_covers_the_true_ratio_as_often_as_it_says() {
        let samples = |random: &mut ChaCha8Rng, correlation| Samples::new(measured(random, 100, correlation)).unwrap();
        let bootstrap = Bootstrap::new(7).with_resamples(400);
        let share = coverage(|random| bootstrap.ratio_of_medians(&samples(random, 0.0), &samples(random, 0.0)));
        assert!((0.92..=0.98).contains(&share), "independent samples: {share}");
        let correlated = |bootstrap: Bootstrap| {
            coverage(|random| bootstrap.ratio_of_medians(&samples(random, 0.5), &samples(random, 0.5)))
        };
        let (blocks, single) = (correlated(bootstrap), correlated(bootstrap.with_blocks_of(NonZeroUsize::MIN)));
        assert!(blocks > 0.85 && blocks > single + 0.05, "correlated samples: {blocks} with blocks, {single} without");
    }

    #[test]
    fn what_disturbs_both_of_a_pair_does_not_widen_their_ratio() {
        let mut random = ChaCha8Rng::seed_from_u64(9);
        let drift = measured(&mut random, 100, 0.9);
        let mut disturbed = |factor: f64| {
            let noise = measured(&mut random, 100, 0.0);
            Samples::new(drift.iter().zip(noise).map(|(drift, noise)| factor * drift * (1.0 + noise / 1e5)).collect())
        };
        let (first, second) = (disturbed(0.98).unwrap(), disturbed(1.0).unwrap());
        let width = |interval: Interval| interval.high - interval.low;
        let paired = Bootstrap::new(1).paired_ratio_of_medians(&first, &second);
        let unpaired = Bootstrap::new(1).ratio_of_medians(&first, &second);
        assert!(paired.contains(0.98) && width(paired) * 4.0 < width(unpaired), "{paired:?}, unpaired {unpaired:?}");
    }

    #[test]
    fn intervals_depend_on_the_seed_only() {
        let samples = scattered(100, 37, 101);
        let interval = |seed| Bootstrap::new(seed).median(&samples);
        assert_eq!(interval(1), interval(1));
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(alone.install(|| interval(1)), interval(1), "the number of threads must not matter");
        assert_ne!(interval(1), interval(2));
    }

    #[test]
    fn a_single_sample_is_its_own_interval() {
        let single = Samples::new(vec![2.0]).unwrap();
        assert_interval(Bootstrap::new(0).median(&single), [2.0, 2.0], 0.0);
        assert_interval(Bootstrap::new(0).ratio_of_medians(&single, &single), [1.0, 1.0], 0.0);
    }

    #[test]
    fn intervals_that_touch_are_not_apart() {
        let interval = |low, high| Interval { low, high };
        assert!(interval(1.0, 2.0).is_apart_from(&interval(2.1, 3.0)));
        assert!(interval(2.1, 3.0).is_apart_from(&interval(1.0, 2.0)));
        assert!(!interval(1.0, 2.0).is_apart_from(&interval(2.0, 3.0)));
    }
}
