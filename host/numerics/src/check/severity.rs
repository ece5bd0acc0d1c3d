//! Histogram of errors in units of the tolerance.

/// Number of bins.
const BINS: usize = 8;

/// Number of elements whose error is at most 1/64, 1/32, … 1/2, 1 of their tolerance, or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Severities {
    counts: [u64; BINS],
}

impl Severities {
    /// Upper bounds of all bins but the last.
    pub const UPPER_ENDS: [f64; BINS - 1] = [1.0 / 64.0, 1.0 / 32.0, 1.0 / 16.0, 0.125, 0.25, 0.5, 1.0];

    /// The counts.
    pub fn counts(&self) -> &[u64; BINS] {
        &self.counts
    }

    /// Counts an element; NaN counts as above its tolerance.
    pub fn add(&mut self, severity: f64) {
        let bin = Self::UPPER_ENDS.iter().position(|&end| severity <= end).unwrap_or(BINS - 1);
        self.counts[bin] += 1;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, other)| *count += other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_severity_falls_into_one_count() {
        let mut severities = Severities::default();
        for severity in [0.0, 1.0 / 64.0, 0.02, 0.4, 0.5, 1.0, 1.001, f64::INFINITY, f64::NAN] {
            severities.add(severity);
        }
        assert_eq!(severities.counts(), &[2, 1, 0, 0, 0, 2, 1, 3]);
        let mut sum = severities;
        sum.merge(&severities);
        assert_eq!(sum.counts(), &[4, 2, 0, 0, 0, 4, 2, 6]);
    }
}
