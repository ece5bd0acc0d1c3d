//! `fa512 map`: our time compared with that of other libraries over the whole range of sizes.

mod draw;
mod field;
mod fit;
mod keep;
mod run;
mod text;

use std::path::PathBuf;

use crate::map::record::Map;
use cli::error::Result;

use cli::commands::{Verdict, output};

/// Measure our time beside the contenders' over a range of batch × heads and sequence lengths, with few samples per point
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(Box<run::Options>),
    Show(ShowOptions),
    Draw(draw::Options),
    Keep(keep::Options),
    Fit(fit::Options),
}

/// Show the means and the worst points of a map
#[derive(clap::Args)]
struct ShowOptions {
    /// The record
    record: PathBuf,
    /// Number of worst points to show
    #[arg(long, value_name = "N", default_value_t = text::SHOWN)]
    worst: usize,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    match &options.command {
        Command::Run(options) => run::run(options),
        Command::Draw(options) => draw::run(options),
        Command::Keep(options) => keep::run(options),
        Command::Fit(options) => fit::run(options),
        Command::Show(options) => {
            output::print_wrapped(&text::map(&Map::load(&options.record)?, options.worst))?;
            Ok(Verdict::Pass)
        }
    }
}
