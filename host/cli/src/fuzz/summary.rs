//! Summarises how close to their tolerances the results of many cases are.

use std::collections::BTreeMap;

use serde::Serialize;

use super::case::Case;
use super::trial::Trial;
use crate::check::Severities;
use crate::inputs::Distribution;

/// Results of the cases of one distribution.
#[derive(Clone, Debug, Default)]
struct Group {
    passed: u64,
    /// Largest error of each case in units of its tolerance.
    worst: Vec<f64>,
    severities: Severities,
    cases: u64,
}

/// Results of many cases by distribution.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    groups: BTreeMap<Distribution, Group>,
}

/// One row of a [`Summary`].
#[derive(Clone, Debug, Serialize)]
pub struct DistributionSummary {
    /// How the inputs were filled.
    pub distribution: Distribution,
    /// Number of cases run.
    pub cases: u64,
    /// Number of cases without failures.
    pub passed: u64,
    /// Quantiles over cases of a case's largest error in units of its tolerance; absent if no case wrote
    /// outputs.
    pub worst: Option<Quantiles>,
    /// Histogram of errors of the outputs in units of the tolerance: up to 1/64, 1/32 … 1, and above.
    pub elements: Severities,
}

/// Quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The median.
    pub median: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The maximum. `null` in JSON if infinite: NaN instead of a number, or vice versa.
    pub maximum: f64,
}

impl Summary {
    /// Adds the result of `case`.
    pub fn add(&mut self, case: &Case, trial: &Trial) {
        let group = self.groups.entry(case.distribution).or_default();
        group.cases += 1;
        group.passed += u64::from(trial.passed());
        group.worst.extend(trial.severity);
        group.severities.merge(&trial.severities);
    }

    /// Number of cases run.
    pub fn cases(&self) -> u64 {
        self.groups.values().map(|group| group.cases).sum()
    }

    /// Number of cases without failures.
    pub fn passed(&self) -> u64 {
        self.groups.values().map(|group| group.passed).sum()
    }

    /// The results of each distribution that was run.
    pub fn distributions(&self) -> Vec<DistributionSummary> {
        let summary = |(&distribution, group): (&Distribution, &Group)| DistributionSummary {
            distribution,
            cases: group.cases,
            passed: group.passed,
            worst: Quantiles::new(&group.worst),
            elements: group.severities,
        };
        self.groups.iter().map(summary).collect()
    }
}

impl Quantiles {
    /// The quantiles of `values`, which may be infinite, without interpolation. `None` if there are none.
    fn new(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let maximum = *sorted.last()?;
        let at = |fraction: f64| sorted[(fraction * sorted.len() as f64).ceil() as usize - 1];
        Some(Self { median: at(0.5), p95: at(0.95), maximum })
    }
}

#[cfg(test)]
mod tests {
    use super::super::campaign::{Campaign, Limits};
    use super::super::case::Target;
    use super::super::trial::Failure;
    use super::*;
    use contract::config::Sequence;

    #[test]
    fn quantiles_are_values_that_occur() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(Quantiles::new(&values), Some(Quantiles { median: 50.0, p95: 95.0, maximum: 100.0 }));
        let with_infinity = Quantiles::new(&[f64::INFINITY, 0.5]).unwrap();
        assert_eq!((with_infinity.median, with_infinity.maximum), (0.5, f64::INFINITY));
        assert_eq!(Quantiles::new(&[]), None);
    }

    #[test]
    fn cases_are_added_up_by_distribution() {
        let target = Target::plain("kernel", Sequence::Any);
        let case = Campaign::new(vec![target], Limits::GPU, 0).unwrap().case(0);
        let other = Case { distribution: Distribution::OneHot, ..case.clone() };
        let trial = |failures: Vec<Failure>, severity| Trial { failures, severity, severities: Severities::default() };
        let fault = || vec![Failure::Fault { message: "gone".into() }];
        let mut summary = Summary::default();
        summary.add(&case, &trial(Vec::new(), Some(0.25)));
        summary.add(&case, &trial(fault(), None));
        summary.add(&other, &trial(Vec::new(), Some(0.5)));
        assert_eq!((summary.cases(), summary.passed()), (3, 2));
        let rows = summary.distributions();
        let of = |distribution| rows.iter().find(|row| row.distribution == distribution).unwrap();
        let normal = of(Distribution::Normal);
        assert_eq!((normal.cases, normal.passed, normal.worst.unwrap().maximum), (2, 1, 0.25));
        assert_eq!(of(Distribution::OneHot).cases, 1);
    }
}
