//! Which of several GPUs a command uses.

use std::ffi::OsString;

use crate::error::{Error, Result};
use crate::executor::{DeviceChoice, gpu};
use crate::telemetry;

/// What the CUDA driver asks for which GPUs a program sees.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// What tells a program that takes the place of this one that [`VISIBLE`] is already what its `--gpu` asked for.
const APPLIED: &str = "FA512_GPU";

/// The option that chooses a GPU.
#[derive(clap::Args)]
pub struct GpuOption {
    /// GPU to use, by its nvidia-smi index or its UUID (GPU-…); only those in CUDA_VISIBLE_DEVICES if it is set
    #[arg(long, value_name = "N|UUID", help_heading = "Device")]
    gpu: Option<String>,
}

impl GpuOption {
    /// What was asked for.
    pub fn name(&self) -> Option<&str> {
        self.gpu.as_deref()
    }

    /// Shows the driver, here and in the programs that a command starts, this GPU alone. A command calls this before it starts a
    /// thread or loads the driver.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is neither a number nor a UUID, or not among the GPUs that are visible;
    /// [`Error::Unavailable`] when the driver does not show it.
    pub fn apply(&self) -> Result<()> {
        let Some(gpu) = self.name() else { return Ok(()) };
        if std::env::var(APPLIED).as_deref() != Ok(gpu) {
            let chosen = choose(gpu, std::env::var_os(VISIBLE))?;
            // SAFETY: commands call this while the program has only this thread.
            unsafe {
                std::env::set_var(VISIBLE, chosen);
                // As nvidia-smi counts.
                std::env::set_var("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
                std::env::set_var(APPLIED, gpu);
            }
        }
        gpu::check_present().map_err(|error| match error {
            Error::Unavailable(reason) => Error::Unavailable(format!("--gpu {gpu}: {reason}{}", listed())),
            other => other,
        })
    }

    /// The device that is opened where `device` and this option are given: a GPU that is named is never replaced by the simulator.
    ///
    /// # Errors
    /// As [`Self::apply`]; [`Error::Invalid`] when the simulator was asked for as well.
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

/// The GPUs of this machine, behind the reason why one of them cannot be used.
fn listed() -> String {
    match telemetry::gpus() {
        Ok(gpus) => format!("; NVML lists {}", if gpus.is_empty() { "no GPU".to_owned() } else { gpus.join(", ") }),
        // Where the driver is not installed, NVML is not either, and the reason says so.
        Err(_) => String::new(),
    }
}

/// What the driver is told for `gpu` where `visible` are the GPUs that it showed before.
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
