//! `cargo xtask toolchain`: provisioning ahead of time.

use anyhow::Result;

use crate::environment::{Environment, Workspace};
use crate::output::print_line;
use crate::provision;

/// Downloads the device compiler, unless this machine has one, and compiles its `core` for the device.
///
/// Downloads go into the workspace's git-ignored folder .toolchain; remove that folder to undo it.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Also download ptxas, which shows registers and spills
    #[arg(long)]
    all: bool,
}

impl Arguments {
    /// Finds or provisions the tools and prints where they are.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let compiler = provision::device_compiler(environment, workspace)?;
        print_line(format_args!("{} ({}): {}", compiler.version_line, compiler.origin, compiler.rustc.display()))?;
        if let Some(library) = provision::device_library(environment, workspace, &compiler)? {
            print_line(format_args!("its core for the device: {}", library.display()))?;
        }
        if self.all {
            let ptxas = provision::ptxas(environment, workspace)?;
            print_line(format_args!("ptxas {}: {}", ptxas.version, ptxas.path.display()))?;
        }
        Ok(())
    }
}
