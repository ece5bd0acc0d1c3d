//! Sanitizing on a GPU: compute-sanitizer runs this program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::compute_sanitizer::{TOOLS, findings, options};
use crate::error::{Error, Result};
use ptx_sim::Finding;

use super::sweep::{Case, VariantCases};
use crate::commands::find_program;

/// compute-sanitizer and the program it runs.
pub struct ComputeSanitizer {
    tool: PathBuf,
    program: PathBuf,
    ptx_folder: PathBuf,
}

impl ComputeSanitizer {
    /// Finds the tool.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it is not installed; the message says how to get it.
    pub fn find(ptx_folder: &Path) -> Result<Self> {
        let tool = find_program("compute-sanitizer").ok_or_else(|| {
            Error::Unavailable(
                "no compute-sanitizer in PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda*; it comes with the CUDA toolkit. --device sim needs \
                 neither it nor a GPU"
                    .into(),
            )
        })?;
        let program = std::env::current_exe().map_err(|source| Error::File { path: "this program".into(), source })?;
        Ok(Self { tool, program, ptx_folder: ptx_folder.to_owned() })
    }

    /// Findings of all tools in one case.
    pub fn execute(&self, variant: &VariantCases<'_>, case: &Case) -> Result<Vec<Finding>> {
        let mut found = Vec::new();
        for tool in TOOLS {
            found.extend(findings(&self.output(tool, variant, case)?, variant.kernel.name())?);
        }
        Ok(found)
    }

    /// Output of one tool for `fa512 run`, whose exit code is unrelated to the tool's findings.
    fn output(&self, tool: &str, variant: &VariantCases<'_>, case: &Case) -> Result<String> {
        let shape = case.problem.shape();
        let mut command = Command::new(&self.tool);
        command.args(options(tool, variant.kernel.mbarriers())).arg(&self.program);
        command.args(["run", "--device", "gpu", "--no-check", "--samples", "0", "--json"]);
        command.arg("--ptx").arg(&self.ptx_folder).args(["--variant", variant.kernel.name()]);
        command.args(["--mask", case.problem.mask().name(), "--layout", case.layout.name()]);
        command.args(["--type", case.problem.element().name()]);
        command.args(["--heads", &shape.heads.to_string(), "--head-dim", &shape.head_dim.to_string()]);
        command.args(variant.kernel.score_mod().options());
        match &case.lengths {
            None => command.args(["--batch", &shape.batch.to_string(), "--seq", &shape.sequence.to_string()]),
            Some(lengths) => {
                let lengths: Vec<_> = lengths.iter().map(u32::to_string).collect();
                command.args(["--lengths", &lengths.join(",")])
            }
        };
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|source| Error::File { path: self.tool.clone(), source })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(text(&output.stdout) + &text(&output.stderr))
    }
}
