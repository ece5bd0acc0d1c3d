//! The PTX of the planted bugs, which the tests need and nothing else.

use std::path::PathBuf;

use anyhow::Result;
use kernel_gpu::config::Family;

use crate::codegen::{self, FamilyTarget};
use crate::environment::{Environment, Workspace};
use crate::files::write_atomically;

/// Tells the tests where the PTX is.
pub const PTX_VARIABLE: &str = "FA512_PLANTED_PTX";

/// The planted bugs use the instructions of the sm_80 family.
const TARGET: FamilyTarget = FamilyTarget {
    family: Family::Sm80,
    cargo_feature: "planted",
    cpu: "sm_80",
    ptx_feature: "ptx80",
    file: "planted.ptx",
};

/// Compiles the planted bugs and returns where their PTX is. Launch bounds and the refusal of what makes an entry slow
/// are for kernels that are shipped.
pub fn build(environment: &Environment, workspace: &Workspace) -> Result<PathBuf> {
    let code_generator = codegen::choose(environment, workspace)?;
    let compiled = code_generator.compile(&TARGET)?;
    let path = workspace.planted_ptx();
    write_atomically(&path, compiled.ptx.as_bytes())?;
    Ok(path)
}
