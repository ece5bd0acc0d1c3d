//! The PTX of the planted bugs, which the tests need and nothing else.

use std::path::PathBuf;

use anyhow::Result;
use kernel_gpu::planted::Architecture;

use crate::codegen::{self, Target};
use crate::environment::{Environment, Workspace};
use crate::files::write_atomically;

/// Tells the tests in which folder the PTX is.
pub const PTX_VARIABLE: &str = "FA512_PLANTED_PTX";

fn target(architecture: Architecture) -> Target {
    let cargo_feature = match architecture {
        Architecture::Sm80 => "planted_sm_80",
        Architecture::Sm90a => "planted_sm_90a",
    };
    Target { cargo_feature, cpu: architecture.name(), ptx_feature: "ptx80", file: architecture.file() }
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
