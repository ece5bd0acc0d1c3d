//! Functions and constants of the CUDA driver API (`cuda.h`) that cust 0.3.2 lacks, or supports only for kernels of
//! modules that it has loaded. The library loads modules, launches our kernels, and encodes their tensor maps.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;

use cust::device::Device;
use cust::stream::Stream;

/// A `CUresult`, as a number: cust's enum lacks the codes added after CUDA 11.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Code(pub c_uint);

impl Code {
    /// `CUDA_ERROR_NO_DEVICE`.
    pub const NO_DEVICE: Self = Self(100);

    /// The driver's name of the code, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    pub fn name(self) -> Cow<'static, str> {
        // SAFETY: the function has the signature that `text` calls it with.
        unsafe { self.text(raw::cuGetErrorName) }.unwrap_or_else(|| format!("CUDA error {}", self.0).into())
    }

    /// The driver's description of the code, such as `out of memory`.
    pub fn description(self) -> Cow<'static, str> {
        // SAFETY: the function has the signature that `text` calls it with.
        unsafe { self.text(raw::cuGetErrorString) }.unwrap_or("the driver does not describe it".into())
    }

    /// # Safety
    ///
    /// `function` must be `cuGetErrorName` or `cuGetErrorString`.
    unsafe fn text(
        self,
        function: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
    ) -> Option<Cow<'static, str>> {
        let mut text = ptr::null();
        // SAFETY: `text` receives the function's result.
        let known = unsafe { function(self, &mut text) }.ok().is_ok();
        // SAFETY: the driver's texts are constants that end in NUL.
        (known && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
    }

    /// `Ok` if the code is `CUDA_SUCCESS`.
    pub fn ok(self) -> Result<(), Self> {
        if self.0 == 0 { Ok(()) } else { Err(self) }
    }
}

impl From<cust::error::CudaError> for Code {
    fn from(error: cust::error::CudaError) -> Self {
        Self(error as c_uint)
    }
}

/// Initialises the driver (`cuInit`). cust reports `UnknownError` for most reasons of failure, such as
/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`.
pub fn init() -> Result<(), Code> {
    // SAFETY: 0 is the only valid value of the flags.
    unsafe { raw::cuInit(0) }.ok()
}

/// Retains and releases the primary context of `device`, to learn the result code: cust has no name for
/// `CUDA_ERROR_DEVICE_UNAVAILABLE`, which means that another process uses the GPU exclusively.
pub fn primary_context(device: Device) -> Result<(), Code> {
    let mut context = ptr::null_mut();
    // SAFETY: `context` receives the function's result.
    unsafe { raw::cuDevicePrimaryCtxRetain(&mut context, device.as_raw()) }.ok()?;
    // SAFETY: this releases what the call above retained.
    unsafe { raw::cuDevicePrimaryCtxRelease_v2(device.as_raw()) }.ok()
}

/// Waits for this thread's context. If every call returns the same error, the context is lost.
pub fn synchronize_context() -> Result<(), Code> {
    // SAFETY: the function has no arguments.
    unsafe { raw::cuCtxSynchronize() }.ok()
}

/// Maximum dynamic shared memory, in bytes, that a kernel can request per block.
pub fn shared_bytes_per_block(device: Device) -> Result<u32, Code> {
    const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
    let mut bytes = 0;
    // SAFETY: `bytes` receives the function's result.
    unsafe { raw::cuDeviceGetAttribute(&mut bytes, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device.as_raw()) }.ok()?;
    Ok(u32::try_from(bytes).unwrap_or(0))
}

/// The identifier of `device` in NVML's form, such as `GPU-8932f937-d72c-4106-c12f-20bd9faed9f6`.
pub fn uuid(device: Device) -> Result<String, Code> {
    let mut bytes = [0u8; 16];
    // SAFETY: the function writes a `CUuuid`, which is 16 bytes.
    unsafe { raw::cuDeviceGetUuid_v2(&mut bytes, device.as_raw()) }.ok()?;
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let groups = [0..4, 4..6, 6..8, 8..10, 10..16].map(|group| hexadecimal(&bytes[group]));
    Ok(format!("GPU-{}", groups.join("-")))
}

/// Enqueues a copy of `bytes` within device memory on `stream`.
///
/// # Safety
/// Both ranges are allocated until the copy has completed, and do not overlap.
pub unsafe fn copy_on_device(destination: u64, source: u64, bytes: usize, stream: &Stream) -> Result<(), Code> {
    // SAFETY: the caller's promise; `stream` is borrowed, so it is alive.
    unsafe { raw::cuMemcpyDtoDAsync_v2(destination, source, bytes, stream.as_inner().cast()) }.ok()
}

/// A `CUfunction`, which borrows its module.
#[derive(Clone, Copy)]
pub struct Function<'a>(*mut c_void, PhantomData<&'a fa512::Module>);

impl<'a> Function<'a> {
    /// The kernel `entry` of `module` in the current context.
    ///
    /// # Errors
    /// The error of the library.
    pub fn of(module: &'a fa512::Module, entry: &str) -> Result<Self, fa512::Error> {
        Ok(Self(module.function(entry)?, PhantomData))
    }

    /// Allows `bytes` of dynamic shared memory per block. The default limit is 48 KiB.
    pub fn allow_dynamic_shared(self, bytes: u32) -> Result<(), Code> {
        const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: the function belongs to a loaded module, which `self` borrows.
        unsafe { raw::cuFuncSetAttribute(self.0, MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes) }.ok()
    }

    /// 32-bit registers per thread.
    pub fn registers(self) -> Result<u32, Code> {
        const NUM_REGS: c_int = 4;
        self.attribute(NUM_REGS)
    }

    /// Local memory per thread, bytes.
    pub fn local_bytes(self) -> Result<u32, Code> {
        const LOCAL_SIZE_BYTES: c_int = 3;
        self.attribute(LOCAL_SIZE_BYTES)
    }

    fn attribute(self, attribute: c_int) -> Result<u32, Code> {
        let mut value = 0;
        // SAFETY: as above; `value` receives the function's result.
        unsafe { raw::cuFuncGetAttribute(&mut value, attribute, self.0) }.ok()?;
        Ok(u32::try_from(value).unwrap_or(0))
    }
}

/// Enqueues a launch of `[blocks, threads, dynamic shared bytes]` on `stream`.
///
/// # Safety
/// `arguments` match the parameters of `function` in number and size.
pub unsafe fn launch(
    function: Function<'_>,
    [blocks, threads, shared_bytes]: [u32; 3],
    arguments: &mut [*mut c_void],
    stream: &Stream,
) -> Result<(), Code> {
    let (arguments, stream) = (arguments.as_mut_ptr(), stream.as_inner().cast());
    // SAFETY: the function belongs to a loaded module, which `function` borrows, and the stream is alive; the caller
    // vouches for the arguments.
    unsafe {
        raw::cuLaunchKernel(function.0, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, arguments, ptr::null_mut())
    }
    .ok()
}

/// Declarations, with plain pointers in place of cust_raw's handle types.
mod raw {
    use super::{Code, c_char, c_int, c_uint, c_void};

    unsafe extern "C" {
        pub fn cuLaunchKernel(
            function: *mut c_void,
            blocks_x: c_uint,
            blocks_y: c_uint,
            blocks_z: c_uint,
            threads_x: c_uint,
            threads_y: c_uint,
            threads_z: c_uint,
            shared_bytes: c_uint,
            stream: *mut c_void,
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
        pub fn cuMemcpyDtoDAsync_v2(destination: u64, source: u64, bytes: usize, stream: *mut c_void) -> Code;
        pub fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: *mut c_void) -> Code;
        pub fn cuFuncSetAttribute(function: *mut c_void, attribute: c_int, value: c_int) -> Code;
    }
}
