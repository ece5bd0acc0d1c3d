//! `fa512 report`: makes one HTML page from the records of other commands.

use std::path::{Path, PathBuf};

use crate::map::record::Map;
use crate::report::{Campaign, Named, Report, Simulation};
use cli::compare::{Comparison, Thresholds};
use cli::error::Result;
use cli::files;
use cli::ncu::{self, Profile};
use cli::record::BenchRecord;
use cli::statistics::Bootstrap;

use cli::commands::progress::Progress;
use cli::commands::{Verdict, output};

/// Write one HTML page from the records of other commands: times, distributions, roofline, verdicts, counters, environment
#[derive(clap::Args)]
#[command(
    after_help = "The page is self-contained: plots are inline SVG, nothing is fetched, no script runs. It follows the \
                  reader's light or dark mode. No GPU is needed.",
    group = clap::ArgGroup::new("sources").required(true).multiple(true)
        .args(["records", "maps", "profiles", "simulated", "fuzz", "compare"])
)]
pub struct Options {
    /// Records of `fa512 bench --json FILE`
    #[arg(value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// Maps of `fa512 map run`; may be repeated
    #[arg(long = "map", value_name = "RECORD")]
    maps: Vec<PathBuf>,
    /// Profiles of `fa512 profile`; may be repeated
    #[arg(long = "profile", value_name = "JSON")]
    profiles: Vec<PathBuf>,
    /// Output of `fa512 run --device sim --json`: instruction mix and bank conflicts; may be repeated
    #[arg(long, value_name = "JSON")]
    simulated: Vec<PathBuf>,
    /// Output of `fa512 fuzz --json`; may be repeated
    #[arg(long, value_name = "JSON")]
    fuzz: Vec<PathBuf>,
    /// Two records to compare as `fa512 compare` does
    #[arg(long, num_args = 2, value_names = ["NEW", "OLD"])]
    compare: Vec<PathBuf>,
    /// Where to write the page
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let Options { records, maps, profiles, simulated, fuzz, compare, output } = options;
    let sources = [records, maps, profiles, simulated, fuzz, compare].into_iter().flatten();
    let sources: Vec<_> = sources.map(|path| ("a source", path.as_path())).collect();
    files::check_targets(&[("--output", output)], &sources)?;
    let html = report(options)?.html()?;
    files::replace(&options.output, |file| file.write_all(html.as_bytes()))?;
    output::note(&format!("wrote {}", options.output.display()));
    Ok(Verdict::Pass)
}

fn report(options: &Options) -> Result<Report> {
    Ok(Report {
        records: named(&options.records, BenchRecord::load)?,
        maps: named(&options.maps, Map::load)?,
        profiles: named(&options.profiles, |path| ncu::FORMAT.load::<Profile>(path))?,
        simulations: named(&options.simulated, Simulation::load)?,
        campaigns: named(&options.fuzz, Campaign::load)?,
        comparisons: options.compare.chunks_exact(2).map(|pair| compare(&pair[0], &pair[1])).collect::<Result<_>>()?,
    })
}

fn named<T>(paths: &[PathBuf], load: impl Fn(&Path) -> Result<T>) -> Result<Vec<Named<T>>> {
    paths.iter().map(|path| Ok(Named { name: name(path), content: load(path)? })).collect()
}

fn compare(new: &Path, old: &Path) -> Result<Named<Comparison>> {
    let records = (BenchRecord::load(new)?, BenchRecord::load(old)?);
    let bootstrap = Bootstrap::new(records.0.protocol.order_seed);
    let progress = Progress::new("comparing", records.0.rows.len() as u64);
    let advance = || progress.advance(1);
    let content = Comparison::new(&records.0, &records.1, &[], Thresholds::default(), &bootstrap, advance)?;
    Ok(Named { name: format!("{} against {}", name(new), name(old)), content })
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
