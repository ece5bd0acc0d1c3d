//! `fa512 tune`: finds the fastest tile configurations for a GPU.

mod listener;
mod plan;
mod restart;
mod run;
mod text;

use std::path::PathBuf;

use crate::tune::record::Record;
use cli::error::Result;
use cli::files;

use cli::commands::{Verdict, output};

/// Find the tile configurations that are fastest on a GPU: plan, compile (cargo xtask ptx --variants), run, ship.
#[derive(clap::Args)]
#[command(after_help = "\
From plan to launch, on two machines:

  fa512 tune plan --out plan.json
      on any machine: choose the candidates
  cargo xtask ptx --variants plan.json --out candidates
      where Rust is installed: compile them
  fa512 tune run --plan plan.json --ptx candidates --out record.jsonl --minutes 30
      on the GPU: check, measure, decide
  fa512 map run --variants all --out map.jsonl; fa512 map fit map.jsonl --out kernel-gpu/contract/src/choose/cost/shipped.rs
      once the winners are lines of kernel-gpu/contract/src/launch/variants.rs: predict their times, by which launches choose

Exit codes: 0 done, 2 could not run (or interrupted; the same command goes on).")]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Plan(plan::Options),
    Run(Box<run::Options>),
    Merge(MergeOptions),
    Show(ShowOptions),
}

/// Merge the records of shards (--shard) into one, which `fa512 tune run` without --shard continues
#[derive(clap::Args)]
struct MergeOptions {
    /// The records
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// Write the merged record to this file
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Show the results of a record
#[derive(clap::Args)]
struct ShowOptions {
    /// The record
    record: PathBuf,
    /// Candidates of each case
    #[arg(long, value_name = "N", default_value_t = text::SHOWN)]
    top: usize,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    match &options.command {
        Command::Plan(options) => plan::run(options),
        Command::Run(options) => run::run(options),
        Command::Merge(options) => merge(options),
        Command::Show(options) => {
            output::print_wrapped(&text::results(&Record::load(&options.record)?, options.top))?;
            Ok(Verdict::Pass)
        }
    }
}

fn merge(options: &MergeOptions) -> Result<Verdict> {
    let sources: Vec<_> = options.records.iter().map(|path| ("a record", path.as_path())).collect();
    files::check_targets(&[("--out", &options.out)], &sources)?;
    let records = options.records.iter().map(|path| Ok((path.clone(), Record::load(path)?)));
    let merged = Record::merge(records.collect::<Result<_>>()?)?;
    merged.save(&options.out)?;
    output::print(&format!(
        "{}: {} trials of {} records; `fa512 tune run` with this --out and without --shard goes on from it\n",
        options.out.display(),
        merged.trials.len(),
        options.records.len()
    ))?;
    Ok(Verdict::Pass)
}
