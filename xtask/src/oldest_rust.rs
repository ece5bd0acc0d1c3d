//! The oldest Rust that the library builds with: packages are compiled by it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::device_compiler::{unpacked_shared_libraries, use_shared_libraries};
use crate::environment::{Environment, Workspace};
use crate::process::capture;

/// Its version, that of Debian 13.
pub const VERSION: &str = "1.85.0";
/// Folder of a provisioned one inside the workspace's toolchain folder.
pub const PROVISIONED_FOLDER: &str = "rust-1.85.0";
/// Variables that would have cargo use another compiler.
const OTHERS: [&str; 4] = ["RUSTC", "RUSTC_WRAPPER", "RUSTDOC", "RUSTUP_TOOLCHAIN"];

/// Its compiler.
#[derive(Debug)]
pub struct OldestRust {
    rustc: PathBuf,
}

impl OldestRust {
    /// The one of rustup, of Debian, or a provisioned one.
    pub fn find(environment: &Environment, workspace: &Workspace) -> Option<Self> {
        let installed = [of_rustup(environment), Some(environment.system("/usr/bin/rustc"))];
        let provisioned = workspace.toolchain().join(PROVISIONED_FOLDER).join("usr/bin/rustc");
        installed.into_iter().flatten().chain([provisioned]).find_map(Self::probe)
    }

    /// The compiler at `rustc`, if it has this version.
    pub fn probe(rustc: PathBuf) -> Option<Self> {
        let found = Self { rustc };
        let mut asked = Command::new(&found.rustc);
        use_shared_libraries(&mut asked, found.shared_libraries().as_deref());
        let version = capture(asked.arg("--version")).ok()?;
        version.starts_with(&format!("rustc {VERSION} ")).then_some(found)
    }

    /// Has `cargo` compile with it.
    pub fn compile_with<'a>(&self, cargo: &'a mut Command) -> &'a mut Command {
        for variable in OTHERS {
            cargo.env_remove(variable);
        }
        use_shared_libraries(cargo, self.shared_libraries().as_deref());
        cargo.env("RUSTC", &self.rustc)
    }

    fn shared_libraries(&self) -> Option<PathBuf> {
        unpacked_shared_libraries(&self.rustc)
    }
}

/// The compiler of rustup's toolchain of this version.
fn of_rustup(environment: &Environment) -> Option<PathBuf> {
    let rustup = environment.find_program("rustup")?;
    let listed = capture(Command::new(&rustup).args(["toolchain", "list"])).ok()?;
    let toolchain = listed.split_whitespace().find(|name| name.starts_with(VERSION))?;
    let rustc = capture(Command::new(&rustup).args(["which", "--toolchain", toolchain, "rustc"])).ok()?;
    Some(Path::new(rustc.trim()).to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::VERSION;

    /// What documents and manifests say is what the packages are compiled with.
    #[test]
    fn it_is_the_version_that_crates_and_documents_name() {
        let root = doc_lint::workspace_root();
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let version = VERSION.trim_end_matches(".0");
        for manifest in ["kernel-gpu/contract", "host/fa512", "host/fa512/c"] {
            let text = read(&Path::new(manifest).join("Cargo.toml").display().to_string());
            assert!(text.contains(&format!("rust-version = \"{version}\"")), "{manifest}");
        }
        for (page, named) in [("docs/use/rust.md", "Rust "), ("host/fa512/README.md", "| Rust | ")] {
            assert!(read(page).contains(&format!("{named}{version} ")), "{page} does not name Rust {version}");
        }
        let candle = read("host/candle/Cargo.toml");
        let (_, candle) = candle.split_once("rust-version = \"").expect("a version");
        let candle = candle.split('"').next().unwrap_or_default();
        assert!(
            read("docs/use/candle.md").contains(&format!("Rust {candle}")),
            "candle.md does not name Rust {candle}"
        );
    }
}
