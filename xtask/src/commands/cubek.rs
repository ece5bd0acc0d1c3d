//! `cargo xtask cubek`: cubek-attention as a contender of `fa512 bench`, a program that is a workspace of its own.

use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo_build;
use crate::environment::{Environment, Workspace};
use crate::output::print_line;
use crate::process;

/// The program.
const PROGRAM: &str = "fa512-cubek";

/// Builds the program that `fa512 bench --contender cubek` starts to measure cubek-attention, and prints its path.
///
/// cubek-attention comes from crates.io. This is a separate command because CubeCL has 200 dependencies. The program needs CUDA's
/// headers and NVRTC at run time, not to build.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Also check its formatting, lints and tests, without a GPU
    #[arg(long)]
    test: bool,
}

impl Arguments {
    /// Builds the program, and checks it as asked.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let cargo = |arguments: &[&str]| {
            let mut cargo = Command::new(environment.cargo());
            cargo.current_dir(workspace.cubek()).env("CARGO_TARGET_DIR", workspace.cubek_target()).args(arguments);
            cargo
        };
        if self.test {
            process::run(&mut cargo(&["fmt", "--check"]))?;
            process::run(&mut cargo(&["clippy", "--all-targets", "--locked", "--", "--deny", "warnings"]))?;
            process::run(&mut cargo(&["test", "--release", "--locked"]))?;
        }
        let built = cargo_build::executables(cargo(&["build", "--release", "--locked"]))?;
        let program = built.get(PROGRAM).with_context(|| format!("cargo built no {PROGRAM}"))?;
        print_line(program.display())
    }
}
