//! Takes the place of CubeCL's LLVM backend.
//!
//! The build of the real crate downloads an LLVM from GitHub. cubecl-cuda always has both backends, and its feature `cpp` chooses the
//! other: CUDA C++, compiled by NVRTC. What is here is what cubecl-cuda names; nothing of it is called with that feature.

use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::KernelDefinition;
use cubecl_server::compiler::CompilationError;
use cubecl_server::kernel::BufferIOAttr;

use nvptx::ptx_version::PtxVersion;

/// The backend.
#[derive(Clone, Debug)]
pub struct PlironCompiler {
    /// What it compiles for.
    pub target: LlvmTarget,
}

/// What the backend compiles for.
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
    /// Whether scalars are in the parameters.
    pub grid_constants: bool,
    /// What else there is, which cubecl-cuda leaves as it is.
    pub others: (),
}

/// What a compilation gives.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// PTX.
    NvptxCode(NvptxModule),
}

/// PTX of a kernel.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// The PTX, which ends by a zero.
    pub ptx: Vec<core::ffi::c_char>,
    /// LLVM's text of it.
    pub ir: String,
    /// Shared memory of a launch, bytes.
    pub shared_memory_size: usize,
    /// What the kernel does with each buffer.
    pub io: Vec<BufferIOAttr>,
}

impl PlironCompiler {
    /// Not here.
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

        /// Would leave only what the backend compiles; the other backend, which runs, compiles all.
        pub fn restrict_features(_: &mut DeviceProperties, _: GpuTarget) {}
    }
}
