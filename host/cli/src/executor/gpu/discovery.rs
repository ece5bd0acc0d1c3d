//! Finds a GPU: loads and initialises the driver, chooses a device, describes it.

use cust::CudaApiVersion;
use cust::device::{Device as CudaDevice, DeviceAttribute};

use super::driver::{self, Code};
use super::failure::{Doing, library_error};
use crate::device::{Device, DeviceKind};
use crate::error::{Error, Result};

/// Loads and initialises the driver and returns GPU `index`.
///
/// # Errors
/// [`Error::Unavailable`] when there is no driver, no GPU, or fewer than `index` + 1 GPUs.
pub fn find(index: u32) -> Result<CudaDevice> {
    libcuda_delay_load::load().map_err(|error| {
        Error::Unavailable(format!(
            "no GPU: {error}. The library comes with the NVIDIA driver; if it lies in a folder of its own, name that in \
             LD_LIBRARY_PATH"
        ))
    })?;
    driver::init().map_err(|code| Error::Unavailable(why_init_failed(code)))?;
    let count = CudaDevice::num_devices().doing(|| "counting the GPUs".to_owned())?;
    if index >= count {
        let visible = visible_devices();
        return Err(Error::Unavailable(format!("no GPU {index}: the driver shows {count}, counted from 0; {visible}")));
    }
    // The library needs a newer driver, and its kernels a newer GPU, than creating a context does.
    fa512::Gpu::of_device(index as usize).map_err(library_error)?;
    CudaDevice::get_device(index).doing(|| format!("opening GPU {index}"))
}

/// Properties of `device` for the callers of an executor.
pub fn describe(device: CudaDevice) -> std::result::Result<Device, Code> {
    let attribute = |attribute| device.get_attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
    let version = CudaApiVersion::get()?;
    Ok(Device {
        kind: DeviceKind::Gpu,
        name: device.name()?,
        architecture: 10 * attribute(DeviceAttribute::ComputeCapabilityMajor)?
            + attribute(DeviceAttribute::ComputeCapabilityMinor)?,
        shared_bytes_per_block: driver::shared_bytes_per_block(device)?,
        multiprocessors: attribute(DeviceAttribute::MultiprocessorCount)?,
        l2_bytes: Some(attribute(DeviceAttribute::L2CacheSize)?.into()).filter(|&bytes| bytes > 0),
        driver: Some(format!("{}.{}", version.major(), version.minor())),
        uuid: driver::uuid(device).ok(),
    })
}

fn why_init_failed(code: Code) -> String {
    let (name, description) = (code.name(), code.description());
    if code == Code::NO_DEVICE {
        format!("no GPU: the NVIDIA driver shows none ({name}: {description}); {}", visible_devices())
    } else {
        format!("no GPU: the NVIDIA driver does not start ({name}: {description}); `nvidia-smi` may say more")
    }
}

fn visible_devices() -> String {
    match std::env::var_os("CUDA_VISIBLE_DEVICES") {
        Some(devices) => format!("CUDA_VISIBLE_DEVICES is {devices:?}"),
        None => "CUDA_VISIBLE_DEVICES is not set".to_owned(),
    }
}
