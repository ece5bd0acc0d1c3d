//! Clocks, power, temperature and throttle reasons of the GPU, from NVML.
//!
//! NVML comes with the driver. Without it, times are recorded without this supporting evidence, and the record says
//! so.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use crate::device::Device;
use crate::record::{GpuState, Telemetry};
use crate::statistics::Interval;

/// Throttle reasons that do not affect a measurement: idle, or requested clocks.
const HARMLESS: ThrottleReasons = ThrottleReasons::GPU_IDLE
    .union(ThrottleReasons::APPLICATIONS_CLOCKS_SETTING)
    .union(ThrottleReasons::DISPLAY_CLOCK_SETTING);

/// The GPUs that NVML lists, such as `0: NVIDIA H200 (GPU-…)`.
///
/// # Errors
/// When NVML is missing or fails.
pub fn gpus() -> Result<Vec<String>, NvmlError> {
    let nvml = Nvml::init()?;
    let describe = |index| {
        let gpu = nvml.device_by_index(index)?;
        Ok(format!("{index}: {} ({})", gpu.name()?, gpu.uuid()?))
    };
    (0..nvml.device_count()?).map(describe).collect()
}

/// Reads one GPU.
pub struct Monitor {
    source: Source,
}

enum Source {
    Nvml { nvml: Box<Nvml>, uuid: String },
    Absent { reason: String },
}

/// The GPU's state at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    sm_clock_mhz: u32,
    memory_clock_mhz: u32,
    power_watts: f64,
    temperature_celsius: u32,
    throttle_reasons: ThrottleReasons,
}

impl Monitor {
    /// A monitor of `device`; without NVML it reads nothing.
    pub fn new(device: &Device) -> Self {
        let source = match (&device.uuid, Nvml::init()) {
            (Some(uuid), Ok(nvml)) => Source::Nvml { nvml: Box::new(nvml), uuid: uuid.clone() },
            (None, _) => Source::Absent { reason: format!("the driver does not identify {}", device.name) },
            (_, Err(error)) => Source::Absent { reason: format!("NVML: {error}") },
        };
        Self { source }
    }

    /// The source of its readings, or the reason why there is none.
    pub fn describe(&self) -> Telemetry {
        let (nvml, uuid) = match &self.source {
            Source::Nvml { nvml, uuid } => (nvml, uuid),
            Source::Absent { reason } => return Telemetry::Absent { reason: reason.clone() },
        };
        let describe = || -> Result<Telemetry, NvmlError> {
            let device = nvml.device_by_uuid(uuid.as_str())?;
            Ok(Telemetry::Nvml {
                driver_version: nvml.sys_driver_version()?,
                uuid: uuid.clone(),
                power_limit_watts: device.enforced_power_limit().ok().map(watts),
                maximum_sm_clock_mhz: device.max_clock_info(Clock::SM).ok(),
            })
        };
        describe().unwrap_or_else(|error| Telemetry::Absent { reason: format!("NVML: {error}") })
    }

    /// Takes a reading; `None` if NVML is missing or fails.
    pub fn read(&self) -> Option<Reading> {
        let Source::Nvml { nvml, uuid } = &self.source else { return None };
        let device = nvml.device_by_uuid(uuid.as_str()).ok()?;
        Some(Reading {
            sm_clock_mhz: device.clock_info(Clock::SM).ok()?,
            memory_clock_mhz: device.clock_info(Clock::Memory).ok()?,
            power_watts: watts(device.power_usage().ok()?),
            temperature_celsius: device.temperature(TemperatureSensor::Gpu).ok()?,
            throttle_reasons: device.current_throttle_reasons().ok()?,
        })
    }
}

/// The ranges of `readings`; `None` when there are none.
pub fn summarise(readings: &[Reading]) -> Option<GpuState> {
    let range = |value: fn(&Reading) -> f64| {
        let values = || readings.iter().map(value);
        Some(Interval { low: values().min_by(f64::total_cmp)?, high: values().max_by(f64::total_cmp)? })
    };
    let reasons = readings.iter().fold(ThrottleReasons::empty(), |all, reading| all | reading.throttle_reasons);
    let reasons = reasons.difference(HARMLESS | ThrottleReasons::NONE);
    Some(GpuState {
        readings: readings.len(),
        sm_clock_mhz: range(|reading| reading.sm_clock_mhz.into())?,
        memory_clock_mhz: range(|reading| reading.memory_clock_mhz.into())?,
        power_watts: range(|reading| reading.power_watts)?,
        temperature_celsius: range(|reading| reading.temperature_celsius.into())?,
        throttle_reasons: reasons.iter_names().map(|(name, _)| name.to_owned()).collect(),
    })
}

fn watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;

    #[test]
    fn readings_become_ranges_and_reasons_that_matter() {
        let idle = Reading {
            sm_clock_mhz: 1980,
            memory_clock_mhz: 3201,
            power_watts: watts(120_500),
            temperature_celsius: 41,
            throttle_reasons: ThrottleReasons::GPU_IDLE,
        };
        let throttle_reasons = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        let busy = Reading { sm_clock_mhz: 1755, temperature_celsius: 60, throttle_reasons, ..idle };
        let state = summarise(&[idle, busy, idle]).unwrap();
        assert_eq!(state.readings, 3);
        assert_eq!((state.sm_clock_mhz.low, state.sm_clock_mhz.high), (1755.0, 1980.0));
        assert_eq!((state.power_watts.low, state.temperature_celsius.high), (120.5, 60.0));
        assert_eq!(state.throttle_reasons, ["SW_POWER_CAP"]);
        assert_eq!(summarise(&[]), None);
    }

    #[test]
    fn without_nvml_nothing_is_read_and_the_reason_is_kept() {
        let device = Device {
            kind: DeviceKind::Gpu,
            name: "an old GPU".into(),
            architecture: 80,
            shared_bytes_per_block: 0,
            multiprocessors: 132,
            l2_bytes: None,
            driver: None,
            uuid: None,
        };
        let monitor = Monitor::new(&device);
        assert_eq!(monitor.read(), None);
        let Telemetry::Absent { reason } = monitor.describe() else { panic!("{:?}", monitor.describe()) };
        assert!(reason.contains("does not identify an old GPU") || reason.contains("NVML"), "{reason}");
    }
}
