//! Packages in empty folders, used as their users do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::python_test;
use crate::emulator::Runner;
use crate::environment::{Environment, Workspace};
use crate::files;
use crate::outside;
use crate::portable::Toolset;
use crate::process;
use crate::progress::Step;
use crate::provision;
use crate::python::Venv;
use crate::simulator;

/// In a shell, zig as the C compiler of another kind of machine. Unlike others, it does not read `LIBRARY_PATH`.
const CROSS_COMPILER: &str = r#"cc() { "$ZIG" cc -target "$ZIG_TARGET" "-L$LIBRARY_PATH" "$@"; }; "#;

/// What is packed for a kind of machine.
#[derive(Debug)]
pub struct Packed {
    /// The archive of the C interface.
    pub archive: PathBuf,
    /// The wheel of fa512.
    pub wheel: PathBuf,
    /// The wheel of ptx-sim.
    pub simulator: PathBuf,
    /// The folder of the libraries in that: the simulated driver and runtime.
    pub libraries: PathBuf,
}

impl Packed {
    /// The packages.
    pub fn files(&self) -> [&Path; 3] {
        [&self.archive, &self.wheel, &self.simulator]
    }
}

/// Installs the packages of a kind of machine into empty folders, and uses each through the simulated driver: here, or where that machine
/// is emulated.
pub fn packages(environment: &Environment, workspace: &Workspace, toolset: &Toolset, packed: &Packed) -> Result<()> {
    let machine = toolset.machine.name();
    let runner = provision::runner(environment, workspace, toolset.machine)?;
    try_c(workspace, toolset, &runner, packed).with_context(|| format!("the archive of the C interface, {machine}"))?;
    let venv = Venv::new(&runner.interpreter(environment)?, workspace.root().join("target/python/released"))?;
    python_test::check_wheel(workspace, &packed.libraries, &packed.wheel, venv)
        .with_context(|| format!("the wheel of fa512, {machine}"))?;
    simulator::try_wheel(environment, workspace, &packed.simulator, &runner)
        .with_context(|| format!("the wheel of ptx-sim, {machine}"))
}

/// Compiles an example of the unpacked archive by the command that it gives, and runs it with the simulated driver.
fn try_c(workspace: &Workspace, toolset: &Toolset, runner: &Runner, packed: &Packed) -> Result<()> {
    let step = Step::begin(format!("trying the archive of the C interface, {}", toolset.machine.name()));
    let folder = workspace.root().join("target/outside-c");
    files::remove(&folder)?;
    outside::unpack(&packed.archive, &folder)?;
    let driver = folder.join("driver");
    files::copy(&packed.libraries.join(simulator::DRIVER), &driver.join("libcuda.so.1"))?;
    symlink("libcuda.so.1", driver.join("libcuda.so"))?;
    let name = packed
        .archive
        .file_name()
        .and_then(|name| name.to_str()?.strip_suffix(".tar.gz"))
        .context("an archive's name")?;
    let examples = folder.join(name).join("examples");
    let source = fs::read_to_string(examples.join("forward.c"))?;
    let (compile, program) = documented_command(&source)?;
    process::run(compiler(toolset, compile).current_dir(&examples).env("LIBRARY_PATH", &driver))?;
    let mut example = runner.command(&examples.join(program));
    let printed = process::capture(example.env("LD_LIBRARY_PATH", &driver))?;
    ensure!(printed.ends_with("O is right\n"), "`{compile} && ./{program}` says {printed:?}");
    step.done();
    Ok(())
}

/// The shell that runs `command`, in which `cc` compiles for the toolset's kind of machine.
fn compiler(toolset: &Toolset, command: &str) -> Command {
    let cc = if toolset.machine.is_this() { "" } else { CROSS_COMPILER };
    let mut shell = Command::new("sh");
    shell.args(["-euc", &format!("{cc}{command}")]);
    shell.env("ZIG", toolset.zigbuild.zig()).env("ZIG_TARGET", toolset.zig_target());
    shell
}

/// The command that the first comment of an example gives to compile it, and the name of the program that it then runs.
fn documented_command(source: &str) -> Result<(&str, &str)> {
    let mut lines = source.lines().map(|line| line.trim_start_matches([' ', '*']).trim_end_matches(" */"));
    let line = lines.find(|line| line.starts_with("cc "));
    line.and_then(|line| line.split_once(" && ./")).context("the example does not say how it is compiled and run")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::documented_command;

    #[test]
    fn the_example_says_how_it_is_compiled_and_run() {
        let example = doc_lint::workspace_root().join("host/fa512/c/examples/forward.c");
        let source = fs::read_to_string(example).unwrap();
        let (compile, program) = documented_command(&source).unwrap();
        assert!(compile.contains("-L../lib -lfa512") && compile.ends_with("-o forward"), "{compile}");
        assert_eq!(program, "forward");
    }
}
