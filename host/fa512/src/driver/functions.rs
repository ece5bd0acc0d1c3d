//! The functions of the CUDA driver API that this library calls, and the types of `cuda.h` that they take.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::num::NonZeroU32;

use super::library::Library;

/// `CUresult`, as a number: drivers return codes that no header names yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Code(pub c_uint);

impl Code {
    /// `CUDA_SUCCESS`.
    pub const SUCCESS: Self = Self(0);
    /// `CUDA_ERROR_INVALID_VALUE`.
    pub const INVALID_VALUE: Self = Self(1);
    /// `CUDA_ERROR_NO_DEVICE`.
    pub const NO_DEVICE: Self = Self(100);
    /// `CUDA_ERROR_INVALID_CONTEXT`.
    pub const INVALID_CONTEXT: Self = Self(201);
    /// `CUDA_ERROR_NOT_FOUND`.
    pub const NOT_FOUND: Self = Self(500);
    /// `CUDA_ERROR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: Self = Self(801);
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`.
    pub const STREAM_CAPTURE_IMPLICIT: Self = Self(906);
}

/// `CUcontext`, `CUstream`, `CUlibrary`, `CUkernel`.
pub type Handle = *mut c_void;

/// `CUtensorMap`: 128 bytes, aligned to 64.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct TensorMap(pub [u8; 128]);

/// `CUlaunchAttribute`: its value is a union of 64 bytes.
#[repr(C, align(8))]
pub struct LaunchAttribute {
    id: c_uint,
    padding: c_uint,
    value: [c_int; 16],
}

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, set to allowed.
    pub fn programmatic_stream_serialization() -> Self {
        Self::of_values(6, [1])
    }

    /// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`.
    pub fn cooperative() -> Self {
        Self::of_values(2, [1])
    }

    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`: `blocks` in x, 1 in y and z.
    pub fn cluster(blocks: NonZeroU32) -> Self {
        Self::of_values(4, [blocks.get() as c_int, 1, 1])
    }

    fn of_values<const COUNT: usize>(id: c_uint, values: [c_int; COUNT]) -> Self {
        let mut value = [0; 16];
        value[..COUNT].copy_from_slice(&values);
        Self { id, padding: 0, value }
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
pub struct LaunchConfig {
    /// Blocks in x, y and z.
    pub grid: [c_uint; 3],
    /// Threads in x, y and z.
    pub block: [c_uint; 3],
    /// Dynamic shared memory, bytes.
    pub shared_bytes: c_uint,
    /// `CUstream`.
    pub stream: Handle,
    /// The attributes, `attribute_count` of them.
    pub attributes: *mut LaunchAttribute,
    /// Number of attributes.
    pub attribute_count: c_uint,
}

/// The `CU_DEVICE_ATTRIBUTE_…` constants in use.
pub mod device_attribute {
    use std::ffi::c_int;

    /// `MULTIPROCESSOR_COUNT`.
    pub const MULTIPROCESSORS: c_int = 16;
    /// `COMPUTE_CAPABILITY_MAJOR`.
    pub const MAJOR: c_int = 75;
    /// `COMPUTE_CAPABILITY_MINOR`.
    pub const MINOR: c_int = 76;
    /// `MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`.
    pub const SHARED_BYTES_PER_BLOCK: c_int = 97;
}

/// The `CU_POINTER_ATTRIBUTE_…` constants in use.
pub mod pointer_attribute {
    use std::ffi::c_uint;

    /// `CONTEXT`, a `CUcontext`.
    pub const CONTEXT: c_uint = 1;
    /// `MEMORY_TYPE`, an `unsigned int`.
    pub const MEMORY_TYPE: c_uint = 2;
    /// `IS_MANAGED`, a boolean.
    pub const IS_MANAGED: c_uint = 8;
    /// `DEVICE_ORDINAL`, an `int`.
    pub const DEVICE_ORDINAL: c_uint = 9;
    /// `RANGE_START_ADDR`, a `CUdeviceptr`.
    pub const RANGE_START: c_uint = 11;
    /// `RANGE_SIZE`, a `size_t`.
    pub const RANGE_SIZE: c_uint = 12;
    /// `MEMPOOL_HANDLE`, a `CUmemoryPool`; null for memory that is in no pool.
    pub const MEMPOOL: c_uint = 17;
}

/// `CU_MEMORYTYPE_HOST`.
pub const MEMORY_TYPE_HOST: c_uint = 1;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub const CAPTURE_MODE_RELAXED: c_uint = 2;

/// `cuKernelGetParamInfo`, which only drivers for CUDA 12.4 or later have.
pub type KernelGetParamInfo = unsafe extern "C" fn(Handle, usize, *mut usize, *mut usize) -> Code;

/// Looks [`KernelGetParamInfo`] up.
pub fn kernel_get_param_info(library: Library) -> Option<KernelGetParamInfo> {
    let address = library.function(c"cuKernelGetParamInfo")?;
    // SAFETY: this is the driver's function of that name, which has this signature (cuda.h).
    Some(unsafe { transmute::<*mut c_void, KernelGetParamInfo>(address) })
}

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $name:literal: fn($($argument:ty),*);)*) => {
        /// Addresses of the functions, each of which returns a [`Code`].
        #[allow(missing_docs, reason = "their symbols name them")]
        pub struct Functions {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($argument),*) -> Code,)*
        }

        impl Functions {
            /// Looks every function up.
            ///
            /// # Errors
            /// With the name of the first function that the library lacks.
            pub fn of(library: Library) -> Result<Self, &'static CStr> {
                Ok(Self {
                    $($field: {
                        let address = library.function($name).ok_or($name)?;
                        // SAFETY: this is the driver's function of that name, which has this signature (cuda.h).
                        unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> Code>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    context_get_current = c"cuCtxGetCurrent": fn(*mut Handle);
    context_get_device = c"cuCtxGetDevice": fn(*mut c_int);
    context_push = c"cuCtxPushCurrent_v2": fn(Handle);
    context_pop = c"cuCtxPopCurrent_v2": fn(*mut Handle);
    device_get_attribute = c"cuDeviceGetAttribute": fn(*mut c_int, c_int, c_int);
    device_get_count = c"cuDeviceGetCount": fn(*mut c_int);
    device_get_name = c"cuDeviceGetName": fn(*mut c_char, c_int, c_int);
    primary_context_retain = c"cuDevicePrimaryCtxRetain": fn(*mut Handle, c_int);
    stream_get_context = c"cuStreamGetCtx": fn(Handle, *mut Handle);
    stream_is_capturing = c"cuStreamIsCapturing": fn(Handle, *mut c_uint);
    stream_synchronize = c"cuStreamSynchronize": fn(Handle);
    thread_exchange_stream_capture_mode = c"cuThreadExchangeStreamCaptureMode": fn(*mut c_uint);
    memset_2d = c"cuMemsetD2D32Async": fn(u64, usize, c_uint, usize, usize, Handle);
    pointer_get_attributes = c"cuPointerGetAttributes": fn(c_uint, *const c_uint, *const *mut c_void, u64);
    library_load_data = c"cuLibraryLoadData": fn(
        *mut Handle, *const c_void,
        *const c_uint, *mut *mut c_void, c_uint,
        *const c_uint, *mut *mut c_void, c_uint
    );
    library_get_kernel = c"cuLibraryGetKernel": fn(*mut Handle, Handle, *const c_char);
    library_get_module = c"cuLibraryGetModule": fn(*mut Handle, Handle);
    library_unload = c"cuLibraryUnload": fn(Handle);
    kernel_get_function = c"cuKernelGetFunction": fn(*mut Handle, Handle);
    kernel_set_attribute = c"cuKernelSetAttribute": fn(c_int, c_int, Handle, c_int);
    launch_kernel = c"cuLaunchKernelEx": fn(*const LaunchConfig, Handle, *const *const c_void, *const *const c_void);
    tensor_map_encode_tiled = c"cuTensorMapEncodeTiled": fn(
        *mut TensorMap, c_uint, c_uint, u64,
        *const u64, *const u64, *const c_uint, *const c_uint,
        c_uint, c_uint, c_uint, c_uint
    );
}
