//! `cargo xtask ci`: everything that a change must pass.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use contract::backward::variants::BACKWARD_VARIANTS;
use contract::config::Family;
use contract::manifest::{Manifest, Resources};
use contract::variants::VARIANTS;

use super::ptx::Checked;
use super::run::PTX_VARIABLE;
use super::{package, ptx, python_test, test};
use crate::codegen::{self, FAMILY_TARGETS};
use crate::cores;
use crate::environment::{Environment, Workspace};
use crate::kernels;
use crate::outside;
use crate::process;
use crate::progress::Step;
use crate::provision;
use crate::ptx_folder::PtxFolder;
use crate::ptxas::{Ptxas, Waste, checked_architectures, instructions_of};
use crate::simulator;

/// Checks formatting, lints, documentation, tests, and that ptxas accepts every entry without spills.
///
/// Downloads the device compiler and ptxas if they are missing. Every check runs, even if others fail.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Try all entries on every problem of the tests, not in turns; check loops over registers, and that ptxas writes the same for GPUs with
    /// the same instructions, in all entries, not in some that have every option of them
    #[arg(long)]
    all_entries: bool,
}

impl Arguments {
    /// Runs the checks; the error names those that failed.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let checked = if self.all_entries { Checked::All } else { Checked::Cover };
        let ptxas = provision::ptxas(environment, workspace)?;
        let folder = thread::scope(|scope| {
            // Beside the compiler, since it mostly waits for the network. If it fails, the check of the Python package says so.
            scope.spawn(|| python_test::install_torch(environment, workspace));
            ptx::build(environment, workspace, &workspace.ptx())
        })?;
        let cargo = |arguments: &[&str]| {
            let mut cargo = Command::new(environment.cargo());
            cargo.current_dir(workspace.root()).args(arguments);
            // It does not wait for a core of its own: the device half's compilers hold theirs for minutes.
            cores::share_with(&mut cargo);
            cargo
        };
        let clippy = ["clippy", "--workspace", "--all-targets", "--release", "--", "--deny", "warnings"];
        let doc = ["doc", "--workspace", "--no-deps", "--document-private-items", "--release"];
        let of_device: Vec<(&str, Check<'_>)> = vec![
            ("ptxas", Box::new(|| check_resources(&folder.manifest))),
            (
                "ptxas for GPUs with the same instructions",
                Box::new(|| check_same_instructions(&ptxas, &folder, checked)),
            ),
            ("loops over registers", Box::new(|| ptx::check_loops(environment, workspace, checked))),
            ("device half", Box::new(|| lint_device_half(environment, workspace, &folder))),
        ];
        let stand_in = kernels::stand_in(workspace)?;
        let read_only = |arguments: &[&str]| {
            let mut cargo = cargo(arguments);
            cargo.env(PTX_VARIABLE, &stand_in);
            cargo
        };
        let of_host: Vec<(&str, Check<'_>)> = vec![
            ("formatting", Box::new(|| process::run(&mut cargo(&["fmt", "--all", "--check"])))),
            ("clippy", Box::new(|| process::run(&mut read_only(&clippy)))),
            ("documentation", Box::new(|| process::run(read_only(&doc).env("RUSTDOCFLAGS", "--deny warnings")))),
            ("the packed library", Box::new(|| check_packages(environment, workspace))),
        ];
        // Beside each other, since each leaves a core idle for a while.
        let failed = thread::scope(|scope| {
            let of_device = scope.spawn(|| failures(of_device));
            let mut failed = failures(of_host);
            failed.extend(failures_of_programs(environment, workspace, checked));
            failed.extend(of_device.join().unwrap_or_else(|_| vec!["a check of the device half panicked"]));
            failed
        });
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        eprintln!("xtask: everything passed");
        Ok(())
    }
}

type Check<'a> = Box<dyn FnOnce() -> Result<()> + Send + 'a>;

/// Runs checks one after the other; the names of those that fail come back.
fn failures<'a>(checks: Vec<(&'a str, Check<'_>)>) -> Vec<&'a str> {
    checks.into_iter().filter_map(|(name, check)| fails(name, check)).collect()
}

/// Builds the programs of the tests, and runs the tests beside those of the Python package, which take what cores the others leave idle.
fn failures_of_programs(environment: &Environment, workspace: &Workspace, checked: Checked) -> Vec<&'static str> {
    let variables: &[(&str, &OsStr)] = match checked {
        Checked::All => &[(test::ALL_ENTRIES_VARIABLE, OsStr::new("1"))],
        Checked::Cover => &[],
    };
    let libraries = || -> Result<PathBuf> {
        let built = test::build_programs(environment, workspace)?;
        let driver = built.get(simulator::DRIVER).context("cargo built no simulated driver")?;
        Ok(driver.parent().context("a library is in a folder")?.to_owned())
    };
    let libraries = match libraries() {
        Ok(libraries) => libraries,
        Err(error) => {
            eprintln!("xtask: the programs of the tests: {error:#}");
            return vec!["the programs of the tests"];
        }
    };
    let of_python: Vec<(&str, Check<'_>)> = vec![
        ("the Python package", Box::new(|| python_test::check(environment, workspace, &libraries))),
        (
            "the Python package around PyTorch",
            Box::new(|| python_test::check_torch(environment, workspace, &libraries)),
        ),
    ];
    thread::scope(|scope| {
        let of_python = scope.spawn(|| failures(of_python));
        let mut failed =
            failures(vec![("tests", Box::new(|| test::run_tests_with(environment, workspace, &[], variables)))]);
        failed.extend(of_python.join().unwrap_or_else(|_| vec!["a check of the Python package panicked"]));
        failed
    })
}

/// Runs one check; the name comes back when it fails.
fn fails<'a>(name: &'a str, check: Check<'_>) -> Option<&'a str> {
    let step = Step::begin(format!("checking {name}"));
    let outcome = check();
    step.done();
    let error = outcome.err()?;
    eprintln!("xtask: {name}: {error:#}");
    Some(name)
}

/// The library as it is published, in a program outside the workspace.
fn check_packages(environment: &Environment, workspace: &Workspace) -> Result<()> {
    outside::check(environment, workspace, &package::pack_crates(environment, workspace, None)?)
}

/// The compiler's and clippy's warnings. Clippy comes with the device compiler or not at all: the host's belongs to
/// another compiler version.
fn lint_device_half(environment: &Environment, workspace: &Workspace, folder: &PtxFolder) -> Result<()> {
    if folder.warnings > 0 {
        bail!("the compiler has {} warnings about the device half of kernel-gpu", folder.warnings);
    }
    let code_generator = codegen::choose(environment, workspace)?;
    for family in &FAMILY_TARGETS {
        match code_generator.lint(&family.target)? {
            Some(0) => {}
            Some(warnings) => bail!("clippy has {warnings} warnings about the device half of kernel-gpu"),
            None => eprintln!("xtask: warning: the device compiler has no clippy; only its own warnings are checked"),
        }
    }
    Ok(())
}

/// Every entry must have been accepted for every architecture, and none may spill or have a stack frame.
fn check_resources(manifest: &Manifest) -> Result<()> {
    let forward = manifest.modules.iter().flat_map(|module| &module.entries);
    let forward = forward.map(|entry| (entry.family(), &entry.name, &entry.resources));
    let mut backward = Vec::new();
    for entry in manifest.modules.iter().flat_map(|module| &module.backward) {
        let variant = BACKWARD_VARIANTS.iter().find(|variant| variant.entry == entry.name);
        let variant = variant.with_context(|| format!("there is no backward entry {}", entry.name))?;
        backward.push((variant.family(), &entry.name, &entry.resources));
    }
    let problems: Vec<String> = forward
        .chain(backward)
        .flat_map(|(family, name, resources)| {
            checked_architectures(family).filter_map(move |one| resource_problem(name, resources, one))
        })
        .collect();
    if !problems.is_empty() {
        bail!("the entries are not what they should be:\n  {}", problems.join("\n  "));
    }
    Ok(())
}

/// Of a module's entries, how many are assembled once more where not all are.
const MOST_FOR_PTXAS: usize = 8;

/// ptxas must report for an architecture what the manifest took over from one with the same instructions.
fn check_same_instructions(ptxas: &Ptxas, folder: &PtxFolder, checked: Checked) -> Result<()> {
    let forward = checked.forward(VARIANTS.iter()).into_iter().map(|variant| (variant.family(), variant.entry));
    let backward =
        checked.backward(BACKWARD_VARIANTS.iter()).into_iter().map(|variant| (variant.family(), variant.entry));
    let checked_names: Vec<_> = forward.chain(backward).collect();
    for module in &folder.manifest.modules {
        let forward = module.entries.iter().map(|entry| (entry.name.as_str(), &entry.resources));
        let backward = module.backward.iter().map(|entry| (entry.name.as_str(), &entry.resources));
        let of_module: BTreeMap<_, _> = forward.chain(backward).collect();
        let is_here = |(_, name): &&(Family, &str)| of_module.contains_key(name);
        let mut names: Vec<&str> = checked_names.iter().filter(is_here).map(|(_, name)| *name).collect();
        if checked == Checked::Cover {
            // What is checked is ptxas, of one version: of the cover the first, which have most options.
            names.truncate(MOST_FOR_PTXAS);
        }
        let (family, _) =
            checked_names.iter().find(is_here).with_context(|| format!("{} has no entries", module.file))?;
        for architecture in checked_architectures(*family).filter(|one| instructions_of(*one) != *one) {
            let ptx = folder.path.join(&module.file);
            let assembly = ptxas.assemble_entries(&names, *family, &ptx, architecture, cores::count());
            let reported = assembly.outcome.map_err(|messages| anyhow!("sm_{architecture}: {messages}"))?;
            for name in &names {
                let taken_over = of_module[name].iter().find(|resources| resources.architecture == architecture);
                ensure!(
                    taken_over.is_some() && taken_over == reported.get(*name),
                    "ptxas reports other resources of {name} for sm_{architecture} than for sm_{}",
                    instructions_of(architecture),
                );
            }
        }
    }
    Ok(())
}

fn resource_problem(name: &str, resources: &[Resources], architecture: u32) -> Option<String> {
    let Some(resources) = resources.iter().find(|resources| resources.architecture == architecture) else {
        return Some(format!("{name} was not assembled for sm_{architecture}"));
    };
    Waste::of(name, resources).map(|waste| waste.to_string())
}

#[cfg(test)]
mod tests {
    use contract::config::Family;
    use contract::manifest::{Entry, Resources};
    use contract::variants::VARIANTS;

    use super::{checked_architectures, resource_problem};

    #[test]
    fn an_entry_must_be_assembled_without_spills_for_every_architecture() {
        let variant = VARIANTS.iter().find(|variant| variant.family() == Family::Sm80).expect("there is one");
        let mut entry = Entry::from(variant);
        for architecture in checked_architectures(entry.family()) {
            let problem =
                resource_problem(&entry.name, &entry.resources, architecture).expect("nothing was assembled yet");
            assert!(problem.contains(&format!("was not assembled for sm_{architecture}")), "{problem}");
            entry.resources.push(Resources {
                architecture,
                registers: 255,
                spill_stores: 0,
                spill_loads: 0,
                stack: 0,
                static_shared: 0,
            });
            assert_eq!(resource_problem(&entry.name, &entry.resources, architecture), None);
        }
        entry.resources[1].spill_loads = 4;
        let problem =
            resource_problem(&entry.name, &entry.resources, entry.resources[1].architecture).expect("it spills");
        assert!(problem.contains(&entry.name) && problem.contains("4 of spill loads"), "{problem}");
    }
}
