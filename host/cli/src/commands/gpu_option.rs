//! The option that selects one of several GPUs.

use std::ffi::OsString;

use crate::error::{Error, Result};
use crate::executor::{DeviceChoice, gpu};
use crate::telemetry;

/// The CUDA driver's environment variable for the visible GPUs.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Tells a process that replaces this one that [`VISIBLE`] already reflects its `--gpu`.
const APPLIED: &str = "FA512_GPU";

/// The option that selects a GPU.
#[derive(clap::Args)]
pub struct GpuOption {
    /// GPU to use, by its nvidia-smi index or its UUID (GPU-…); only those in CUDA_VISIBLE_DEVICES if it is set
    #[arg(long, value_name = "N|UUID", help_heading = "Device")]
    gpu: Option<String>,
}

impl GpuOption {
    /// The requested GPU.
    pub fn name(&self) -> Option<&str> {
        self.gpu.as_deref()
    }

    /// Makes this GPU the only one visible to the driver, in this process and in those that it starts. Must be called
    /// before a thread is started or the driver is loaded.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the option is neither a number nor a UUID, or the GPU is not among the visible ones;
    /// [`Error::Unavailable`] when the driver does not show it.
    pub fn apply(&self) -> Result<()> {
        let Some(gpu) = self.name() else { return Ok(()) };
        if std::env::var(APPLIED).as_deref() != Ok(gpu) {
            let chosen = choose(gpu, std::env::var_os(VISIBLE))?;
            // SAFETY: commands call this while the process has a single thread.
            unsafe {
                std::env::set_var(VISIBLE, chosen);
                // The order of nvidia-smi.
                std::env::set_var("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
                std::env::set_var(APPLIED, gpu);
            }
        }
        gpu::check_present().map_err(|error| match error {
            Error::Unavailable(reason) => Error::Unavailable(format!("--gpu {gpu}: {reason}{}", listed())),
            other => other,
        })
    }

    /// The device choice given `device` and this option. A GPU requested by name is never replaced by the simulator.
    ///
    /// # Errors
    /// As for [`Self::apply`]; [`Error::Invalid`] when the simulator was requested too.
    pub fn device(&self, device: DeviceChoice) -> Result<DeviceChoice> {
        match (self.name(), device) {
            (None, _) => Ok(device),
            (Some(gpu), DeviceChoice::Sim) => Err(Error::Invalid(format!(
                "--gpu {gpu} names a GPU, and --device sim is the simulator; use --device gpu, or leave --gpu out"
            ))),
            (Some(_), DeviceChoice::Auto | DeviceChoice::Gpu) => self.apply().map(|()| DeviceChoice::Gpu),
        }
    }
}

/// The GPUs of this machine, as an addition to an error message.
fn listed() -> String {
    match telemetry::gpus() {
        Ok(gpus) => format!("; NVML lists {}", if gpus.is_empty() { "no GPU".to_owned() } else { gpus.join(", ") }),
        // Without the driver there is no NVML either, and the error message already says so.
        Err(_) => String::new(),
    }
}

/// The value of [`VISIBLE`] that selects `gpu`, given its current value `visible`.
fn choose(gpu: &str, visible: Option<OsString>) -> Result<String> {
    let refuse = |reason: String| Err(Error::Invalid(format!("--gpu {gpu}: {reason}")));
    let is_uuid = gpu.starts_with("GPU-") || gpu.starts_with("MIG-");
    let number = gpu.parse::<usize>().ok();
    if !is_uuid && number.is_none() {
        return refuse("expected a number as nvidia-smi counts, or a UUID (GPU-…)".into());
    }
    let Some(visible) = visible else { return Ok(gpu.to_owned()) };
    let visible = visible.to_string_lossy().into_owned();
    let listed: Vec<&str> = visible.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let found = match number {
        Some(number) => listed.get(number).copied(),
        None => listed.iter().copied().find(|name| *name == gpu),
    };
    match found {
        Some(name) => Ok(name.to_owned()),
        None => refuse(format!("not among those that {VISIBLE} shows: {visible:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::choose;

    fn chosen(gpu: &str, visible: Option<&str>) -> Result<String, String> {
        choose(gpu, visible.map(Into::into)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_number_counts_those_that_are_visible() {
        assert_eq!(chosen("3", None).as_deref(), Ok("3"));
        assert_eq!(chosen("1", Some("4, 6")).as_deref(), Ok("6"));
        assert_eq!(chosen("0", Some("GPU-a,GPU-b")).as_deref(), Ok("GPU-a"));
        assert!(chosen("2", Some("4,6")).unwrap_err().contains("not among those that CUDA_VISIBLE_DEVICES shows"));
        assert!(chosen("0", Some("")).is_err());
    }

    #[test]
    fn a_uuid_names_one() {
        assert_eq!(chosen("GPU-b", None).as_deref(), Ok("GPU-b"));
        assert_eq!(chosen("GPU-b", Some("GPU-a,GPU-b")).as_deref(), Ok("GPU-b"));
        assert!(chosen("GPU-c", Some("GPU-a,GPU-b")).is_err());
        for other in ["first", "-1", "", "H200"] {
            assert!(chosen(other, None).unwrap_err().contains("expected a number"), "{other}");
        }
    }
}
