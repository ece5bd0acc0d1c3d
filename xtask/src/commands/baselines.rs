//! `cargo xtask baselines`: the CUDA C++ twins of the kernels.

use std::path::{Path, PathBuf};

use anyhow::Result;
use contract::variants::VARIANTS;

use super::{ptx, run, test};
use crate::codegen::nvcc::{CudaCpp, FAMILY, without_twin};
use crate::codegen::{Choice, FAMILY_TARGETS};
use crate::cuda_tool::CudaTool;
use crate::environment::{Environment, Workspace};
use crate::nvcc::{self, Nvcc};
use crate::output::print_line;
use crate::provision;
use crate::ptx_folder::{self, Checks, PtxFolder};
use crate::ptxas::Ptxas;
use crate::sass::Disassembler;
use crate::twins;

/// The tests of package fa512 that try every entry of a PTX folder.
const KERNEL_TESTS: [&str; 7] = ["-p", "fa512-cli", "--test", "integration", "--", "kernels::", "races::"];

/// Compiles the CUDA C++ twins of the kernels, which every command of fa512 takes as `--ptx target/ptx-cuda`.
///
/// The twins have the names, tiles, arguments and launch bounds of the Rust kernels. Variants with options that the CUDA
/// C++ lacks have no twin and are listed. nvcc is found on the machine, or downloaded into .toolchain from NVIDIA's Python
/// wheels; the exit code is 2 if neither works.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Folder for the PTX files and manifest.json [default: target/ptx-cuda]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also show registers and instruction counts beside those of the Rust kernels
    #[arg(long)]
    compare: bool,
    /// Architecture whose instructions `--compare` shows, as in 90 for sm_90
    #[arg(long, value_name = "NN", default_value_t = 90)]
    arch: u32,
    /// Also run the kernel tests on the twins, in the simulator
    #[arg(long)]
    test: bool,
}

impl Arguments {
    /// Builds the twins, prints what they cost, and compares and tests them as asked.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let nvcc = provision::nvcc(environment, workspace)?;
        let out = std::path::absolute(self.out.unwrap_or_else(|| workspace.twins_ptx()))?;
        let twins = build(environment, workspace, &nvcc, &out)?;
        if self.compare {
            let ptxas = ptxas(environment, workspace, &nvcc)?;
            let rustc = Choice::default();
            let rust = ptx::build_with(&rustc, environment, workspace, ptxas.as_ref(), &workspace.ptx())?;
            let nvdisasm = nvcc::nvdisasm(&nvcc, environment, workspace);
            if ptxas.is_none() || nvdisasm.is_none() {
                eprintln!("xtask: no SASS is shown: that needs ptxas and nvdisasm, and one of them is missing");
            }
            let disassembler =
                ptxas.zip(nvdisasm).map(|(ptxas, nvdisasm)| Disassembler { ptxas, nvdisasm, architecture: self.arch });
            let comparison = twins::compare(&rust, &twins, disassembler.as_ref(), &workspace.device_target())?;
            print_line(comparison.trim_end())?;
        } else {
            print_line(ptx::entry_table(&twins))?;
        }
        if self.test {
            let arguments = KERNEL_TESTS.map(str::to_owned);
            test::run_tests_with(environment, workspace, &arguments, &[(run::PTX_VARIABLE, out.as_os_str())])?;
        }
        Ok(())
    }
}

/// ptxas of this machine, else the one beside nvcc.
pub fn ptxas(environment: &Environment, workspace: &Workspace, nvcc: &Nvcc) -> Result<Option<Ptxas>> {
    let beside = || Ptxas::probe(&nvcc.path.with_file_name("ptxas")).ok();
    Ok(Ptxas::find(environment, workspace)?.or_else(beside))
}

/// Builds the PTX folder of the twins at `out`.
pub fn build(environment: &Environment, workspace: &Workspace, nvcc: &Nvcc, out: &Path) -> Result<PtxFolder> {
    let generator = CudaCpp::new(nvcc.clone(), workspace.clone());
    let ptxas = ptxas(environment, workspace, nvcc)?;
    let targets = FAMILY_TARGETS.iter().filter(|target| target.family == FAMILY);
    let folder =
        ptx_folder::build(workspace, &generator, targets, Checks { ptxas: ptxas.as_ref(), collectives: None }, out)?;
    ptx::announce(&folder);
    if let Some(message) = without_twin(VARIANTS) {
        eprintln!("xtask: {message}");
    }
    Ok(folder)
}
