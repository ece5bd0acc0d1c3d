//! `cargo xtask test`: the whole test suite.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::ptx;
use super::run::PTX_VARIABLE;
use crate::cargo_build;
use crate::codegen::Choice;
use crate::environment::{Environment, Workspace};
use crate::planted;
use crate::process;
use crate::progress::Step;
use crate::python::Linker;
use crate::simulator;

/// The packages that have the kernels' PTX inside. Their tests load the simulated driver from the folder that they are in themselves: if they
/// depended on it, cargo would build the simulator again with the features that they ask of its dependencies.
const WITH_KERNELS: [&str; 2] = ["fa512", "fa512-c"];

/// Has the tests of package fa512-cli try all entries on every problem, not in turns.
pub const ALL_ENTRIES_VARIABLE: &str = "FA512_ALL_ENTRIES";

/// The build tasks' own.
const TASKS: [&str; 2] = ["-p", "xtask"];

/// Runs every test: host, simulator, kernels in the simulator, build tasks, documentation examples.
///
/// The tests are built with optimisation, because they spend most of their time executing kernels in the simulator; those of the build tasks
/// are not.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    code_generator: Choice,
    /// Arguments for `cargo test`, such as `-p fa512-cli` or the name of a test
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Arguments {
    /// Builds the PTX and runs the tests.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let folder = self.code_generator.folder(workspace);
        ptx::build_by(&self.code_generator, environment, workspace, &folder)?;
        run_tests_with(environment, workspace, &self.arguments, &[(PTX_VARIABLE, folder.as_os_str())])
    }
}

/// Runs `cargo test` on the workspace with the PTX folder that is there, and environment variables for the tests.
pub fn run_tests_with(
    environment: &Environment,
    workspace: &Workspace,
    arguments: &[String],
    variables: &[(&str, &OsStr)],
) -> Result<()> {
    let planted = planted::build(environment, workspace)?;
    let test = |packages: &[&str]| {
        let mut cargo = Command::new(environment.cargo());
        cargo.current_dir(workspace.root()).env(PTX_VARIABLE, workspace.ptx()).arg("test");
        // These run on what cargo has built of xtask already, and compute little.
        cargo.args((packages != TASKS).then_some("--release"));
        // What else fails is seen in the same run.
        cargo.arg("--no-fail-fast");
        cargo.env(planted::PTX_VARIABLE, &planted);
        process::run(cargo.envs(variables.iter().copied()).args(packages).args(arguments))
    };
    if arguments.iter().any(|argument| argument.starts_with("-p") || argument.starts_with("--package")) {
        if arguments.iter().any(|argument| WITH_KERNELS.contains(&named_package(argument))) {
            simulator::build_libraries(environment, workspace, &Linker::Native)?;
        }
        return test(&[]);
    }
    build_programs(environment, workspace)?;
    let with_kernels: Vec<_> = WITH_KERNELS.iter().flat_map(|package| ["-p", package]).collect();
    // Those with kernels first, since they leave half of the cores to what runs beside all tests. Every one runs, even if others fail.
    let outcomes = [with_kernels.as_slice(), &optimised(), &TASKS].map(test);
    outcomes.into_iter().collect()
}

/// Builds the tests of the packages without kernels, with optimisation. Returns the programs and shared libraries that they use.
///
/// Cargo builds a dependency once for each set of its features, which is another one for every choice of packages: who needs these
/// programs where the tests are run, too, has them built only once.
pub fn build_programs(environment: &Environment, workspace: &Workspace) -> Result<BTreeMap<String, PathBuf>> {
    let step = Step::begin("building the tests");
    let mut cargo = Command::new(environment.cargo());
    cargo.current_dir(workspace.root()).args(["test", "--release", "--no-run"]).args(optimised());
    let built = cargo_build::executables(cargo)?;
    step.done();
    Ok(built)
}

/// The package that an argument of cargo names, if any: `NAME` behind `-p`, `-pNAME`, `--package=NAME`.
fn named_package(argument: &str) -> &str {
    let name = argument.strip_prefix("--package=").or_else(|| argument.strip_prefix("-p"));
    name.unwrap_or(argument).trim_start_matches('=')
}

/// All packages but xtask and those with kernels. Tested together, everything that launches through the library would have the kernels
/// inside, and be built anew for each of their changes.
fn optimised() -> Vec<&'static str> {
    let others = WITH_KERNELS.iter().chain(&TASKS[1..]).flat_map(|package| ["--exclude", package]);
    ["--workspace"].into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::named_package;

    #[test]
    fn a_package_is_named_in_every_way_that_cargo_takes() {
        for argument in ["fa512", "-pfa512", "-p=fa512", "--package=fa512"] {
            assert_eq!(named_package(argument), "fa512", "{argument}");
        }
        assert_ne!(named_package("-p"), "fa512");
    }
}
