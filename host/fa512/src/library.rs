//! Kernels that no context owns: PTX is loaded once, for every context and GPU (`cuLibrary…`, `cuKernel…`).

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};

use crate::driver::{CAPTURE_MODE_RELAXED, Code, Driver, Handle, MAX_DYNAMIC_SHARED_SIZE_BYTES};
use crate::error::Error;

/// Bytes for what the driver's compiler writes about PTX that it refuses.
const LOG_BYTES: usize = 16 << 10;

/// A `CUlibrary`, unloaded when it is dropped.
pub struct Library {
    driver: &'static Driver,
    handle: Handle,
    /// What was loaded, for messages.
    name: String,
    log: Log,
}

// SAFETY: handles are only passed to the driver, which takes them from any thread; it writes the log while it loads.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads PTX (`cuLibraryLoadData`); `name` says in messages what it is.
    ///
    /// # Errors
    /// When there is no driver or it refuses the PTX at once. Drivers may also accept PTX that does not compile, and refuse
    /// its kernels.
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

    /// Puts it into the current context (`cuLibraryGetModule`), which tells what is wrong with the PTX.
    ///
    /// # Errors
    /// When the PTX does not compile or does not run on the context's GPU.
    pub fn enter(&self) -> Result<(), Error> {
        let _relaxed = RelaxedCapture::begin(self.driver);
        let mut module = ptr::null_mut();
        // SAFETY: the library lives; `module` is where the function puts its result.
        self.check(unsafe { (self.driver.call.library_get_module)(&mut module, self.handle) })
    }

    /// The kernel called `entry` (`cuLibraryGetKernel`).
    ///
    /// # Errors
    /// [`Error::NoEntry`], or when the PTX does not compile.
    pub fn kernel(&self, entry: &str) -> Result<LoadedKernel, Error> {
        let no_entry = || Error::NoEntry { entry: entry.to_owned() };
        let name = CString::new(entry).map_err(|_| no_entry())?;
        let _relaxed = RelaxedCapture::begin(self.driver);
        let mut kernel = ptr::null_mut();
        // SAFETY: the library lives, the name ends in NUL; `kernel` is where the function puts its result.
        match unsafe { (self.driver.call.library_get_kernel)(&mut kernel, self.handle, name.as_ptr()) } {
            Code::NOT_FOUND => Err(no_entry()),
            code => self.check(code).map(|()| LoadedKernel(kernel)),
        }
    }

    /// The driver.
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Leaves it loaded for as long as the process lives.
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
        // A failure follows a lost context, which the call before it has reported.
        // SAFETY: the library was loaded, and the callers that launched its kernels have promised that they are done.
        unsafe { (self.driver.call.library_unload)(self.handle) };
    }
}

/// A `CUkernel`, which is one as long as its library lives.
#[derive(Clone, Copy)]
pub struct LoadedKernel(Handle);

// SAFETY: the handle is only passed to the driver, which takes it from any thread.
unsafe impl Send for LoadedKernel {}
// SAFETY: as above.
unsafe impl Sync for LoadedKernel {}

impl LoadedKernel {
    /// As the driver takes it.
    pub fn handle(self) -> Handle {
        self.0
    }

    /// The kernel as a `CUfunction` of the current context (`cuKernelGetFunction`).
    ///
    /// # Errors
    /// When there is no context, or the kernel does not run there.
    pub fn function(self, driver: &Driver, entry: &str) -> Result<Handle, Error> {
        let _relaxed = RelaxedCapture::begin(driver);
        let mut function = ptr::null_mut();
        // SAFETY: the kernel's library lives; `function` is where the function puts its result.
        let code = unsafe { (driver.call.kernel_get_function)(&mut function, self.0) };
        driver.check(code, || format!("putting {entry} into the current context")).map(|()| function)
    }

    /// Lets blocks have `bytes` of dynamic shared memory on GPU `gpu` (`cuKernelSetAttribute`); without this, 48 KiB are the
    /// limit.
    ///
    /// # Errors
    /// When the GPU has less.
    pub fn allow_dynamic_shared(self, driver: &Driver, entry: &str, bytes: u32, gpu: usize) -> Result<(), Error> {
        let _relaxed = RelaxedCapture::begin(driver);
        let count = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let device = c_int::try_from(gpu).unwrap_or(c_int::MAX);
        // SAFETY: the kernel's library lives.
        let code = unsafe { (driver.call.kernel_set_attribute)(MAX_DYNAMIC_SHARED_SIZE_BYTES, count, self.0, device) };
        driver
            .check(code, || format!("giving the blocks of {entry} {bytes} bytes of dynamic shared memory on GPU {gpu}"))
    }

    /// Sizes in bytes of the first `count` parameters, fewer where it has fewer; `None` where the driver cannot tell
    /// (`cuKernelGetParamInfo`, CUDA 12.4).
    ///
    /// Nothing is asked about parameters beyond `count`: the driver would answer with an error, and compute-sanitizer reports
    /// every error that the driver returns.
    ///
    /// # Errors
    /// When there is no current context.
    pub fn parameter_bytes(self, driver: &Driver, entry: &str, count: usize) -> Result<Option<Vec<usize>>, Error> {
        let Some(kernel_get_param_info) = driver.kernel_get_param_info else { return Ok(None) };
        let mut sizes = Vec::with_capacity(count);
        while sizes.len() < count {
            let (mut offset, mut bytes) = (0, 0);
            // SAFETY: the kernel's library lives; the results go to two live variables.
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

/// What the driver's compiler is told, and where it writes what is wrong. It stays in its place as long as the library lives:
/// nothing says that a driver compiles for every GPU at once.
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

    /// The options and their values, as the driver takes them.
    fn options(&self) -> (*const c_uint, *mut *mut c_void) {
        let place = self.0.as_ptr();
        // SAFETY: the buffers live as long as `self`.
        unsafe { ((&raw const (*place).options).cast(), (&raw mut (*place).values).cast()) }
    }

    /// `error` with what was written.
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
