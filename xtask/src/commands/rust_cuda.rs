//! `cargo xtask rust-cuda`: an installation of Rust-CUDA among the workspace's tools.

use anyhow::Result;

use crate::environment::{Environment, Workspace};
use crate::output::print_line;
use crate::provision;

/// Installs what `--codegen rust-cuda` compiles with (docs/rust-cuda.md).
#[derive(clap::Subcommand, Debug)]
pub enum Arguments {
    /// Downloads the pieces that come as packages, into .toolchain/rust-cuda: the compiler of one day, about 1.5 GB unpacked, and
    /// NVIDIA's libNVVM and headers
    ///
    /// Names the pieces that are still missing, and exits with 2: the checkout and the backend, which is built from it.
    Install,
}

impl Arguments {
    /// Installs, and prints the place of every piece.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let Self::Install = self;
        let examination = provision::rust_cuda(environment, workspace)?;
        for (what, piece) in examination.pieces() {
            if let Ok((version, place)) = piece {
                print_line(format_args!("{what}: {version}, {}", place.display()))?;
            }
        }
        Ok(examination.installation().map(drop)?)
    }
}
