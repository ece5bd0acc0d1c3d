//! Loads libcuda when the program asks for it instead of when it starts.
//!
//! Bindings such as cust_raw link to libcuda, so that a program made with them does not even start on a machine without
//! an NVIDIA driver. This crate defines the same functions. Each is one jump through a table that [`load`] fills from
//! the real `libcuda.so.1`; before that, and where there is none, they return [`CUDA_ERROR_STUB_LIBRARY`]. A function
//! that the installed driver is too old to have returns [`CUDA_ERROR_NOT_SUPPORTED`].
//!
//! [`tensor_map`] wraps a function that the bindings lack and several programs call.
//!
//! The bindings must not link to libcuda themselves; `find_cuda_helper`, beside this crate, sees to that for cust.

mod entry_points;
mod functions;
pub mod tensor_map;

pub use entry_points::{CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_STUB_LIBRARY};

use libloading::Library;
use std::error::Error;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

/// File name of the CUDA driver library, which comes with the NVIDIA driver and not with the CUDA toolkit.
pub const LIBRARY: &str = "libcuda.so.1";

/// Why the functions of libcuda cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The dynamic loader did not find the library or did not accept it; its message names the file and the reason.
    #[error("the CUDA driver library cannot be opened: {0}")]
    Open(String),
    /// The library opened is something else: it lacks a function that every CUDA driver has.
    #[error("{LIBRARY} was opened but is no CUDA driver: it has no function {0}")]
    NotADriver(&'static str),
}

/// Opens libcuda and directs every function to it. Only the first call, on whichever thread, does anything; later ones
/// return what it returned. The caller goes on with `cuInit`.
///
/// # Errors
///
/// [`LoadError`] when there is no usable library; every function then keeps returning [`CUDA_ERROR_STUB_LIBRARY`].
pub fn load() -> Result<(), LoadError> {
    static LOADED: OnceLock<Result<(), LoadError>> = OnceLock::new();
    LOADED.get_or_init(open_and_resolve).clone()
}

fn open_and_resolve() -> Result<(), LoadError> {
    // SAFETY: the initialisers of the driver library are those that every CUDA program runs when it starts.
    let library = unsafe { Library::new(LIBRARY) }.map_err(|error| LoadError::Open(reason(&error)))?;
    if address(&library, c"cuInit").is_none() {
        return Err(LoadError::NotADriver("cuInit"));
    }
    // SAFETY: each address is that of the function asked for, and the library is never closed again (next line).
    unsafe { entry_points::resolve(|name| address(&library, name)) };
    std::mem::forget(library);
    Ok(())
}

/// The dynamic loader's message without the text that libloading adds.
fn reason(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn address(library: &Library, function: &CStr) -> Option<*mut c_void> {
    // SAFETY: the symbol is taken as a plain address, which is what any symbol is.
    let symbol = unsafe { library.get::<*mut c_void>(function.to_bytes_with_nul()) };
    symbol.ok().map(|symbol| *symbol)
}
