//! `fa512 sanitize`: runs every variant under a memory checker, with shapes at the edges of its tiles.

mod gpu;
mod record;
mod sweep;
mod table;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::backward::Backward;
use crate::document;
use crate::error::{Error, Result};
use crate::executor::sim::{self, SimExecutor};
use crate::executor::{DeviceChoice, open};
use crate::forward::Forward;
use crate::gradients::GradientInputs;
use crate::inputs::{Distribution, Inputs};
use crate::kernel::Kernel;
use contract::config::Mask;
use contract::view::Layout;

use super::gpu_option::GpuOption;
use super::interrupt::stop_on_interrupt;
use super::progress::Progress;
use super::ptx_options::PtxOptions;
use super::{Verdict, architecture, layout_parser, mask_parser, output};
use record::{Record, VariantRecord};
use sweep::{Case, Selection, Sweep};

/// Search every variant for memory errors, races and misuse of barriers, over shapes at the edges of its tiles.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 nothing found, 1 something found, 2 could not run (or interrupted before the end)."
)]
pub struct Options {
    /// Only these entries, separated by commas [default: all of the manifest]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    variant: Vec<String>,
    /// Only these sequence lengths [default: the edges of each variant's tiles]
    #[arg(long, visible_alias = "sequence", value_name = "S", value_delimiter = ',')]
    seq: Vec<u32>,
    /// Only variants with this mask
    #[arg(long, value_parser = mask_parser())]
    mask: Option<Mask>,
    /// Only this order of dimensions [default: both]
    #[arg(long, value_parser = layout_parser())]
    layout: Option<Layout>,
    /// Only with (true) or without (false) LSE, which gradients always have [default: both]
    #[arg(long, value_name = "BOOL")]
    lse: Option<bool>,
    /// Batch size B
    #[arg(long, default_value_t = 1)]
    batch: u32,
    /// Number of heads H
    #[arg(long, default_value_t = 2)]
    heads: u32,
    /// Columns D of a row [default: as many as a variant's tiles have]
    #[arg(long, value_name = "D")]
    head_dim: Option<u32>,

    /// Where to run; on a GPU, compute-sanitizer's memcheck, racecheck, initcheck and synccheck run, with LSE only
    #[arg(long, value_enum, default_value_t = Device::Sim, help_heading = "Device")]
    device: Device,
    /// Architecture to simulate, such as 80, 8.0 or sm_80
    #[arg(long, value_name = "NN", value_parser = architecture, default_value_t = sim::DEFAULT_ARCHITECTURE, help_heading = "Device")]
    arch: u32,
    #[command(flatten)]
    gpu: GpuOption,
    /// Number of schedules of the simulator's warps and blocks to run every case under: the first is in order of their
    /// indices, the others are seeded shuffles [default: 1]
    #[arg(long, value_name = "N", help_heading = "Device")]
    schedules: Option<NonZeroU64>,
    #[command(flatten)]
    ptx: PtxOptions,
    /// Folder of the kernels' sources, to show the source lines of findings [default: the current folder and its parents]
    #[arg(long, value_name = "FOLDER", help_heading = "Device")]
    source: Option<PathBuf>,

    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Where to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Device {
    /// ptx-sim on the CPU
    Sim,
    /// A GPU, under compute-sanitizer
    Gpu,
}

impl From<Device> for DeviceChoice {
    fn from(device: Device) -> Self {
        match device {
            Device::Sim => Self::Sim,
            Device::Gpu => Self::Gpu,
        }
    }
}

/// Runs a case and reports findings.
enum Checker {
    Simulator { architecture: u32 },
    ComputeSanitizer(gpu::ComputeSanitizer),
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    if (options.device, options.lse) == (Device::Gpu, Some(false)) {
        return Err(Error::Invalid("--device gpu runs with LSE only; leave --lse false to --device sim".into()));
    }
    if options.device == Device::Gpu && options.schedules.is_some() {
        return Err(Error::Invalid(
            "--schedules is for --device sim only; a GPU's warps take turns as the hardware decides".into(),
        ));
    }
    let choice = options.gpu.device(options.device.into())?;
    let schedules = options.schedules.map_or(1, NonZeroU64::get);
    let folder = options.ptx.find()?;
    let checker = match options.device {
        Device::Sim => Checker::Simulator { architecture: options.arch },
        Device::Gpu => Checker::ComputeSanitizer(gpu::ComputeSanitizer::find(folder.path())?),
    };
    let device = open(choice, options.arch)?.executor.device().clone();
    let sweep = Sweep::plan(&folder, &device, &options.selection())?;
    let interrupted = stop_on_interrupt()?;
    let progress = Progress::new("sanitizing", (sweep.cases() as u64).saturating_mul(schedules));
    let mut variants = Vec::new();
    for variant in &sweep.variants {
        let mut record = VariantRecord::new(variant);
        let start = Instant::now();
        for case in variant.cases.iter().take_while(|_| !interrupted.load(Relaxed)) {
            let mut findings = Vec::new();
            let ended = (0..schedules).take_while(|_| !interrupted.load(Relaxed)).try_for_each(|schedule| {
                findings.push(checker.execute(variant, case, schedule)?);
                progress.advance(1);
                Ok::<_, Error>(())
            });
            record.add(case, findings, schedules);
            match ended {
                // Ctrl-C also ends a child process, whose output is then incomplete.
                Err(_) if interrupted.load(Relaxed) => break,
                Err(error) => {
                    record.cannot_run = Some(format!("{case}: {error}"));
                    break;
                }
                Ok(()) => {}
            }
        }
        record.seconds = start.elapsed().as_secs_f64();
        variants.push(record);
    }
    drop(progress);
    let record = Record {
        device,
        folder: folder.path().to_owned(),
        schedules: (options.device == Device::Sim).then_some(schedules),
        interrupted: interrupted.load(Relaxed),
        variants,
    };
    match options.json {
        true => output::print_json(document::SANITIZE, &record.with_verdict())?,
        false => output::print(&table::render(&record, &output::findings(options.source.as_deref())))?,
    }
    Ok(record.verdict())
}

impl Options {
    fn selection(&self) -> Selection<'_> {
        Selection {
            variants: &self.variant,
            sequences: &self.seq,
            mask: self.mask,
            layouts: self.layout.map_or(vec![Layout::Bhsd, Layout::Bshd], |layout| vec![layout]),
            lse: match (self.device, self.lse) {
                (_, Some(lse)) => vec![lse],
                (Device::Sim, None) => vec![true, false],
                (Device::Gpu, None) => vec![true],
            },
            batch: self.batch,
            heads: self.heads,
            head_dim: self.head_dim,
        }
    }
}

impl Checker {
    /// Findings of a variant in a case under one schedule. Every run has its own memory.
    fn execute(&self, variant: &sweep::VariantCases<'_>, case: &Case, schedule: u64) -> Result<Vec<ptx_sim::Finding>> {
        match self {
            Checker::Simulator { architecture } => simulate(variant, case, *architecture, schedule),
            Checker::ComputeSanitizer(tool) => tool.execute(variant, case),
        }
    }
}

fn simulate(
    variant: &sweep::VariantCases<'_>,
    case: &Case,
    architecture: u32,
    schedule: u64,
) -> Result<Vec<ptx_sim::Finding>> {
    let options = ptx_sim::Options { schedule, ..SimExecutor::default_options() };
    let mut executor = SimExecutor::with_options(architecture, options)?;
    let inputs = Inputs::generate(case.problem, Distribution::Normal, 0)?;
    let inputs = case.lengths.iter().try_fold(inputs, |inputs, lengths| inputs.packed(lengths))?;
    let execution = match variant.kernel {
        Kernel::Forward(entry) => {
            Forward::prepare(&mut executor, variant.module, entry, &inputs, case.with_lse)?.execute()?.execution
        }
        Kernel::Backward(gradients) => {
            let inputs = GradientInputs::generate(inputs, Distribution::Normal, 0, gradients.computes_d_bias, |_| ())?;
            Backward::prepare(&mut executor, variant.module, gradients, &inputs)?.execute()?.execution
        }
    };
    Ok(execution.findings)
}
