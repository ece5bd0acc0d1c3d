//! `cargo xtask dist`: one archive with everything that a machine without Rust needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{baselines, ptx};
use crate::archive;
use crate::cargo_build;
use crate::codegen::{self, Choice};
use crate::cuda_tool::CudaTool;
use crate::environment::{Environment, Workspace};
use crate::files::{self, sha256};
use crate::machine::Machine;
use crate::nvcc::Nvcc;
use crate::output::print_line;
use crate::portable;
use crate::progress::Step;
use crate::provision;

/// The kind of machine that the programs are for.
const MACHINE: Machine = Machine::X86_64;

/// A program of the archive.
struct Program {
    /// Name of cargo's target.
    target: &'static str,
    /// Path in the archive.
    path: &'static str,
    /// Most bytes that it may have.
    most: usize,
}

const PROGRAMS: [Program; 4] = [
    Program { target: "fa512", path: "fa512", most: 6_000_000 },
    Program { target: "fa512-lab", path: "fa512-lab", most: 6_000_000 },
    Program { target: "ptx-sim", path: "ptx-sim", most: 4_000_000 },
    Program { target: "integration", path: "tests/kernels", most: usize::MAX },
];
/// What cargo is asked for to get them, and in which profile. Tests unwind, so they cannot share a profile that aborts.
const BUILDS: [(&str, &[&str]); 2] = [
    (portable::SMALL, &["-p", "fa512-cli", "-p", "fa512-lab", "-p", "ptx-sim-cli", "--bins"]),
    (portable::RELEASE, &["-p", "fa512-cli", "--test", "integration"]),
];

/// Files and folders of the checkout, with their paths in the archive. The sources are shown beside findings.
const FILES: [(&str, &str); 8] = [
    ("xtask/dist/smoke.sh", "smoke.sh"),
    ("README.md", "README.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("docs", "docs"),
    ("baselines", "baselines"),
    ("kernel-gpu/src", "kernel-gpu/src"),
    ("kernel-gpu/contract/src", "kernel-gpu/contract/src"),
];

/// Packs an archive for x86-64 Linux machines without Rust: programs, PTX, baselines, tests, documents and `smoke.sh`.
///
/// The programs are linked by cargo-zigbuild, found in PATH or downloaded into .toolchain from Python wheels, and run with
/// glibc 2.31 and later. If a program needs a newer one, or is too large, no archive is made. The CUDA C++ twins are packed if
/// there is an nvcc, and the PTX of Rust-CUDA if FA512_RUST_CUDA names a usable installation.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Folder for the archive [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Arguments {
    /// Builds everything, checks it and packs it.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let out = self.out.unwrap_or_else(|| workspace.dist());
        let archive = pack(environment, workspace, &out)?;
        let bytes = fs::read(&archive)?;
        let megabytes = bytes.len() as f64 / 1e6;
        print_line(format_args!("{}\n{megabytes:.1} MB, SHA-256 {}", archive.display(), sha256(&bytes)))?;
        let name = name();
        print_line(format_args!("There: tar xf {name}.tar.gz && {name}/smoke.sh"))
    }
}

/// The name of the archive's folder.
pub fn name() -> String {
    format!("fa512-{}-{}-linux", env!("CARGO_PKG_VERSION"), MACHINE.name())
}

/// Builds everything, and packs it into an archive in `out`.
pub fn pack(environment: &Environment, workspace: &Workspace, out: &Path) -> Result<PathBuf> {
    let folder = out.join(name());
    let archive = folder.with_added_extension("tar.gz");
    // What is there from before makes way first: both would not fit on a disk that is almost full.
    files::remove(&folder)?;
    files::through_temporary_folder(&folder, |folder| fill(environment, workspace, folder))?;
    let step = Step::begin("packing");
    archive::pack(&folder, &archive)?;
    step.done();
    Ok(archive)
}

/// Puts all that is packed into `folder`.
fn fill(environment: &Environment, workspace: &Workspace, folder: &Path) -> Result<()> {
    ptx::build(environment, workspace, &folder.join("ptx"))?;
    add_rust_cuda(environment, workspace, folder)?;
    match Nvcc::find(environment, workspace)? {
        Some(nvcc) => drop(baselines::build(environment, workspace, &nvcc, &folder.join("ptx-cuda"))?),
        None => eprintln!("xtask: no nvcc, so no CUDA C++ twins are packed; `cargo xtask baselines` gets one"),
    }
    for (from, to) in FILES {
        files::copy(&workspace.root().join(from), &folder.join(to))?;
    }
    add_programs(environment, workspace, folder)
}

/// Builds the PTX of Rust-CUDA into `folder`, where it is installed.
fn add_rust_cuda(environment: &Environment, workspace: &Workspace, folder: &Path) -> Result<()> {
    match ptx::build_by(&Choice::rust_cuda(), environment, workspace, &folder.join("ptx-rust-cuda")) {
        Err(error) if codegen::is_not_installed(&error) => Ok(()),
        built => built.map(drop),
    }
}

/// Builds the programs and puts those that run on the oldest machine into `folder`.
fn add_programs(environment: &Environment, workspace: &Workspace, folder: &Path) -> Result<()> {
    let toolset = provision::toolset(environment, workspace, MACHINE)?;
    let step = Step::begin(format!("building the programs for glibc {}", portable::GLIBC));
    let mut built = BTreeMap::new();
    for (profile, arguments) in BUILDS {
        let programs = cargo_build::executables(toolset.build(workspace, profile, arguments))?;
        // Of a program that both build, as the tests need it, the small one is packed.
        for (name, path) in programs {
            built.entry(name).or_insert(path);
        }
    }
    step.done();
    for Program { target, path, most } in PROGRAMS {
        let program = built.remove(target).with_context(|| format!("cargo built no {target}"))?;
        let bytes = fs::read(&program)?;
        let checked = portable::check_needs(&bytes, MACHINE).and_then(|()| portable::check_size(&bytes, most));
        checked.with_context(|| format!("{target} is not packed"))?;
        files::copy(&program, &folder.join(path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::FILES;

    #[test]
    fn every_packed_file_is_in_the_checkout() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (from, _) in FILES {
            assert!(root.join(from).exists(), "{from}");
        }
    }
}
