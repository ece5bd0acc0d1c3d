//! NVIDIA's CUDA C++ compiler, which only the twins of the kernels need.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cuda_tool;
use crate::environment::{Environment, Workspace};

/// Names an nvcc to use, whatever else is installed.
pub const VARIABLE: &str = "FA512_NVCC";
/// Folder of a provisioned nvcc, laid out like a CUDA installation, inside the workspace's toolchain folder.
pub const PROVISIONED_FOLDER: &str = "nvcc";

/// An nvcc that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nvcc {
    /// The program.
    pub path: PathBuf,
    /// Its release, as in `13.0, V13.0.88`.
    pub version: String,
}

/// Looks for nvcc: the one [`VARIABLE`] names, a CUDA installation's, the one in `PATH`, a provisioned one.
///
/// An error is a [`VARIABLE`] that names something unusable.
pub fn find(environment: &Environment, workspace: &Workspace) -> Result<Option<Nvcc>> {
    cuda_tool::find(environment, VARIABLE, &places(environment, workspace), probe)
}

/// Where [`find`] looks when [`VARIABLE`] is not set, in order.
pub fn places(environment: &Environment, workspace: &Workspace) -> Vec<PathBuf> {
    cuda_tool::places(environment, "nvcc").into_iter().chain([provisioned(workspace)]).collect()
}

/// Where a provisioned nvcc lies.
pub fn provisioned(workspace: &Workspace) -> PathBuf {
    workspace.toolchain().join(PROVISIONED_FOLDER).join("bin/nvcc")
}

/// Runs `path` and reads its version.
pub fn probe(path: &Path) -> Result<Nvcc> {
    Ok(Nvcc { path: path.to_owned(), version: cuda_tool::release(path)? })
}

/// nvdisasm beside this nvcc, an installed one, or a provisioned one; it shows what became of the PTX.
pub fn nvdisasm(nvcc: &Nvcc, environment: &Environment, workspace: &Workspace) -> Option<PathBuf> {
    let provisioned = provisioned(workspace).with_file_name("nvdisasm");
    let beside = nvcc.path.with_file_name("nvdisasm");
    let places = [beside].into_iter().chain(cuda_tool::places(environment, "nvdisasm")).chain([provisioned]);
    places.into_iter().find(|path| path.is_file())
}
