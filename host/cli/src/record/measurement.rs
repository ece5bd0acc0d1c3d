//! The samples of a contender in a case, and their summary.

use serde::{Deserialize, Serialize};

use super::{Ceilings, Correctness, GpuState, Warning};
use crate::statistics::{Bootstrap, Samples, Summary, agrees};
use crate::timing::Batch;
use contract::config::Mask;
use contract::problem::Shape;

/// Times of one contender in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The result of checking its outputs.
    pub correctness: Correctness,
    /// Calls per sample.
    pub batch: Batch,
    /// Times in µs per call; sample i was taken in turn i.
    pub samples_us: Samples,
    /// Summary of the samples, µs.
    pub summary_us: Summary,
    /// 10¹² floating-point operations per second at the median, counted as 4·B·H·S²·D, halved for a causal mask.
    pub teraflops: f64,
    /// That rate over the highest measured rate of matrix products.
    pub tensor_utilisation: Option<f64>,
    /// Bytes of Q, K, V, O and LSE, each moved once, per time, over the measured copy bandwidth.
    pub bandwidth_utilisation: Option<f64>,
    /// The state of the GPU meanwhile.
    pub gpu: Option<GpuState>,
    /// Reasons to doubt the numbers.
    pub warnings: Vec<Warning>,
}

impl Measurement {
    /// Summarises the samples of a contender that passed its check.
    pub fn new(
        (shape, mask): (Shape, Mask),
        correctness: Correctness,
        batch: Batch,
        samples_us: Samples,
        gpu: Option<GpuState>,
        ceilings: &Ceilings,
        bootstrap: &Bootstrap,
    ) -> Self {
        let summary_us = Summary::new(&samples_us, bootstrap);
        let Rates { teraflops, tensor_utilisation, bandwidth_utilisation } =
            Rates::new((shape, mask), summary_us.median, ceilings);
        Self {
            warnings: Warning::all(&summary_us, &batch, gpu.as_ref()),
            tensor_utilisation,
            bandwidth_utilisation,
            correctness,
            batch,
            samples_us,
            summary_us,
            teraflops,
            gpu,
        }
    }

    /// The first number that does not follow from the samples of a problem of this kind: its name, its value, and the
    /// expected value.
    pub fn first_other_than_measured(
        &self,
        problem: (Shape, Mask),
        ceilings: &Ceilings,
    ) -> Option<(&'static str, f64, f64)> {
        let rates = Rates::new(problem, self.samples_us.median(), ceilings);
        let part = |part: Option<f64>| part.unwrap_or(f64::NAN);
        let pairs = [
            ("rate", self.teraflops, rates.teraflops),
            ("tensor utilisation", part(self.tensor_utilisation), part(rates.tensor_utilisation)),
            ("bandwidth utilisation", part(self.bandwidth_utilisation), part(rates.bandwidth_utilisation)),
        ];
        let same = |stored: f64, actual: f64| agrees(stored, actual) || (stored.is_nan() && actual.is_nan());
        let other = |&(_, stored, actual): &(_, f64, f64)| !same(stored, actual);
        self.summary_us.first_other_than(&self.samples_us).or_else(|| pairs.into_iter().find(other))
    }
}

/// Rates that follow from a time.
struct Rates {
    teraflops: f64,
    tensor_utilisation: Option<f64>,
    bandwidth_utilisation: Option<f64>,
}

impl Rates {
    fn new((shape, mask): (Shape, Mask), median_us: f64, ceilings: &Ceilings) -> Self {
        let seconds = median_us * 1e-6;
        let teraflops = shape.operations(mask) / seconds / 1e12;
        let terabytes_per_second = shape.bytes() / seconds / 1e12;
        Self {
            teraflops,
            tensor_utilisation: ceilings.teraflops().map(|ceiling| teraflops / ceiling),
            bandwidth_utilisation: ceilings.copy_terabytes_per_second.map(|ceiling| terabytes_per_second / ceiling),
        }
    }
}
