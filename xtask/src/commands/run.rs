//! `cargo xtask run`: from a clone to a checked result.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::Result;

use super::ptx;
use crate::cargo_build;
use crate::codegen::Choice;
use crate::environment::{Environment, Workspace};
use crate::process;

/// Tells the host program where the PTX is.
pub const PTX_VARIABLE: &str = "FA512_PTX_DIR";

/// Computes attention on the GPU, or in the simulator where there is none, and checks the result.
///
/// Finds or provisions the device compiler, compiles the kernels to PTX, builds fa512 and executes `fa512 run`, whose
/// exit code becomes this command's.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    code_generator: Choice,
    /// Arguments for `fa512 run`; see `cargo xtask run -- --help`
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

impl Arguments {
    /// Builds everything and hands over to `fa512 run`.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<ExitCode> {
        let folder = self.code_generator.folder(workspace);
        ptx::build_by(&self.code_generator, environment, workspace, &folder)?;
        let program = cargo_build::fa512(environment, workspace)?;
        let mut fa512 = Command::new(&program);
        process::hand_over(fa512.arg("run").args(self.arguments).env(PTX_VARIABLE, &folder))
    }
}
