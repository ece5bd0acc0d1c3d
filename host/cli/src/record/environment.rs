//! The machine, and the state of its GPU during measurements.

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::statistics::Interval;

/// The machine that a bench ran on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The GPU.
    pub device: Device,
    /// NVML's information about it.
    pub telemetry: Telemetry,
    /// Version of this program.
    pub program_version: String,
    /// Operating system and processor architecture, such as `linux x86_64`.
    pub platform: String,
    /// Number of hardware threads.
    pub processor_threads: usize,
}

/// Whether clocks, power and temperature could be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Telemetry {
    /// From NVML.
    Nvml {
        /// Driver version, such as `580.95.05`.
        driver_version: String,
        /// The GPU's identifier, `GPU-…`.
        uuid: String,
        /// Power limit of the GPU, W.
        power_limit_watts: Option<f64>,
        /// Highest clock of the multiprocessors, MHz.
        maximum_sm_clock_mhz: Option<u32>,
    },
    /// They could not be read.
    Absent {
        /// The reason.
        reason: String,
    },
}

/// The state of the GPU while samples were taken: ranges over the readings, one after each turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuState {
    /// Number of readings.
    pub readings: usize,
    /// Clock of the multiprocessors, MHz.
    pub sm_clock_mhz: Interval,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Interval,
    /// Power, W.
    pub power_watts: Interval,
    /// Temperature, °C.
    pub temperature_celsius: Interval,
    /// NVML's names of the throttle reasons, except those for an idle GPU or for requested limits.
    pub throttle_reasons: Vec<String>,
}
