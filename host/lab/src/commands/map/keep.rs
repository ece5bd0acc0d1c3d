//! `fa512 map keep`: adds times of records to the table of a GPU model.

use std::path::{Path, PathBuf};

use crate::map::record::Map;
use crate::map::times::Times;
use cli::error::{Error, Result};
use cli::files;

use cli::commands::{Verdict, output};

/// Add the times of our kernels in records to the table of their GPU model, to which constants are fitted (map fit)
#[derive(clap::Args)]
pub struct Options {
    /// The records
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// The table: docs/results/map/GPU.jsonl
    #[arg(long, value_name = "FILE")]
    table: PathBuf,
    /// First remove all times that the table has of these kernels, which have changed
    #[arg(long)]
    replace: bool,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let sources: Vec<_> = options.records.iter().map(|path| ("a record", path.as_path())).collect();
    files::check_targets(&[("--table", options.table.as_path())], &sources)?;
    let mut new = options.records.iter().map(|path| times(path)).collect::<Result<Vec<_>>>()?.into_iter();
    let mut table = if options.table.exists() { Times::load(&options.table)? } else { new.next().expect("one record") };
    let added: Vec<_> = new.collect();
    if options.replace {
        let points = || added.iter().flat_map(|times| &times.points);
        table.retain(|class| points().all(|point| point.times.iter().all(|time| time.class != *class)));
    }
    added.into_iter().try_for_each(|times| table.add(times))?;
    table.save(&options.table)?;
    output::print_wrapped(&format!("{}: {} points\n", options.table.display(), table.points.len()))?;
    Ok(Verdict::Pass)
}

/// The times in the record at `path`, whose commit must have the sources of what was measured.
fn times(path: &Path) -> Result<Times> {
    let map = Map::load(path)?;
    match map.header.git_commit.as_deref() {
        Some(commit) if commit.ends_with("-dirty") => {
            Err(Error::Invalid(format!("{}: commit {commit} is not what was measured", path.display())))
        }
        _ => Times::of(&map, &path.file_stem().unwrap_or_default().to_string_lossy()),
    }
}
