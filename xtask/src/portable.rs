//! Programs and libraries for older x86-64 Linux machines.

use std::process::Command;

use anyhow::{Result, bail};

use crate::elf::{self, GlibcVersion};
use crate::environment::Workspace;
use crate::zigbuild::Zigbuild;

/// The oldest supported C library: that of Debian 11, Ubuntu 20.04, RHEL 9.
pub const GLIBC: &str = "2.31";
/// Target triple.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Shared libraries that every such machine has.
const LIBRARIES: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"];

/// Cargo profile of programs: optimised for size.
pub const SMALL: &str = "portable";
/// What rustc is told for [`SMALL`], with paths below the workspace.
const SMALL_FLAGS: &str = "-Clink-arg=-Wl,-T,xtask/dist/no-unwinding.ld";
/// Cargo profile of libraries and tests.
pub const RELEASE: &str = "release";

/// `cargo zigbuild` of the workspace with a profile and arguments.
pub fn build(zigbuild: &Zigbuild, workspace: &Workspace, profile: &str, arguments: &[&str]) -> Command {
    let mut command = zigbuild.command();
    command.current_dir(workspace.root()).args(["--profile", profile, "--target", &format!("{TARGET}.{GLIBC}")]);
    command.args(arguments).env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    if profile == SMALL {
        command.env("CARGO_BUILD_RUSTFLAGS", SMALL_FLAGS);
    }
    command
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

/// Refuses a program that would not start on a machine with [`GLIBC`] and [`LIBRARIES`].
pub fn check_needs(program: &[u8]) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use tempfile::TempDir;

    use super::{GLIBC, TARGET, check_needs, check_size};

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
    fn a_program_that_is_too_large_is_refused() {
        assert!(check_size(&[0; 8], 8).is_ok());
        let error = check_size(&[0; 9], 8).unwrap_err().to_string();
        assert!(error.starts_with("it has 9 bytes, more than 8;"), "{error}");
    }

    #[test]
    fn the_documents_name_the_system_that_packages_are_for() {
        assert_eq!(TARGET, "x86_64-unknown-linux-gnu");
        for page in ["README.md", "docs/use/README.md"] {
            let text = fs::read_to_string(doc_lint::workspace_root().join(page)).unwrap();
            assert!(text.contains(&format!("x86-64 Linux with glibc {GLIBC} or later")), "{page} names no system");
            assert!(!text.contains("GH200") || text.contains("aarch64"), "{page}: the hosts of GH200 are aarch64");
        }
    }
}
