//! Replaces CubeCL's LLVM backend.
//!
//! The build of the real crate downloads an LLVM from GitHub. cubecl-cuda always contains both backends; its feature `cpp` selects
//! the other one, CUDA C++ compiled by NVRTC. This crate has the items that cubecl-cuda names; none is called with that feature.

use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::KernelDefinition;
use cubecl_server::compiler::CompilationError;
use cubecl_server::kernel::BufferIOAttr;

use nvptx::ptx_version::PtxVersion;

/// The backend.
#[derive(Clone, Debug)]
pub struct PlironCompiler {
    /// Target of a compilation.
    pub target: LlvmTarget,
}

/// GPU vendor of the target.
#[derive(Clone, Copy, Debug)]
pub enum LlvmTarget {
    /// NVIDIA GPUs.
    Nvptx,
}

/// Options of a compilation.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// An AMD GPU.
    pub arch: Option<std::convert::Infallible>,
    /// The GPU.
    pub sm_arch: Option<SmArch>,
    /// The version of PTX.
    pub ptx_version: Option<PtxVersion>,
    /// Whether scalars are passed as parameters.
    pub grid_constants: bool,
    /// Further options, left at their defaults by cubecl-cuda.
    pub others: (),
}

/// Result of a compilation.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// PTX.
    NvptxCode(NvptxModule),
}

/// PTX of a kernel.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// The PTX, NUL-terminated.
    pub ptx: Vec<core::ffi::c_char>,
    /// LLVM IR of the kernel.
    pub ir: String,
    /// Shared memory of a launch, bytes.
    pub shared_memory_size: usize,
    /// Access of the kernel to each buffer.
    pub io: Vec<BufferIOAttr>,
}

impl PlironCompiler {
    /// Not available.
    ///
    /// # Errors
    /// Always: cubecl-cuda was built without its feature `cpp`.
    pub fn compile(&mut self, _: KernelDefinition, _: &PlironOptions) -> Result<PlironArtifact, CompilationError> {
        Err(CompilationError::Generic {
            reason: "CubeCL's LLVM backend is not part of this program; build it with the feature `cuda-cpp`".into(),
            backtrace: Default::default(),
        })
    }

    /// The name of its language.
    pub fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}

/// For NVIDIA GPUs.
pub mod nvptx {
    /// Versions of PTX.
    pub mod ptx_version {
        use std::fmt;

        /// A version of PTX.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PtxVersion {}

        impl PtxVersion {
            /// None: only the LLVM backend asks for a version.
            pub fn for_driver(_: i32) -> Option<Self> {
                None
            }
        }

        impl fmt::Display for PtxVersion {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {}
            }
        }
    }
}

/// For all GPUs.
pub mod shared {
    /// What the backend compiles.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// What the backend compiles for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA GPUs.
            Nvptx,
        }

        /// Would restrict types to those of the LLVM backend; the backend in use compiles all of them.
        pub fn restrict_features(_: &mut DeviceProperties, _: GpuTarget) {}
    }
}
