//! Names and descriptions of errors.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::LazyLock;

use crate::driver::call;
use crate::status::{Result, Status, last, take_last};

/// Errors of the runtime that the driver lacks: number, description.
const OWN_ERRORS: [(Status, &CStr); 6] = [
    (Status(9), c"invalid configuration argument"),
    (Status::INVALID_SYMBOL, c"invalid device symbol"),
    (Status::INVALID_DIRECTION, c"invalid copy direction for memcpy"),
    (Status::INSUFFICIENT_DRIVER, c"there is no CUDA driver, or an older one than the runtime's"),
    (Status::MISSING_CONFIGURATION, c"__global__ function call is not configured"),
    (Status::INVALID_FUNCTION, c"invalid device function"),
];

/// Description of an unknown error number.
const UNKNOWN: &CStr = c"unrecognized error code";

/// Names by number.
static NAMES: LazyLock<HashMap<u32, CString>> = LazyLock::new(|| {
    let lines = include_str!("errors.txt").lines().filter(|line| !line.starts_with('#'));
    let named = lines.filter_map(|line| {
        let (number, name) = line.split_once(' ')?;
        Some((number.parse().ok()?, CString::new(name).ok()?))
    });
    named.collect()
});

fn described(get: impl FnOnce(*mut *const c_char) -> Result<()>) -> *const c_char {
    let mut text = ptr::null();
    match get(&mut text) {
        Ok(()) if !text.is_null() => text,
        _ => UNKNOWN.as_ptr(),
    }
}

/// `cudaGetErrorName`.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(status: u32) -> *const c_char {
    NAMES.get(&status).map_or(UNKNOWN, CString::as_c_str).as_ptr()
}

/// `cudaGetErrorString`: the driver's descriptions.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(status: u32) -> *const c_char {
    let own = OWN_ERRORS.iter().find(|(own, _)| own.0 == status);
    own.map_or_else(|| described(|text| call!(cuGetErrorString(status, text))), |(_, text)| text.as_ptr())
}

/// `cudaGetLastError`: returns and clears the last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> u32 {
    take_last().0
}

/// `cudaPeekAtLastError`: the last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> u32 {
    last().0
}
