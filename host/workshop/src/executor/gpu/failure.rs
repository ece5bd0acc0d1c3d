//! Errors of the driver as errors of this crate.

use cust::error::CudaResult;

use super::driver::Code;
use crate::error::{Error, Result};

/// What to do about a kernel that faulted.
const FAULT_ADVICE: &str = "; the CUDA context is lost and this process cannot use the GPU again. Run the same command \
                            under compute-sanitizer to see which access failed";

/// The error that a context was lost by.
pub struct Fault {
    /// What was being done.
    pub action: String,
    /// What the driver said.
    pub code: Code,
}

impl Fault {
    /// The error, with advice.
    pub fn error(&self) -> Error {
        cuda_error(self.action.clone(), self.code, FAULT_ADVICE)
    }
}

/// Turns cust's errors into ours.
pub trait Doing<T> {
    /// Says what was being done.
    fn doing(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for CudaResult<T> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| cuda_error(action(), error.into(), ""))
    }
}

/// `code` with the driver's own words for it. `detail` follows them, so it starts with a separator.
pub fn cuda_error(action: String, code: Code, detail: &str) -> Error {
    Error::Cuda {
        action,
        code: code.name().into_owned(),
        description: code.description().into_owned(),
        detail: detail.to_owned(),
    }
}
