//! The machine and what its GPU did meanwhile.

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::statistics::Interval;

/// Where a bench ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The GPU.
    pub device: Device,
    /// What NVML says of it.
    pub telemetry: Telemetry,
    /// Version of this program.
    pub program_version: String,
    /// Operating system and processor architecture, as in `linux x86_64`.
    pub platform: String,
    /// Threads that the machine's processors run.
    pub processor_threads: usize,
}

/// Whether clocks, power and temperature could be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Telemetry {
    /// From NVML.
    Nvml {
        /// Version of the driver, as in `580.95.05`.
        driver_version: String,
        /// The GPU's identifier, as in `GPU-…`.
        uuid: String,
        /// Power that the GPU is limited to, W.
        power_limit_watts: Option<f64>,
        /// Highest clock of the multiprocessors, MHz.
        maximum_sm_clock_mhz: Option<u32>,
    },
    /// Not at all.
    Absent {
        /// The reason, as text.
        reason: String,
    },
}

/// What the GPU did while a set of samples was taken: ranges over the readings, one after each turn.
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
    /// NVML's names of the reasons why clocks were held back, but for those of an idle GPU or a limit that was asked for.
    pub throttle_reasons: Vec<String>,
}
