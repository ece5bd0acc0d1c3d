//! The Python wheel of ptx-sim: the program, and the libraries that it puts under other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::emulator::Runner;
use crate::environment::{Environment, Workspace};
use crate::files;
use crate::portable;
use crate::process;
use crate::progress::Step;
use crate::python::{self, Linker, Venv};

/// The package, in the workspace.
const PACKAGE: &str = "tools/ptx-sim/cli";
/// Packages of libraries, the files that cargo makes of them, and their names beside the installed program.
const LIBRARIES: [(&str, &str, &str); 2] =
    [("libcuda-sim", "liblibcuda_sim.so", "libcuda.so.1"), ("libcudart-sim", "liblibcudart_sim.so", "libcudart.so")];
/// The file name of the simulated driver.
pub const DRIVER: &str = LIBRARIES[0].1;
/// Where the wheel takes its data from (`data` in `pyproject.toml`); below `data` is what is installed beside `bin`.
const DATA: &str = "target/ptx-sim-wheel";
/// Below the folder in which `bin` is installed.
const INSTALLED: &str = "lib/ptx-sim";

/// Builds the wheel into `out`, with the libraries in the folder `libraries`.
pub fn build_wheel(
    environment: &Environment,
    workspace: &Workspace,
    libraries: &Path,
    out: &Path,
    linker: &Linker<'_>,
) -> Result<PathBuf> {
    let data = workspace.root().join(DATA);
    files::remove(&data)?;
    for (_, file, name) in LIBRARIES {
        let library = libraries.join(file);
        if let Linker::Portable(toolset) = linker {
            portable::check_needs(&fs::read(&library)?, toolset.machine)
                .with_context(|| format!("{file} is not packed"))?;
        }
        files::copy(&library, &data.join("data").join(INSTALLED).join(name))?;
    }
    python::build_wheel(environment, workspace, &workspace.root().join(PACKAGE), out, linker)
}

/// Builds the libraries and returns their folder.
pub fn build_libraries(environment: &Environment, workspace: &Workspace, linker: &Linker<'_>) -> Result<PathBuf> {
    let packages: Vec<_> = LIBRARIES.iter().flat_map(|(package, ..)| ["--package", package]).collect();
    let step = Step::begin("building the simulated driver and runtime");
    let built = match linker {
        Linker::Native | Linker::Unoptimised => {
            let mut cargo = Command::new(environment.cargo());
            process::run(cargo.current_dir(workspace.root()).args(["build", "--quiet", "--release"]).args(packages))?;
            workspace.root().join("target/release")
        }
        Linker::Portable(toolset) => {
            process::run(&mut toolset.build(workspace, portable::RELEASE, &packages))?;
            toolset.built(workspace, portable::RELEASE)
        }
    };
    step.done();
    Ok(built)
}

/// Builds the wheel and tries it. The program in it is not optimised: of what is executed, all is in the libraries.
pub fn check_wheel(environment: &Environment, workspace: &Workspace, libraries: &Path) -> Result<()> {
    let wheel = build_wheel(environment, workspace, libraries, &workspace.packages(), &Linker::Unoptimised)?;
    try_wheel(environment, workspace, &wheel, &Runner::Here)
}

/// Installs `wheel` into a fresh virtual environment of the `runner`'s Python, and requires it to find the mistakes of a program there.
pub fn try_wheel(environment: &Environment, workspace: &Workspace, wheel: &Path, runner: &Runner) -> Result<()> {
    let folder = workspace.root().join("target/python/ptx-sim");
    let venv = Venv::new(&runner.interpreter(environment)?, folder)?;
    venv.install(&[wheel])?;
    let program = workspace.root().join(PACKAGE).join("tests/programs/misuse.py");
    let mut run = runner.command(Path::new(venv.program("ptx-sim").get_program()));
    // Nothing of the checkout is found from there.
    run.current_dir("/").args(["run", "--"]).arg(venv.python().get_program()).arg(program);
    let output = run.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(1) || !text.contains("1 finding, 1 warning; 0 launches") {
        bail!("the installed ptx-sim ends with {}, and says\n{text}", output.status);
    }
    Ok(())
}
