//! Tools that this machine lacks, brought into the workspace's git-ignored `.toolchain` folder without root.
//!
//! Every tool is assembled in a folder with another name and moved into place when it is complete and has run once,
//! so that an interruption leaves either nothing or the whole tool. Downloads are kept until then and resumed.

mod debian;
mod device_library;
mod rust_cuda;
#[cfg(test)]
mod tests;
mod wheel;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::cuda_tool::CudaTool;
use crate::device_compiler::{self, DeviceCompiler, NotFound, Origin, PROVISIONED_FOLDER};
use crate::emulator::{self, Emulator, Runner};
use crate::environment::{Environment, Workspace};
use crate::files;
use crate::machine::Machine;
use crate::nvcc::Nvcc;
use crate::oldest_rust::{self, OldestRust};
use crate::portable::Toolset;
use crate::ptxas::Ptxas;
use crate::standard_library::{self, StandardLibrary};
use crate::zigbuild::{self, Zigbuild};
pub use device_library::device_library;
pub use rust_cuda::rust_cuda;

/// The device compiler of this machine; provisioned from Debian packages when there is none.
pub fn device_compiler(environment: &Environment, workspace: &Workspace) -> Result<DeviceCompiler> {
    let not_found = match device_compiler::find(environment, workspace)? {
        Ok(compiler) => return Ok(compiler),
        Err(not_found) => not_found,
    };
    let provisioned = ToolchainFolder::lock(workspace).and_then(|folder| {
        // Another process may have provisioned it while this one waited for the lock.
        match device_compiler::find(environment, workspace)? {
            Ok(compiler) => Ok(compiler),
            Err(_) => provision_rustc(environment, workspace, &folder),
        }
    });
    provisioned.map_err(|error| compiler_advice(environment, &not_found, &error))
}

fn provision_rustc(
    environment: &Environment,
    workspace: &Workspace,
    folder: &ToolchainFolder,
) -> Result<DeviceCompiler> {
    eprintln!("xtask: no compiler for {} on this machine; getting Debian's rustc-web", device_compiler::TARGET);
    let destination = folder.path.join(PROVISIONED_FOLDER);
    debian::unpack_rustc(environment, folder, &destination)?;
    device_compiler::probe(&device_compiler::provisioned_rustc(workspace), Origin::Provisioned)
}

/// The error for a machine on which there is no compiler and none could be provisioned.
fn compiler_advice(environment: &Environment, not_found: &NotFound, error: &anyhow::Error) -> anyhow::Error {
    anyhow!(
        "{not_found}\n  provisioning one into .toolchain: {error:#}\nThis would help: `{}`",
        compiler_command(environment)
    )
}

/// The command that installs a device compiler for good.
pub fn compiler_command(environment: &Environment) -> &'static str {
    if environment.is_debian() && environment.find_program("rustup").is_none() {
        "sudo apt-get install rustc-web rust-web-src"
    } else {
        "rustup toolchain install nightly --component rust-src"
    }
}

/// The oldest Rust that the library builds with; provisioned from Debian packages when this machine has none.
pub fn oldest_rust(environment: &Environment, workspace: &Workspace) -> Result<OldestRust> {
    if let Some(rust) = OldestRust::find(environment, workspace) {
        return Ok(rust);
    }
    let provisioned = ToolchainFolder::lock(workspace).and_then(|folder| {
        // Another process may have provisioned it while this one waited for the lock.
        if let Some(rust) = OldestRust::find(environment, workspace) {
            return Ok(rust);
        }
        eprintln!("xtask: no Rust {} on this machine; getting that of Debian 12, about 90 MB", oldest_rust::VERSION);
        let destination = folder.path.join(oldest_rust::PROVISIONED_FOLDER);
        debian::unpack_packages(environment, &folder, &debian::OLDEST_RUST_PACKAGES, &destination)?;
        OldestRust::find(environment, workspace).context("the packages do not hold what they should")
    });
    provisioned.with_context(|| {
        format!(
            "the library has to build with Rust {0}, which is not in rustup or /usr/bin and could not be brought into \
             .toolchain; this would help: `rustup toolchain install {0} --profile minimal`",
            oldest_rust::VERSION
        )
    })
}

/// The ptxas of this machine; provisioned from NVIDIA's Python wheel when there is none.
pub fn ptxas(environment: &Environment, workspace: &Workspace) -> Result<Ptxas> {
    if let Some(ptxas) = Ptxas::find(environment, workspace)? {
        return Ok(ptxas);
    }
    let folder = ToolchainFolder::lock(workspace)?;
    if let Some(ptxas) = Ptxas::find(environment, workspace)? {
        return Ok(ptxas);
    }
    eprintln!("xtask: no ptxas on this machine; getting NVIDIA's Python wheel of it");
    wheel::unpack_ptxas(environment, &folder).and_then(|()| Ptxas::probe(&Ptxas::provisioned(workspace))).map_err(
        |error| {
            let places = Ptxas::places(environment, workspace);
            let places: Vec<String> =
                places.iter().map(|place| format!("\n  {}: not usable", place.display())).collect();
            anyhow!(
                "no ptxas; looked at:\n  {}: not set{}\n  provisioning it into .toolchain: {error:#}\n\
                 This would help: `sudo apt-get install python3-pip`, then the same command again",
                Ptxas::VARIABLE,
                places.concat()
            )
        },
    )
}

/// The nvcc of this machine; provisioned from NVIDIA's Python wheels when there is none.
pub fn nvcc(environment: &Environment, workspace: &Workspace) -> Result<Nvcc> {
    if let Some(nvcc) = Nvcc::find(environment, workspace)? {
        return Ok(nvcc);
    }
    let provisioned = ToolchainFolder::lock(workspace).and_then(|folder| {
        // Another process may have provisioned it while this one waited for the lock.
        if let Some(nvcc) = Nvcc::find(environment, workspace)? {
            return Ok(nvcc);
        }
        eprintln!("xtask: no nvcc on this machine; getting NVIDIA's Python wheels of it, about 110 MB");
        wheel::unpack_nvcc(environment, &folder)?;
        Nvcc::probe(&Nvcc::provisioned(workspace))
    });
    provisioned.with_context(|| {
        format!(
            "there is no nvcc in {}, CUDA_HOME, CUDA_PATH, /usr/local/cuda or PATH, and none could be brought into .toolchain",
            Nvcc::VARIABLE
        )
    })
}

/// What builds for a kind of machine.
pub fn toolset(environment: &Environment, workspace: &Workspace, machine: Machine) -> Result<Toolset> {
    let library = standard_library(environment, workspace, machine)?;
    Ok(Toolset { machine, zigbuild: zigbuild(environment, workspace)?, library })
}

/// Rust's standard library for a kind of machine; provisioned from Debian packages, with their compiler, when cargo's has none.
fn standard_library(environment: &Environment, workspace: &Workspace, machine: Machine) -> Result<StandardLibrary> {
    if let Some(library) = StandardLibrary::find(environment, workspace, machine) {
        return Ok(library);
    }
    let provisioned = ToolchainFolder::lock(workspace).and_then(|folder| {
        if !device_compiler::provisioned_rustc(workspace).is_file() {
            provision_rustc(environment, workspace, &folder)?;
        }
        // Another process may have provisioned it while this one waited for the lock.
        if let Some(library) = StandardLibrary::find(environment, workspace, machine) {
            return Ok(library);
        }
        eprintln!("xtask: no standard library of Rust for {} on this machine; getting Debian's", machine.name());
        let version =
            standard_library::compiler_version(workspace).context("the compiler in .toolchain has no version")?;
        let destination = standard_library::unpacked(workspace, machine).context("no compiler in .toolchain")?;
        let package = format!("libstd-rust-web-dev:{}={version}", machine.debian());
        debian::unpack_foreign(environment, &folder, machine.debian(), &[package], &destination, |_| Ok(()))
            .with_context(|| format!("if Debian no longer has {version}, remove .toolchain/{PROVISIONED_FOLDER}"))?;
        StandardLibrary::find(environment, workspace, machine).context("the package does not hold what it should")
    });
    provisioned.with_context(|| {
        format!(
            "Rust has no standard library for {0}, and none could be brought into .toolchain; this would help: \
             `rustup target add {0}`",
            machine.target()
        )
    })
}

/// What runs programs of a kind of machine.
pub fn runner(environment: &Environment, workspace: &Workspace, machine: Machine) -> Result<Runner> {
    match machine.is_this() {
        true => Ok(Runner::Here),
        false => emulator(environment, workspace, machine).map(Runner::Emulated),
    }
}

/// The emulator of a kind of machine, provisioned from Debian packages.
fn emulator(environment: &Environment, workspace: &Workspace, machine: Machine) -> Result<Emulator> {
    if let Some(found) = Emulator::find(workspace, machine) {
        return Ok(found);
    }
    let folder = ToolchainFolder::lock(workspace)?;
    // Another process may have provisioned it while this one waited for the lock.
    if let Some(found) = Emulator::find(workspace, machine) {
        return Ok(found);
    }
    eprintln!("xtask: getting QEMU and Python for {} from Debian, 76 MB", machine.name());
    let destination = Emulator::folder(workspace, machine);
    let complete = |root: &Path| {
        emulator::keep_program(root, machine)?;
        eprintln!("xtask: {}, emulated, is ready", Emulator::at(root, machine).probe()?.trim());
        Ok(())
    };
    debian::unpack_foreign(environment, &folder, machine.debian(), &emulator::packages(machine), &destination, complete)
        .and_then(|()| Emulator::find(workspace, machine).context("the packages do not hold what they should"))
        .with_context(|| {
            format!(
                "programs for {} are run by Debian's packages, which could not be brought into .toolchain",
                machine.name()
            )
        })
}

/// cargo-zigbuild of this machine; provisioned from Python wheels when there is none.
pub fn zigbuild(environment: &Environment, workspace: &Workspace) -> Result<Zigbuild> {
    if let Some(zigbuild) = zigbuild::find(environment, workspace) {
        return Ok(zigbuild);
    }
    let folder = ToolchainFolder::lock(workspace)?;
    // Another process may have provisioned it while this one waited for the lock.
    if let Some(zigbuild) = zigbuild::find(environment, workspace) {
        return Ok(zigbuild);
    }
    eprintln!("xtask: no cargo-zigbuild and zig on this machine; getting their Python wheels, about 95 MB");
    wheel::unpack_zigbuild(environment, &folder)
        .and_then(|()| zigbuild::find(environment, workspace).context("the wheels do not hold what they should"))
        .context("no cargo-zigbuild and zig in PATH, and none could be brought into .toolchain")
}

/// The `.toolchain` folder while this process alone may change it.
#[derive(Debug)]
pub struct ToolchainFolder {
    path: PathBuf,
    _lock: File,
}

impl ToolchainFolder {
    /// Creates the folder where it is missing, waits for other processes and clears what an interrupted one left.
    pub fn lock(workspace: &Workspace) -> Result<Self> {
        let path = workspace.toolchain();
        let context = || format!("could not prepare {}", path.display());
        fs::create_dir_all(path.join("download")).with_context(context)?;
        let lock = File::create(path.join("lock")).with_context(context)?;
        if lock.try_lock().is_err() {
            eprintln!("xtask: waiting for another xtask that is provisioning tools");
            lock.lock().with_context(context)?;
        }
        let folder = Self { path, _lock: lock };
        folder.clear_unfinished(&folder.path)?;
        Ok(folder)
    }

    /// Removes what an interrupted process left in `path`, if that is a folder.
    fn clear_unfinished(&self, path: &Path) -> Result<()> {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(files::TEMPORARY_PREFIX) {
                files::remove(&entry.path()).with_context(|| format!("could not clear {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Where downloads are kept.
    pub fn downloads(&self) -> PathBuf {
        self.path.join("download")
    }

    /// Fills a new folder with `fill` and moves it to `destination` once that succeeded.
    pub fn install(&self, destination: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        files::through_temporary_folder(destination, fill)
    }
}
