//! `cargo xtask dist`: one archive with everything that a machine without Rust needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{baselines, ptx};
use crate::archive;
use crate::cargo_build;
use crate::codegen::{self, Choice};
use crate::elf::{self, GlibcVersion};
use crate::environment::{Environment, Workspace};
use crate::files::{self, sha256};
use crate::nvcc;
use crate::output::print_line;
use crate::progress::Step;
use crate::provision;
use crate::zigbuild::Zigbuild;

/// The C library of the oldest machine that the programs run on: that of Debian 11, Ubuntu 20.04, RHEL 9.
const GLIBC: &str = "2.31";
/// What the programs are built for.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Shared libraries that every such machine has.
const LIBRARIES: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"];

/// A program of the archive.
struct Program {
    /// Name of cargo's target.
    target: &'static str,
    /// Path in the archive.
    path: &'static str,
}

const PROGRAMS: [Program; 3] = [
    Program { target: "fa512", path: "fa512" },
    Program { target: "ptx-sim", path: "ptx-sim" },
    Program { target: "integration", path: "tests/kernels" },
];
/// What cargo is asked for to get them.
const PROGRAM_ARGUMENTS: [&str; 7] = ["-p", "fa512-workshop", "-p", "ptx-sim-cli", "--bins", "--test", "integration"];

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
/// The programs are linked by cargo-zigbuild, found in PATH or brought into .toolchain from Python wheels, and run with
/// the GNU C library 2.31 and later; an archive whose programs need a newer one is refused. The CUDA C++ twins are
/// packed where there is an nvcc, and the PTX of Rust-CUDA where FA512_RUST_CUDA names a usable installation.
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
        let folder = out.join(format!("fa512-{}-x86_64-linux", env!("CARGO_PKG_VERSION")));
        let archive = folder.with_added_extension("tar.gz");
        files::remove(&folder)?;
        ptx::build(environment, workspace, &folder.join("ptx"))?;
        add_rust_cuda(environment, workspace, &folder)?;
        match nvcc::find(environment, workspace)? {
            Some(nvcc) => drop(baselines::build(environment, workspace, &nvcc, &folder.join("ptx-cuda"))?),
            None => eprintln!("xtask: no nvcc, so no CUDA C++ twins are packed; `cargo xtask baselines` gets one"),
        }
        for (from, to) in FILES {
            copy(&workspace.root().join(from), &folder.join(to))?;
        }
        add_programs(environment, workspace, &folder)?;
        let step = Step::begin("packing");
        archive::pack(&folder, &archive)?;
        step.done();
        let bytes = fs::read(&archive)?;
        let (megabytes, name) = (bytes.len() as f64 / 1e6, folder.file_name().unwrap_or_default().display());
        print_line(format_args!("{}\n{megabytes:.1} MB, SHA-256 {}", archive.display(), sha256(&bytes)))?;
        print_line(format_args!("There: tar xf {name}.tar.gz && {name}/smoke.sh"))
    }
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
    let zigbuild = provision::zigbuild(environment, workspace)?;
    let step = Step::begin(format!("building the programs for glibc {GLIBC}"));
    let mut built = cargo_build::executables(build_command(&zigbuild, workspace))?;
    step.done();
    for Program { target, path } in PROGRAMS {
        let program = built.remove(target).with_context(|| format!("cargo built no {target}"))?;
        check_needs(&fs::read(&program)?).with_context(|| format!("{target} is not packed"))?;
        copy(&program, &folder.join(path))?;
    }
    Ok(())
}

fn build_command(zigbuild: &Zigbuild, workspace: &Workspace) -> Command {
    let mut command = zigbuild.command();
    command.current_dir(workspace.root()).args(["--release", "--target", &format!("{TARGET}.{GLIBC}")]);
    command.args(PROGRAM_ARGUMENTS).env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    command
}

/// Refuses a program that would not start on a machine with [`GLIBC`] and [`LIBRARIES`].
fn check_needs(program: &[u8]) -> Result<()> {
    let needs = elf::needs(program)?;
    let unknown = needs.libraries.iter().find(|library| !LIBRARIES.contains(&library.as_str()));
    if let Some(library) = unknown {
        bail!("it needs {library}, which not every machine has");
    }
    match needs.glibc {
        Some(version) if Some(&version) > GlibcVersion::parse(GLIBC).as_ref() => {
            bail!("it needs glibc {version}, newer than {GLIBC}")
        }
        _ => Ok(()),
    }
}

/// Copies a file, with its permissions, or a folder with everything in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        for file in archive::files_below(from)? {
            copy(&file, &to.join(file.strip_prefix(from)?))?;
        }
        return Ok(());
    }
    let context = || format!("could not copy {} to {}", from.display(), to.display());
    fs::create_dir_all(to.parent().unwrap_or(to)).with_context(context)?;
    fs::copy(from, to).with_context(context)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use tempfile::TempDir;

    use super::{FILES, check_needs};

    /// A program that needs the symbol `function` of `version`, and the library `library`.
    fn program(folder: &Path, version: &str, library: &str) -> Vec<u8> {
        let (source, stub) = (folder.join("main.c"), folder.join("stub.c"));
        fs::write(&stub, "int function(void) { return 0; }\n").unwrap();
        fs::write(folder.join("stub.map"), format!("{version} {{ global: function; }};\n")).unwrap();
        fs::write(&source, "int function(void); int main(void) { return function(); }\n").unwrap();
        let run = |arguments: &[&str]| {
            let status = Command::new("cc").current_dir(folder).args(arguments).status().unwrap();
            assert!(status.success(), "cc {arguments:?}");
        };
        let soname = format!("-Wl,-soname,{library}");
        run(&["-shared", "-fPIC", "stub.c", "-o", "stub.so", "-Wl,--version-script=stub.map", &soname]);
        run(&["-nostdlib", "main.c", "stub.so", "-o", "main", "-Wl,-e,main"]);
        fs::read(folder.join("main")).unwrap()
    }

    #[test]
    fn a_program_for_a_newer_c_library_is_refused() {
        let folder = TempDir::new().unwrap();
        assert!(check_needs(&program(folder.path(), "GLIBC_2.31", "libc.so.6")).is_ok());
        let error = check_needs(&program(folder.path(), "GLIBC_2.32", "libc.so.6")).unwrap_err().to_string();
        assert_eq!(error, "it needs glibc 2.32, newer than 2.31");
    }

    #[test]
    fn a_program_that_needs_another_library_is_refused() {
        let folder = TempDir::new().unwrap();
        let error = check_needs(&program(folder.path(), "V_1", "libcuda.so.1")).unwrap_err().to_string();
        assert_eq!(error, "it needs libcuda.so.1, which not every machine has");
    }

    #[test]
    fn every_packed_file_is_in_the_checkout() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (from, _) in FILES {
            assert!(root.join(from).exists(), "{from}");
        }
    }
}
