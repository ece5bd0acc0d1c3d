//! `fa512 map draw`: draws a map as an image or a page.

use std::path::PathBuf;

use crate::map::record::Map;
use crate::report::{Named, Report, heat};
use cli::error::{Error, Result};
use cli::files;

use cli::commands::{Verdict, output};

/// Draw a map: an SVG image for light and dark pages, or an HTML page with tables
#[derive(clap::Args)]
pub struct Options {
    /// The record
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// Output file; its name ends in .svg or .html
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let Options { record, output } = options;
    files::check_targets(&[("--output", output)], &[("the record", record)])?;
    let map = Map::load(record)?;
    let drawn = match output.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => heat::svg(&map)?,
        Some("html") => {
            let name = record.file_name().unwrap_or(record.as_os_str()).to_string_lossy().into_owned();
            Report { maps: vec![Named { name, content: map }], ..Report::default() }.html()?
        }
        _ => return Err(Error::Invalid(format!("--output {}: the name must end in .svg or .html", output.display()))),
    };
    files::replace(output, |file| file.write_all(drawn.as_bytes()))?;
    output::note(&format!("wrote {}", output.display()));
    Ok(Verdict::Pass)
}
