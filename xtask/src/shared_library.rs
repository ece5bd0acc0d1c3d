//! Asking the dynamic linker for a library.

use std::ffi::{CString, c_char, c_int, c_void};

unsafe extern "C" {
    fn dlopen(filename: *const c_char, flags: c_int) -> *mut c_void;
}

/// Whether the dynamic linker finds and opens the shared library `name`; it then stays open.
pub fn can_be_opened(name: &str) -> bool {
    /// `RTLD_LAZY` of glibc and musl.
    const RTLD_LAZY: c_int = 1;
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: `name` is a NUL-terminated string that outlives the call, and the libraries asked for run only their
    // own initialisers.
    let handle = unsafe { dlopen(name.as_ptr(), RTLD_LAZY) };
    !handle.is_null()
}
