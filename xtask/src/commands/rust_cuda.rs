//! `cargo xtask rust-cuda`: an installation of Rust-CUDA among the workspace's tools.

use std::path::PathBuf;

use anyhow::Result;

use crate::environment::{Environment, Workspace};
use crate::output::print_line;
use crate::provision;

/// Installs what `--codegen rust-cuda` compiles with (docs/rust-cuda.md).
#[derive(clap::Subcommand, Debug)]
pub enum Arguments {
    /// Brings the pieces that are missing into .toolchain/rust-cuda, about 3 GB: the compiler of one day, NVIDIA's libNVVM and headers,
    /// Rust-CUDA's repository, LLVM 7.1.0, and the backend, which is built of them
    ///
    /// LLVM takes half an hour on two cores. An interrupted call is continued by the next one. The last one says where every piece is.
    Install {
        /// Folder with sources that cannot be downloaded here: llvm-7.1.0.src.tar.xz, or its contents in llvm-7.1.0.src, and rust-cuda, a
        /// clone of the repository
        #[arg(long, value_name = "DIR")]
        sources: Option<PathBuf>,
    },
}

impl Arguments {
    /// Installs, and prints the place of every piece.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let Self::Install { sources } = self;
        let examination = provision::rust_cuda(environment, workspace, sources.as_deref())?;
        for (what, piece) in examination.pieces() {
            if let Ok((version, place)) = piece {
                print_line(format_args!("{what}: {version}, {}", place.display()))?;
            }
        }
        Ok(examination.installation().map(drop)?)
    }
}
