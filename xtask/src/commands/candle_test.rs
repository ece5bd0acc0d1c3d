//! `cargo xtask candle-test`: the crate for candle, which is a workspace of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{Environment, Workspace};
use crate::process;
use crate::provision;

/// What candle's kernels are compiled for, unless CUDA_COMPUTE_CAP says otherwise; without it a GPU would be asked.
const COMPUTE_CAPABILITY: &str = "90";
/// A header of CUDA's C++ library, which candle's kernels include.
const CCCL_HEADER: &str = "cccl/cub/cub.cuh";
/// The same where a toolkit older than 13 has it.
const CCCL_HEADER_BEFORE_13: &str = "cub/cub.cuh";

/// Checks the crate for candle: formatting, lints and tests, without a GPU.
///
/// This is a separate command because candle has 300 dependencies.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Also lint the code that runs on a GPU. This compiles candle's CUDA kernels, which takes many minutes and needs nvcc (downloaded
    /// from NVIDIA's Python wheels if there is none)
    #[arg(long)]
    cuda: bool,
}

impl Arguments {
    /// Runs the checks.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let cargo = |arguments: &[&str]| {
            let mut cargo = Command::new(environment.cargo());
            cargo.current_dir(workspace.candle()).args(arguments);
            cargo
        };
        process::run(&mut cargo(&["fmt", "--all", "--check"]))?;
        let lints = ["--workspace", "--all-targets", "--locked"];
        let denied = ["--", "--deny", "warnings"];
        process::run(cargo(&["clippy"]).args(lints).args(denied))?;
        process::run(&mut cargo(&["test", "--workspace", "--locked"]))?;
        if self.cuda {
            let toolkit = toolkit(environment, workspace)?;
            let features = ["--features", "fa512-candle/cuda,fa512-candle-bert/cuda"];
            process::run(
                with_toolkit(&mut cargo(&["clippy"]), environment, &toolkit)?.args(lints).args(features).args(denied),
            )?;
        }
        Ok(())
    }
}

/// Folder of a CUDA installation that can compile candle's kernels.
fn toolkit(environment: &Environment, workspace: &Workspace) -> Result<PathBuf> {
    let nvcc = provision::nvcc(environment, workspace)?;
    let folder = nvcc.path.parent().and_then(Path::parent).context("nvcc lies in the folder bin of an installation")?;
    let include = folder.join("include");
    if ![CCCL_HEADER, CCCL_HEADER_BEFORE_13].iter().any(|header| include.join(header).is_file()) {
        bail!(
            "{} has no {CCCL_HEADER}, which candle's kernels include; where that folder lies in .toolchain, remove it and run this \
             again",
            include.display()
        );
    }
    Ok(folder.to_owned())
}

/// Lets the build scripts of candle and cudarc find `toolkit`.
fn with_toolkit<'a>(cargo: &'a mut Command, environment: &Environment, toolkit: &Path) -> Result<&'a mut Command> {
    let programs = toolkit.join("bin");
    let path = environment.path("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs.clone()).chain(std::env::split_paths(&path)))
        .with_context(|| format!("{} cannot stand in PATH", programs.display()))?;
    for name in ["CUDA_HOME", "CUDA_PATH"] {
        cargo.env(name, toolkit);
    }
    cargo.env("NVCC", programs.join("nvcc")).env("PATH", path);
    if environment.path("CUDA_COMPUTE_CAP").is_none() {
        cargo.env("CUDA_COMPUTE_CAP", COMPUTE_CAPABILITY);
    }
    Ok(cargo)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::{CCCL_HEADER, toolkit};
    use crate::cuda_tool::CudaTool;
    use crate::environment::{Environment, Workspace};
    use crate::nvcc::Nvcc;

    #[test]
    fn a_toolkit_without_the_headers_that_candle_includes_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let nvcc = folder.path().join("bin/nvcc");
        fs::create_dir_all(nvcc.parent().unwrap()).unwrap();
        fs::write(&nvcc, "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n").unwrap();
        fs::set_permissions(&nvcc, fs::Permissions::from_mode(0o755)).unwrap();
        let environment = Environment::pretend(Path::new("/"), [(Nvcc::VARIABLE, nvcc.as_path())]);
        let workspace = Workspace::new(folder.path().to_owned());
        let refusal = toolkit(&environment, &workspace).unwrap_err().to_string();
        assert!(refusal.contains("has no cccl/cub/cub.cuh"), "{refusal}");
        let header = folder.path().join("include").join(CCCL_HEADER);
        fs::create_dir_all(header.parent().unwrap()).unwrap();
        fs::write(header, "").unwrap();
        assert_eq!(toolkit(&environment, &workspace).unwrap(), folder.path());
    }
}
