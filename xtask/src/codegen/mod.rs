//! From kernel source to PTX text.
//!
//! A code generator is a compiler that takes a package with kernels and writes PTX. The steps after that (launch bounds, checks,
//! manifest) are the same for all. To add one, implement [`CodeGenerator`] in a file of its own and name it in [`Name`].

mod candidate_list;
pub mod nvcc;
mod rust_cuda;
mod rustc;
mod selected;
mod units;

use std::path::{Path, PathBuf};

use anyhow::Result;
use contract::backward::variants::BackwardVariant;
use contract::config::Family;
use contract::manifest;
use contract::variants::Variant;

use crate::environment::{Environment, Workspace};
use crate::provision;
use crate::rust_cuda::{NotInstalled, examine};
pub use selected::Selected;

/// A package with entries.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Its name.
    pub name: &'static str,
    /// Its folder in the workspace.
    pub folder: &'static str,
}

/// Input of one PTX file, and its target GPUs.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The package.
    pub package: Package,
    /// Its cargo feature that enables the entries.
    pub cargo_feature: &'static str,
    /// Lowest or only GPU, as in `sm_80` or `sm_90a`; becomes the PTX's `.target`.
    pub cpu: &'static str,
    /// PTX ISA version, as in `ptx80`; becomes the PTX's `.version`.
    pub ptx_feature: &'static str,
    /// Name of the PTX file.
    pub file: &'static str,
}

/// The package with the kernels.
const KERNELS: Package = Package { name: "kernel-gpu", folder: "kernel-gpu" };

/// A kernel family, in a PTX file of its own.
#[derive(Clone, Copy, Debug)]
pub struct FamilyTarget {
    /// The family.
    pub family: Family,
    /// How to compile it.
    pub target: Target,
}

/// Every family, those for one architecture first: the manifest has their entries in this order, which is the order of
/// preference. PTX 8.0 is the oldest version that knows sm_89 and sm_90a, so that the oldest drivers accept it.
pub const FAMILY_TARGETS: [FamilyTarget; 2] = [
    FamilyTarget {
        family: Family::Sm90a,
        target: Target {
            package: KERNELS,
            cargo_feature: "sm_90a",
            cpu: "sm_90a",
            ptx_feature: "ptx80",
            file: "sm_90a.ptx",
        },
    },
    FamilyTarget {
        family: Family::Sm80,
        target: Target {
            package: KERNELS,
            cargo_feature: "sm_80",
            cpu: "sm_80",
            ptx_feature: "ptx80",
            file: "sm_80.ptx",
        },
    },
];

/// Output of a code generator for one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The compiler's PTX, unmodified.
    pub ptx: String,
    /// Number of warnings about the source.
    pub warnings: usize,
}

/// A compiler that turns a package into PTX.
pub trait CodeGenerator: Sync {
    /// Name and version for the manifest.
    fn identity(&self) -> manifest::CodeGenerator;

    /// Whether it compiles an entry of `variant`.
    fn has(&self, variant: &Variant) -> bool {
        let _ = variant;
        true
    }

    /// Whether it compiles a family's probes with its kernels.
    fn has_probes(&self) -> bool {
        false
    }

    /// Whether it compiles the backward entry `variant`.
    fn has_backward(&self, variant: &BackwardVariant) -> bool {
        let _ = variant;
        false
    }

    /// Compiles the entries of one target; diagnostics go to the user.
    fn compile(&self, target: &Target) -> Result<Compiled>;

    /// The same compiler for the candidates declared by the Rust file `list` instead of the variants. Each `worker` has its own target
    /// folder, so that several can compile at once. `None` if not supported.
    fn for_candidates(&self, list: &Path, worker: usize) -> Option<Box<dyn CodeGenerator>> {
        let _ = (list, worker);
        None
    }

    /// Shows clippy's diagnostics for the device code and returns the number of warnings; `None` without clippy.
    fn lint(&self, target: &Target) -> Result<Option<usize>>;
}

/// The code generators that compile the kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// rustc's own nvptx64 backend
    #[default]
    Rustc,
    /// Rust-CUDA's backend for rustc, through NVIDIA's libNVVM (docs/rust-cuda.md)
    RustCuda,
}

/// Which code generator a command uses.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Choice {
    /// Code generator that writes the PTX; rust-cuda writes to a separate folder, target/ptx-rust-cuda
    #[arg(long, value_enum, value_name = "NAME", default_value_t)]
    codegen: Name,
    /// Checkout of Rust-CUDA's repository, for --codegen rust-cuda [default: FA512_RUST_CUDA, else .toolchain/rust-cuda/rust-cuda]
    #[arg(long, value_name = "DIR")]
    rust_cuda: Option<PathBuf>,
}

impl Choice {
    /// Rust-CUDA, with the checkout that the environment names.
    pub fn rust_cuda() -> Self {
        Self::rust_cuda_in(None)
    }

    /// Rust-CUDA, with this checkout, else the one that the environment names.
    pub fn rust_cuda_in(checkout: Option<PathBuf>) -> Self {
        Self { codegen: Name::RustCuda, rust_cuda: checkout }
    }

    /// Default folder of its PTX.
    pub fn folder(&self, workspace: &Workspace) -> PathBuf {
        match self.codegen {
            Name::Rustc => workspace.ptx(),
            Name::RustCuda => workspace.rust_cuda_ptx(),
        }
    }

    /// [`NotInstalled`] where [`Self::open`] would say so.
    pub fn require(&self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        match self.codegen {
            Name::Rustc => Ok(()),
            Name::RustCuda => {
                Ok(examine(environment, workspace, self.rust_cuda.as_deref()).installation().map(drop)?)
            }
        }
    }

    /// Opens the code generator. rustc is provisioned if missing; Rust-CUDA must be installed, else [`NotInstalled`].
    pub fn open(&self, environment: &Environment, workspace: &Workspace) -> Result<Box<dyn CodeGenerator>> {
        match self.codegen {
            Name::Rustc => choose(environment, workspace),
            Name::RustCuda => {
                let installation = examine(environment, workspace, self.rust_cuda.as_deref()).installation()?;
                Ok(Box::new(rust_cuda::RustCuda::new(installation, environment.cargo(), workspace.clone())))
            }
        }
    }
}

/// Whether `error` says that the requested code generator is not installed.
pub fn is_not_installed(error: &anyhow::Error) -> bool {
    error.is::<NotInstalled>()
}

/// The default code generator; its compiler and the library for the device are provisioned if missing.
pub fn choose(environment: &Environment, workspace: &Workspace) -> Result<Box<dyn CodeGenerator>> {
    Ok(Box::new(rustc(environment, workspace)?))
}

/// The default code generator, but every loop stays one that the source does not unroll.
pub fn without_unrolling(environment: &Environment, workspace: &Workspace) -> Result<Box<dyn CodeGenerator>> {
    Ok(Box::new(rustc(environment, workspace)?.without_unrolling()))
}

fn rustc(environment: &Environment, workspace: &Workspace) -> Result<rustc::Rustc> {
    let compiler = provision::device_compiler(environment, workspace)?;
    let library = provision::device_library(environment, workspace, &compiler)?;
    Ok(rustc::Rustc::new(compiler, library, environment.cargo(), workspace.clone()))
}
