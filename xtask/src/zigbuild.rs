//! cargo-zigbuild: cargo with a linker that knows the symbols of older C libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::{Environment, Workspace};

/// Folder of a provisioned cargo-zigbuild and zig inside the workspace's toolchain folder.
pub const PROVISIONED_FOLDER: &str = "zigbuild";

/// cargo-zigbuild with a zig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zigbuild {
    program: PathBuf,
    zig: PathBuf,
}

/// Looks for both in `PATH`, then for provisioned ones.
pub fn find(environment: &Environment, workspace: &Workspace) -> Option<Zigbuild> {
    let installed = environment.find_program("cargo-zigbuild").zip(environment.find_program("zig"));
    let folder = workspace.toolchain().join(PROVISIONED_FOLDER);
    let provisioned = (folder.join("cargo-zigbuild"), folder.join("zig/zig"));
    [installed, Some(provisioned)]
        .into_iter()
        .flatten()
        .map(|(program, zig)| Zigbuild { program, zig })
        .find(|found| found.program.is_file() && found.zig.is_file())
}

impl Zigbuild {
    /// The zig, for programs that drive it by themselves.
    pub fn zig(&self) -> &Path {
        &self.zig
    }

    /// `cargo zigbuild`, without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("zigbuild").env("CARGO_ZIGBUILD_ZIG_PATH", &self.zig);
        command
    }
}
