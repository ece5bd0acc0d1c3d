//! ptxas from NVIDIA's Python wheel of the CUDA compiler.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{ToolchainFolder, debian};
use crate::environment::Environment;
use crate::files;
use crate::process::{capture, run};
use crate::progress::Step;
use crate::ptxas::{PROVISIONED_FOLDER, probe};

/// The wheel, pinned: it decides which register counts and spills a check sees.
const WHEEL: &str = "nvidia-cuda-nvcc==13.0.88";
/// How the wheel's file name begins.
const WHEEL_FILE: &str = "nvidia_cuda_nvcc-13.0.88-";
/// ptxas inside the wheel.
const PTXAS_IN_WHEEL: &str = "nvidia/cu13/bin/ptxas";

/// What pip is made of on Debian.
const PIP_PACKAGES: [&str; 1] = ["python3-pip"];
/// Folder of a provisioned pip.
const PIP_FOLDER: &str = "pip";

/// Downloads the wheel and puts its ptxas into the toolchain folder.
pub fn unpack_ptxas(environment: &Environment, folder: &ToolchainFolder) -> Result<()> {
    let python = environment.find_program("python3").context("there is no python3 to get a Python wheel with")?;
    let wheel = download(environment, &python, folder)?;
    folder.install(&folder.path.join(PROVISIONED_FOLDER), |unfinished| {
        let contents = unfinished.join("wheel");
        capture(Command::new(&python).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&contents))?;
        let ptxas = unfinished.join("ptxas");
        fs::rename(contents.join(PTXAS_IN_WHEEL), &ptxas)
            .with_context(|| format!("{} has no {PTXAS_IN_WHEEL}", wheel.display()))?;
        fs::set_permissions(&ptxas, fs::Permissions::from_mode(0o755))?;
        files::remove(&contents)?;
        eprintln!("xtask: ptxas {} is ready", probe(&ptxas)?.version);
        Ok(())
    })?;
    files::remove(&wheel)?;
    Ok(())
}

fn download(environment: &Environment, python: &Path, folder: &ToolchainFolder) -> Result<PathBuf> {
    let downloads = folder.downloads();
    let mut pip = pip(environment, python, folder)?;
    pip.args(["download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--dest"]);
    let step = Step::begin(format!("downloading {WHEEL}"));
    run(pip.arg(&downloads).arg(WHEEL).stdout(io::stderr()))?;
    step.done();
    let names = fs::read_dir(&downloads)?.flatten().map(|entry| entry.path());
    let is_wheel = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(WHEEL_FILE));
    names.into_iter().find(is_wheel).with_context(|| format!("pip left no {WHEEL_FILE}*.whl"))
}

/// pip of this machine, else one from Debian packages.
fn pip(environment: &Environment, python: &Path, folder: &ToolchainFolder) -> Result<Command> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip"]);
    if capture(Command::new(python).args(["-m", "pip", "--version"])).is_ok() {
        return Ok(pip);
    }
    let packages = folder.path.join(PIP_FOLDER);
    if !packages.is_dir() {
        eprintln!("xtask: this python3 has no pip; getting Debian's");
        debian::unpack_packages(environment, folder, &PIP_PACKAGES, &packages)?;
    }
    pip.env("PYTHONPATH", packages.join("usr/lib/python3/dist-packages"));
    Ok(pip)
}
