//! The dynamic linker's functions that open the CUDA driver, from libc, which std links anyway.

use std::ffi::{CStr, c_void};

/// File name of the CUDA driver's library.
#[cfg(unix)]
const FILE_NAME: &CStr = c"libcuda.so.1";

/// The CUDA driver's library, open for the lifetime of the process.
#[derive(Clone, Copy, Debug)]
pub struct Library(#[cfg_attr(not(unix), allow(dead_code))] *mut c_void);

// SAFETY: the handle is only passed to `dlsym`, which any thread may call.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

#[cfg(unix)]
mod linker {
    use std::ffi::{c_char, c_int, c_void};

    unsafe extern "C" {
        pub fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        pub fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        pub fn dlerror() -> *const c_char;
    }

    /// Resolve all symbols now. Without `RTLD_GLOBAL`, they stay private to the library.
    pub const RTLD_NOW: c_int = 2;
}

impl Library {
    /// Opens the library.
    ///
    /// # Errors
    /// With the linker's message.
    #[cfg(unix)]
    pub fn open() -> Result<Self, String> {
        // SAFETY: the file name ends in NUL. The driver's constructors run, as in every program that uses CUDA.
        let library = unsafe { linker::dlopen(FILE_NAME.as_ptr(), linker::RTLD_NOW) };
        if !library.is_null() {
            return Ok(Self(library));
        }
        // SAFETY: no arguments; the text stays valid until this thread's next call of the linker.
        let words = unsafe { linker::dlerror() };
        match words.is_null() {
            true => Err(format!("{} cannot be opened", FILE_NAME.to_string_lossy())),
            // SAFETY: the linker's texts end in NUL, and nothing was called since.
            false => Err(unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()),
        }
    }

    /// Always fails: this platform has no CUDA driver library.
    #[cfg(not(unix))]
    pub fn open() -> Result<Self, String> {
        Err("fa512 opens the CUDA driver on Linux only".into())
    }

    /// The address of the function `name`; `None` if the library does not have it.
    #[cfg(unix)]
    pub fn function(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is that of `open` and is never closed; the name ends in NUL.
        let address = unsafe { linker::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// Always `None`.
    #[cfg(not(unix))]
    pub fn function(self, _: &CStr) -> Option<*mut c_void> {
        None
    }
}
