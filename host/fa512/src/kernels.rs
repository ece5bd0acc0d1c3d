//! The kernels of this process: each is loaded once, for all contexts and GPUs, when it is first wanted.
//!
//! A launch whose kernel is ready takes two atomic loads and no lock.

use std::ffi::{CString, c_int, c_uint};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use contract::variants::{VARIANTS, Variant};

use crate::driver::{CAPTURE_MODE_RELAXED, Code, Driver, Handle, MAX_DYNAMIC_SHARED_SIZE_BYTES};
use crate::embedded::Embedded;
use crate::error::Error;
use crate::stream::Stream;

/// Bytes for what the driver's compiler writes about PTX that it refuses.
const LOG_BYTES: usize = 16 << 10;

/// A variant as the driver knows it.
#[derive(Clone, Copy)]
pub struct Kernel {
    variant: &'static Variant<'static>,
    slot: &'static Slot,
}

/// What is known of a variant once it is loaded.
struct Slot {
    loaded: OnceLock<Loaded>,
    /// One for each GPU: whether the kernel may have its shared memory there.
    prepared: OnceLock<Box<[AtomicBool]>>,
    /// Held while the kernel is loaded or prepared: by one thread, once.
    loading: Mutex<()>,
}

/// A `CUkernel` of a library that is never unloaded.
#[derive(Clone, Copy)]
struct Loaded(Handle);

// SAFETY: the handle is only passed to the driver, which takes it from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Slot {
    /// The `CUkernel`, where it is loaded and may have its shared memory on GPU `gpu`.
    fn ready(&self, gpu: usize) -> Option<Handle> {
        let Loaded(kernel) = *self.loaded.get()?;
        self.prepared.get()?.get(gpu)?.load(Ordering::Acquire).then_some(kernel)
    }
}

static SLOTS: [Slot; VARIANTS.len()] =
    [const { Slot { loaded: OnceLock::new(), prepared: OnceLock::new(), loading: Mutex::new(()) } }; VARIANTS.len()];

impl fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.variant.entry)
    }
}

impl Kernel {
    /// The kernel of the variant with this entry.
    ///
    /// # Errors
    /// When there is no such variant.
    pub fn of(entry: &'static str) -> Result<Self, Error> {
        let index = VARIANTS.iter().position(|variant| variant.entry == entry).ok_or(Error::NoKernel { entry })?;
        Ok(Self { variant: &VARIANTS[index], slot: &SLOTS[index] })
    }

    /// The `CUkernel`, for a launch on GPU `gpu` and `stream`.
    ///
    /// # Errors
    /// When it is not loaded yet and the stream captures, or when the driver does not load it.
    #[inline]
    pub fn get(self, driver: &Driver, gpu: usize, stream: Stream) -> Result<Handle, Error> {
        match self.slot.ready(gpu) {
            Some(kernel) => Ok(kernel),
            None if stream.is_capturing(driver)? => Err(Error::NotLoaded { entry: self.variant.entry }),
            None => self.load(driver, gpu),
        }
    }

    /// Loads the kernel for GPU `gpu`, that of the current context, and puts it into that context.
    ///
    /// # Errors
    /// When the driver does not load it.
    pub fn warm_up(self, driver: &Driver, gpu: usize) -> Result<(), Error> {
        let kernel = self.slot.ready(gpu).map_or_else(|| self.load(driver, gpu), Ok)?;
        let _relaxed = RelaxedCapture::begin(driver);
        let mut function = ptr::null_mut();
        // SAFETY: the kernel's library is never unloaded; `function` is where the function puts its result.
        let code = unsafe { (driver.call.kernel_get_function)(&mut function, kernel) };
        driver.check(code, || format!("putting {} into the current context", self.variant.entry))
    }

    #[cold]
    fn load(self, driver: &Driver, gpu: usize) -> Result<Handle, Error> {
        let Self { variant, slot } = self;
        // A thread that panicked here has left no half-loaded kernel: `loaded` and `prepared` are set last.
        let _loading = slot.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let _relaxed = RelaxedCapture::begin(driver);
        let Loaded(kernel) = match slot.loaded.get() {
            Some(loaded) => *loaded,
            None => {
                let loaded = load(driver, variant)?;
                *slot.loaded.get_or_init(|| loaded)
            }
        };
        let prepared = slot.prepared.get_or_init(|| (0..driver.gpus).map(|_| AtomicBool::new(false)).collect());
        let bytes = c_int::try_from(variant.config.shared_bytes()).unwrap_or(c_int::MAX);
        let device = c_int::try_from(gpu).unwrap_or(c_int::MAX);
        // SAFETY: the kernel's library is never unloaded.
        let code = unsafe { (driver.call.kernel_set_attribute)(MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes, kernel, device) };
        driver.check(code, || format!("giving {} {bytes} bytes of shared memory on GPU {gpu}", variant.entry))?;
        if let Some(prepared) = prepared.get(gpu) {
            prepared.store(true, Ordering::Release);
        }
        Ok(kernel)
    }
}

/// Loads the library of `variant` (`cuLibraryLoadData`), which no context owns.
fn load(driver: &Driver, variant: &Variant<'static>) -> Result<Loaded, Error> {
    const ERROR_LOG_BUFFER: c_uint = 5;
    const ERROR_LOG_BUFFER_SIZE_BYTES: c_uint = 6;
    let entry = variant.entry;
    let kernel = Embedded::find(variant)?;
    let ptx = kernel.ptx()?;
    let mut log = vec![0u8; LOG_BYTES];
    let options = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(log.len())];
    let mut library = ptr::null_mut();
    // SAFETY: the PTX ends in NUL, there are as many values as options, and the log is as long as its option says.
    let code = unsafe {
        (driver.call.library_load_data)(
            &mut library,
            ptx.as_ptr().cast(),
            options.as_ptr(),
            values.as_mut_ptr(),
            options.len() as c_uint,
            ptr::null(),
            ptr::null_mut(),
            0,
        )
    };
    let action = || format!("loading {entry} (PTX {}, {})", kernel.ptx_version, kernel.target);
    driver.check(code, action).map_err(|error| with_log(error, &log))?;
    let name = CString::new(entry).map_err(|_| Error::NoKernel { entry })?;
    let mut kernel = ptr::null_mut();
    // SAFETY: the library was loaded just now; `kernel` is where the function puts its result.
    let code = unsafe { (driver.call.library_get_kernel)(&mut kernel, library, name.as_ptr()) };
    driver.check(code, || format!("looking for {entry} in its module")).inspect_err(|_| {
        // SAFETY: the library was loaded just now, and nothing else knows it.
        unsafe { (driver.call.library_unload)(library) };
    })?;
    Ok(Loaded(kernel))
}

/// `error` with what the driver's compiler wrote.
fn with_log(error: Error, log: &[u8]) -> Error {
    let length = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let written = String::from_utf8_lossy(&log[..length]).trim_end().to_owned();
    match error {
        Error::Cuda { action, code, name, words, .. } => Error::Cuda { action, code, name, words, log: written },
        other => other,
    }
}

/// As long as it lives, what this thread does breaks no capture of another thread (`cuThreadExchangeStreamCaptureMode`).
struct RelaxedCapture<'a> {
    driver: &'a Driver,
    before: Option<c_uint>,
}

impl<'a> RelaxedCapture<'a> {
    fn begin(driver: &'a Driver) -> Self {
        let mut mode = CAPTURE_MODE_RELAXED;
        // SAFETY: `mode` is where the function finds the new mode and puts the old one.
        let code = unsafe { (driver.call.thread_exchange_stream_capture_mode)(&mut mode) };
        Self { driver, before: (code == Code::SUCCESS).then_some(mode) }
    }
}

impl Drop for RelaxedCapture<'_> {
    fn drop(&mut self) {
        if let Some(mut mode) = self.before {
            // SAFETY: as in `begin`; this restores what was there.
            unsafe { (self.driver.call.thread_exchange_stream_capture_mode)(&mut mode) };
        }
    }
}
