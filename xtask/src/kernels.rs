//! The library's own way from a PTX folder to compressed kernels, which its build script goes, too.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::environment::Workspace;

/// Two texts in one.
#[path = "../../host/fa512/build/merge.rs"]
mod merge;
/// One of two merged texts.
#[path = "../../host/fa512/src/merged.rs"]
mod merged;
/// A folder of compressed kernels.
#[path = "../../host/fa512/build/package.rs"]
#[allow(dead_code, reason = "only the build script reads what is written here")]
pub mod package;
/// One text for each entry of a module.
#[path = "../../host/fa512/build/split.rs"]
pub mod split;

/// The PTX files of a folder that hold kernels which are shipped.
pub const PTX_FILES: [&str; 4] = ["sm_90a.ptx", "sm_80.ptx", "backward_sm_90a.ptx", "backward_sm_80.ptx"];

/// What makes the library's build script embed kernels as they are shipped: an environment variable and its value.
pub const WITHOUT_LINE_TABLES: (&str, &str) = ("FA512_LINE_TABLES", "left-out");

/// A module with a kernel that does nothing.
const STAND_IN: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\n.visible .entry nothing(\n)\n{\n\tret;\n}\n";

/// A PTX folder for who reads the library's sources and runs nothing: its build script otherwise compresses the kernels for 14 seconds.
pub fn stand_in(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.root().join("target/ptx-stand-in");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(PTX_FILES[1]), STAND_IN)?;
    Ok(folder)
}
