//! Names and descriptions of the driver's result codes.

use std::ffi::{CStr, c_char};
use std::ptr;

use super::functions::Code;
use super::library::Library;

/// `cuGetErrorName` or `cuGetErrorString`.
type Text = unsafe extern "C" fn(Code, *mut *const c_char) -> Code;

/// The driver's name of `code`, such as `CUDA_ERROR_OUT_OF_MEMORY`, and its description, such as `out of memory`.
pub fn describe(library: Library, code: Code) -> (String, String) {
    let name = text(library, c"cuGetErrorName", code).unwrap_or_else(|| format!("CUDA error {}", code.0));
    let words = text(library, c"cuGetErrorString", code);
    (name, words.unwrap_or_else(|| "the driver does not describe it".into()))
}

fn text(library: Library, function: &CStr, code: Code) -> Option<String> {
    let address = library.function(function)?;
    // SAFETY: both functions of the driver that are asked for here have this signature (cuda.h).
    let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Text>(address) };
    let mut text = ptr::null();
    // SAFETY: `text` receives the function's result.
    let known = unsafe { function(code, &mut text) } == Code::SUCCESS && !text.is_null();
    // SAFETY: the driver's texts are constants that end in NUL.
    known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
