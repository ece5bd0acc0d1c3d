//! The GPUs of the machine, with the properties that a plan depends on.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use contract::gpu::Gpu as Facts;

use crate::driver::{Code, Driver, Handle, device_attribute};
use crate::error::Error;

/// The oldest architecture that has a kernel.
const OLDEST_ARCHITECTURE: u32 = 80;

/// A GPU that plans are made for.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    ordinal: Option<usize>,
    facts: Facts<'static>,
}

impl Gpu {
    /// The GPU of the calling thread's current context (`cuCtxGetDevice`).
    ///
    /// # Errors
    /// When there is no driver, no current context, or the GPU is older than every kernel.
    pub fn current() -> Result<Self, Error> {
        let driver = Driver::get()?;
        current_context(driver)?;
        Self::of_current_context(driver)
    }

    /// The GPU with the driver's ordinal `ordinal`, from 0, whatever the current context.
    ///
    /// # Errors
    /// When there is no driver, no such GPU, or it is older than every kernel.
    pub fn of_device(ordinal: usize) -> Result<Self, Error> {
        Self::of_ordinal(Driver::get()?, ordinal)
    }

    /// A GPU that need not exist, to ask which kernel would run on it. A plan for it cannot be launched.
    pub fn described(facts: Facts<'static>) -> Self {
        Self { ordinal: None, facts }
    }

    /// [`Self::current`], for callers that know that a context is current.
    pub(crate) fn of_current_context(driver: &Driver) -> Result<Self, Error> {
        let mut device = 0;
        // SAFETY: `device` is where the function puts its result.
        driver.check(unsafe { (driver.call.context_get_device)(&mut device) }, || "asking for the context's GPU")?;
        // A CUdevice is the ordinal (cuDeviceGet).
        Self::of_ordinal(driver, usize::try_from(device).unwrap_or(usize::MAX))
    }

    fn of_ordinal(driver: &Driver, ordinal: usize) -> Result<Self, Error> {
        static GPUS: OnceLock<Box<[OnceLock<Facts<'static>>]>> = OnceLock::new();
        let gpus = GPUS.get_or_init(|| (0..driver.gpus).map(|_| OnceLock::new()).collect());
        let slot = gpus.get(ordinal).ok_or_else(|| Error::NoGpu {
            why: format!("there is no GPU {ordinal}: the driver shows {}, counted from 0", driver.gpus),
        })?;
        let facts = match slot.get() {
            Some(facts) => *facts,
            None => {
                let facts = ask(driver, ordinal as c_int)?;
                *slot.get_or_init(|| facts)
            }
        };
        if facts.architecture < OLDEST_ARCHITECTURE {
            return Err(Error::GpuTooOld { gpu: facts.name.to_owned(), architecture: facts.architecture });
        }
        Ok(Self { ordinal: Some(ordinal), facts })
    }

    /// Its name, as in `NVIDIA H200`.
    pub fn name(&self) -> &'static str {
        self.facts.name
    }

    /// Compute capability, such as 90 for `sm_90`.
    pub fn architecture(&self) -> u32 {
        self.facts.architecture
    }

    /// Number of multiprocessors.
    pub fn multiprocessors(&self) -> u32 {
        self.facts.multiprocessors
    }

    /// The driver's ordinal; `None` for a GPU that was only described.
    pub fn ordinal(&self) -> Option<usize> {
        self.ordinal
    }

    pub(crate) fn facts(&self) -> &Facts<'static> {
        &self.facts
    }
}

/// The calling thread's current context.
pub(crate) fn current_context(driver: &Driver) -> Result<Handle, Error> {
    let context = current(driver)?;
    if context.is_null() { Err(Error::NoContext) } else { Ok(context) }
}

/// The calling thread's current context (`cuCtxGetCurrent`); null if there is none.
pub(crate) fn current(driver: &Driver) -> Result<Handle, Error> {
    let mut context = std::ptr::null_mut();
    // SAFETY: `context` is where the function puts its result.
    driver.check(unsafe { (driver.call.context_get_current)(&mut context) }, || "asking for the current context")?;
    Ok(context)
}

/// Asks the driver for the properties of GPU `device`. The name is leaked, once per GPU.
fn ask(driver: &Driver, device: c_int) -> Result<Facts<'static>, Error> {
    let check = |code: Code| driver.check(code, || format!("asking about GPU {device}"));
    let attribute = |attribute: c_int| {
        let mut value = 0;
        // SAFETY: `value` is where the function puts its result.
        check(unsafe { (driver.call.device_get_attribute)(&mut value, attribute, device) })?;
        Ok::<u32, Error>(u32::try_from(value).unwrap_or(0))
    };
    let mut name = [0u8; 256];
    // SAFETY: the function writes at most as many bytes as the length it is given, including the final NUL.
    check(unsafe { (driver.call.device_get_name)(name.as_mut_ptr().cast(), name.len() as c_int, device) })?;
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned();
    Ok(Facts {
        name: Box::leak(name.into_boxed_str()),
        architecture: 10 * attribute(device_attribute::MAJOR)? + attribute(device_attribute::MINOR)?,
        multiprocessors: attribute(device_attribute::MULTIPROCESSORS)?,
        shared_bytes_per_block: attribute(device_attribute::SHARED_BYTES_PER_BLOCK)?,
    })
}
