//! Records results of a GPU, and compares the simulator with them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use ptx_conformance::check::check;
use ptx_conformance::forms::{CLASSES, Class};
use ptx_conformance::{record, vectors};
use ptx_diagnostics::streams::{note, print};

/// Records what a GPU computes for every instruction form that the simulator executes, and compares the simulator with
/// it.
///
/// Exit code: 0 everything agrees, 1 something differs or a case failed, 2 could not run.
#[derive(Parser, Debug)]
#[command(name = "ptx-conformance")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Folder of the vectors; default: those of the repository
    #[arg(long, global = true)]
    vectors: Option<PathBuf>,
    /// Only this class of instructions; may be given several times
    #[arg(long = "class", global = true)]
    classes: Vec<String>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Runs every case that has no current result on the GPU and stores the results
    Record,
    /// Runs every case in the simulator and compares the results
    Check,
    /// Runs the cases of one class that have no current result, and prints the results: what `record` starts
    #[command(hide = true)]
    Run {
        /// Index of the first case
        from: usize,
    },
    /// Writes the PTX of every case to a folder
    Write {
        /// The folder
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            note(&format!("ptx-conformance: error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

impl Arguments {
    fn run(&self) -> Result<bool> {
        let folder = self.vectors.clone().unwrap_or_else(vectors::stored);
        let classes: Vec<&Class> = CLASSES
            .iter()
            .filter(|class| self.classes.is_empty() || self.classes.iter().any(|name| name == class.name))
            .collect();
        match &self.command {
            Command::Record => {
                let mut all = true;
                for class in classes {
                    let failures = record::record(class, &folder)?;
                    let listed: String = failures.iter().map(|failure| format!("{failure}\n")).collect();
                    let (name, cases, failed) = (class.name, class.cases().len(), failures.len());
                    print(&format!("{listed}{name}: {cases} cases, {failed} failed\n"))?;
                    all &= failures.is_empty();
                }
                Ok(all)
            }
            Command::Run { from } => {
                for class in classes {
                    record::run(class, &folder, *from)?;
                }
                Ok(true)
            }
            Command::Check => {
                let mut all = true;
                for class in classes {
                    let differences = check(class, &folder)?;
                    let listed: String = differences.iter().map(|difference| format!("{difference}\n\n")).collect();
                    let (name, cases, differ) = (class.name, class.cases().len(), differences.len());
                    print(&format!("{listed}{name}: {cases} cases, {differ} differ\n"))?;
                    all &= differences.is_empty();
                }
                Ok(all)
            }
            Command::Write { folder } => {
                for class in classes {
                    for (index, case) in class.cases().iter().enumerate() {
                        let path = folder.join(format!("{}-{index}.ptx", class.name));
                        std::fs::write(path, format!("// {}\n{}", case.name, case.ptx))?;
                    }
                }
                Ok(true)
            }
        }
    }
}
