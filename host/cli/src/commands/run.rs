//! `fa512 run`: computes attention, checks it, times it, and prints the result.

mod gradients;
mod record;
mod table;
mod tensors;
mod views;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::check::{self, UnitScaleBounds};
use crate::device::Device;
use crate::document;
use crate::error::Result;
use crate::executor::{DeviceChoice, Opened, open, sim};
use crate::files;
use crate::forward::Forward;
use crate::host_memory;
use crate::inputs::{Distribution, Inputs};
use crate::ptx_folder::PtxFolder;
use crate::reference::Reference;
use crate::timing::Protocol;
use crate::variant;
use contract::backward::variants::BACKWARD_VARIANTS;
use contract::config::{Element, Mask};
use contract::problem::{Alignment, DEFAULT_HEAD_DIM, Problem, Window};
use contract::view::Layout;

use super::gpu_option::GpuOption;
use super::progress::{self, Progress};
use super::ptx_options::PtxOptions;
use super::score_mod_options::ScoreModOptions;
use super::{
    Verdict, alignment_parser, architecture, element_parser, layout_parser, mask_parser, named_file, output, window,
};
use record::{Check, Record, Source, Timing};
use views::{TensorOffset, TensorStride};

/// Approximate operations per second of the simulator on one core, to announce how long a run will take.
const SIMULATED_OPERATIONS_PER_SECOND: f64 = 400e6;
/// Approximate bytes laid out and copied per second.
const COPIED_BYTES_PER_SECOND: f64 = 1e9;
/// Longer simulations are announced.
const LONG_SIMULATION: Duration = Duration::from_secs(60);

/// Compute attention, check O and LSE against the f64 reference, and time it (on a GPU).
///
/// Checks dQ, dK and dV instead if --variant names an entry for gradients.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 every check passed, 1 a check failed, 2 could not run.")]
pub struct Options {
    /// Batch size B
    #[arg(long, default_value_t = 1, conflicts_with = "q")]
    batch: u32,
    /// Number of heads H
    #[arg(long, default_value_t = 2, conflicts_with = "q")]
    heads: u32,
    /// Heads of K and V, which groups of heads of Q share [default: as many as of Q]
    #[arg(long, value_name = "HEADS", conflicts_with = "q")]
    kv_heads: Option<u32>,
    /// Sequence length S
    #[arg(long, visible_alias = "sequence", default_value_t = 512, conflicts_with = "q")]
    seq: u32,
    /// Sequence length of K and V [default: that of Q]
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["q", "lengths"])]
    kv_seq: Option<u32>,
    /// Head dimension D, a multiple of 8
    #[arg(long, value_name = "D", default_value_t = DEFAULT_HEAD_DIM, conflicts_with = "q")]
    head_dim: u32,
    /// Lengths of packed sequences, as in 17,512,3; each sequence attends to its own keys
    #[arg(long, value_name = "S,S,…", value_delimiter = ',', conflicts_with_all = ["q", "batch", "seq"])]
    lengths: Option<Vec<u32>>,
    /// Keys of each of these sequences [default: as many as queries]
    #[arg(long, value_name = "S,S,…", value_delimiter = ',', requires = "lengths")]
    kv_lengths: Option<Vec<u32>>,
    /// Rows of Q that each entry of a padded batch uses of --seq, as in 17,512,3
    #[arg(long, value_name = "S,S,…", value_delimiter = ',', conflicts_with_all = ["q", "lengths"])]
    used: Option<Vec<u32>>,
    /// Keys that each entry of a padded batch uses of --kv-seq
    #[arg(long, value_name = "S,S,…", value_delimiter = ',', conflicts_with_all = ["q", "lengths"])]
    kv_used: Option<Vec<u32>>,
    /// Which keys a query attends to
    #[arg(long, default_value = "full", value_parser = mask_parser())]
    mask: Mask,
    /// How many keys before and after its own position a query attends to, as in 64,64 or any,0; --mask window is --window 64,64
    #[arg(long, value_name = "LEFT,RIGHT", value_parser = window, conflicts_with_all = ["mask", "causal"])]
    window: Option<Window>,
    /// Short for --mask causal
    #[arg(long, conflicts_with = "mask")]
    causal: bool,
    /// How queries align with keys under a causal mask or a window, if K and V have another length than Q: the first query with
    /// the first key, or the last query with the last key
    #[arg(long, value_name = "CORNER", default_value = Alignment::default().name(), value_parser = alignment_parser())]
    align: Alignment,
    /// Element type of Q, K, V and O
    #[arg(long = "type", value_name = "TYPE", value_parser = element_parser(), default_value = Element::F16.name())]
    element: Element,
    /// Factor on the scores [default: 1/√D]
    #[arg(long, allow_negative_numbers = true)]
    scale: Option<f64>,
    #[command(flatten)]
    score_mod: ScoreModOptions,
    /// Order of dimensions of all tensors
    #[arg(long, value_parser = layout_parser(), default_value = Layout::Bhsd.name())]
    layout: Layout,
    /// Strides of one tensor in elements, as in Q=32768,4096,64: of batch entry, head and row; may be repeated for Q, K, V and O
    /// [default: contiguous in --layout]
    #[arg(long, value_name = "TENSOR=BATCH,HEAD,ROW", conflicts_with_all = ["q", "out"])]
    strides: Vec<TensorStride>,
    /// Elements before the start of a tensor in its buffer, as in K=64; may be repeated for Q, K, V and O
    #[arg(long, value_name = "TENSOR=ELEMENTS", conflicts_with_all = ["q", "out"])]
    offset: Vec<TensorOffset>,
    /// Do not compute LSE
    #[arg(long, conflicts_with = "lse")]
    no_lse: bool,
    /// Seed of the inputs
    #[arg(long, default_value_t = 0, conflicts_with = "q")]
    seed: u64,
    /// How inputs are filled
    #[arg(long, value_enum, default_value_t = Distribution::Normal, conflicts_with = "q")]
    distribution: Distribution,

    /// Read Q from a .npy file (fp16 or, with --type bf16, its bits as u2 or V2; C order, with dimensions B,H,S,D or B,S,H,D by --layout);
    /// the shape is the file's
    #[arg(long, value_name = "FILE", requires_all = ["k", "v"], help_heading = "Files")]
    q: Option<PathBuf>,
    /// Read K from a .npy file
    #[arg(long, value_name = "FILE", requires = "q", help_heading = "Files")]
    k: Option<PathBuf>,
    /// Read V from a .npy file
    #[arg(long, value_name = "FILE", requires = "q", help_heading = "Files")]
    v: Option<PathBuf>,
    /// Accept f32 files and round them to the element type
    #[arg(long, requires = "q", help_heading = "Files")]
    allow_f32: bool,
    /// Clamp f32 numbers beyond the range of the element type instead of refusing them
    #[arg(long, requires = "allow_f32", help_heading = "Files")]
    clamp: bool,
    /// Write O to a .npy file (fp16, or the bits of bf16 as u2; in the inputs' layout)
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    out: Option<PathBuf>,
    /// Write LSE to a .npy file (f32, with dimensions B,H,S)
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    lse: Option<PathBuf>,

    /// Where to run
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto, help_heading = "Device")]
    device: DeviceChoice,
    /// Architecture to simulate, such as 80, 8.0 or sm_80
    #[arg(long, value_name = "NN", value_parser = architecture, default_value_t = sim::DEFAULT_ARCHITECTURE, help_heading = "Device")]
    arch: u32,
    #[command(flatten)]
    gpu: GpuOption,
    /// Run this entry instead of the preferred one
    #[arg(long, value_name = "NAME", help_heading = "Device")]
    variant: Option<String>,
    #[command(flatten)]
    ptx: PtxOptions,

    /// Folder of the kernels' sources, to show the source lines of findings [default: the current folder and its parents]
    #[arg(long, value_name = "FOLDER", help_heading = "Device")]
    source: Option<PathBuf>,

    /// Do not compare with the reference (and do not time)
    #[arg(long)]
    no_check: bool,
    /// Samples of the time on a GPU; 0 for none
    #[arg(long, default_value_t = 100)]
    samples: usize,
    /// Keep the inputs in L2, instead of rotating over sets of inputs that are larger than L2
    #[arg(long)]
    warm_l2: bool,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
    /// Print the name of the entry that would run, chosen among all variants, and stop; nothing where --ptx or --codegen names
    /// other PTX than that of `cargo xtask ptx`
    #[arg(long, hide = true)]
    print_entry: bool,
}

/// The files that are written, with the names of their options.
fn targets(options: &Options) -> Vec<(&'static str, &Path)> {
    [("--out", &options.out), ("--lse", &options.lse)].into_iter().filter_map(named_file).collect()
}

/// The files that are read.
fn sources(options: &Options) -> Vec<(&'static str, &Path)> {
    let tensors = [("--q", &options.q), ("--k", &options.k), ("--v", &options.v)];
    tensors.into_iter().filter_map(named_file).collect()
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let device = options.gpu.device(options.device)?;
    files::check_targets(&targets(options), &sources(options))?;
    let (inputs, source) = tensors::inputs(options)?;
    if options.print_entry {
        return print_entry(options, device, inputs.problem());
    }
    let folder = options.ptx.find()?;
    folder.check_targets(&targets(options))?;
    let mut opened = open(device, options.arch)?;
    let gradients = options.variant.as_deref().and_then(|name| gradients::named(&folder, name));
    let record = match gradients {
        Some(of) => gradients::execute(options, &mut opened, &folder, of, inputs, source)?,
        None => {
            let (record, outputs) = execute(options, &mut opened, &folder, &inputs, source)?;
            tensors::write_outputs(options, inputs.problem(), &outputs, record.passed)?;
            record
        }
    };
    match options.json {
        true => output::print_json(document::RUN, &record)?,
        false => output::print(&table::render(&record, &output::findings(options.source.as_deref())))?,
    }
    Ok(if record.passed { Verdict::Pass } else { Verdict::Fail })
}

/// Prints the entry's name, which tells `cargo xtask run` what to compile.
fn print_entry(options: &Options, device: DeviceChoice, problem: &Problem) -> Result<Verdict> {
    let is_backward = |name: &str| BACKWARD_VARIANTS.iter().any(|variant| variant.entry == name);
    if !options.ptx.is_given() && !options.variant.as_deref().is_some_and(is_backward) {
        let opened = open(device, options.arch)?;
        let device = opened.executor.device();
        let entry = variant::among_all(problem, device, options.variant.as_deref())?;
        output::print(&format!("{entry}\n"))?;
    }
    Ok(Verdict::Pass)
}

/// Launches once and checks the results and side effects; if nothing is wrong, times it.
fn execute(
    options: &Options,
    opened: &mut Opened,
    folder: &PtxFolder,
    inputs: &Inputs,
    source: Source,
) -> Result<(Record, check::Outputs)> {
    let problem = inputs.problem();
    let device = opened.executor.device().clone();
    let choice = variant::choose(folder, problem, &device, options.variant.as_deref())?;
    let copying = Duration::from_secs_f64(host_memory::needed(problem) as f64 / COPIED_BYTES_PER_SECOND);
    let expected = expected_time(inputs.operations(), &device).saturating_add(copying);
    let executor = opened.executor.as_mut();
    let mut forward = progress::with_clock("copying the tensors".to_owned(), copying, || {
        Forward::prepare(executor, choice.module, choice.entry, inputs, !options.no_lse)
    })?;
    let start = Instant::now();
    let outcome = progress::with_clock(format!("running {}", choice.entry.name), expected, || forward.execute())?;
    let mut record = Record {
        passed: false,
        execution_seconds: start.elapsed().as_secs_f64(),
        device,
        device_reason: opened.reason.clone(),
        variant: choice.entry.name.clone(),
        variant_brief: choice.brief,
        variant_reason: choice.reason,
        ptx: record::Ptx::new(folder, choice.module),
        problem: record::Problem::new(inputs, options.layout, options.score_mod.form()),
        launch: forward.launch().into(),
        check: (!options.no_check).then(|| Check::Forward(Box::new(compare(inputs, &outcome.outputs, &source)))),
        source,
        changed_inputs: outcome.changed_inputs,
        damaged_guards: outcome.damaged_guards,
        findings: outcome.execution.findings,
        counters: outcome.execution.counters,
        timing: None,
    };
    record.passed = record.everything_passed();
    if record.passed && record.check.is_some() && options.samples > 0 && !record.device.is_simulated() {
        let protocol = Protocol::on(&record.device, options.warm_l2);
        if let Some(mut sampler) = forward.into_sampler(&protocol)? {
            record.timing = Some(Timing::take(&mut sampler, options.samples, protocol, inputs.operations())?);
        }
    }
    Ok((record, outcome.outputs))
}

/// Estimates the time of a run, and announces a long one.
fn expected_time(operations: f64, device: &Device) -> Duration {
    if !device.is_simulated() {
        return Duration::ZERO;
    }
    let cores = rayon::current_num_threads() as f64;
    let seconds = operations / (SIMULATED_OPERATIONS_PER_SECOND * cores);
    let expected = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    if expected > LONG_SIMULATION {
        output::note(&format!(
            "warning: simulating this will take about {:.0} minutes; smaller --batch, --heads or --seq are quicker",
            seconds / 60.0
        ));
    }
    expected
}

/// Compares `outputs` with the reference.
fn compare(inputs: &Inputs, outputs: &check::Outputs, source: &Source) -> check::Report {
    let progress = Progress::new("computing the reference", inputs.problem().shape().rows() as u64);
    let reference = Reference::compute(inputs, |rows| progress.advance(rows));
    let distribution = match source {
        Source::Generated { distribution, .. } => Some(*distribution),
        Source::Files { .. } => None,
    };
    let bounds = UnitScaleBounds::applicable(distribution, inputs.problem());
    check::check(inputs, &reference, outputs, bounds)
}
