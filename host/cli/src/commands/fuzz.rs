//! `fa512 fuzz`: random problems against the f64 reference; failures are shrunk to the simplest.

mod record;
mod table;

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::device::Device;
use crate::document;
use crate::error::Result;
use crate::executor::{DeviceChoice, open, sim};
use crate::fuzz::campaign::{Campaign, GRID_CASES, Limits};
use crate::fuzz::fuzzer::Fuzzer;
use crate::fuzz::kernels::Kernels;
use crate::fuzz::repeat::Repeat;

use super::gpu_option::GpuOption;
use super::interrupt::stop_on_interrupt;
use super::progress::Progress;
use super::ptx_options::PtxOptions;
use super::{Verdict, architecture, output};
use record::{Plan, Record};

/// Default number of random cases on a GPU, without --cases and --minutes.
const GPU_CASES: u64 = 2000;
/// Default number in the simulator.
const SIMULATOR_CASES: u64 = 200;

/// Compare kernels with the f64 reference on random shapes, strides, masks, scales and inputs, and shrink failures.
#[derive(clap::Args)]
#[command(
    after_help = "27 cases on a grid of sizes come first, then random ones. Case i of a seed is the same on every \
                        machine, for the same variants and limits.\n\nExit codes: 0 every case passed, 1 one failed, 2 \
                        could not run (or interrupted before the end)."
)]
pub struct Options {
    /// Random cases after the 27 of the grid [default: 2000 on a GPU, 200 in the simulator; unlimited with --minutes]
    #[arg(long, value_name = "N")]
    cases: Option<u64>,
    /// Stop after this many minutes
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    minutes: Option<Duration>,
    /// Seed of the cases
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only these entries, separated by commas [default: all of the manifest]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    variant: Vec<String>,
    /// Longest sequence [default: 2048 on a GPU, 640 in the simulator]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    max_seq: Option<u32>,
    /// Maximum number of query-key pairs, B·H·S² [default: 2^25 on a GPU, 2^19 in the simulator]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_pairs: Option<u64>,
    /// Simpler cases tried for each kind of failure
    #[arg(long, value_name = "N", default_value_t = 150)]
    shrink: usize,

    /// Where to run
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto, help_heading = "Device")]
    device: DeviceChoice,
    /// Architecture to simulate, such as 80, 8.0 or sm_80
    #[arg(long, value_name = "NN", value_parser = architecture, default_value_t = sim::DEFAULT_ARCHITECTURE, help_heading = "Device")]
    arch: u32,
    #[command(flatten)]
    gpu: GpuOption,
    #[command(flatten)]
    ptx: PtxOptions,

    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Parses a positive number of minutes.
pub fn minutes(text: &str) -> std::result::Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match Duration::try_from_secs_f64(minutes * 60.0) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("must be a positive number of minutes".into()),
    }
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let device = options.gpu.device(options.device)?;
    let folder = options.ptx.find()?;
    let mut opened = open(device, options.arch)?;
    let device = opened.executor.device().clone();
    let (kernels, unfit) = Kernels::select(&folder, &device, &options.variant)?;
    let limits = options.limits(&device);
    let campaign = Campaign::new(kernels.targets(), limits, options.seed)?;
    let cases = options.cases(&device).map(|random| GRID_CASES.saturating_add(random));
    let interrupted = stop_on_interrupt()?;
    let mut fuzzer = Fuzzer {
        executor: opened.executor.as_mut(),
        kernels,
        repeat: Repeat::new(&device, options.gpu.name(), options.ptx.is_given().then(|| folder.path()))?,
        shrink_budget: options.shrink,
        stop: &interrupted,
    };
    let start = Instant::now();
    let progress = Progress::with_rate("fuzzing", cases);
    let results = fuzzer.run(&campaign, cases, options.minutes, &mut || progress.advance(1));
    drop(progress);
    let record = Record {
        plan: Plan { seed: options.seed, cases, limits },
        device,
        device_reason: opened.reason.clone(),
        folder: folder.path().to_owned(),
        git_commit: folder.manifest().git_commit.clone(),
        unfit,
        cases: results.summary.cases(),
        passed_cases: results.summary.passed(),
        distributions: results.summary.distributions(),
        failed: results.failed,
        cannot_run: results.cannot_run,
        interrupted: interrupted.load(Relaxed),
        seconds: start.elapsed().as_secs_f64(),
    };
    match options.json {
        true => output::print_json(document::FUZZ, &record.with_verdict())?,
        false => output::print(&table::render(&record))?,
    }
    Ok(record.verdict())
}

impl Options {
    fn limits(&self, device: &Device) -> Limits {
        let limits = if device.is_simulated() { Limits::SIMULATOR } else { Limits::GPU };
        limits.with(self.max_seq, self.max_pairs)
    }

    /// Number of random cases; `None` for no limit.
    fn cases(&self, device: &Device) -> Option<u64> {
        let default = if device.is_simulated() { SIMULATOR_CASES } else { GPU_CASES };
        self.cases.or_else(|| self.minutes.is_none().then_some(default))
    }
}
