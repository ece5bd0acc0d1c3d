//! `fa512_status`.

use std::ffi::CStr;
use std::fmt;

use attention::{Error, ErrorKind, Refusal};

/// `FA512_OK`.
pub const OK: i32 = 0;
/// `FA512_ERROR_INTERNAL`.
pub const INTERNAL: i32 = 10;

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// An argument is not acceptable.
    Invalid(String),
    /// No kernel computes the problem.
    Unsupported(String),
    /// An error of the Rust library.
    Library(Error),
}

impl Failure {
    /// Its `fa512_status`.
    pub fn status(&self) -> i32 {
        let kind = match self {
            Failure::Invalid(_) => ErrorKind::Invalid,
            Failure::Unsupported(_) => ErrorKind::Unsupported,
            Failure::Library(error) => error.kind(),
        };
        kind as i32
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Library(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Library(refusal.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Invalid(message) | Failure::Unsupported(message) => formatter.write_str(message),
            Failure::Library(error) => error.fmt(formatter),
        }
    }
}

/// The name of a status.
pub fn name(status: i32) -> &'static CStr {
    const NAMES: [&CStr; 11] = [
        c"FA512_OK",
        c"FA512_ERROR_INVALID",
        c"FA512_ERROR_UNSUPPORTED",
        c"FA512_ERROR_DRIVER",
        c"FA512_ERROR_NO_GPU",
        c"FA512_ERROR_CONTEXT",
        c"FA512_ERROR_MEMORY",
        c"FA512_ERROR_NOT_LOADED",
        c"FA512_ERROR_NO_KERNELS",
        c"FA512_ERROR_CUDA",
        c"FA512_ERROR_INTERNAL",
    ];
    let name = usize::try_from(status).ok().and_then(|index| NAMES.get(index));
    name.copied().unwrap_or(c"unknown status of fa512")
}
