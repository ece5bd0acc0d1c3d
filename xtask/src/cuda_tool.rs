//! What NVIDIA's command-line tools have in common: where an installation keeps them and how they say their version.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::Environment;
use crate::process::capture;

/// Where an installed `program` may be, in order: the installations that `CUDA_HOME` and `CUDA_PATH` name, the one in
/// `/usr/local/cuda`, the folders of `PATH`.
pub fn places(environment: &Environment, program: &str) -> Vec<PathBuf> {
    let installations =
        [environment.path("CUDA_HOME"), environment.path("CUDA_PATH"), Some(environment.system("/usr/local/cuda"))];
    let installed = installations.into_iter().flatten().map(|folder| folder.join("bin").join(program));
    installed.chain(environment.find_program(program)).collect()
}

/// Looks for a tool that `probe` accepts: the one the environment's `variable` names, else the first of `places`.
///
/// An error is a `variable` that names something unusable.
pub fn find<T>(
    environment: &Environment,
    variable: &str,
    places: &[PathBuf],
    probe: impl Fn(&Path) -> Result<T>,
) -> Result<Option<T>> {
    let Some(path) = environment.path(variable) else {
        return Ok(places.iter().find_map(|path| probe(path).ok()));
    };
    let path = std::path::absolute(&path).unwrap_or(path);
    let found = probe(&path);
    found.map(Some).with_context(|| format!("{variable} names {}, which is not usable", path.display()))
}

/// Runs the tool at `path` and reads its release, as in `13.0, V13.0.88`.
pub fn release(path: &Path) -> Result<String> {
    if !path.is_file() {
        bail!("not there");
    }
    let text = capture(Command::new(path).arg("--version"))?;
    let release = text.lines().find_map(|line| line.split_once("release ")).map(|(_, release)| release.trim());
    release.map(str::to_owned).with_context(|| format!("{} does not say its release", path.display()))
}
