//! What can go wrong, sorted by what a caller does about it.

/// Why something could not be done. A check that ran and failed is not an error but a result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument, file or option is not acceptable; the message says which, what was received, what would be.
    #[error("{0}")]
    Invalid(String),
    /// Something needed is not there: a driver, a GPU, the PTX; the message says what and how to get it.
    #[error("{0}")]
    Unavailable(String),
    /// The CUDA driver refused or a kernel faulted.
    #[error("{action}: {code} ({description}){detail}")]
    Cuda {
        /// What was being done, as in `launching fa512_sm80_s512_full_128x64`.
        action: String,
        /// The CUDA name, as in `CUDA_ERROR_OUT_OF_MEMORY`.
        code: String,
        /// The driver's own description.
        description: String,
        /// More to read, such as the JIT log, or empty.
        detail: String,
    },
    /// The simulator cannot execute this PTX (never said of a bug in the kernel).
    #[error("the simulator cannot run this kernel: {0}")]
    Unsupported(String),
    /// Reading or writing a file failed.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
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

/// Result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;
