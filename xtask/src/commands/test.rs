//! `cargo xtask test`: the whole test suite.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::Result;

use super::ptx;
use super::run::PTX_VARIABLE;
use crate::codegen::Choice;
use crate::environment::{Environment, Workspace};
use crate::planted;
use crate::process;

/// The packages that have the kernels' PTX inside.
const WITH_KERNELS: [&str; 2] = ["fa512", "fa512-c"];

/// Runs every test: host, simulator, kernels in the simulator, build tasks, documentation examples.
///
/// The tests are built with optimisation, because they spend most of their time executing kernels in the simulator.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    code_generator: Choice,
    /// Arguments for `cargo test`, such as `-p fa512-workshop` or the name of a test
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

/// Runs `cargo test` on the workspace with the PTX folder that is there.
pub fn run_tests(environment: &Environment, workspace: &Workspace, arguments: &[String]) -> Result<()> {
    run_tests_with(environment, workspace, arguments, &[])
}

/// [`run_tests`] with environment variables for the tests.
pub fn run_tests_with(
    environment: &Environment,
    workspace: &Workspace,
    arguments: &[String],
    variables: &[(&str, &OsStr)],
) -> Result<()> {
    let planted = planted::build(environment, workspace)?;
    let test = |packages: &[&str]| {
        let mut cargo = Command::new(environment.cargo());
        cargo.current_dir(workspace.root()).env(PTX_VARIABLE, workspace.ptx()).args(["test", "--release"]);
        // What else fails is seen in the same run.
        cargo.arg("--no-fail-fast");
        cargo.env(planted::PTX_VARIABLE, &planted);
        process::run(cargo.envs(variables.iter().copied()).args(packages).args(arguments))
    };
    if arguments.iter().any(|argument| argument.starts_with("-p") || argument.starts_with("--package")) {
        return test(&[]);
    }
    // Tested together, everything that launches through the library would have the kernels inside, and be built anew for each of
    // their changes.
    let excluded = WITH_KERNELS.iter().flat_map(|package| ["--exclude", package]);
    test(&["--workspace"].into_iter().chain(excluded).collect::<Vec<_>>())?;
    test(&WITH_KERNELS.iter().flat_map(|package| ["-p", package]).collect::<Vec<_>>())
}
