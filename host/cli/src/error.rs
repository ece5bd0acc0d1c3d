//! The error type, by what a caller can do about it.

/// Why an operation failed. A check that ran and failed is a result, not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument, file or option is not accepted; the message says which, what was received, what is accepted.
    #[error("{0}")]
    Invalid(String),
    /// Something needed is missing: a driver, a GPU, the PTX. The message says what, and how to get it.
    #[error("{0}")]
    Unavailable(String),
    /// The CUDA driver returned an error, or a kernel faulted.
    #[error("{action}: {code} ({description}){detail}")]
    Cuda {
        /// The operation, such as `launching fa512_sm80_s512_full_128x64`.
        action: String,
        /// The CUDA name, such as `CUDA_ERROR_OUT_OF_MEMORY`.
        code: String,
        /// The driver's description.
        description: String,
        /// Further text, such as the JIT log; may be empty.
        detail: String,
    },
    /// The simulator does not support this PTX. Never used for a bug in the kernel.
    #[error("the simulator cannot run this kernel: {0}")]
    Unsupported(String),
    /// Reading or writing a file failed.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

impl From<contract::refusal::Refusal> for Error {
    fn from(refusal: contract::refusal::Refusal) -> Self {
        Error::Invalid(refusal.to_string())
    }
}

impl From<numerics::Invalid> for Error {
    fn from(numerics::Invalid(what): numerics::Invalid) -> Self {
        Error::Invalid(what)
    }
}

/// Result of the fallible functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;
