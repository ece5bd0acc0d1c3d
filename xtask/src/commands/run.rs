//! `cargo xtask run`: from a clone to a checked result.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use contract::variants::{VARIANTS, Variant};

use super::ptx;
use crate::cargo_build;
use crate::codegen::Choice;
use crate::environment::{Environment, Workspace};
use crate::output::print_line;
use crate::process;

/// Tells the host program where the PTX is.
pub const PTX_VARIABLE: &str = "FA512_PTX_DIR";

/// Computes attention on the GPU, or in the simulator if there is none, and checks the result.
///
/// Builds fa512 and meanwhile finds or downloads the device compiler. Then compiles the one entry that the problem needs to
/// target/ptx-run, and executes `fa512 run`, whose exit code becomes this command's. `cargo xtask ptx` compiles all entries.
///
/// `cargo xtask run map`, `tune`, `report` or `plot` builds fa512-lab instead and hands the arguments behind over to it.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    code_generator: Choice,
    #[command(subcommand)]
    laboratory: Option<Laboratory>,
    /// Arguments for `fa512 run`; see `cargo xtask run -- --help`
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// The commands of fa512-lab.
#[derive(clap::Subcommand, Debug)]
#[command(disable_help_subcommand = true)]
enum Laboratory {
    Map(ForLaboratory),
    Entries(ForLaboratory),
    Tune(ForLaboratory),
    Report(ForLaboratory),
    Plot(ForLaboratory),
}

/// What fa512-lab reads.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
struct ForLaboratory {
    /// Arguments for the command of fa512-lab
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Laboratory {
    /// Builds fa512-lab and hands over to it.
    fn run(&self, environment: &Environment, workspace: &Workspace) -> Result<ExitCode> {
        let (name, ForLaboratory { arguments }) = match self {
            Self::Map(arguments) => ("map", arguments),
            Self::Entries(arguments) => ("entries", arguments),
            Self::Tune(arguments) => ("tune", arguments),
            Self::Report(arguments) => ("report", arguments),
            Self::Plot(arguments) => ("plot", arguments),
        };
        let build = cargo_build::begin_program(environment, workspace, "fa512-lab")?;
        let program = cargo_build::finish_program(build, "fa512-lab")?;
        process::hand_over(Command::new(program).arg(name).args(arguments))
    }
}

impl Arguments {
    /// Builds what is needed and hands over to `fa512 run`.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<ExitCode> {
        if let Some(laboratory) = &self.laboratory {
            return laboratory.run(environment, workspace);
        }
        self.code_generator.require(environment, workspace)?;
        // What can be provisioned is, while the program is built: an error ends that.
        let build = cargo_build::begin_program(environment, workspace, "fa512-cli")?;
        let code_generator = self.code_generator.open(environment, workspace)?;
        let program = cargo_build::finish_program(build, "fa512")?;
        let mut fa512 = Command::new(&program);
        fa512.arg("run").args(&self.arguments);
        match needed(&program, &self.arguments)? {
            Needed::Entry(variant) => {
                let folder = match ptx::build_one(code_generator.as_ref(), workspace, variant, &workspace.run_ptx())? {
                    Some(folder) => folder,
                    None => {
                        let folder = self.code_generator.folder(workspace);
                        ptx::build_by(&self.code_generator, environment, workspace, &folder)?
                    }
                };
                fa512.env(PTX_VARIABLE, folder.path);
            }
            Needed::Nothing => {}
            Needed::NoRun(said, code) => {
                if !said.is_empty() {
                    print_line(said.trim_end())?;
                }
                return Ok(code);
            }
        }
        process::hand_over(&mut fa512)
    }
}

/// What has to be compiled for a run.
#[derive(Debug)]
enum Needed {
    Entry(&'static Variant<'static>),
    /// The arguments name other PTX.
    Nothing,
    /// The program shows its help, or refuses the arguments and has said why.
    NoRun(String, ExitCode),
}

/// Asks the program what it needs.
fn needed(program: &Path, arguments: &[OsString]) -> Result<Needed> {
    let mut fa512 = Command::new(program);
    fa512.args(["run", "--print-entry"]).args(arguments).env_remove(PTX_VARIABLE).stderr(Stdio::inherit());
    let output = fa512.output().with_context(|| format!("could not start `{}`", process::command_line(&fa512)))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        if let Some(variant) = VARIANTS.iter().find(|variant| variant.entry == said.trim()) {
            return Ok(Needed::Entry(variant));
        }
        if said.is_empty() {
            return Ok(Needed::Nothing);
        }
    }
    Ok(Needed::NoRun(said.into_owned(), process::exit_code(&fa512, output.status)?))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::process::ExitCode;

    use contract::variants::VARIANTS;
    use tempfile::TempDir;

    use super::{Needed, needed};

    /// A program that is asked for an entry, and runs `commands`.
    fn pretended(folder: &TempDir, commands: &str) -> PathBuf {
        let path = folder.path().join("fa512");
        fs::write(&path, format!("#!/bin/sh\n[ \"$1 $2 $3\" = 'run --print-entry --causal' ] || exit 9\n{commands}\n"))
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    fn asked(commands: &str) -> Needed {
        let folder = TempDir::new().unwrap();
        needed(&pretended(&folder, commands), &[OsString::from("--causal")]).unwrap()
    }

    #[test]
    fn the_program_says_which_entry_it_needs() {
        let name = VARIANTS[3].entry;
        assert!(matches!(asked(&format!("echo {name}")), Needed::Entry(variant) if variant == &VARIANTS[3]));
        assert!(matches!(asked(""), Needed::Nothing));
    }

    #[test]
    fn help_and_refusals_end_the_command() {
        let ended = |commands, expected: u8| match asked(commands) {
            Needed::NoRun(said, code) => (said, code == ExitCode::from(expected)),
            other => panic!("{commands}: {other:?}"),
        };
        assert_eq!(ended("echo Usage: fa512 run", 0), ("Usage: fa512 run\n".into(), true));
        assert_eq!(ended("exit 2", 2), (String::new(), true));
    }
}
