//! Reasons to doubt a measurement.

use serde::{Deserialize, Serialize};

use super::GpuState;
use crate::statistics::Summary;
use crate::timing::Batch;

/// Coefficient of variation above which samples are not trustworthy.
pub const LARGEST_VARIATION: f64 = 0.12;
/// Temperature in °C above which a GPU is likely to lower its clocks.
pub const HIGHEST_TEMPERATURE: f64 = 80.0;
/// Time in µs below which a call takes about as long to launch as to run.
pub const LAUNCH_BOUND_US: f64 = 10.0;

/// A circumstance that makes a measurement less reliable, or changes what it means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "warning", rename_all = "snake_case")]
pub enum Warning {
    /// The samples vary by more than [`LARGEST_VARIATION`].
    Scattered {
        /// Standard deviation over mean.
        coefficient_of_variation: f64,
    },
    /// The GPU was hotter than [`HIGHEST_TEMPERATURE`].
    Hot {
        /// Highest reading, °C.
        celsius: f64,
    },
    /// The GPU held its clocks back.
    Throttled {
        /// NVML's names of the reasons.
        reasons: Vec<String>,
    },
    /// The call is shorter than [`LAUNCH_BOUND_US`].
    LaunchBound {
        /// Median, µs.
        median_us: f64,
        /// Host time of a launch without a CUDA graph, µs.
        host_launch_us: Option<f64>,
    },
}

impl Warning {
    /// Every warning that applies.
    pub fn all(summary: &Summary, batch: &Batch, gpu: Option<&GpuState>) -> Vec<Self> {
        let scattered = (summary.coefficient_of_variation > LARGEST_VARIATION)
            .then_some(Warning::Scattered { coefficient_of_variation: summary.coefficient_of_variation });
        let celsius = gpu.map(|gpu| gpu.temperature_celsius.high).filter(|&celsius| celsius > HIGHEST_TEMPERATURE);
        let reasons = gpu.map(|gpu| gpu.throttle_reasons.clone()).filter(|reasons| !reasons.is_empty());
        let launch_bound = (summary.median < LAUNCH_BOUND_US)
            .then_some(Warning::LaunchBound { median_us: summary.median, host_launch_us: batch.host_launch_us });
        let warnings = [
            scattered,
            celsius.map(|celsius| Warning::Hot { celsius }),
            reasons.map(|reasons| Warning::Throttled { reasons }),
            launch_bound,
        ];
        warnings.into_iter().flatten().collect()
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::Scattered { coefficient_of_variation } => write!(
                formatter,
                "samples vary by {:.0} %, over {:.0} %: something else uses this GPU, or its clocks move; see that it is idle, \
                 or lock its clocks, and measure again",
                coefficient_of_variation * 100.0,
                LARGEST_VARIATION * 100.0
            ),
            Warning::Hot { celsius } => write!(
                formatter,
                "the GPU reached {celsius:.0} °C, over {HIGHEST_TEMPERATURE:.0} °C: let it cool down and measure again"
            ),
            Warning::Throttled { reasons } => write!(
                formatter,
                "the GPU held its clocks back ({}): compare only with what was measured in the same turns",
                reasons.join(", ")
            ),
            Warning::LaunchBound { median_us, host_launch_us } => {
                write!(formatter, "launch-bound: {median_us:.1} µs are under {LAUNCH_BOUND_US:.0} µs")?;
                match host_launch_us {
                    Some(launch) => write!(
                        formatter,
                        ", and launching costs the processor {launch:.1} µs a call without a CUDA graph"
                    ),
                    None => Ok(()),
                }
            }
        }
    }
}
