//! The sampling protocol, shared by all contenders.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::error::Result;

/// Target duration of a sample, µs: 2,000 times the resolution of an event (CUDA Driver API, `cuEventElapsedTime`).
pub const SAMPLE_US: f64 = 1000.0;
/// Warm-up of a contender before its first sample, ms: clocks rise and caches fill.
pub const WARM_UP_MS: f64 = 20.0;
/// Maximum calls per sample.
pub const MAXIMUM_CALLS: u32 = 2000;
/// Maximum number of input sets, whatever the size of L2.
pub const MAXIMUM_INPUT_SETS: u32 = 256;

/// How a contender takes a sample: back-to-back calls between two events, each on the next input set. The sample is the
/// time between the events divided by the number of calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// Warm-up before the first sample, ms.
    pub warm_up_ms: f64,
    /// Minimum duration of a sample, µs; determines the number of calls.
    pub sample_us: f64,
    /// What a call finds in L2.
    pub l2: L2,
    /// Whether our kernels may begin before the previous one ends (programmatic dependent launch). Records without this
    /// field are of kernels that do not support it.
    #[serde(default)]
    pub overlap: bool,
    /// Whether to also measure the host time of issuing a call.
    #[serde(default = "yes")]
    pub host_launch: bool,
}

/// Default for records that are older than the option.
const fn yes() -> bool {
    true
}

/// The state of L2 at the start of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum L2 {
    /// What the previous call left: all calls use one input set.
    Warm,
    /// None of its inputs: calls rotate over enough input sets to fill L2 twice.
    Cold {
        /// Size of L2, bytes.
        bytes: u64,
    },
}

impl Protocol {
    /// The default protocol.
    pub fn new(l2: L2) -> Self {
        Self { warm_up_ms: WARM_UP_MS, sample_us: SAMPLE_US, l2, overlap: true, host_launch: true }
    }

    /// The default protocol on `device`: cold L2, unless `warm_l2` is set or the size of L2 is unknown.
    pub fn on(device: &Device, warm_l2: bool) -> Self {
        let cold = device.l2_bytes.filter(|_| !warm_l2).map(|bytes| L2::Cold { bytes });
        Self::new(cold.unwrap_or(L2::Warm))
    }

    /// Number of input sets to rotate over if one, with its outputs, has `bytes_of_a_set` bytes.
    pub fn input_sets(&self, bytes_of_a_set: u64) -> NonZeroU32 {
        let sets = match self.l2 {
            L2::Warm => 1,
            L2::Cold { bytes } => (2 * bytes).div_ceil(bytes_of_a_set.max(1)).clamp(1, MAXIMUM_INPUT_SETS.into()),
        };
        NonZeroU32::new(sets as u32).unwrap_or(NonZeroU32::MIN)
    }

    /// Calls per sample if a call takes `call_us`: a multiple of `input_sets`, so that every sample does the same work.
    pub fn calls(&self, call_us: f64, input_sets: NonZeroU32) -> u32 {
        let calls = (self.sample_us / call_us).ceil().max(1.0).min(f64::from(MAXIMUM_CALLS)) as u32;
        calls.next_multiple_of(input_sets.get())
    }
}

/// The calls of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Calls per sample.
    pub calls: u32,
    /// Number of input sets that they rotate over.
    pub input_sets: u32,
    /// Whether the calls are launched as one CUDA graph.
    pub cuda_graph: bool,
    /// Host time of a call without a graph, µs; absent if not measured.
    pub host_launch_us: Option<f64>,
}

/// A contender prepared for timing.
pub trait Sampler {
    /// The calls of a sample.
    fn batch(&self) -> Batch;

    /// Takes one sample. Returns µs per call.
    fn sample(&mut self) -> Result<f64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    #[test]
    fn a_sample_is_well_over_the_resolution_of_events() {
        let protocol = Protocol::new(L2::Warm);
        assert_eq!(protocol.calls(30.0, sets(1)), 34, "1020 µs");
        assert_eq!(protocol.calls(30.0, sets(15)), 45, "every set as often as the others");
        assert_eq!(protocol.calls(5000.0, sets(1)), 1, "a long kernel is timed by itself");
        assert_eq!(protocol.calls(0.0, sets(1)), MAXIMUM_CALLS, "below the resolution");
        assert_eq!(protocol.calls(f64::NAN, sets(3)), 3, "whatever the driver answers");
    }

    #[test]
    fn rotating_sets_are_larger_than_l2() {
        let cold = Protocol::new(L2::Cold { bytes: 50 << 20 });
        assert_eq!(cold.input_sets(8 << 20), sets(13));
        assert_eq!(cold.input_sets(1 << 30), sets(1), "one set pushes itself out");
        assert_eq!(cold.input_sets(1), sets(MAXIMUM_INPUT_SETS));
        assert_eq!(Protocol::new(L2::Warm).input_sets(8 << 20), sets(1));
    }
}
