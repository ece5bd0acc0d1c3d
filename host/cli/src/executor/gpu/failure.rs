//! Converts errors of the driver and the library to errors of this crate.

use cust::error::{CudaError, CudaResult};

use super::driver::Code;
use crate::error::{Error, Result};

/// Advice after a kernel has faulted.
const FAULT_ADVICE: &str = "; the CUDA context is lost and this process cannot use the GPU again. Run the same command \
                            under compute-sanitizer to see which access failed";

/// An error of the driver, called by this crate or cust, or of the library.
#[derive(Debug)]
pub enum Failure {
    /// The driver.
    Driver(Code),
    /// The library.
    Library(fa512::Error),
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Failure::Driver(code)
    }
}

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Self {
        Failure::Driver(error.into())
    }
}

impl From<fa512::Error> for Failure {
    fn from(error: fa512::Error) -> Self {
        Failure::Library(error)
    }
}

impl Failure {
    /// The driver's code.
    ///
    /// # Errors
    /// The error of the library, if it did not come from the driver.
    pub fn code(self) -> Result<Code> {
        match self {
            Failure::Driver(code) => Ok(code),
            Failure::Library(fa512::Error::Cuda { code, .. }) => Ok(Code(code)),
            Failure::Library(error) => Err(library_error(error)),
        }
    }
}

/// Converts an error of the library.
pub fn library_error(error: fa512::Error) -> Error {
    match error {
        fa512::Error::Cuda { action, name, words, log, .. } => {
            Error::Cuda { action, code: name, description: words, detail: compiler_log(&log) }
        }
        error @ (fa512::Error::NoDriver { .. }
        | fa512::Error::DriverTooOld { .. }
        | fa512::Error::NoGpu { .. }
        | fa512::Error::GpuTooOld { .. }) => Error::Unavailable(format!("no GPU that will do: {error}")),
        error => Error::Invalid(error.to_string()),
    }
}

/// The driver compiler's log, as the detail of an error.
pub fn compiler_log(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; the driver's compiler says:\n{log}") }
}

/// The error by which a context was lost.
pub struct Fault {
    /// The operation that failed.
    pub action: String,
    /// The driver's code.
    pub code: Code,
}

impl Fault {
    /// The error, with advice.
    pub fn error(&self) -> Error {
        cuda_error(self.action.clone(), self.code, FAULT_ADVICE)
    }
}

/// Converts cust's errors.
pub trait Doing<T> {
    /// Adds the operation that failed.
    fn doing(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for CudaResult<T> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| cuda_error(action(), error.into(), ""))
    }
}

/// An error for `code`, with the driver's description. `detail` is appended to that, so it starts with a separator.
pub fn cuda_error(action: String, code: Code, detail: &str) -> Error {
    Error::Cuda {
        action,
        code: code.name().into_owned(),
        description: code.description().into_owned(),
        detail: detail.to_owned(),
    }
}
