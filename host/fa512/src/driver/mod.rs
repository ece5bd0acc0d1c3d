//! The CUDA driver, opened at run time: its library, a table of the functions that are called, and process-wide facts
//! (version, number of GPUs).
//!
//! Nothing is linked and no symbol is exported, so the library can share a process with cust, cudarc, PyTorch and other
//! users of the driver.

mod code;
mod functions;
mod library;

use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

pub use functions::{
    CAPTURE_MODE_RELAXED, Code, Functions, Handle, KernelGetParamInfo, LaunchAttribute, LaunchConfig,
    MAX_DYNAMIC_SHARED_SIZE_BYTES, MEMORY_TYPE_HOST, TensorMap, device_attribute, pointer_attribute,
};
use library::Library;

use crate::error::Error;
use crate::version::Version;

/// The oldest accepted driver, as a CUDA version: the first with tensor maps and context-independent loading.
pub const NEEDED: Version = Version { major: 12, minor: 0 };
/// The oldest driver whose graphs support programmatic dependent launch.
const OVERLAP_NEEDED: Version = Version { major: 12, minor: 3 };

/// The driver of this process.
pub struct Driver {
    /// The functions that are called.
    pub call: Functions,
    /// Returns the sizes of a kernel's parameters; `None` if the driver has no such function.
    pub kernel_get_param_info: Option<KernelGetParamInfo>,
    /// The CUDA version that it supports.
    pub version: Version,
    /// Whether a launch may begin before the previous one on its stream ends (programmatic dependent launch).
    pub overlaps: bool,
    /// Number of GPUs that the driver shows.
    pub gpus: usize,
    library: Library,
}

impl Driver {
    /// The driver, opened and initialised by the first call. Later calls return the same result.
    ///
    /// # Errors
    /// When there is no driver, it is too old, `cuInit` fails, or it shows no GPU.
    pub fn get() -> Result<&'static Self, Error> {
        static DRIVER: OnceLock<Result<Driver, Error>> = OnceLock::new();
        DRIVER.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, Error> {
        let library = Library::open().map_err(|why| Error::NoDriver { why })?;
        let version = version(library)?;
        if version < NEEDED {
            return Err(Error::DriverTooOld { found: version, needed: NEEDED });
        }
        let call = Functions::of(library).map_err(|name| Error::NoDriver {
            why: format!("the CUDA {version} driver has no {}", name.to_string_lossy()),
        })?;
        start(library)?;
        let kernel_get_param_info = functions::kernel_get_param_info(library);
        let overlaps = version >= OVERLAP_NEEDED;
        let mut driver = Self { call, kernel_get_param_info, version, overlaps, gpus: 0, library };
        let mut gpus = 0;
        // SAFETY: `gpus` receives the function's result.
        driver.check(unsafe { (driver.call.device_get_count)(&mut gpus) }, || "counting the GPUs")?;
        driver.gpus = usize::try_from(gpus).unwrap_or(0);
        match driver.gpus {
            0 => Err(Error::NoGpu { why: "the driver shows none".into() }),
            _ => Ok(driver),
        }
    }

    /// Turns a result code into an error that names `action`, the call that failed.
    ///
    /// # Errors
    /// When the code is not `CUDA_SUCCESS`.
    pub fn check<T: Into<String>>(&self, code: Code, action: impl FnOnce() -> T) -> Result<(), Error> {
        if code == Code::SUCCESS { Ok(()) } else { Err(failure(self.library, code, action())) }
    }
}

fn failure(library: Library, code: Code, action: impl Into<String>) -> Error {
    let (name, words) = code::describe(library, code);
    Error::Cuda { action: action.into(), code: code.0, name, words, log: String::new() }
}

/// The driver's version. It is checked before any other function is looked up: an old driver lacks some of them.
fn version(library: Library) -> Result<Version, Error> {
    type Function = unsafe extern "C" fn(*mut c_int) -> Code;
    let address = library.function(c"cuDriverGetVersion");
    let address = address.ok_or_else(|| Error::NoDriver { why: "the driver has no cuDriverGetVersion".into() })?;
    // SAFETY: the driver's function of that name has this signature (cuda.h).
    let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
    let mut version = 0;
    // SAFETY: `version` receives the function's result; the function may be called before `cuInit`.
    let code = unsafe { function(&mut version) };
    match (code, u32::try_from(version)) {
        (Code::SUCCESS, Ok(version)) => Ok(Version { major: version / 1000, minor: version % 1000 / 10 }),
        _ => Err(failure(library, code, "asking the driver for its version")),
    }
}

/// `cuInit`, which has no effect if the caller has already called it.
fn start(library: Library) -> Result<(), Error> {
    type Function = unsafe extern "C" fn(c_uint) -> Code;
    let address = library.function(c"cuInit");
    let address = address.ok_or_else(|| Error::NoDriver { why: "the driver has no cuInit".into() })?;
    // SAFETY: the driver's function of that name has this signature (cuda.h).
    let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
    // SAFETY: 0 is the only valid value of the flags.
    match unsafe { function(0) } {
        Code::SUCCESS => Ok(()),
        code @ Code::NO_DEVICE => {
            let (name, words) = code::describe(library, code);
            Err(Error::NoGpu { why: format!("the driver shows none ({name}: {words})") })
        }
        code => Err(failure(library, code, "starting the driver (cuInit)")),
    }
}
