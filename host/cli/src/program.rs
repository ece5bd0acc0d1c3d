//! The fa512 program: its commands and exit codes.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::files;

use crate::commands::{bench, compare, diagnose, doctor, exit_code, fuzz, lab, manual, profile, run, sanitize};

/// Runs, checks and times FlashAttention forward kernels written in Rust, on a GPU or in the PTX simulator.
#[derive(Parser)]
#[command(name = "fa512", version, after_help = "Exit codes: 0 pass, 1 a check failed, 2 could not run.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Options>),
    Sanitize(sanitize::Options),
    Fuzz(fuzz::Options),
    Bench(Box<bench::Options>),
    Compare(compare::Options),
    Profile(profile::Options),
    Diagnose(diagnose::Options),
    Doctor(doctor::Options),
    /// Map our time and the contenders' over a range of sizes, and fit predicted times to it (by the program fa512-lab)
    Map(lab::Arguments),
    /// Time every entry of two PTX folders beside each other (by the program fa512-lab)
    Entries(lab::Arguments),
    /// Find the tile configurations that are fastest on a GPU (by the program fa512-lab)
    Tune(lab::Arguments),
    /// Make a page of records (by the program fa512-lab)
    Report(lab::Arguments),
    /// Draw the times of a bench record (by the program fa512-lab)
    Plot(lab::Arguments),
    Completions(manual::CompletionsOptions),
    Man(manual::ManOptions),
}

/// Runs the command line of the process. Exit code 0: pass, 1: a check failed, 2: could not run.
pub fn main() -> ExitCode {
    files::let_writes_fail_at_the_size_limit();
    let command = match Cli::try_parse() {
        Ok(Cli { command }) => command,
        Err(error) => return explain(&error),
    };
    let outcome = match command {
        Command::Run(options) => run::run(&options),
        Command::Sanitize(options) => sanitize::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Compare(options) => return compare::run(&options),
        Command::Profile(options) => profile::run(&options),
        Command::Diagnose(options) => diagnose::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Map(arguments) => lab::hand_over("map", &arguments),
        Command::Entries(arguments) => lab::hand_over("entries", &arguments),
        Command::Tune(arguments) => lab::hand_over("tune", &arguments),
        Command::Report(arguments) => lab::hand_over("report", &arguments),
        Command::Plot(arguments) => lab::hand_over("plot", &arguments),
        Command::Completions(options) => manual::completions(&options, Cli::command()),
        Command::Man(options) => manual::man(&options, Cli::command()),
    };
    exit_code(outcome)
}

/// Prints the error in the arguments, or the requested help.
fn explain(error: &clap::Error) -> ExitCode {
    // Nothing can be done if standard error is closed.
    let _ = error.print();
    let comparing = std::env::args_os().nth(1).is_some_and(|command| command == "compare");
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if comparing => ExitCode::from(compare::COULD_NOT_COMPARE),
        _ => ExitCode::from(2),
    }
}

#[cfg(test)]
mod tests {
    use doc_lint::Tree;
    use doc_lint::commands::{self, Form};

    use super::Cli;

    #[test]
    fn the_commands_that_the_documents_show_are_accepted() {
        let forms = [
            Form { words: &["fa512"], arguments: &[] },
            Form { words: &["cargo", "xtask", "run", "--"], arguments: &["run"] },
        ];
        let documents = Tree::read(doc_lint::workspace_root()).and_then(|tree| tree.documents());
        doc_lint::assert_none(&commands::check::<Cli>(&documents.expect("the documents"), &forms));
    }
}
