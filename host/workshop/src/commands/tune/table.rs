//! `fa512 tune table`: shows the tuned table, and enters the decisions of records.

use std::path::PathBuf;

use crate::error::Result;
use crate::files;
use crate::tune::record::Record;
use crate::tuned_table::Table;

use super::text;
use crate::commands::{Verdict, output};

/// Show the tuned table, or update it with the decisions of records
///
/// The built-in table is host/workshop/tuned.json; the next build uses what is written there.
#[derive(clap::Args)]
pub struct Options {
    /// Records whose decisions replace those of the table for their GPU and class
    #[arg(value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// Table to start from [default: --out if it exists, else the built-in one]
    #[arg(long, value_name = "FILE")]
    tuned: Option<PathBuf>,
    /// Write the table to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let sources: Vec<_> = options.records.iter().map(|path| ("a record", path.as_path())).collect();
    let target = options.out.iter().map(|path| ("--out", path.as_path())).collect::<Vec<_>>();
    files::check_targets(&target, &sources)?;
    let begin = options.tuned.as_ref().or(options.out.as_ref().filter(|path| path.is_file()));
    let mut table = Table::open(begin.map(PathBuf::as_path))?;
    for path in &options.records {
        table.adopt(&Record::load(path)?);
    }
    if let Some(path) = &options.out {
        table.save(path)?;
    }
    output::print(&text::table(&table))?;
    Ok(Verdict::Pass)
}
