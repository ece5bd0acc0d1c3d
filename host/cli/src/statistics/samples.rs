//! Sets of samples and their order statistics.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// One or more positive, finite numbers in the order of measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct Samples {
    in_order: Vec<f64>,
    sorted: Vec<f64>,
}

impl Samples {
    /// The samples `in_order`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none, or one is not a positive, finite number.
    pub fn new(in_order: Vec<f64>) -> Result<Self> {
        if in_order.is_empty() {
            return Err(Error::Invalid("there are no samples; at least 1 is needed".into()));
        }
        if let Some(index) = in_order.iter().position(|&sample| !(sample > 0.0 && sample.is_finite())) {
            return Err(Error::Invalid(format!(
                "sample {index} is {}; samples must be positive, finite numbers",
                in_order[index]
            )));
        }
        let mut sorted = in_order.clone();
        sorted.sort_by(f64::total_cmp);
        Ok(Self { in_order, sorted })
    }

    /// The samples in the order of measurement.
    pub fn in_order(&self) -> &[f64] {
        &self.in_order
    }

    /// The samples from the smallest to the largest.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The smallest.
    pub fn minimum(&self) -> f64 {
        self.sorted[0]
    }

    /// The largest.
    pub fn maximum(&self) -> f64 {
        self.sorted[self.count() - 1]
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The quantile of `fraction`, from 0 to 1, by linear interpolation between its two neighbours (type 7 of Hyndman &
    /// Fan 1996, NumPy's default).
    pub fn quantile(&self, fraction: f64) -> f64 {
        quantile(&self.sorted, fraction)
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / self.count() as f64
    }

    /// Standard deviation of the sample (divisor n − 1) over the mean; 0 for a single sample.
    pub fn coefficient_of_variation(&self) -> f64 {
        if self.count() == 1 {
            return 0.0;
        }
        let mean = self.mean();
        let squares: f64 = self.sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
        (squares / (self.count() - 1) as f64).sqrt() / mean
    }
}

impl TryFrom<Vec<f64>> for Samples {
    type Error = Error;

    fn try_from(in_order: Vec<f64>) -> Result<Self> {
        Self::new(in_order)
    }
}

impl From<Samples> for Vec<f64> {
    fn from(samples: Samples) -> Self {
        samples.in_order
    }
}

/// [`Samples::quantile`] of `sorted`, which is not empty.
pub(super) fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + (above - below) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::summary::tests::{assert_close, scattered};

    #[test]
    fn quantiles_are_numpys() {
        // numpy.quantile of NumPy 2.4.6
        let samples = scattered(100, 37, 101);
        for (fraction, expected) in [(0.0, 10.0), (0.025, 10.02475), (0.5, 10.495), (0.95, 10.9505), (0.99, 10.9901)] {
            assert_close(samples.quantile(fraction), expected, "numpy.quantile");
        }
    }

    #[test]
    fn a_single_sample_is_every_quantile() {
        let single = Samples::new(vec![3.0]).unwrap();
        assert_eq!((single.minimum(), single.median(), single.quantile(0.99)), (3.0, 3.0, 3.0));
        assert_eq!(single.coefficient_of_variation(), 0.0);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let refusal = |samples: &[f64]| Samples::new(samples.to_vec()).unwrap_err().to_string();
        assert!(refusal(&[]).contains("at least 1"));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(refusal(&[1.0, bad]).contains("sample 1 is"), "{bad}");
        }
        assert!(serde_json::from_str::<Samples>("[1.5, -2]").unwrap_err().to_string().contains("sample 1 is -2"));
        assert_eq!(serde_json::from_str::<Samples>("[3, 1.5]").unwrap().in_order(), [3.0, 1.5]);
    }
}
