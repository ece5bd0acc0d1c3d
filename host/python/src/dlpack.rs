//! The structs of DLPack that this package reads (dlpack.h 1.3).

use std::ffi::{c_int, c_void};

/// `kDLCUDA`.
pub const CUDA: i32 = 2;
/// `kDLCUDAManaged`.
pub const CUDA_MANAGED: i32 = 13;
/// `kDLInt`, `kDLUInt`, `kDLFloat`, `kDLBfloat`.
pub const INTEGER: u8 = 0;
/// See [`INTEGER`].
pub const UNSIGNED: u8 = 1;
/// See [`INTEGER`].
pub const FLOAT: u8 = 2;
/// See [`INTEGER`].
pub const BFLOAT: u8 = 4;
/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
const READ_ONLY: u64 = 1;
/// The major version that these structs belong to.
const MAJOR: u32 = 1;

/// `DLDevice`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Device {
    /// `DLDeviceType`.
    pub kind: i32,
    /// Ordinal among devices of that type.
    pub ordinal: i32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// `DLDataTypeCode`.
    pub code: u8,
    /// Bits of a lane.
    pub bits: u8,
    /// Lanes: 1 except for vectors.
    pub lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// Base address of the tensor's memory on the device.
    pub data: *mut c_void,
    /// Device of the memory.
    pub device: Device,
    /// Number of dimensions.
    pub rank: i32,
    /// Type of the elements.
    pub element: Element,
    /// `rank` sizes.
    pub shape: *const i64,
    /// `rank` strides in elements; null for a contiguous tensor.
    pub strides: *const i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

impl Tensor {
    /// An empty description, to be filled in.
    pub fn empty() -> Self {
        Self {
            data: std::ptr::null_mut(),
            device: Device::default(),
            rank: 0,
            element: Element::default(),
            shape: std::ptr::null(),
            strides: std::ptr::null(),
            byte_offset: 0,
        }
    }
}

/// `DLManagedTensor`, whose first field is the tensor.
#[repr(C)]
pub struct Managed {
    /// The tensor.
    pub tensor: Tensor,
    manager: *mut c_void,
    deleter: *mut c_void,
}

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub struct ManagedVersioned {
    version: Version,
    manager: *mut c_void,
    deleter: *mut c_void,
    flags: u64,
    tensor: Tensor,
}

impl ManagedVersioned {
    /// The tensor, and whether it is read-only; `None` if another major version defines the struct differently.
    pub fn tensor(&self) -> Option<(Tensor, bool)> {
        (self.version.major == MAJOR).then_some((self.tensor, self.flags & READ_ONLY != 0))
    }
}

/// `DLPackExchangeAPI`: describes a framework's tensors without calls into Python. Lives as long as the process.
#[repr(C)]
pub struct ExchangeApi {
    version: Version,
    previous: *const ExchangeApi,
    allocate: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    /// `dltensor_from_py_object_no_sync`: describes an object, which keeps owning what the description points to.
    pub tensor_of: Option<unsafe extern "C" fn(object: *mut c_void, tensor: *mut Tensor) -> c_int>,
    /// `current_work_stream`.
    pub current_stream: Option<unsafe extern "C" fn(kind: i32, ordinal: i32, stream: *mut *mut c_void) -> c_int>,
}

impl ExchangeApi {
    /// Whether the struct has the version that is declared here.
    pub fn is_known(&self) -> bool {
        self.version.major == MAJOR
    }
}
