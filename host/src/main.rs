//! The fa512 program.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{Verdict, bench, doctor, fuzz, run, sanitize};

/// Runs, checks and times FlashAttention forward kernels written in Rust, on a GPU or in the PTX simulator.
#[derive(Parser)]
#[command(version, after_help = "Exit codes: 0 pass, 1 a check failed, 2 could not run.")]
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
    Doctor(doctor::Options),
}

fn main() -> ExitCode {
    let verdict = match Cli::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Sanitize(options) => sanitize::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Doctor(options) => doctor::run(&options),
    };
    match verdict {
        Ok(Verdict::Pass) => ExitCode::SUCCESS,
        Ok(Verdict::Fail) => ExitCode::from(1),
        Ok(Verdict::CannotRun) => ExitCode::from(2),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
