//! The PTX of the planted bugs, which the tests need and nothing else.

use std::path::PathBuf;

use ::planted::Architecture;
use anyhow::Result;

use crate::codegen::{self, Package, Target};
use crate::environment::{Environment, Workspace};
use crate::files::write_atomically;

/// Tells the tests in which folder the PTX is.
pub const PTX_VARIABLE: &str = "FA512_PLANTED_PTX";

/// The package with the planted bugs; it has a feature for each architecture.
const PACKAGE: Package = Package { name: "planted", folder: "kernel-gpu/planted" };

fn target(architecture: Architecture) -> Target {
    let name = architecture.name();
    Target { package: PACKAGE, cargo_feature: name, cpu: name, ptx_feature: "ptx80", file: architecture.file() }
}

/// Compiles the planted bugs and returns the folder of their PTX. Launch bounds and the refusal of what makes an entry
/// slow are for kernels that are shipped.
pub fn build(environment: &Environment, workspace: &Workspace) -> Result<PathBuf> {
    let code_generator = codegen::choose(environment, workspace)?;
    let folder = workspace.planted_ptx();
    for target in Architecture::ALL.map(target) {
        let compiled = code_generator.compile(&target)?;
        write_atomically(&folder.join(target.file), compiled.ptx.as_bytes())?;
    }
    Ok(folder)
}
