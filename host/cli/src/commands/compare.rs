//! `fa512 compare`: is the new record faster than the old one?

mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::compare::{Change, Comparison, Thresholds, require_measured_with};
use crate::document;
use crate::error::{Error, Result};
use crate::ptx_folder::PtxFolder;
use crate::record::BenchRecord;
use crate::statistics::Bootstrap;

use super::progress::Progress;
use super::{output, print_error};

/// Exit code when the records cannot be compared; also for wrong arguments.
pub const COULD_NOT_COMPARE: u8 = 3;

/// Compare two records of `fa512 bench --json`, row by row and as a whole.
#[derive(clap::Args)]
#[command(
    after_help = "A change needs all of: a ratio of medians that reaches the threshold within its 95 % bootstrap \
                        interval, intervals of the medians that are apart, |Cliff's δ| ≥ 0.3, and p < 0.05 \
                        (Mann-Whitney).\n\nExit codes: 0 improved, 1 regressed, 2 no significant difference, 3 could not \
                        compare."
)]
pub struct Options {
    /// The new record
    new: PathBuf,
    /// The old one
    old: PathBuf,
    /// Refuse the old record unless its kernels are those of this PTX folder: a reference with older kernels hides regressions
    #[arg(long, value_name = "FOLDER")]
    old_ptx: Option<PathBuf>,
    /// Only this contender; may be repeated [default: all]
    #[arg(long = "contender", value_name = "CONTENDER")]
    contenders: Vec<String>,
    /// How much less time an improvement takes, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0 * Thresholds::default().improvement, value_parser = percent)]
    improvement: f64,
    /// How much more time a regression takes, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0 * Thresholds::default().regression, value_parser = percent)]
    regression: f64,
    /// Smallest |Cliff's δ|
    #[arg(long, value_name = "DELTA", default_value_t = Thresholds::default().effect, value_parser = fraction)]
    effect: f64,
    /// Largest p-value, exclusive
    #[arg(long, value_name = "P", default_value_t = Thresholds::default().significance, value_parser = fraction)]
    significance: f64,
    /// Print markdown for a pull request
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Parses a percentage as a fraction.
pub fn percent(text: &str) -> std::result::Result<f64, String> {
    number(text, 100.0)
}

fn fraction(text: &str) -> std::result::Result<f64, String> {
    number(text, 1.0)
}

fn number(text: &str, most: f64) -> std::result::Result<f64, String> {
    let number: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (0.0..=most).contains(&number) { Ok(number) } else { Err(format!("must be from 0 to {most}")) }
}

impl Options {
    fn thresholds(&self) -> Thresholds {
        Thresholds {
            improvement: self.improvement / 100.0,
            regression: self.regression / 100.0,
            effect: self.effect,
            significance: self.significance,
        }
    }
}

/// Carries out the command.
pub fn run(options: &Options) -> ExitCode {
    match compare(options) {
        Ok(Change::Improved) => ExitCode::from(0),
        Ok(Change::Regressed) => ExitCode::from(1),
        Ok(Change::None) => ExitCode::from(2),
        Err(error) => {
            print_error(&error);
            ExitCode::from(COULD_NOT_COMPARE)
        }
    }
}

fn compare(options: &Options) -> Result<Change> {
    let (new, old) = (BenchRecord::load(&options.new)?, BenchRecord::load(&options.old)?);
    if let Some(folder) = &options.old_ptx {
        require_measured_with(PtxFolder::open(folder)?.manifest(), &old, &options.contenders)
            .map_err(|error| Error::Invalid(format!("{} cannot be compared with: {error}", options.old.display())))?;
    }
    let bootstrap = Bootstrap::new(new.protocol.order_seed);
    let progress = Progress::new("comparing", new.rows.len() as u64);
    let advance = || progress.advance(1);
    let comparison = Comparison::new(&new, &old, &options.contenders, options.thresholds(), &bootstrap, advance)?;
    drop(progress);
    match (options.json, options.markdown) {
        (true, _) => output::print_json(document::COMPARE, &comparison)?,
        (_, true) => output::print(&table::markdown(&comparison, &new))?,
        _ => output::print_wrapped(&table::text(&comparison))?,
    }
    Ok(comparison.overall)
}
