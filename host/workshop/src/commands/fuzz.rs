//! `fa512 fuzz`: random problems against the f64 reference, and the simplest ones that fail.

mod record;
mod repeat;
mod table;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use contract::manifest::Entry;
use workshop::device::Device;
use workshop::document;
use workshop::error::{Error, Result};
use workshop::executor::{DeviceChoice, Executor, PtxModule, open, sim};
use workshop::fuzz::campaign::{Campaign, GRID_CASES, Limits};
use workshop::fuzz::case::{Case, Target};
use workshop::fuzz::shrink::shrink;
use workshop::fuzz::summary::Summary;
use workshop::fuzz::trial::Trial;
use workshop::launch::check_fits;
use workshop::ptx_folder::PtxFolder;

use super::interrupt::stop_on_interrupt;
use super::progress::Progress;
use super::ptx_options::PtxOptions;
use super::{Verdict, output};
use record::{FailedCase, Plan, Record, SimplestCase};
use repeat::Repeat;

/// Random cases when neither --cases nor --minutes says otherwise.
const GPU_CASES: u64 = 2000;
/// The same in the simulator.
const SIMULATOR_CASES: u64 = 200;

/// Compare kernels with the f64 reference on random shapes, strides, masks, scales and inputs, and shrink what fails.
#[derive(clap::Args)]
#[command(
    after_help = "27 cases on a grid of sizes come first, then random ones. Case i of a seed is the same on every \
                        machine, for the same variants and limits.\n\nExit codes: 0 every case passed, 1 one failed, 2 \
                        could not run (or interrupted before the end)."
)]
pub struct Options {
    /// Random cases after the 27 of the grid [default: 2000 on a GPU, 200 in the simulator; no end with --minutes]
    #[arg(long, value_name = "N")]
    cases: Option<u64>,
    /// Stop after this many minutes
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    minutes: Option<Duration>,
    /// Seed of the cases
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only this entry; several separated by commas [default: all of the manifest]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    variant: Vec<String>,
    /// Longest sequence [default: 2048 on a GPU, 640 in the simulator]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    max_seq: Option<u32>,
    /// Most pairs of a query and a key, B·H·S² [default: 2^25 on a GPU, 2^19 in the simulator]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_pairs: Option<u64>,
    /// Simpler cases tried for each kind of failure
    #[arg(long, value_name = "N", default_value_t = 150)]
    shrink: usize,

    /// Where to run
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto, help_heading = "Device")]
    device: DeviceChoice,
    /// Architecture the simulator stands for, as in 80 for sm_80
    #[arg(long, value_name = "NN", default_value_t = sim::DEFAULT_ARCHITECTURE, help_heading = "Device")]
    arch: u32,
    #[command(flatten)]
    ptx: PtxOptions,

    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Reads a positive number of minutes.
pub(super) fn minutes(text: &str) -> std::result::Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match Duration::try_from_secs_f64(minutes * 60.0) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("must be a positive number of minutes".into()),
    }
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let folder = options.ptx.find()?;
    let mut opened = open(options.device, options.arch)?;
    let device = opened.executor.device().clone();
    let (kernels, unfit) = kernels(&folder, &device, &options.variant)?;
    let limits = options.limits(&device);
    let targets = kernels.values().map(|(entry, _)| Target::from(*entry)).collect();
    let campaign = Campaign::new(targets, limits, options.seed)?;
    let cases = options.cases(&device).map(|random| GRID_CASES.saturating_add(random));
    let mut fuzzer = Fuzzer {
        executor: opened.executor.as_mut(),
        kernels,
        repeat: Repeat::new(&device, options.ptx.is_given().then(|| folder.path()))?,
        shrink_budget: options.shrink,
        summary: Summary::default(),
        failed: Vec::new(),
    };
    let interrupted = stop_on_interrupt()?;
    let start = Instant::now();
    let cannot_run = fuzzer.run(&campaign, cases, options.minutes, &interrupted);
    let record = Record {
        plan: Plan { seed: options.seed, cases, limits },
        device,
        device_reason: opened.reason.clone(),
        folder: folder.path().to_owned(),
        git_commit: folder.manifest().git_commit.clone(),
        unfit,
        cases: fuzzer.summary.cases(),
        passed_cases: fuzzer.summary.passed(),
        distributions: fuzzer.summary.distributions(),
        failed: fuzzer.failed,
        cannot_run,
        interrupted: interrupted.load(Relaxed),
        seconds: start.elapsed().as_secs_f64(),
    };
    match options.json {
        true => output::print_json(&document::FUZZ.document(&record.with_verdict()))?,
        false => output::print(&table::render(&record))?,
    }
    Ok(record.verdict())
}

impl Options {
    fn limits(&self, device: &Device) -> Limits {
        let limits = if device.is_simulated() { Limits::SIMULATOR } else { Limits::GPU };
        limits.with(self.max_seq, self.max_pairs)
    }

    /// Random cases; `None` for no end.
    fn cases(&self, device: &Device) -> Option<u64> {
        let default = if device.is_simulated() { SIMULATOR_CASES } else { GPU_CASES };
        self.cases.or_else(|| self.minutes.is_none().then_some(default))
    }
}

/// Entries by name, with the modules they are in, in order of the names.
type Kernels<'a> = BTreeMap<String, (&'a Entry, &'a PtxModule)>;

/// The entries that `device` runs, of those called `names` or of all; and why others are left out.
fn kernels<'a>(folder: &'a PtxFolder, device: &Device, names: &[String]) -> Result<(Kernels<'a>, Vec<String>)> {
    if let Some(unknown) = names.iter().find(|name| folder.entries().all(|(entry, _)| entry.name != **name)) {
        let known: Vec<_> = folder.entries().map(|(entry, _)| entry.name.as_str()).collect();
        return Err(Error::Invalid(format!("there is no variant {unknown}; there are: {}", known.join(", "))));
    }
    let selected = folder.entries().filter(|(entry, _)| names.is_empty() || names.contains(&entry.name));
    let mut kernels = Kernels::new();
    let mut unfit = Vec::new();
    for (entry, module) in selected {
        match check_fits(entry, device) {
            Ok(()) => drop(kernels.insert(entry.name.clone(), (entry, module))),
            Err(reason) => unfit.push(reason.to_string()),
        }
    }
    match kernels.is_empty() {
        true => Err(Error::Invalid(format!("no variant runs on {}: {}", device.name, unfit.join("; ")))),
        false => Ok((kernels, unfit)),
    }
}

/// Runs cases and keeps what came of them.
struct Fuzzer<'a> {
    executor: &'a mut dyn Executor,
    kernels: Kernels<'a>,
    repeat: Repeat,
    shrink_budget: usize,
    summary: Summary,
    failed: Vec<FailedCase>,
}

impl Fuzzer<'_> {
    /// Runs the cases of `campaign`, all or the first `count`, until `time` is over. Says why it ended early, if it did.
    fn run(
        &mut self,
        campaign: &Campaign,
        count: Option<u64>,
        time: Option<Duration>,
        interrupted: &AtomicBool,
    ) -> Option<String> {
        let progress = Progress::with_rate("fuzzing", count);
        let start = Instant::now();
        let in_time = |_: &u64| time.is_none_or(|time| start.elapsed() < time) && !interrupted.load(Relaxed);
        for index in (0..count.unwrap_or(u64::MAX)).take_while(in_time) {
            let case = campaign.case(index);
            let trial = match self.run_case(&case) {
                Ok(trial) => trial,
                Err(error) => return Some(format!("case {index}: {error}\n  {}", self.repeat.command(&case))),
            };
            self.summary.add(&case, &trial);
            let lost = trial.lost_the_device();
            if !trial.passed() {
                self.keep(index, &case, trial, interrupted);
            }
            if lost {
                return Some("the fault of a kernel has made the GPU unusable for this process".into());
            }
            progress.advance(1);
        }
        None
    }

    fn run_case(&mut self, case: &Case) -> Result<Trial> {
        let (entry, module) = self.kernels[&case.target.variant];
        Trial::run(self.executor, module, entry, case)
    }

    /// Keeps a case that failed, with the simplest one that fails alike if it is the first of its kind.
    fn keep(&mut self, index: u64, case: &Case, trial: Trial, interrupted: &AtomicBool) {
        let known = |failed: &FailedCase| failed.case.target == case.target && trial.fails_like(&failed.failures);
        let simplest = (!self.failed.iter().any(known)).then(|| self.simplest(case, &trial, interrupted));
        let command = self.repeat.command(case);
        self.failed.push(FailedCase { index, case: case.clone(), command, failures: trial.failures, simplest });
    }

    fn simplest(&mut self, case: &Case, trial: &Trial, interrupted: &AtomicBool) -> SimplestCase {
        let mut failures = trial.failures.clone();
        let shrunk = shrink(case, self.shrink_budget, |simpler| {
            if interrupted.load(Relaxed) {
                return false;
            }
            if trial.lost_the_device() {
                return self.repeat.fails_in_a_process_of_its_own(simpler);
            }
            match self.run_case(simpler) {
                Ok(other) if other.fails_like(&trial.failures) => {
                    failures = other.failures;
                    true
                }
                _ => false,
            }
        });
        SimplestCase { command: self.repeat.command(&shrunk.case), tried: shrunk.tried, failures }
    }
}
