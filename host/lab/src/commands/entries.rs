//! `fa512 entries`: times the entries of one PTX folder beside those of another.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use contract::manifest::Entry;

use crate::entries::record::{Header, Journal, Pair, Side};
use crate::entries::session::{self, Contenders, Session};
use crate::journal::End;
use crate::map::summary::Spread;
use cli::commands::fuzz::minutes;
use cli::commands::gpu_option::GpuOption;
use cli::commands::interrupt::stop_on_interrupt;
use cli::commands::progress::Progress;
use cli::commands::ptx_options::PtxOptions;
use cli::commands::{Verdict, gpu_for_times, output};
use cli::contender::Contender;
use cli::contender::ptx::Ptx;
use cli::error::{Error, Result};
use cli::executor::Executor;
use cli::executor::gpu::GpuExecutor;
use cli::files;
use cli::ptx_folder::PtxFolder;
use cli::timing::Protocol;

/// Time every entry of two PTX folders on a GPU, each pair checked, then timed in turns
///
/// The folders are of two code generators, or of the kernels before and after a change. The record is written pair by pair. The same
/// command continues it, however the last run ended.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 done, or out of time, 1 an entry is wrong (and was not timed), 2 could not run, or interrupted."
)]
pub struct Options {
    /// Record to write, one JSON object per line; an existing one is continued
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The other PTX folder; a ratio is its time over that of --ptx
    #[arg(long, value_name = "FOLDER")]
    beside: PathBuf,
    /// Only entries whose names contain this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    entry: String,
    /// Samples of each entry
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..))]
    samples: u32,
    /// Stop after this many minutes
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    minutes: Option<Duration>,
    #[command(flatten)]
    gpu: GpuOption,
    #[command(flatten)]
    ptx: PtxOptions,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    options.gpu.apply()?;
    files::check_target(&options.out)?;
    let folders = [options.ptx.find()?, PtxFolder::open(&options.beside)?].map(Arc::new);
    let entries = session::common(folders.each_ref().map(Arc::as_ref), &options.entry)?;
    if entries.is_empty() {
        return Err(Error::Invalid(format!("no entry with \"{}\" in its name is in both folders", options.entry)));
    }
    // It keeps the context for the contenders that come and go.
    let gpu = gpu_for_times()?;
    let device = gpu.device();
    let sides = folders.each_ref().map(|folder| Side::from(folder.manifest()));
    let header = Header { gpu: device.name.clone(), driver: device.driver.clone().unwrap_or_default(), sides };
    let mut journal = Journal::open(&options.out, header)?;
    let stop = stop_on_interrupt()?;
    let protocol = Protocol { host_launch: false, ..Protocol::on(device, false) };
    let session = Session { protocol, samples: options.samples as usize, time: options.minutes, stop: &stop };
    let progress = Progress::new("timing", entries.len() as u64);
    let ran = session.run(&entries, |entry| contenders(&folders, entry), &mut journal, || progress.advance(1));
    drop(progress);
    let (end, wrong) = ran?;
    report(options, &journal.pairs, entries.len(), end, &wrong)
}

/// The entry of each folder, called by the folder's path.
fn contenders(folders: &[Arc<PtxFolder>; 2], entry: &Entry) -> Result<Contenders> {
    let of = |folder: &Arc<PtxFolder>| -> Result<Box<dyn Contender>> {
        let (executor, variant) = (Box::new(GpuExecutor::open()?), Some(entry.name.clone()));
        Ok(Box::new(Ptx::new(folder.path().display().to_string(), executor, folder.clone(), variant)))
    };
    let [first, second] = folders;
    Ok([of(first)?, of(second)?])
}

/// Prints the pairs, the slowest of the second folder first.
fn report(options: &Options, measured: &[Pair], entries: usize, end: End, wrong: &[String]) -> Result<Verdict> {
    let mut sorted: Vec<&Pair> = measured.iter().collect();
    sorted.sort_by(|one, other| other.ratio.total_cmp(&one.ratio));
    let mut table = output::table();
    table.set_header(["entry", "problem", "first, µs", "second, µs", "ratio", "interval"]);
    for Pair { entry, problem, us: [first, second], ratio, interval: [low, high] } in &sorted {
        let numbers = [format!("{first:.2}"), format!("{second:.2}"), format!("{ratio:.3}")];
        table.add_row(
            [entry.clone(), problem.clone()].into_iter().chain(numbers).chain([format!("{low:.3} to {high:.3}")]),
        );
    }
    let mut text = output::fitted(table);
    if let Some(spread) = Spread::new(sorted.iter().map(|pair| pair.ratio)) {
        text += &format!("{} of {entries} entries, geometric mean {:.4}\n", spread.count, spread.mean);
    }
    for reason in wrong {
        text += &format!("{reason}\n");
    }
    text += &end.words(measured.len(), &format!("{entries} entries"), &options.out);
    output::print(&text)?;
    Ok(end.verdict(!wrong.is_empty()))
}
