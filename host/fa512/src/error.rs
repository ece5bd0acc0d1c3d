//! What can be wrong with a call, and what to do about it.

use std::fmt;

use contract::refusal::{Refusal, Tensor};

use crate::version::Version;

/// Why a call did nothing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The problem, or the addresses of its tensors, are not what the kernels accept.
    Refused(Refusal),
    /// No kernel computes the problem on the GPU.
    Unsupported {
        /// The GPU.
        gpu: String,
        /// Why not, of every kernel.
        why: String,
    },
    /// The GPU is older than every kernel.
    GpuTooOld {
        /// The GPU.
        gpu: String,
        /// As in 75 for `sm_75`.
        architecture: u32,
    },
    /// The library of the CUDA driver is not there, or is not one.
    NoDriver {
        /// The dynamic linker's words.
        why: String,
    },
    /// The CUDA driver is too old.
    DriverTooOld {
        /// The CUDA version it supports.
        found: Version,
        /// The oldest that will do.
        needed: Version,
    },
    /// The driver shows no GPU, or not the one asked for.
    NoGpu {
        /// The driver's words.
        why: String,
    },
    /// The calling thread has no current context.
    NoContext,
    /// What a tensor's address points to is not what the tensor needs.
    Memory {
        /// The tensor.
        tensor: Tensor,
        /// Its address; `None` where it was passed as a slice.
        address: Option<u64>,
        /// What is wrong.
        why: MemoryProblem,
    },
    /// The stream belongs to another context than the calling thread's current one.
    OtherStream,
    /// The plan is for another GPU than that of the calling thread's current context, or for none.
    OtherGpu {
        /// Ordinal of the GPU that the plan is for; `None` for a GPU that was only described.
        planned: Option<usize>,
    },
    /// The kernel is not loaded yet, and loading it while the stream captures would break the capture.
    NotLoaded {
        /// The kernel.
        entry: &'static str,
    },
    /// The library was built without this kernel.
    NoKernel {
        /// The kernel.
        entry: &'static str,
    },
    /// The kernel was compiled for another version of this library.
    OtherKernel {
        /// The kernel.
        entry: &'static str,
        /// What does not fit.
        why: String,
    },
    /// The module has no such kernel.
    NoEntry {
        /// The kernel.
        entry: String,
    },
    /// The kernel of a module is not the one that a launch is for.
    OtherEntry {
        /// The kernel.
        entry: String,
        /// What does not fit.
        why: String,
    },
    /// The CUDA driver returned an error.
    Cuda {
        /// What was being done.
        action: String,
        /// The `CUresult`.
        code: u32,
        /// Its name, as in `CUDA_ERROR_OUT_OF_MEMORY`.
        name: String,
        /// The driver's words for it.
        words: String,
        /// What the driver's compiler wrote, where it was asked to load a kernel.
        log: String,
    },
}

/// What is wrong with the memory that a tensor's address points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryProblem {
    /// The driver knows no memory there: never allocated, or freed.
    Unknown,
    /// It is host memory.
    Host,
    /// It is the memory of another GPU.
    OtherGpu {
        /// That GPU.
        ordinal: i32,
        /// The GPU of the current context.
        current: usize,
    },
    /// It was allocated in another context.
    OtherContext,
    /// It ends before the tensor does.
    TooShort {
        /// Bytes from the address to the end of the memory.
        bytes: u64,
        /// Bytes that the tensor spans.
        needed: u64,
    },
}

/// The kind of an [`Error`], as the C interface numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorKind {
    /// The problem or an address is not acceptable.
    Invalid = 1,
    /// No kernel computes the problem on this GPU.
    Unsupported = 2,
    /// No CUDA driver, or one that is too old.
    Driver = 3,
    /// No GPU.
    NoGpu = 4,
    /// No current context, or a stream, memory or plan of another one.
    Context = 5,
    /// What an address points to is not the tensor.
    Memory = 6,
    /// A kernel would have to be loaded while the stream captures.
    NotLoaded = 7,
    /// The library was built without kernels, or with those of another version; or a module has other kernels.
    NoKernels = 8,
    /// The CUDA driver returned an error.
    Cuda = 9,
}

impl Error {
    /// Which kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Refused(_) => ErrorKind::Invalid,
            Error::Unsupported { .. } | Error::GpuTooOld { .. } => ErrorKind::Unsupported,
            Error::NoDriver { .. } | Error::DriverTooOld { .. } => ErrorKind::Driver,
            Error::NoGpu { .. } => ErrorKind::NoGpu,
            Error::NoContext | Error::OtherStream | Error::OtherGpu { .. } => ErrorKind::Context,
            Error::Memory { why: MemoryProblem::OtherContext | MemoryProblem::OtherGpu { .. }, .. } => {
                ErrorKind::Context
            }
            Error::Memory { .. } => ErrorKind::Memory,
            Error::NotLoaded { .. } => ErrorKind::NotLoaded,
            Error::NoKernel { .. } | Error::OtherKernel { .. } => ErrorKind::NoKernels,
            Error::NoEntry { .. } | Error::OtherEntry { .. } => ErrorKind::NoKernels,
            Error::Cuda { .. } => ErrorKind::Cuda,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(refusal) => refusal.fmt(formatter),
            Error::Unsupported { gpu, why } => write!(formatter, "no kernel computes this on {gpu}: {why}"),
            Error::GpuTooOld { gpu, architecture } => {
                write!(formatter, "{gpu} is sm_{architecture}; the kernels need sm_80 or later")
            }
            Error::NoDriver { why } => write!(
                formatter,
                "no CUDA driver: {why}. Its library comes with the NVIDIA driver; if it lies in a folder of its own, name \
                 that in LD_LIBRARY_PATH"
            ),
            Error::DriverTooOld { found, needed } => write!(
                formatter,
                "the NVIDIA driver supports CUDA {found}; this library needs one for CUDA {needed} or later"
            ),
            Error::NoGpu { why } => write!(formatter, "no GPU: {why}; CUDA_VISIBLE_DEVICES may hide it"),
            Error::NoContext => formatter.write_str(
                "the calling thread has no current CUDA context; make one current (cuCtxSetCurrent, cudaSetDevice)",
            ),
            Error::Memory { tensor, address: Some(address), why } => {
                write!(formatter, "{tensor} at {address:#x}: {why}")
            }
            Error::Memory { tensor, address: None, why } => write!(formatter, "{tensor}: {why}"),
            Error::OtherStream => formatter.write_str(
                "the stream belongs to another context than the calling thread's current one; make that of the stream \
                 current (cuCtxSetCurrent, cudaSetDevice)",
            ),
            Error::OtherGpu { planned: Some(planned) } => {
                write!(
                    formatter,
                    "the plan is for GPU {planned}, which is not that of the calling thread's current context"
                )
            }
            Error::OtherGpu { planned: None } => {
                formatter.write_str("the plan is for a GPU that was only described; plan with Gpu::current()")
            }
            Error::NotLoaded { entry } => write!(
                formatter,
                "{entry} is not loaded yet, which it cannot be while a stream captures; call warm_up with this problem \
                 before the capture begins"
            ),
            Error::NoKernel { entry } => write!(
                formatter,
                "fa512 was built without the kernel {entry}: `cargo xtask ptx` makes the kernels of a checkout, \
                 FA512_PTX_DIR names a folder that has them; then build again"
            ),
            Error::OtherKernel { entry, why } => write!(
                formatter,
                "fa512 was built with {entry} of another version: {why}; `cargo xtask ptx` makes one that fits, then build \
                 again"
            ),
            Error::NoEntry { entry } => write!(formatter, "the module has no kernel {entry}"),
            Error::OtherEntry { entry, why } => write!(formatter, "{entry} {why}"),
            Error::Cuda { action, name, words, log, .. } => {
                write!(formatter, "{action}: {name}: {words}")?;
                if log.is_empty() { Ok(()) } else { write!(formatter, "\n{log}") }
            }
        }
    }
}

impl fmt::Display for MemoryProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryProblem::Unknown => formatter.write_str(
                "the driver knows no memory there; it was freed, or never allocated (memory that a graph allocates is not \
                 known before the graph runs: switch the check off for it)",
            ),
            MemoryProblem::Host => formatter.write_str("it is host memory; copy it to the GPU"),
            MemoryProblem::OtherGpu { ordinal, current } => {
                write!(formatter, "it is memory of GPU {ordinal}; the current context is on GPU {current}")
            }
            MemoryProblem::OtherContext => {
                formatter.write_str("it was allocated in another context than the calling thread's current one")
            }
            MemoryProblem::TooShort { bytes, needed } => {
                write!(formatter, "its memory ends after {bytes} bytes; the tensor spans {needed}")
            }
        }
    }
}
