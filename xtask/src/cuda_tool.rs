//! Common parts of NVIDIA's command-line tools: installation paths and version output.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{Environment, Workspace};
use crate::process::capture;

/// Possible paths of an installed `program`, in order: the installations named by `CUDA_HOME` and `CUDA_PATH`,
/// `/usr/local/cuda`, and `PATH`.
pub fn places(environment: &Environment, program: &str) -> Vec<PathBuf> {
    let installations =
        [environment.path("CUDA_HOME"), environment.path("CUDA_PATH"), Some(environment.system("/usr/local/cuda"))];
    let installed = installations.into_iter().flatten().map(|folder| folder.join("bin").join(program));
    installed.chain(environment.find_program(program)).collect()
}

/// A tool that can be installed, named by the environment, or provisioned.
pub trait CudaTool: Sized {
    /// Name of the program.
    const PROGRAM: &str;
    /// Environment variable that names one to use, whatever else is installed.
    const VARIABLE: &str;
    /// Folder of a provisioned one inside the workspace's toolchain folder.
    const PROVISIONED_FOLDER: &str;
    /// The program inside that folder.
    const PROVISIONED_PROGRAM: &str;

    /// The program at `path`, of the release `version`.
    fn new(path: PathBuf, version: String) -> Self;

    /// Finds the tool: the one named by [`Self::VARIABLE`], an installation's, the one in `PATH`, or a provisioned one.
    ///
    /// Fails if the variable names an unusable tool.
    fn find(environment: &Environment, workspace: &Workspace) -> Result<Option<Self>> {
        let Some(path) = environment.path(Self::VARIABLE) else {
            return Ok(Self::places(environment, workspace).iter().find_map(|path| Self::probe(path).ok()));
        };
        let path = std::path::absolute(&path).unwrap_or(path);
        let found = Self::probe(&path);
        found.map(Some).with_context(|| format!("{} names {}, which is not usable", Self::VARIABLE, path.display()))
    }

    /// Paths that [`Self::find`] tries if [`Self::VARIABLE`] is not set, in order.
    fn places(environment: &Environment, workspace: &Workspace) -> Vec<PathBuf> {
        places(environment, Self::PROGRAM).into_iter().chain([Self::provisioned(workspace)]).collect()
    }

    /// Path of a provisioned tool.
    fn provisioned(workspace: &Workspace) -> PathBuf {
        workspace.toolchain().join(Self::PROVISIONED_FOLDER).join(Self::PROVISIONED_PROGRAM)
    }

    /// Runs `path` and reads its version.
    fn probe(path: &Path) -> Result<Self> {
        Ok(Self::new(path.to_owned(), release(path)?))
    }
}

/// Runs the tool at `path` and reads its release, as in `13.0, V13.0.88`.
fn release(path: &Path) -> Result<String> {
    if !path.is_file() {
        bail!("not there");
    }
    let text = capture(Command::new(path).arg("--version"))?;
    let release = text.lines().find_map(|line| line.split_once("release ")).map(|(_, release)| release.trim());
    release.map(str::to_owned).with_context(|| format!("{} does not say its release", path.display()))
}
