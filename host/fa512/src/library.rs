//! Context-independent loading: PTX is loaded once for every context and GPU (`cuLibrary…`, `cuKernel…`).

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};

use crate::driver::{CAPTURE_MODE_RELAXED, Code, Driver, Handle, MAX_DYNAMIC_SHARED_SIZE_BYTES};
use crate::error::Error;

/// Size of the driver compiler's error log.
const LOG_BYTES: usize = 16 << 10;

/// A `CUlibrary`, unloaded on drop.
pub struct Library {
    driver: &'static Driver,
    handle: Handle,
    /// The name used in messages.
    name: String,
    log: Log,
}

// SAFETY: handles are only passed to the driver, which accepts them from any thread; it writes the log only while
// loading.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads PTX (`cuLibraryLoadData`). Messages call it `name`.
    ///
    /// # Errors
    /// When there is no driver or it refuses the PTX. Some drivers accept PTX that does not compile, and fail only when
    /// a kernel is requested.
    pub fn load(ptx: &CStr, name: String) -> Result<Self, Error> {
        let driver = Driver::get()?;
        let _relaxed = RelaxedCapture::begin(driver);
        let log = Log::new();
        let (options, values) = log.options();
        let mut handle = ptr::null_mut();
        // SAFETY: the PTX ends in NUL; options, values and the log live as long as the library.
        let code = unsafe {
            (driver.call.library_load_data)(
                &mut handle,
                ptx.as_ptr().cast(),
                options,
                values,
                Log::OPTIONS.len() as c_uint,
                ptr::null(),
                ptr::null_mut(),
                0,
            )
        };
        driver.check(code, || format!("loading {name}")).map_err(|error| log.with(error))?;
        Ok(Self { driver, handle, name, log })
    }

    /// Loads the library into the current context (`cuLibraryGetModule`), which reports what is wrong with the PTX.
    ///
    /// # Errors
    /// When the PTX does not compile or cannot run on the context's GPU.
    pub fn enter(&self) -> Result<(), Error> {
        let _relaxed = RelaxedCapture::begin(self.driver);
        let mut module = ptr::null_mut();
        // SAFETY: the library is loaded; `module` receives the function's result.
        self.check(unsafe { (self.driver.call.library_get_module)(&mut module, self.handle) })
    }

    /// The kernel `entry` (`cuLibraryGetKernel`).
    ///
    /// # Errors
    /// [`Error::NoEntry`] when there is none of that name; a driver error when the PTX does not compile.
    pub fn kernel(&self, entry: &str) -> Result<LoadedKernel, Error> {
        let no_entry = || Error::NoEntry { entry: entry.to_owned() };
        let name = CString::new(entry).map_err(|_| no_entry())?;
        let _relaxed = RelaxedCapture::begin(self.driver);
        let mut kernel = ptr::null_mut();
        // SAFETY: the library is loaded, the name ends in NUL; `kernel` receives the function's result.
        match unsafe { (self.driver.call.library_get_kernel)(&mut kernel, self.handle, name.as_ptr()) } {
            Code::NOT_FOUND => Err(no_entry()),
            code => self.check(code).map(|()| LoadedKernel(kernel)),
        }
    }

    /// The driver.
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Keeps the library loaded for the lifetime of the process.
    pub fn keep(self) {
        std::mem::forget(self);
    }

    fn check(&self, code: Code) -> Result<(), Error> {
        self.driver.check(code, || format!("loading {}", self.name)).map_err(|error| self.log.with(error))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _relaxed = RelaxedCapture::begin(self.driver);
        // An error here follows from a lost context, which an earlier call has already reported. SAFETY: the library is
        // loaded, and callers that launched its kernels promised that the launches have completed.
        unsafe { (self.driver.call.library_unload)(self.handle) };
    }
}

/// A `CUkernel`, valid as long as its library is loaded.
#[derive(Clone, Copy)]
pub struct LoadedKernel(Handle);

// SAFETY: the handle is only passed to the driver, which accepts it from any thread.
unsafe impl Send for LoadedKernel {}
// SAFETY: as above.
unsafe impl Sync for LoadedKernel {}

impl LoadedKernel {
    /// The `CUkernel`.
    pub fn handle(self) -> Handle {
        self.0
    }

    /// The kernel's `CUfunction` in the current context (`cuKernelGetFunction`).
    ///
    /// # Errors
    /// When there is no context, or the kernel cannot run in it.
    pub fn function(self, driver: &Driver, entry: &str) -> Result<Handle, Error> {
        let _relaxed = RelaxedCapture::begin(driver);
        let mut function = ptr::null_mut();
        // SAFETY: the kernel's library is loaded; `function` receives the function's result.
        let code = unsafe { (driver.call.kernel_get_function)(&mut function, self.0) };
        driver.check(code, || format!("putting {entry} into the current context")).map(|()| function)
    }

    /// Allows `bytes` of dynamic shared memory per block on GPU `gpu` (`cuKernelSetAttribute`). The default limit is 48
    /// KiB.
    ///
    /// # Errors
    /// When the GPU has less.
    pub fn allow_dynamic_shared(self, driver: &Driver, entry: &str, bytes: u32, gpu: usize) -> Result<(), Error> {
        let _relaxed = RelaxedCapture::begin(driver);
        let count = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let device = c_int::try_from(gpu).unwrap_or(c_int::MAX);
        // SAFETY: the kernel's library is loaded.
        let code = unsafe { (driver.call.kernel_set_attribute)(MAX_DYNAMIC_SHARED_SIZE_BYTES, count, self.0, device) };
        driver
            .check(code, || format!("giving the blocks of {entry} {bytes} bytes of dynamic shared memory on GPU {gpu}"))
    }

    /// Sizes in bytes of the first `count` parameters, or of all if there are fewer (`cuKernelGetParamInfo`). `None` if
    /// the driver has no such function (before CUDA 12.4).
    ///
    /// Parameters beyond `count` are not queried: the driver would answer with an error, and compute-sanitizer reports
    /// every error that the driver returns.
    ///
    /// # Errors
    /// When there is no current context.
    pub fn parameter_bytes(self, driver: &Driver, entry: &str, count: usize) -> Result<Option<Vec<usize>>, Error> {
        let Some(kernel_get_param_info) = driver.kernel_get_param_info else { return Ok(None) };
        let mut sizes = Vec::with_capacity(count);
        while sizes.len() < count {
            let (mut offset, mut bytes) = (0, 0);
            // SAFETY: the kernel's library is loaded; the results go to two live variables.
            match unsafe { kernel_get_param_info(self.0, sizes.len(), &mut offset, &mut bytes) } {
                Code::SUCCESS => sizes.push(bytes),
                Code::INVALID_VALUE => break,
                Code::NOT_SUPPORTED => return Ok(None),
                code => driver.check(code, || format!("asking for the parameters of {entry}"))?,
            }
        }
        Ok(Some(sizes))
    }
}

/// The JIT options and the error log, heap-allocated and kept as long as the library: the driver is not documented to
/// compile for every GPU before `cuLibraryLoadData` returns.
struct Log(NonNull<Buffers>);

struct Buffers {
    options: [c_uint; 2],
    values: [*mut c_void; 2],
    text: [u8; LOG_BYTES],
}

impl Log {
    /// `CU_JIT_ERROR_LOG_BUFFER` and its size.
    const OPTIONS: [c_uint; 2] = [5, 6];

    fn new() -> Self {
        let buffers = Buffers { options: Self::OPTIONS, values: [ptr::null_mut(); 2], text: [0; LOG_BYTES] };
        let buffers = NonNull::from(Box::leak(Box::new(buffers)));
        let place = buffers.as_ptr();
        // SAFETY: the buffers were made just now, and nothing else knows them.
        unsafe { (*place).values = [(&raw mut (*place).text).cast(), ptr::without_provenance_mut(LOG_BYTES)] };
        Self(buffers)
    }

    /// The options and their values, as arguments of `cuLibraryLoadData`.
    fn options(&self) -> (*const c_uint, *mut *mut c_void) {
        let place = self.0.as_ptr();
        // SAFETY: the buffers live as long as `self`.
        unsafe { ((&raw const (*place).options).cast(), (&raw mut (*place).values).cast()) }
    }

    /// `error` with the log added.
    fn with(&self, error: Error) -> Error {
        // SAFETY: the buffers live as long as `self`; the driver has returned and writes no more.
        let text = unsafe { (&raw const (*self.0.as_ptr()).text).read() };
        let length = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        let written = String::from_utf8_lossy(&text[..length]).trim_end().to_owned();
        match error {
            Error::Cuda { action, code, name, words, .. } => Error::Cuda { action, code, name, words, log: written },
            other => other,
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // SAFETY: the buffers come from a `Box`, and the library that knew them is unloaded or was never there.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Guard: while it lives, this thread's driver calls do not invalidate a capture of another thread
/// (`cuThreadExchangeStreamCaptureMode`).
struct RelaxedCapture<'a> {
    driver: &'a Driver,
    before: Option<c_uint>,
}

impl<'a> RelaxedCapture<'a> {
    fn begin(driver: &'a Driver) -> Self {
        let mut mode = CAPTURE_MODE_RELAXED;
        // SAFETY: the function reads the new mode from `mode` and writes the old one there.
        let code = unsafe { (driver.call.thread_exchange_stream_capture_mode)(&mut mode) };
        Self { driver, before: (code == Code::SUCCESS).then_some(mode) }
    }
}

impl Drop for RelaxedCapture<'_> {
    fn drop(&mut self) {
        if let Some(mut mode) = self.before {
            // SAFETY: as in `begin`; this restores the old mode.
            unsafe { (self.driver.call.thread_exchange_stream_capture_mode)(&mut mode) };
        }
    }
}
