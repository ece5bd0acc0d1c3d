//! What cust 0.3.2 lacks of the CUDA driver API (the functions and constants are those of `cuda.h`).
//!
//! A newer part of the API, such as `cuFuncGetParamInfo`, is declared in [`raw`], wrapped here, and listed in
//! libcuda-delay-load behind the functions that cust_raw declares.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::LazyLock;

use cust::CudaApiVersion;
use cust::device::Device;
use cust::function::Function;
use cust::stream::Stream;

/// A `CUresult`. A number, since cust's enum has no place for the codes that came after CUDA 11.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Code(pub c_uint);

impl Code {
    /// `CUDA_ERROR_INVALID_VALUE`.
    pub const INVALID_VALUE: Self = Self(1);
    /// `CUDA_ERROR_NO_DEVICE`.
    pub const NO_DEVICE: Self = Self(100);
    /// `CUDA_ERROR_NOT_SUPPORTED`, also for a function that the driver is too old to have.
    pub const NOT_SUPPORTED: Self = Self(libcuda_delay_load::CUDA_ERROR_NOT_SUPPORTED);

    /// The driver's name of the code, as in `CUDA_ERROR_OUT_OF_MEMORY`.
    pub fn name(self) -> Cow<'static, str> {
        // SAFETY: the function has the signature that `text` calls it with.
        unsafe { self.text(raw::cuGetErrorName) }.unwrap_or_else(|| format!("CUDA error {}", self.0).into())
    }

    /// The driver's description of the code, as in `out of memory`.
    pub fn description(self) -> Cow<'static, str> {
        // SAFETY: the function has the signature that `text` calls it with.
        unsafe { self.text(raw::cuGetErrorString) }.unwrap_or("the driver does not describe it".into())
    }

    /// # Safety
    ///
    /// `function` must be one of the driver's two functions that point to a text about a code.
    unsafe fn text(
        self,
        function: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
    ) -> Option<Cow<'static, str>> {
        let mut text = ptr::null();
        // SAFETY: `text` is where the function puts its result.
        let known = unsafe { function(self, &mut text) }.ok().is_ok();
        // SAFETY: the driver's texts are constants that end in NUL.
        (known && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
    }

    /// Whether the code stands for success.
    pub fn ok(self) -> Result<(), Self> {
        if self.0 == 0 { Ok(()) } else { Err(self) }
    }
}

impl From<cust::error::CudaError> for Code {
    fn from(error: cust::error::CudaError) -> Self {
        Self(error as c_uint)
    }
}

/// Initialises the driver (`cuInit`). cust would say `UnknownError` for most of the reasons why this fails, such as
/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`.
pub fn init() -> Result<(), Code> {
    // SAFETY: 0 is the only value that the flags may have.
    unsafe { raw::cuInit(0) }.ok()
}

/// Retains and releases the primary context of `device`, for the sake of the code: cust has no name for
/// `CUDA_ERROR_DEVICE_UNAVAILABLE`, which says that another process has the GPU for itself.
pub fn primary_context(device: Device) -> Result<(), Code> {
    let mut context = ptr::null_mut();
    // SAFETY: `context` is where the function puts its result.
    unsafe { raw::cuDevicePrimaryCtxRetain(&mut context, device.as_raw()) }.ok()?;
    // SAFETY: this releases what the call above retained.
    unsafe { raw::cuDevicePrimaryCtxRelease_v2(device.as_raw()) }.ok()
}

/// Waits for the context of this thread; an error that every call repeats means that the context is lost.
pub fn synchronize_context() -> Result<(), Code> {
    // SAFETY: the function has no arguments.
    unsafe { raw::cuCtxSynchronize() }.ok()
}

/// Largest dynamic shared memory, in bytes, that a block can have when its kernel asks for it.
pub fn shared_bytes_per_block(device: Device) -> Result<u32, Code> {
    const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
    let mut bytes = 0;
    // SAFETY: `bytes` is where the function puts its result.
    unsafe { raw::cuDeviceGetAttribute(&mut bytes, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device.as_raw()) }.ok()?;
    Ok(u32::try_from(bytes).unwrap_or(0))
}

/// The identifier of `device` as NVML writes it, as in `GPU-8932f937-d72c-4106-c12f-20bd9faed9f6`.
pub fn uuid(device: Device) -> Result<String, Code> {
    let mut bytes = [0u8; 16];
    // SAFETY: the function writes a `CUuuid`, which is 16 bytes.
    unsafe { raw::cuDeviceGetUuid_v2(&mut bytes, device.as_raw()) }.ok()?;
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let groups = [0..4, 4..6, 6..8, 8..10, 10..16].map(|group| hexadecimal(&bytes[group]));
    Ok(format!("GPU-{}", groups.join("-")))
}

/// Puts a copy of `bytes` from one place in device memory to another on `stream`.
///
/// # Safety
/// Both places must be allocated and stay so until the stream has got there; they must not overlap.
pub unsafe fn copy_on_device(destination: u64, source: u64, bytes: usize, stream: &Stream) -> Result<(), Code> {
    // SAFETY: passed on to the caller; the stream is alive, as `stream` holds a borrow.
    unsafe { raw::cuMemcpyDtoDAsync_v2(destination, source, bytes, stream.as_inner().cast()) }.ok()
}

/// Lets blocks of `function` have `bytes` of dynamic shared memory; without this, 48 KiB are the limit.
pub fn allow_dynamic_shared(function: &Function, bytes: u32) -> Result<(), Code> {
    const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    // SAFETY: the function belongs to a loaded module, to which `function` holds a borrow.
    unsafe { raw::cuFuncSetAttribute(function.to_raw().cast(), MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes) }.ok()
}

/// Puts a launch of `[blocks, threads, dynamic shared bytes]` on `stream` that may begin while the one before it ends
/// ("Programmatic Dependent Launch and Synchronization" of the CUDA Programming Guide). [`Code::NOT_SUPPORTED`] where the
/// driver is older than CUDA 12.3, before which graphs cannot hold such launches.
///
/// # Safety
/// `arguments` must be as many and as large as the parameters of `function`, and the kernel wait for the one before it until
/// it accesses anything that this one may write or read.
pub unsafe fn launch_overlapping(
    function: &Function,
    [blocks, threads, shared_bytes]: [u32; 3],
    arguments: &mut [*mut c_void],
    stream: &Stream,
) -> Result<(), Code> {
    /// Asked once: the driver of a process stays the same, and what a launch costs is measured.
    static IS_SUPPORTED: LazyLock<bool> =
        LazyLock::new(|| CudaApiVersion::get().is_ok_and(|version| (version.major(), version.minor()) >= (12, 3)));
    if !*IS_SUPPORTED {
        return Err(Code::NOT_SUPPORTED);
    }
    let mut attributes = [raw::LaunchAttribute::programmatic_stream_serialization()];
    let config = raw::LaunchConfig {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        shared_bytes,
        stream: stream.as_inner().cast(),
        attributes: attributes.as_mut_ptr(),
        attribute_count: 1,
    };
    // SAFETY: the function belongs to a loaded module, to which `function` holds a borrow, and the stream is alive; the
    // arguments are the caller's promise.
    unsafe { raw::cuLaunchKernelEx(&config, function.to_raw().cast(), arguments.as_mut_ptr(), ptr::null_mut()) }.ok()
}

/// Sizes in bytes of the first `count` parameters of `function`, fewer when it has fewer, or `None` when the driver is
/// older than CUDA 12.4 and cannot tell.
///
/// Nothing is asked about parameters beyond `count`: the driver would answer with an error, and compute-sanitizer
/// reports every error that the driver returns.
pub fn parameter_sizes(function: &Function, count: usize) -> Result<Option<Vec<usize>>, Code> {
    let mut sizes = Vec::with_capacity(count);
    while sizes.len() < count {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function belongs to a loaded module, and the results go to two live variables.
        let found =
            unsafe { raw::cuFuncGetParamInfo(function.to_raw().cast(), sizes.len(), &mut offset, &mut size) }.ok();
        match found {
            Ok(()) => sizes.push(size),
            Err(Code::INVALID_VALUE) => break,
            Err(Code::NOT_SUPPORTED) => return Ok(None),
            Err(code) => return Err(code),
        }
    }
    Ok(Some(sizes))
}

/// Compiles PTX for the sake of what the driver's compiler writes about it: the code and the error log.
pub fn jit_log(ptx: &CStr) -> (Result<(), Code>, String) {
    const ERROR_LOG_BUFFER: c_uint = 5;
    const ERROR_LOG_BUFFER_SIZE_BYTES: c_uint = 6;
    let mut log = vec![0u8; 16 << 10];
    let options = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE_BYTES];
    let values = [log.as_mut_ptr().cast(), ptr::without_provenance_mut::<c_void>(log.len())];
    let mut module = ptr::null_mut();
    // SAFETY: `ptx` ends in NUL, there are as many values as options, and the log is as long as its option says.
    let result = unsafe {
        raw::cuModuleLoadDataEx(&mut module, ptx.as_ptr().cast(), 2, options.as_ptr(), values.as_ptr().cast_mut())
    }
    .ok();
    if result.is_ok() {
        // SAFETY: the module was loaded just now and nothing else knows it.
        unsafe { raw::cuModuleUnload(module) };
    }
    let length = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    (result, String::from_utf8_lossy(&log[..length]).trim_end().to_owned())
}

/// The declarations, without the types that cust_raw gives to handles.
mod raw {
    use super::{Code, c_char, c_int, c_uint, c_void};

    /// `CUlaunchAttribute`: its value is a union of 64 bytes.
    #[repr(C, align(8))]
    pub struct LaunchAttribute {
        id: c_uint,
        padding: c_uint,
        value: [c_int; 16],
    }

    impl LaunchAttribute {
        /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, allowed.
        pub fn programmatic_stream_serialization() -> Self {
            let mut value = [0; 16];
            value[0] = 1;
            Self { id: 6, padding: 0, value }
        }
    }

    /// `CUlaunchConfig`.
    #[repr(C)]
    pub struct LaunchConfig {
        pub grid: [c_uint; 3],
        pub block: [c_uint; 3],
        pub shared_bytes: c_uint,
        pub stream: *mut c_void,
        pub attributes: *mut LaunchAttribute,
        pub attribute_count: c_uint,
    }

    unsafe extern "C" {
        pub fn cuLaunchKernelEx(
            config: *const LaunchConfig,
            function: *mut c_void,
            arguments: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> Code;
        pub fn cuInit(flags: c_uint) -> Code;
        pub fn cuGetErrorName(code: Code, text: *mut *const c_char) -> Code;
        pub fn cuGetErrorString(code: Code, text: *mut *const c_char) -> Code;
        pub fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> Code;
        pub fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> Code;
        pub fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> Code;
        pub fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Code;
        pub fn cuCtxSynchronize() -> Code;
        pub fn cuModuleLoadDataEx(
            module: *mut *mut c_void,
            image: *const c_void,
            option_count: c_uint,
            options: *const c_uint,
            values: *mut *mut c_void,
        ) -> Code;
        pub fn cuMemcpyDtoDAsync_v2(destination: u64, source: u64, bytes: usize, stream: *mut c_void) -> Code;
        pub fn cuModuleUnload(module: *mut c_void) -> Code;
        pub fn cuFuncGetParamInfo(function: *mut c_void, index: usize, offset: *mut usize, size: *mut usize) -> Code;
        pub fn cuFuncSetAttribute(function: *mut c_void, attribute: c_int, value: c_int) -> Code;
    }
}
