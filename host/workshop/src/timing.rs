//! How a sample of a time is taken, said once for every contender.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::error::Result;

/// What one sample should take, µs: 2,000 times the resolution of an event (CUDA Driver API, `cuEventElapsedTime`).
pub const SAMPLE_US: f64 = 1000.0;
/// How long a contender runs before its first sample, so that clocks have risen and caches are as they will be, ms.
pub const WARM_UP_MS: f64 = 20.0;
/// Most calls of a sample.
pub const MAXIMUM_CALLS: u32 = 2000;
/// Most sets of inputs, whatever the size of L2.
pub const MAXIMUM_INPUT_SETS: u32 = 256;

/// How a contender takes a sample: calls that follow each other without a pause, each on the next set of inputs, between
/// two events; the sample is the time between the events over the number of calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// How long it runs before the first sample, ms.
    pub warm_up_ms: f64,
    /// What a sample should take at least, µs: decides how many calls it has.
    pub sample_us: f64,
    /// What a call finds in L2.
    pub l2: L2,
    /// Whether a kernel of ours that waits for the one before it by itself may begin while that one ends. Records in which this is
    /// absent are of kernels that do not.
    #[serde(default)]
    pub overlap: bool,
    /// Whether it is measured, too, what issuing a call costs the processor.
    #[serde(default = "yes")]
    pub host_launch: bool,
}

/// Of records that are older than the choice.
const fn yes() -> bool {
    true
}

/// What a call finds in L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum L2 {
    /// What the call before left there: calls follow each other on one set of inputs.
    Warm,
    /// Nothing of its inputs: so many sets take turns that together they are twice as large as L2.
    Cold {
        /// Size of L2, bytes.
        bytes: u64,
    },
}

impl Protocol {
    /// The usual protocol.
    pub fn new(l2: L2) -> Self {
        Self { warm_up_ms: WARM_UP_MS, sample_us: SAMPLE_US, l2, overlap: true, host_launch: true }
    }

    /// The usual protocol on `device`: cold, unless `warm_l2` or where the size of L2 is not known.
    pub fn on(device: &Device, warm_l2: bool) -> Self {
        let cold = device.l2_bytes.filter(|_| !warm_l2).map(|bytes| L2::Cold { bytes });
        Self::new(cold.unwrap_or(L2::Warm))
    }

    /// Sets of inputs that take turns when one, with its outputs, has `bytes_of_a_set`.
    pub fn input_sets(&self, bytes_of_a_set: u64) -> NonZeroU32 {
        let sets = match self.l2 {
            L2::Warm => 1,
            L2::Cold { bytes } => (2 * bytes).div_ceil(bytes_of_a_set.max(1)).clamp(1, MAXIMUM_INPUT_SETS.into()),
        };
        NonZeroU32::new(sets as u32).unwrap_or(NonZeroU32::MIN)
    }

    /// Calls of a sample when a call takes `call_us`: a multiple of `input_sets`, so that every sample is of the same work.
    pub fn calls(&self, call_us: f64, input_sets: NonZeroU32) -> u32 {
        let calls = (self.sample_us / call_us).ceil().max(1.0).min(f64::from(MAXIMUM_CALLS)) as u32;
        calls.next_multiple_of(input_sets.get())
    }
}

/// What a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Calls of a sample.
    pub calls: u32,
    /// Sets of inputs that they rotate over.
    pub input_sets: u32,
    /// Whether the calls are one CUDA graph.
    pub cuda_graph: bool,
    /// What one call without a graph costs the processor, µs; absent when it was not measured.
    pub host_launch_us: Option<f64>,
}

/// Something that is ready to be timed.
pub trait Sampler {
    /// What a sample is.
    fn batch(&self) -> Batch;

    /// Takes one sample: µs per call.
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
