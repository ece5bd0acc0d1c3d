//! SASS of PTX files, by ptxas and nvdisasm.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use contract::config::Family;

use crate::instruction_mix::{self, Sass};
use crate::process::capture;
use crate::ptxas::Ptxas;

/// The tools that turn PTX into readable SASS.
pub struct Disassembler {
    /// The assembler.
    pub ptxas: Ptxas,
    /// nvdisasm.
    pub nvdisasm: PathBuf,
    /// As in 90 for `sm_90`.
    pub architecture: u32,
}

impl Disassembler {
    /// The instructions of every entry of the file `ptx` of a family; `scratch` is a folder.
    pub fn mixes(&self, ptx: &Path, family: Family, scratch: &Path) -> Result<BTreeMap<String, Sass>> {
        let cubin = scratch.join("disassembled.cubin");
        self.ptxas.assemble_to(ptx, family, self.architecture, &cubin)?;
        let listing = capture(Command::new(&self.nvdisasm).arg("--print-code").arg(&cubin));
        fs::remove_file(&cubin)?;
        Ok(instruction_mix::of_sass(&listing?))
    }
}
