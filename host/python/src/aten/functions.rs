//! Functions of PyTorch's stable C interface (torch/csrc/inductor/aoti_torch/c/shim.h, torch/csrc/stable/c/shim.h), looked up in the libraries
//! that `import torch` has loaded; nothing of PyTorch is needed to build this. Those that may fail return 0 on success.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;

/// The libraries of PyTorch that have the functions.
const LIBRARIES: [&CStr; 2] = [c"libtorch_cpu.so", c"libtorch_cuda.so"];

/// The kernel of an operator. An exception of C++ may pass through it.
pub type Kernel = unsafe extern "C-unwind" fn(stack: *mut u64, inputs: u64, outputs: u64);
/// A library of kernels, or a tensor.
pub type Handle = *mut c_void;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of PyTorch; the symbols name them.
        pub struct Functions {
            $(pub $field: unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Looks every function up; `None` if one is missing.
            pub fn of(find: impl Fn(&CStr) -> Option<*mut c_void>) -> Option<Self> {
                Some(Self {
                    $($field: {
                        let address = find($name)?;
                        // SAFETY: this is the function of that name, which has this signature (shim.h; `operator delete` of C++).
                        unsafe { transmute::<*mut c_void, unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    new_library = c"aoti_torch_library_init_impl": fn(*const c_char, *const c_char, *const c_char, u32, *mut Handle) -> i32;
    implement = c"torch_library_impl": fn(Handle, *const c_char, Kernel, u64) -> i32;
    delete_library = c"aoti_torch_delete_library_object": fn(Handle) -> i32;
    new_undefined = c"aoti_torch_new_uninitialized_tensor": fn(*mut Handle) -> i32;
    new_handle = c"aoti_torch_new_tensor_handle": fn(Handle, *mut Handle) -> i32;
    empty_strided = c"aoti_torch_empty_strided": fn(i64, *const i64, *const i64, i32, i32, i32, *mut Handle) -> i32;
    fill = c"aoti_torch_aten_fill__Scalar": fn(Handle, f64) -> i32;
    delete_tensor = c"aoti_torch_delete_tensor_object": fn(Handle) -> i32;
    is_defined = c"aoti_torch_is_defined": fn(Handle, *mut bool) -> i32;
    layout = c"aoti_torch_get_layout": fn(Handle, *mut i32) -> i32;
    rank = c"aoti_torch_get_dim": fn(Handle, *mut i64) -> i32;
    sizes = c"aoti_torch_get_sizes": fn(Handle, *mut *const i64) -> i32;
    strides = c"aoti_torch_get_strides": fn(Handle, *mut *const i64) -> i32;
    dtype = c"aoti_torch_get_dtype": fn(Handle, *mut i32) -> i32;
    device_type = c"aoti_torch_get_device_type": fn(Handle, *mut i32) -> i32;
    device_index = c"aoti_torch_get_device_index": fn(Handle, *mut i32) -> i32;
    address = c"torch_get_const_data_ptr": fn(Handle, *mut *const c_void) -> i32;
    current_stream = c"aoti_torch_get_current_cuda_stream": fn(i32, *mut *mut c_void) -> i32;
    strided = c"aoti_torch_layout_strided": fn() -> i32;
    cuda = c"aoti_torch_device_type_cuda": fn() -> i32;
    float16 = c"aoti_torch_dtype_float16": fn() -> i32;
    bfloat16 = c"aoti_torch_dtype_bfloat16": fn() -> i32;
    float32 = c"aoti_torch_dtype_float32": fn() -> i32;
    int32 = c"aoti_torch_dtype_int32": fn() -> i32;
    uint32 = c"aoti_torch_dtype_uint32": fn() -> i32;
    int64 = c"aoti_torch_dtype_int64": fn() -> i32;
    uint64 = c"aoti_torch_dtype_uint64": fn() -> i32;
    is_grad_enabled = c"aoti_torch_grad_mode_is_enabled": fn() -> bool;
    uint8 = c"aoti_torch_dtype_uint8": fn() -> i32;
    require = c"aoti_torch_check": fn(bool, *const c_char, *const c_char, u32, *const c_char);
    operator_delete = c"_ZdlPv": fn(*mut c_void);
}

/// The address of a function of PyTorch's libraries, if they are loaded.
#[cfg(target_os = "linux")]
pub fn loaded(name: &CStr) -> Option<*mut c_void> {
    use std::ffi::c_int;

    unsafe extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    const RTLD_NOW: c_int = 2;
    /// Only a library that is loaded already.
    const RTLD_NOLOAD: c_int = 4;

    LIBRARIES.iter().find_map(|library| {
        // SAFETY: the name ends in NUL; no code runs, since nothing is loaded.
        let library = unsafe { dlopen(library.as_ptr(), RTLD_NOW | RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        // SAFETY: the library is open, and never closed; the name ends in NUL.
        let address = unsafe { dlsym(library, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    })
}

#[cfg(not(target_os = "linux"))]
pub fn loaded(_: &CStr) -> Option<*mut c_void> {
    None
}

/// What a function writes that returns 0 on success.
pub fn ask<T>(before: T, function: impl FnOnce(*mut T) -> i32) -> Option<T> {
    let mut result = before;
    (function(&mut result) == 0).then_some(result)
}
