//! `fa512 plot`: draws times of a record as an image for documents.

use std::path::PathBuf;

use crate::report::speed::{self, Shown};
use cli::error::Result;
use cli::files;
use cli::record::BenchRecord;
use contract::problem::Shape;

use cli::commands::bench::shape;
use cli::commands::{Verdict, output};

/// Draw the times of a bench record as an SVG image for light and dark pages
#[derive(clap::Args)]
pub struct Options {
    /// Record of `fa512 bench --json FILE`
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// Contenders to draw, each with an optional label; the first is the baseline
    #[arg(long, value_name = "NAME[=LABEL]", value_delimiter = ',', required = true, value_parser = shown)]
    contender: Vec<Shown>,
    /// Shapes to show, as BxHxS, separated by commas [default: all]
    #[arg(long, value_name = "BxHxS", value_delimiter = ',', value_parser = shape)]
    shapes: Vec<Shape>,
    /// Where to write the image
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

fn shown(text: &str) -> std::result::Result<Shown, String> {
    let (contender, label) = text.split_once('=').unwrap_or((text, text));
    match contender.is_empty() || label.is_empty() {
        true => Err("expected a name, or NAME=LABEL".into()),
        false => Ok(Shown { contender: contender.into(), label: label.into() }),
    }
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    files::check_targets(&[("--output", &options.output)], &[("the record", &options.record)])?;
    let mut record = BenchRecord::load(&options.record)?;
    record.rows.retain(|row| options.shapes.is_empty() || options.shapes.contains(&row.case.shape));
    let image = speed::svg(&record, &options.contender)?;
    files::replace(&options.output, |file| file.write_all(image.as_bytes()))?;
    output::note(&format!("wrote {}", options.output.display()));
    Ok(Verdict::Pass)
}
