//! The program `fa512-lab`: what makes the numbers about the kernels. `fa512 map`, `entries`, `tune`, `report` and `plot` start it.

mod commands;
mod entries;
mod journal;
mod map;
mod report;
mod tune;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use cli::commands::{exit_code, manual};
use cli::files;

use commands::{entries as entries_command, map as map_command, plot, report as report_command, tune as tune_command};

/// Measures attention kernels over ranges of sizes, tunes them, draws and reports the results.
#[derive(Parser)]
#[command(name = "fa512-lab", version, after_help = "Exit codes: 0 done, 1 a check failed, 2 could not run.")]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Map(map_command::Options),
    Entries(entries_command::Options),
    Tune(tune_command::Options),
    Report(report_command::Options),
    Plot(plot::Options),
    Completions(manual::CompletionsOptions),
    Man(manual::ManOptions),
}

fn main() -> ExitCode {
    files::let_writes_fail_at_the_size_limit();
    let command = match Lab::try_parse() {
        Ok(Lab { command }) => command,
        Err(error) => {
            // Nothing can be done if standard error is closed.
            let _ = error.print();
            return if error.exit_code() == 0 { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    exit_code(match command {
        Command::Map(options) => map_command::run(&options),
        Command::Entries(options) => entries_command::run(&options),
        Command::Tune(options) => tune_command::run(&options),
        Command::Report(options) => report_command::run(&options),
        Command::Plot(options) => plot::run(&options),
        Command::Completions(options) => manual::completions(&options, Lab::command()),
        Command::Man(options) => manual::man(&options, Lab::command()),
    })
}

#[cfg(test)]
mod tests {
    use doc_lint::Tree;
    use doc_lint::commands::{self, Form};

    use super::Lab;

    #[test]
    fn the_commands_that_the_documents_show_are_accepted() {
        let program = Form { words: &["fa512-lab"], arguments: &[] };
        // By the name of the program that starts it.
        let started = [
            Form { words: &["fa512", "map"], arguments: &["map"] },
            Form { words: &["fa512", "entries"], arguments: &["entries"] },
            Form { words: &["fa512", "tune"], arguments: &["tune"] },
            Form { words: &["fa512", "report"], arguments: &["report"] },
            Form { words: &["fa512", "plot"], arguments: &["plot"] },
        ];
        let forms: Vec<_> = started.into_iter().chain([program]).collect();
        let documents = Tree::read(doc_lint::workspace_root()).and_then(|tree| tree.documents());
        doc_lint::assert_none(&commands::check::<Lab>(&documents.expect("the documents"), &forms));
    }
}
