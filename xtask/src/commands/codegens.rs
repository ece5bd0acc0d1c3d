//! `cargo xtask codegens`: the kernels by both code generators.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{baselines, ptx};
use crate::codegen::Choice;
use crate::codegen_comparison::Record;
use crate::environment::{Environment, Workspace};
use crate::nvcc;
use crate::output::print_line;
use crate::provision;
use crate::sass::Disassembler;

/// Architecture whose instructions are compared: every family runs on it.
const ARCHITECTURE: u32 = 90;

/// Compiles the kernels with rustc and with Rust-CUDA, and writes the tables of docs/results/rust-cuda.md.
///
/// Registers, spills and instructions come from ptxas and nvdisasm, which are downloaded into .toolchain if they are missing.
/// Times come from the records of `fa512 entries` in docs/results/rust-cuda.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Checkout of Rust-CUDA's repository [default: FA512_RUST_CUDA, else .toolchain/rust-cuda/rust-cuda]
    #[arg(long, value_name = "DIR")]
    rust_cuda: Option<PathBuf>,
}

impl Arguments {
    /// Builds both folders, writes the record and the tables, and prints them.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let choices = [Choice::default(), Choice::rust_cuda_in(self.rust_cuda)];
        let nvcc = provision::nvcc(environment, workspace)?;
        let ptxas = baselines::ptxas(environment, workspace, &nvcc)?.context("there is no ptxas")?;
        let build =
            |choice: &Choice| ptx::build_with(choice, environment, workspace, Some(&ptxas), &choice.folder(workspace));
        let (rustc, rust_cuda) = (build(&choices[0])?, build(&choices[1])?);
        let nvdisasm = nvcc::nvdisasm(&nvcc, environment, workspace).context("there is no nvdisasm")?;
        let disassembler = Disassembler { ptxas, nvdisasm, architecture: ARCHITECTURE };
        let record = Record::measure([&rustc, &rust_cuda], &disassembler, &workspace.device_target())?;
        print_line(record.write(workspace)?.trim_end())
    }
}
