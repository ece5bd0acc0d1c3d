//! The pieces of a Rust-CUDA installation that come as packages: its compiler, and NVIDIA's libNVVM.

use std::io;
use std::process::Command;

use anyhow::{Context, Result};

use super::{ToolchainFolder, wheel};
use crate::environment::{Environment, Workspace};
use crate::files;
use crate::process::run;
use crate::progress::Step;
use crate::rust_cuda::{Examination, Folder, examine};

/// What the backend needs of the compiler besides `rustc`, `cargo` and the host's library.
const COMPONENTS: [&str; 3] = ["rust-src", "rustc-dev", "llvm-tools"];

/// Brings what is missing of those pieces into the tools' folder, and returns what is there then. The programs that download check what
/// they download.
pub fn rust_cuda(environment: &Environment, workspace: &Workspace) -> Result<Examination> {
    let examine = || examine(environment, workspace, None);
    let found = examine();
    if found.has_packages() {
        return Ok(found);
    }
    let folder = ToolchainFolder::lock(workspace)?;
    let tools = Folder::of(workspace);
    folder.clear_unfinished(tools.path())?;
    // Another process may have brought them meanwhile.
    let found = examine();
    if found.rustc.is_err() {
        install_rustc(environment, &folder, &tools).context("the compiler that the backend is for")?;
    }
    if found.libnvvm.is_err() {
        wheel::unpack_cuda(environment, &folder, &tools.cuda()).context("libNVVM")?;
    }
    Ok(examine())
}

/// Has rustup install the compiler into a home of its own: a nightly with `rust-src` in the user's would become the device compiler.
fn install_rustc(environment: &Environment, folder: &ToolchainFolder, tools: &Folder) -> Result<()> {
    let rustup = environment.find_program("rustup").context("there is no rustup to install it")?;
    let channel = tools.channel();
    let step = Step::begin(format!("rustup: installing {channel} into {}", tools.rustup().display()));
    folder.install(&tools.rustup(), |unfinished| {
        let mut rustup = Command::new(&rustup);
        rustup.args(["toolchain", "install", &channel, "--profile", "minimal", "--no-self-update"]);
        for component in COMPONENTS {
            rustup.args(["--component", component]);
        }
        run(rustup.env("RUSTUP_HOME", unfinished).env_remove("RUSTUP_TOOLCHAIN").stdout(io::stderr()))?;
        ["downloads", "tmp"].iter().try_for_each(|left| Ok(files::remove(&unfinished.join(left))?))
    })?;
    step.done();
    Ok(())
}
