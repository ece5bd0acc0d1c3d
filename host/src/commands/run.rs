//! `fa512 run`: compute, check, time, print.

mod record;
mod table;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use fa512::check::{self, UnitScaleBounds};
use fa512::error::{Error, Result};
use fa512::executor::{DeviceChoice, DeviceKind, Opened, open, sim};
use fa512::forward::{Forward, Outcome};
use fa512::host_memory;
use fa512::inputs::{Distribution, Inputs, Operand};
use fa512::npy::{self, Accept};
use fa512::problem::{Layout, Problem, Shape, mask_name};
use fa512::ptx_folder::PtxFolder;
use fa512::reference::Reference;
use fa512::variant;
use kernel_gpu::config::Mask;

use super::progress::{self, Progress};
use super::{Verdict, output};
use record::{Record, Source, Timing};

/// Operations per second of the simulator on one core, roughly, to say beforehand how long a run will take.
const SIMULATED_OPERATIONS_PER_SECOND: f64 = 400e6;
/// A simulation expected to take longer is announced.
const LONG_SIMULATION: Duration = Duration::from_secs(60);

/// Compute attention, check O and LSE against the f64 reference, and time it (on a GPU).
#[derive(clap::Args)]
pub struct Options {
    /// Batch size B
    #[arg(long, default_value_t = 1, conflicts_with = "q")]
    batch: u32,
    /// Number of heads H
    #[arg(long, default_value_t = 2, conflicts_with = "q")]
    heads: u32,
    /// Sequence length S
    #[arg(long, visible_alias = "sequence", default_value_t = 512, conflicts_with = "q")]
    seq: u32,
    /// Which keys a query attends to
    #[arg(long, default_value = "full", value_parser = mask_parser())]
    mask: Mask,
    /// Short for --mask causal
    #[arg(long, conflicts_with = "mask")]
    causal: bool,
    /// Factor on the scores [default: 1/√64]
    #[arg(long, allow_negative_numbers = true)]
    scale: Option<f64>,
    /// Order of dimensions of all tensors
    #[arg(long, value_enum, default_value_t = Layout::Bhsd)]
    layout: Layout,
    /// Seed of the inputs
    #[arg(long, default_value_t = 0, conflicts_with = "q")]
    seed: u64,
    /// How inputs are filled
    #[arg(long, value_enum, default_value_t = Distribution::Normal, conflicts_with = "q")]
    distribution: Distribution,

    /// Read Q from a .npy file (fp16, C order, [B,H,S,64] or [B,S,H,64] by --layout); the shape is the file's
    #[arg(long, value_name = "FILE", requires_all = ["k", "v"], help_heading = "Files")]
    q: Option<PathBuf>,
    /// Read K likewise
    #[arg(long, value_name = "FILE", requires = "q", help_heading = "Files")]
    k: Option<PathBuf>,
    /// Read V likewise
    #[arg(long, value_name = "FILE", requires = "q", help_heading = "Files")]
    v: Option<PathBuf>,
    /// Accept f32 files and round them to fp16
    #[arg(long, requires = "q", help_heading = "Files")]
    allow_f32: bool,
    /// Write O to a .npy file (fp16, in the inputs' layout)
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    out: Option<PathBuf>,
    /// Write LSE to a .npy file (f32, [B,H,S])
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    lse: Option<PathBuf>,

    /// Where to run
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto, help_heading = "Device")]
    device: DeviceChoice,
    /// Architecture the simulator stands for, as in 80 for sm_80
    #[arg(long, value_name = "NN", default_value_t = sim::DEFAULT_ARCHITECTURE, help_heading = "Device")]
    arch: u32,
    /// Run this entry instead of the preferred one
    #[arg(long, value_name = "NAME", help_heading = "Device")]
    variant: Option<String>,
    /// Folder of PTX files and their manifest [default: FA512_PTX_DIR, else ptx near the program]
    #[arg(long, value_name = "FOLDER", help_heading = "Device")]
    ptx: Option<PathBuf>,

    /// Do not compare with the reference (and do not time)
    #[arg(long)]
    no_check: bool,
    /// Samples of the time on a GPU; 0 for none
    #[arg(long, default_value_t = 100)]
    samples: usize,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

fn mask_parser() -> impl TypedValueParser<Value = Mask> {
    const MASKS: [Mask; 2] = [Mask::Full, Mask::Causal];
    PossibleValuesParser::new(MASKS.map(mask_name))
        .map(|name| MASKS.into_iter().find(|&mask| mask_name(mask) == name).expect("clap accepts only these names"))
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    options.out.iter().chain(&options.lse).try_for_each(|path| npy::check_target(path))?;
    let (inputs, source) = inputs(options)?;
    let problem = *inputs.problem();
    let folder = PtxFolder::find(options.ptx.as_deref())?;
    let Opened { mut executor, reason } = open(options.device, options.arch)?;
    let device = executor.device().clone();
    let choice = variant::choose(&folder, &problem, &device, options.variant.as_deref())?;
    let expected = expected_time(&problem, device.kind);

    let mut forward = Forward::prepare(executor.as_mut(), choice.module, choice.entry, &inputs, true)?;
    let start = Instant::now();
    let outcome = progress::with_clock(format!("running {}", choice.entry.name), expected, || forward.execute())?;
    let execution_seconds = start.elapsed().as_secs_f64();
    let report = (!options.no_check).then(|| compare(&inputs, &outcome, &source));
    let mut record = Record {
        passed: false,
        device,
        device_reason: reason,
        variant: choice.entry.name.clone(),
        variant_reason: choice.reason,
        ptx: record::Ptx::new(&folder, choice.module),
        problem: record::Problem::new(&problem, options.layout),
        source,
        launch: record::Launch::new(forward.launch()),
        check: report,
        changed_inputs: outcome.changed_inputs,
        damaged_guards: outcome.damaged_guards,
        findings: outcome.execution.findings,
        counters: outcome.execution.counters,
        execution_seconds,
        timing: None,
    };
    record.passed = record.everything_passed();
    if record.passed && !options.no_check && options.samples > 0 {
        record.timing = forward.time(options.samples)?.map(|samples| Timing::new(samples, &problem));
    }
    write_outputs(options, &problem, &outcome.outputs, record.passed)?;
    match options.json {
        true => output::print_json(&record)?,
        false => output::print(&table::render(&record))?,
    }
    Ok(if record.passed { Verdict::Pass } else { Verdict::Fail })
}

fn inputs(options: &Options) -> Result<(Inputs, Source)> {
    let mask = if options.causal { Mask::Causal } else { options.mask };
    let problem = |shape: Shape| {
        let problem = Problem::new(shape, mask, options.layout)?;
        let problem = options.scale.map_or(Ok(problem), |scale| problem.with_scale(scale))?;
        host_memory::check(shape)?;
        Ok::<_, Error>(problem)
    };
    if let (Some(q), Some(k), Some(v)) = (&options.q, &options.k, &options.v) {
        let accept = if options.allow_f32 { Accept::F16OrF32 } else { Accept::F16 };
        let (shape, [q_operand, k_operand, v_operand]) = read_operands([q, k, v], options.layout, accept)?;
        let inputs = Inputs::new(problem(shape)?, q_operand, k_operand, v_operand)?;
        return Ok((inputs, Source::Files { q: q.clone(), k: k.clone(), v: v.clone() }));
    }
    let shape = Shape { batch: options.batch, heads: options.heads, sequence: options.seq };
    let inputs = Inputs::generate(problem(shape)?, options.distribution, options.seed)?;
    Ok((inputs, Source::Generated { distribution: options.distribution, seed: options.seed }))
}

fn read_operands(paths: [&PathBuf; 3], layout: Layout, accept: Accept) -> Result<(Shape, [Operand; 3])> {
    let [q, k, v] = paths.map(|path| npy::read(path, layout, accept));
    let arrays = [q?, k?, v?];
    let shape = arrays[0].shape;
    for (path, array) in paths.iter().zip(&arrays) {
        if array.shape != shape {
            return Err(Error::Invalid(format!(
                "{}: has {:?}, but {} has {shape:?}; Q, K and V must have the same shape",
                path.display(),
                array.shape,
                paths[0].display()
            )));
        }
    }
    Ok((shape, arrays.map(|array| Operand::new(array.elements))))
}

/// How long a run may take; says so when that is long.
fn expected_time(problem: &Problem, device: DeviceKind) -> Duration {
    if device == DeviceKind::Gpu {
        return Duration::ZERO;
    }
    let shape = problem.shape();
    let cores = rayon::current_num_threads() as f64;
    let seconds = shape.operations(problem.mask()) / (SIMULATED_OPERATIONS_PER_SECOND * cores);
    let expected = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    if expected > LONG_SIMULATION {
        eprintln!(
            "warning: simulating {} heads of sequence {} will take about {:.0} minutes; smaller --batch, --heads or --seq \
             are quicker",
            u64::from(shape.batch) * u64::from(shape.heads),
            shape.sequence,
            seconds / 60.0
        );
    }
    expected
}

fn compare(inputs: &Inputs, outcome: &Outcome, source: &Source) -> check::Report {
    let progress = Progress::new("computing the reference", inputs.problem().shape().rows() as u64);
    let reference = Reference::compute(inputs, |rows| progress.advance(rows));
    let distribution = match source {
        Source::Generated { distribution, .. } => Some(*distribution),
        Source::Files { .. } => None,
    };
    let bounds = UnitScaleBounds::applicable(distribution, inputs.problem());
    check::check(inputs, &reference, &outcome.outputs, bounds)
}

/// Writes O and LSE where that was asked for. Outputs that are known to be wrong are not written.
fn write_outputs(options: &Options, problem: &Problem, outputs: &check::Outputs, passed: bool) -> Result<()> {
    let wanted: Vec<&Path> = options.out.iter().chain(&options.lse).map(PathBuf::as_path).collect();
    if !passed && !wanted.is_empty() {
        let names: Vec<_> = wanted.iter().map(|path| path.display().to_string()).collect();
        eprintln!(
            "warning: {} not written, since a check failed (--no-check writes all the same)",
            names.join(" and ")
        );
        return Ok(());
    }
    let shape = problem.shape();
    if let Some(path) = &options.out {
        npy::write(path, &options.layout.dimensions(shape), &outputs.o)?;
    }
    if let (Some(path), Some(lse)) = (&options.lse, &outputs.lse) {
        npy::write(path, &[shape.batch, shape.heads, shape.sequence].map(u64::from), lse)?;
    }
    Ok(())
}
