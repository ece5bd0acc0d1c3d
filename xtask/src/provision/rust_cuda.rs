//! A Rust-CUDA installation in the tools' folder: its compiler, NVIDIA's libNVVM, the repository, LLVM 7, and the backend that is built of
//! all of them. What an interrupted call left is continued.

mod backend;
mod llvm;
mod sources;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use self::sources::Sources;
use super::{ToolchainFolder, wheel};
use crate::environment::{Environment, Workspace};
use crate::files;
use crate::process::run;
use crate::progress::Step;
use crate::rust_cuda::{Examination, Folder, examine};

/// What the backend needs of the compiler besides `rustc`, `cargo` and the host's library.
const COMPONENTS: [&str; 3] = ["rust-src", "rustc-dev", "llvm-tools"];

/// Brings or builds what is missing in the tools' folder, and returns what is there then. `given` is a folder with sources that cannot be
/// downloaded here.
pub fn rust_cuda(environment: &Environment, workspace: &Workspace, given: Option<&Path>) -> Result<Examination> {
    let examine = || examine(environment, workspace, None);
    let found = examine();
    if found.is_complete() {
        return Ok(found);
    }
    let folder = ToolchainFolder::lock(workspace)?;
    let tools = Folder::of(workspace);
    folder.clear_unfinished(tools.path())?;
    // Another process may have brought them meanwhile.
    let found = examine();
    let builds = found.backend.is_err();
    if builds {
        backend::require_programs(environment)?;
    }
    let sources = Sources { environment, downloads: folder.downloads(), given };
    if found.checkout.is_err() {
        folder.install(&tools.checkout(), |unfinished| sources.clone_rust_cuda(unfinished))?;
    }
    let llvm = tools.path().join(sources::LLVM);
    if builds && !llvm.is_dir() {
        folder.install(&llvm, |unfinished| sources.unpack_llvm(unfinished))?;
    }
    if found.rustc.is_err() {
        install_rustc(environment, &folder, &tools).context("the compiler that the backend is for")?;
    }
    if found.libnvvm.is_err() {
        wheel::unpack_cuda(environment, &folder, &tools.cuda()).context("libNVVM")?;
    }
    if builds {
        let llvm_config = llvm::build(environment, &llvm, &tools.llvm()).context("LLVM 7")?;
        backend::build(environment, examine(), &llvm_config).context("the backend")?;
    }
    Ok(examine())
}

/// Has rustup install the compiler into a home of its own: a nightly with `rust-src` in the user's would become the device compiler.
fn install_rustc(environment: &Environment, folder: &ToolchainFolder, tools: &Folder) -> Result<()> {
    let rustup = environment.require_program("rustup")?;
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
