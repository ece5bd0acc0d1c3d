//! `cargo xtask mutate`: how many small mistakes in the kernels the checks notice.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::Result;

use super::ptx;
use super::run::PTX_VARIABLE;
use crate::codegen::Choice;
use crate::environment::{Environment, Workspace};
use crate::process;

/// Breaks the kernels' PTX by small changes, runs each broken kernel in the simulator, and lists those that no check detects.
///
/// With `--sample 300` this takes about 25 minutes on two cores. With `--out docs/results` the result becomes the record there, with
/// which every test run is compared.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    code_generator: Choice,
    /// Arguments for ptx-mutate; see `cargo xtask mutate -- --help`
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

impl Arguments {
    /// Builds the PTX and ptx-mutate and hands over to it; its exit code becomes this command's.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<ExitCode> {
        let folder = self.code_generator.folder(workspace);
        ptx::build_by(&self.code_generator, environment, workspace, &folder)?;
        let mut cargo = Command::new(environment.cargo());
        cargo.args(["run", "--release", "--package", "ptx-mutate", "--"]).args(self.arguments);
        cargo.current_dir(workspace.root()).env(PTX_VARIABLE, folder);
        process::hand_over(&mut cargo)
    }
}
