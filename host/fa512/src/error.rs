//! The errors of the library. Every message says what is wrong and how to fix it.

use std::fmt;

use contract::refusal::{Refusal, Tensor};

use crate::version::Version;

/// Why a call failed. A call that fails launches nothing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The kernels do not accept the problem or the addresses of its tensors.
    Refused(Refusal),
    /// No kernel computes the problem on the GPU.
    Unsupported {
        /// The GPU.
        gpu: String,
        /// The reason that rules out the kernel that comes closest.
        why: String,
        /// The reason for each kernel, which `{:#}` prints.
        each: String,
    },
    /// The GPU is older than every kernel.
    GpuTooOld {
        /// The GPU.
        gpu: String,
        /// Compute capability, such as 75 for `sm_75`.
        architecture: u32,
    },
    /// The CUDA driver's library cannot be opened, or is not a CUDA driver.
    NoDriver {
        /// The dynamic linker's message.
        why: String,
    },
    /// The CUDA driver is too old.
    DriverTooOld {
        /// The CUDA version it supports.
        found: Version,
        /// The oldest accepted version.
        needed: Version,
    },
    /// The driver shows no GPU, or not the one asked for.
    NoGpu {
        /// The reason.
        why: String,
    },
    /// The calling thread has no current context.
    NoContext,
    /// The memory at a tensor's address does not suit the tensor.
    Memory {
        /// The tensor.
        tensor: Tensor,
        /// Its address; `None` if it was passed as a slice.
        address: Option<u64>,
        /// What is wrong.
        why: MemoryProblem,
    },
    /// The stream belongs to another context than the calling thread's current one.
    OtherStream,
    /// The plan is for another GPU than that of the calling thread's current context, or for a GPU that was only
    /// described.
    OtherGpu {
        /// Ordinal of the GPU that the plan is for; `None` for a GPU that was only described.
        planned: Option<usize>,
    },
    /// The kernel is not loaded, and the stream is capturing: loading it now would break the capture.
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
        /// What differs.
        why: String,
    },
    /// The module has no such kernel.
    NoEntry {
        /// The kernel.
        entry: String,
    },
    /// A module's kernel does not match the launch.
    OtherEntry {
        /// The kernel.
        entry: String,
        /// What differs.
        why: String,
    },
    /// The CUDA driver returned an error.
    Cuda {
        /// The operation that failed.
        action: String,
        /// The `CUresult`.
        code: u32,
        /// Its name, as in `CUDA_ERROR_OUT_OF_MEMORY`.
        name: String,
        /// The driver's description of it.
        words: String,
        /// The error log of the driver's compiler, if a kernel was being loaded.
        log: String,
    },
}

/// What is wrong with the memory that a tensor's address points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryProblem {
    /// Not memory that the driver knows: never allocated, or freed.
    Unknown,
    /// It is host memory.
    Host,
    /// It is memory of another GPU.
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

/// The kind of an [`Error`], numbered as in the C interface.
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
    /// The memory at an address does not suit the tensor.
    Memory = 6,
    /// The kernel is not loaded, and the stream is capturing.
    NotLoaded = 7,
    /// The library was built without kernels, or with those of another version; or a module has other kernels.
    NoKernels = 8,
    /// The CUDA driver returned an error.
    Cuda = 9,
}

impl Error {
    /// The kind of this error.
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
            Error::Unsupported { gpu, why, each } => {
                write!(
                    formatter,
                    "no kernel computes this on {gpu}: {}",
                    if formatter.alternate() { each } else { why }
                )
            }
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
