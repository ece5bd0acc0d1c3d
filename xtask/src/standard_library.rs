//! Rust's standard library for a kind of machine, and the compiler that it belongs to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::device_compiler::{self, unpacked_shared_libraries, use_shared_libraries};
use crate::environment::{Environment, Workspace};
use crate::machine::Machine;
use crate::process::capture;

/// Variables whose flags cargo would use in place of those of a target.
const OTHER_FLAGS: [&str; 2] = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"];

/// Where the library is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandardLibrary {
    /// The compiler that cargo uses has it.
    OfCompiler,
    /// Unpacked beside a provisioned compiler.
    Unpacked {
        /// The compiler.
        rustc: PathBuf,
        /// The system root that has the library and nothing else.
        sysroot: PathBuf,
    },
}

impl StandardLibrary {
    /// That of cargo's compiler, else the unpacked one of the provisioned compiler.
    pub fn find(environment: &Environment, workspace: &Workspace, machine: Machine) -> Option<Self> {
        if has_library(environment, workspace, machine) {
            return Some(Self::OfCompiler);
        }
        let sysroot = unpacked(workspace, machine)?.join("usr");
        let library = sysroot.join("lib/rustlib").join(machine.target()).join("lib");
        library.is_dir().then(|| Self::Unpacked { rustc: device_compiler::provisioned_rustc(workspace), sysroot })
    }

    /// Has `cargo`, or a program that runs it, compile for `machine` with it.
    pub fn compile_with(&self, cargo: &mut Command, machine: Machine) {
        let Self::Unpacked { rustc, sysroot } = self else { return };
        use_shared_libraries(cargo, unpacked_shared_libraries(rustc).as_deref());
        for variable in OTHER_FLAGS {
            cargo.env_remove(variable);
        }
        let variable = format!("CARGO_TARGET_{}_RUSTFLAGS", machine.target().to_uppercase().replace('-', "_"));
        // Of the target alone: build scripts run here, and find their library beside the compiler.
        cargo.env("RUSTC", rustc).env(variable, format!("--sysroot={}", sysroot.display()));
    }
}

/// Whether the compiler that cargo uses has the library for `machine`.
fn has_library(environment: &Environment, workspace: &Workspace, machine: Machine) -> bool {
    let Some(rustc) = environment.path("RUSTC").or_else(|| environment.find_program("rustc")) else { return false };
    let mut rustc = Command::new(rustc);
    rustc.current_dir(workspace.root()).args(["--print", "target-libdir", "--target", &machine.target()]);
    capture(&mut rustc).is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

/// Where the library of the provisioned compiler is unpacked, or will be; `None` if there is no such compiler.
pub fn unpacked(workspace: &Workspace, machine: Machine) -> Option<PathBuf> {
    let version = compiler_version(workspace)?;
    // The compiler takes a library of its own version alone.
    Some(workspace.toolchain().join(format!("rust-std-{}-{version}", machine.name())))
}

/// Version of the package that the provisioned compiler was unpacked from.
pub fn compiler_version(workspace: &Workspace) -> Option<String> {
    let folder = workspace.toolchain().join(device_compiler::PROVISIONED_FOLDER);
    let packages = fs::read_to_string(folder.join("packages.sha256")).ok()?;
    packages.lines().find_map(|line| Some(line.split_once("  rustc-web_")?.1.split_once('_')?.0.to_owned()))
}
