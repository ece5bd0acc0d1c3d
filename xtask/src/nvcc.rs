//! NVIDIA's CUDA C++ compiler, which only the twins of the kernels need.

use std::path::PathBuf;

use crate::cuda_tool::{self, CudaTool};
use crate::environment::{Environment, Workspace};

/// An nvcc that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nvcc {
    /// The program.
    pub path: PathBuf,
    /// Its release, as in `13.0, V13.0.88`.
    pub version: String,
}

impl CudaTool for Nvcc {
    const PROGRAM: &str = "nvcc";
    const VARIABLE: &str = "FA512_NVCC";
    const PROVISIONED_FOLDER: &str = "nvcc";
    const PROVISIONED_PROGRAM: &str = "bin/nvcc";

    fn new(path: PathBuf, version: String) -> Self {
        Self { path, version }
    }
}

/// nvdisasm beside this nvcc, an installed one, or a provisioned one; it shows what became of the PTX.
pub fn nvdisasm(nvcc: &Nvcc, environment: &Environment, workspace: &Workspace) -> Option<PathBuf> {
    let provisioned = Nvcc::provisioned(workspace).with_file_name("nvdisasm");
    let beside = nvcc.path.with_file_name("nvdisasm");
    let places = [beside].into_iter().chain(cuda_tool::places(environment, "nvdisasm")).chain([provisioned]);
    places.into_iter().find(|path| path.is_file())
}
