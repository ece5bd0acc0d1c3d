//! Statistical evidence for a difference between two sets of samples.

use serde::Serialize;

use crate::statistics::{Bootstrap, Interval, RankTest, Samples};

/// Thresholds that a difference has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thresholds {
    /// An improvement takes less time by at least this fraction.
    pub improvement: f64,
    /// A regression takes more time by at least this fraction.
    pub regression: f64,
    /// Minimum |Cliff's δ|.
    pub effect: f64,
    /// The p-value has to be below this.
    pub significance: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { improvement: 0.10, regression: 0.03, effect: 0.3, significance: 0.05 }
    }
}

/// How a time changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is shorter.
    Improved,
    /// It is longer.
    Regressed,
    /// No difference that stands out from noise or is large enough.
    None,
}

impl Change {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Change::Improved => "improved",
            Change::Regressed => "regressed",
            Change::None => "no significant difference",
        }
    }
}

/// Evidence for a difference between two sets of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Median of the new samples, µs.
    pub new_median_us: f64,
    /// Its 95 % interval.
    pub new_interval_us: Interval,
    /// Median of the old samples, µs.
    pub old_median_us: f64,
    /// Its 95 % interval.
    pub old_interval_us: Interval,
    /// new / old.
    pub ratio: f64,
    /// Its 95 % interval.
    pub ratio_interval: Interval,
    /// Rank test of new against old times; δ is negative if the new ones are shorter.
    pub rank_test: RankTest,
}

impl Evidence {
    /// Compares `new` with `old`, measured in different runs.
    pub fn new(new: &Samples, old: &Samples, bootstrap: &Bootstrap) -> Self {
        Self {
            new_median_us: new.median(),
            new_interval_us: bootstrap.median(new),
            old_median_us: old.median(),
            old_interval_us: bootstrap.median(old),
            ratio: new.median() / old.median(),
            ratio_interval: bootstrap.ratio_of_medians(new, old),
            rank_test: RankTest::new(new, old),
        }
    }

    /// A change requires all of: medians with disjoint intervals, a large enough effect, a small enough p-value, and a
    /// ratio whose interval reaches the threshold. Testing the interval and not the ratio itself misses a true change
    /// of exactly the threshold's size in 2.5 % of cases, instead of in half of them.
    pub fn change(&self, thresholds: &Thresholds) -> Change {
        let told_apart = self.new_interval_us.is_apart_from(&self.old_interval_us)
            && self.rank_test.cliffs_delta.abs() >= thresholds.effect
            && self.rank_test.p_value < thresholds.significance;
        if !told_apart {
            Change::None
        } else if self.ratio < 1.0 && self.ratio_interval.low <= 1.0 - thresholds.improvement {
            Change::Improved
        } else if self.ratio > 1.0 && self.ratio_interval.high >= 1.0 + thresholds.regression {
            Change::Regressed
        } else {
            Change::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    /// 100 times with a median of `median` and a coefficient of variation of 3 %.
    fn times(random: &mut ChaCha8Rng, median: f64) -> Samples {
        let mut time = || median * (1.0 + 0.03 * Distribution::<f64>::sample(&StandardNormal, random));
        Samples::new((0..100).map(|_| time()).collect()).unwrap()
    }

    /// Out of 1,000 trials, how often times around `factor` · 50 µs are called improved, and regressed, against 50 µs.
    fn verdicts(factor: f64) -> (usize, usize) {
        let mut random = ChaCha8Rng::seed_from_u64(17);
        let mut counts = (0, 0);
        for seed in 0..1000 {
            let (old, new) = (times(&mut random, 50.0), times(&mut random, factor * 50.0));
            let evidence = Evidence::new(&new, &old, &Bootstrap::new(seed).with_resamples(400));
            match evidence.change(&Thresholds::default()) {
                Change::Improved => counts.0 += 1,
                Change::Regressed => counts.1 += 1,
                Change::None => {}
            }
        }
        counts
    }

    #[test]
    fn nothing_is_seldom_taken_for_something() {
        let (improved, regressed) = verdicts(1.0);
        assert!(improved + regressed <= 50, "{improved} improved, {regressed} regressed of 1000 identical pairs");
    }

    #[test]
    fn ten_per_cent_are_found() {
        let (improved, _) = verdicts(0.9);
        assert!(improved >= 950, "{improved} of 1000 improvements of 10 % were found");
        let (_, regressed) = verdicts(1.1);
        assert!(regressed >= 950, "{regressed} of 1000 regressions of 10 % were found");
    }

    #[test]
    fn real_but_small_differences_are_not_called_changes() {
        let (improved, regressed) = verdicts(0.95);
        assert!(improved <= 10 && regressed == 0, "5 % faster: {improved} improved, {regressed} regressed");
    }

    #[test]
    fn every_condition_is_needed() {
        let interval = |low, high| Interval { low, high };
        let improved = Evidence {
            new_median_us: 40.0,
            new_interval_us: interval(39.0, 41.0),
            old_median_us: 50.0,
            old_interval_us: interval(49.0, 51.0),
            ratio: 0.8,
            ratio_interval: interval(0.78, 0.82),
            rank_test: RankTest { u: 0.0, p_value: 1e-9, cliffs_delta: -1.0 },
        };
        let change = |evidence: Evidence| evidence.change(&Thresholds::default());
        assert_eq!(change(improved), Change::Improved);
        let rank_test = improved.rank_test;
        for weakened in [
            Evidence { new_interval_us: interval(39.0, 49.5), ..improved },
            Evidence { rank_test: RankTest { cliffs_delta: -0.2, ..rank_test }, ..improved },
            Evidence { rank_test: RankTest { p_value: 0.06, ..rank_test }, ..improved },
            Evidence { ratio: 0.93, ratio_interval: interval(0.91, 0.95), ..improved },
        ] {
            assert_eq!(change(weakened), Change::None, "{weakened:?}");
        }
        let lower = Thresholds { improvement: 0.05, ..Thresholds::default() };
        let small = Evidence { ratio: 0.93, ratio_interval: interval(0.91, 0.95), ..improved };
        assert_eq!(small.change(&lower), Change::Improved, "thresholds can be changed");
    }
}
