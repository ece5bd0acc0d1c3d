//! `cargo xtask ci`: everything that a change must pass.

use std::process::Command;

use anyhow::{Result, bail};

use super::{ptx, test};
use crate::codegen::{self, FAMILY_TARGETS};
use crate::environment::{Environment, Workspace};
use crate::process;
use crate::progress::Step;
use crate::provision;
use crate::ptx_folder::PtxFolder;
use crate::ptxas::Waste;

/// Checks formatting, lints, documentation, tests, and that ptxas accepts every entry without spills.
///
/// Provisions what it needs: the device compiler and ptxas.
#[derive(clap::Args, Debug)]
pub struct Arguments {}

impl Arguments {
    /// Runs the checks in order and stops at the first that fails.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let cargo = |arguments: &[&str]| {
            let mut cargo = Command::new(environment.cargo());
            cargo.current_dir(workspace.root()).args(arguments);
            cargo
        };
        step("formatting", || process::run(&mut cargo(&["fmt", "--all", "--check"])))?;
        provision::ptxas(environment, workspace)?;
        let folder = step("PTX", || ptx::build(environment, workspace, &workspace.ptx()))?;
        if folder.warnings > 0 {
            bail!("the device half of kernel-gpu has {} warnings", folder.warnings);
        }
        step("clippy on the device half", || lint_device_half(environment, workspace))?;
        step("ptxas", || check_resources(&folder))?;
        step("clippy", || {
            let arguments = ["clippy", "--workspace", "--all-targets", "--release", "--", "--deny", "warnings"];
            process::run(&mut cargo(&arguments))
        })?;
        step("documentation", || {
            let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--release"]);
            process::run(doc.env("RUSTDOCFLAGS", "--deny warnings"))
        })?;
        step("tests", || test::run_tests(environment, workspace, &[]))?;
        eprintln!("xtask: everything passed");
        Ok(())
    }
}

fn step<T>(what: &'static str, check: impl FnOnce() -> Result<T>) -> Result<T> {
    let step = Step::begin(what);
    let value = check()?;
    step.done();
    Ok(value)
}

/// Clippy comes with the device compiler or not at all: the host's belongs to another compiler version.
fn lint_device_half(environment: &Environment, workspace: &Workspace) -> Result<()> {
    let code_generator = codegen::choose(environment, workspace)?;
    for target in &FAMILY_TARGETS {
        match code_generator.lint(target)? {
            Some(0) => {}
            Some(warnings) => bail!("clippy has {warnings} warnings about the device half of kernel-gpu"),
            None => eprintln!("xtask: warning: the device compiler has no clippy; only its own warnings are checked"),
        }
    }
    Ok(())
}

/// Every entry must have been accepted for every architecture, and none may spill or have a stack frame.
fn check_resources(folder: &PtxFolder) -> Result<()> {
    let mut problems: Vec<String> = folder
        .rejections
        .iter()
        .map(|rejection| format!("{} is refused for sm_{}", rejection.file, rejection.architecture))
        .collect();
    for entry in folder.manifest.modules.iter().flat_map(|module| &module.entries) {
        problems.extend(
            entry
                .resources
                .iter()
                .filter_map(|resources| Waste::of(&entry.name, resources))
                .map(|waste| waste.to_string()),
        );
        if folder.rejections.is_empty() && entry.resources.len() < kernel_gpu::config::ARCHITECTURES.len() {
            problems.push(format!("ptxas did not report on {} for every architecture", entry.name));
        }
    }
    if !problems.is_empty() {
        bail!("ptxas finds fault with the kernels:\n  {}", problems.join("\n  "));
    }
    Ok(())
}
