//! Summary of a set of samples.

use serde::{Deserialize, Serialize};

use super::{Bootstrap, Interval, Samples};

/// Summary of a set of samples, in their unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// Smallest.
    pub minimum: f64,
    /// Median.
    pub median: f64,
    /// 95 % bootstrap interval of the median.
    pub median_interval: Interval,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub maximum: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation over mean.
    pub coefficient_of_variation: f64,
}

impl Summary {
    /// Summarises `samples`.
    pub fn new(samples: &Samples, bootstrap: &Bootstrap) -> Self {
        Self {
            count: samples.count(),
            minimum: samples.minimum(),
            median: samples.median(),
            median_interval: bootstrap.median(samples),
            p95: samples.quantile(0.95),
            p99: samples.quantile(0.99),
            maximum: samples.maximum(),
            mean: samples.mean(),
            coefficient_of_variation: samples.coefficient_of_variation(),
        }
    }

    /// The first number that does not follow from `samples`: its name, its value, and the expected value. Intervals are
    /// random and only have to contain the median.
    pub fn first_other_than(&self, samples: &Samples) -> Option<(&'static str, f64, f64)> {
        let Interval { low, high } = self.median_interval;
        let pairs = [
            ("count", self.count as f64, samples.count() as f64),
            ("minimum", self.minimum, samples.minimum()),
            ("median", self.median, samples.median()),
            ("p95", self.p95, samples.quantile(0.95)),
            ("p99", self.p99, samples.quantile(0.99)),
            ("maximum", self.maximum, samples.maximum()),
            ("mean", self.mean, samples.mean()),
            ("coefficient of variation", self.coefficient_of_variation, samples.coefficient_of_variation()),
            ("lower end of the median's interval", low, low.clamp(samples.minimum(), samples.median())),
            ("upper end of the median's interval", high, high.clamp(samples.median(), samples.maximum())),
        ];
        pairs.into_iter().find(|&(_, stored, actual)| !agrees(stored, actual))
    }
}

/// Whether a stored number equals the recomputed one, up to rounding.
pub fn agrees(stored: f64, actual: f64) -> bool {
    const ROUNDING: f64 = 1e-9;
    (stored - actual).abs() <= ROUNDING * actual.abs()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// `count` numbers of 10 and up, all different when `modulus` is prime and at least `count`:
    /// `[10 + (i * factor) % modulus / 100 for i in range(count)]`.
    pub fn scattered(count: u32, factor: u32, modulus: u32) -> Samples {
        Samples::new((0..count).map(|i| 10.0 + f64::from(i * factor % modulus) / 100.0).collect()).unwrap()
    }

    pub fn assert_close(actual: f64, expected: f64, source: &str) {
        let error = (actual - expected).abs() / expected.abs();
        assert!(error < 1e-9 || actual == expected, "{actual} is not {expected}, as {source} says");
    }

    #[test]
    fn a_summary_is_what_numpy_says() {
        // numpy.mean, .std(ddof=1), .quantile of NumPy 2.4.6
        let summary = Summary::new(&scattered(100, 37, 101), &Bootstrap::new(0));
        assert_eq!((summary.count, summary.minimum, summary.maximum), (100, 10.0, 11.0));
        for (actual, expected) in [
            (summary.median, 10.495),
            (summary.mean, 10.4986),
            (summary.coefficient_of_variation, 0.028_016_886_387_277_895),
            (summary.p95, 10.9505),
            (summary.p99, 10.9901),
        ] {
            assert_close(actual, expected, "NumPy");
        }
        assert!(summary.median_interval.contains(summary.median));
    }
}
