//! Programs and libraries for older Linux machines.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::elf::{self, GlibcVersion};
use crate::environment::Workspace;
use crate::machine::Machine;
use crate::standard_library::StandardLibrary;
use crate::zigbuild::Zigbuild;

/// The oldest supported C library: that of Debian 11, Ubuntu 20.04, RHEL 9.
pub const GLIBC: &str = "2.31";
/// Shared libraries that every such machine has, beside its dynamic linker.
const LIBRARIES: [&str; 5] = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"];

/// Cargo profile of programs: optimised for size.
pub const SMALL: &str = "portable";
/// What rustc is told for [`SMALL`], with paths below the workspace.
const SMALL_FLAGS: &str = "-Clink-arg=-Wl,-T,xtask/dist/no-unwinding.ld";
/// Cargo profile of libraries and tests.
pub const RELEASE: &str = "release";

/// What builds for a kind of machine.
#[derive(Debug)]
pub struct Toolset {
    /// What is built for.
    pub machine: Machine,
    /// Links.
    pub zigbuild: Zigbuild,
    /// Compiles.
    pub library: StandardLibrary,
}

impl Toolset {
    /// `cargo zigbuild` of the workspace with a profile and arguments.
    pub fn build(&self, workspace: &Workspace, profile: &str, arguments: &[&str]) -> Command {
        let mut command = self.zigbuild.command();
        let target = format!("{}.{GLIBC}", self.machine.target());
        command.current_dir(workspace.root()).args(["--profile", profile, "--target", &target]);
        command.args(arguments).env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
        if profile == SMALL {
            command.env("CARGO_BUILD_RUSTFLAGS", SMALL_FLAGS);
        }
        self.library.compile_with(&mut command, self.machine);
        command
    }

    /// Where cargo puts what it builds with `profile`.
    pub fn built(&self, workspace: &Workspace, profile: &str) -> PathBuf {
        workspace.root().join("target").join(self.machine.target()).join(profile)
    }

    /// Has `maturin build` make a wheel that this machine's kind of system accepts.
    pub fn make_wheel(&self, maturin: &mut Command) {
        maturin.args(["--release", "--zig", "--target", &self.machine.target(), "--compatibility"]);
        maturin
            .arg(format!("manylinux_{}", GLIBC.replace('.', "_")))
            .env("CARGO_ZIGBUILD_ZIG_PATH", self.zigbuild.zig());
        self.library.compile_with(maturin, self.machine);
    }

    /// zig's name of what is built for.
    pub fn zig_target(&self) -> String {
        format!("{}-linux-gnu.{GLIBC}", self.machine.name())
    }
}

/// Refuses a program of more than `most` bytes.
pub fn check_size(program: &[u8], most: usize) -> Result<()> {
    match program.len() <= most {
        true => Ok(()),
        false => {
            bail!("it has {} bytes, more than {most}; docs/environment.md says what its size depends on", program.len())
        }
    }
}

/// Refuses a program that would not start on a `machine` with [`GLIBC`] and [`LIBRARIES`].
pub fn check_needs(program: &[u8], machine: Machine) -> Result<()> {
    let needs = elf::needs(program)?;
    let is_there = |library: &str| LIBRARIES.contains(&library) || library == machine.dynamic_linker();
    let unknown = needs.libraries.iter().find(|library| !is_there(library));
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use tempfile::TempDir;

    use super::{GLIBC, check_needs, check_size};
    use crate::machine::Machine;

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
        let check = |version| check_needs(&program(folder.path(), version, "libc.so.6"), Machine::X86_64);
        assert!(check("GLIBC_2.31").is_ok());
        let error = check("GLIBC_2.32").unwrap_err().to_string();
        assert_eq!(error, "it needs glibc 2.32, newer than 2.31");
    }

    #[test]
    fn a_program_that_needs_another_library_is_refused() {
        let folder = TempDir::new().unwrap();
        let check = |library, machine| {
            let program = program(folder.path(), "V_1", library);
            check_needs(&program, machine).map_err(|error| error.to_string())
        };
        let refused = |library: &str| Err(format!("it needs {library}, which not every machine has"));
        assert_eq!(check("libcuda.so.1", Machine::X86_64), refused("libcuda.so.1"));
        let linker = Machine::Aarch64.dynamic_linker();
        assert_eq!(check(linker, Machine::Aarch64), Ok(()));
        assert_eq!(check(linker, Machine::X86_64), refused(linker));
    }

    #[test]
    fn a_program_that_is_too_large_is_refused() {
        assert!(check_size(&[0; 8], 8).is_ok());
        let error = check_size(&[0; 9], 8).unwrap_err().to_string();
        assert!(error.starts_with("it has 9 bytes, more than 8;"), "{error}");
    }

    #[test]
    fn the_documents_name_the_systems_that_packages_are_for() {
        let systems = Machine::ALL.map(Machine::title).join(" and ");
        for page in ["README.md", "docs/use/README.md"] {
            let text = fs::read_to_string(doc_lint::workspace_root().join(page)).unwrap();
            assert!(text.contains(&format!("{systems} Linux with glibc {GLIBC} or later")), "{page} names no system");
        }
    }
}
