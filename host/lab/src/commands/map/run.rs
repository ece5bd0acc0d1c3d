//! `fa512 map run`: measures a map on a GPU.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::journal::End;
use crate::map::doubt;
use crate::map::points::{self, Limits, Sizes};
use crate::map::record::{Header, Journal, Time};
use crate::map::session::Session;
use cli::bench::Bench;
use cli::contender::spec::Spec;
use cli::contender::torch::Backend;
use cli::device::Device;
use cli::error::Result;
use cli::executor::Executor;
use cli::executor::gpu::GpuExecutor;
use cli::files;
use cli::inputs::Distribution;
use cli::ptx_folder::PtxFolder;
use cli::record::{Case, Ceilings, Kernel, RunProtocol};
use cli::telemetry::Monitor;
use cli::timing::Protocol;
use contract::config::{Element, Mask, Sequence};
use contract::cost::{self, Costs};
use contract::manifest::Entry;
use contract::problem::Shape;
use contract::view::Layout;

use super::field::Contenders;
use super::text;
use cli::commands::bench::contenders::{Sources, Wanted};
use cli::commands::bench::{environment, shape};
use cli::commands::fuzz::minutes;
use cli::commands::gpu_option::GpuOption;
use cli::commands::interrupt::stop_on_interrupt;
use cli::commands::progress::Progress;
use cli::commands::ptx_options::PtxOptions;
use cli::commands::{Verdict, element_parser, gpu_for_times, layout_parser, mask_parser, output};

/// Bootstrap resamples; a map does not keep intervals.
const RESAMPLES: usize = 1;
/// Warm-up of a contender before its first sample, ms. Short, since clocks stay up from one point to the next.
const WARM_UP_MS: f64 = 3.0;
/// Minimum duration of a sample, µs.
const SAMPLE_US: f64 = 300.0;

/// Measure a map on a GPU: every contender is checked, then timed in turns, at each point
///
/// The record is written point by point. The same command continues it, however the last run ended.
#[derive(clap::Args)]
#[command(
    after_help = "Points: those of --shapes, then --random N or else a grid: the powers of two of both ranges, and an odd \
                        size between each two. Contenders are as for `fa512 bench`.\n\nExit codes: 0 done, or out of \
                        time, 1 a contender is wrong (and was not timed), 2 could not run, or interrupted."
)]
pub struct Options {
    /// Record to write, one JSON object per line; an existing one is continued
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Heads of all batch entries together
    #[arg(long, value_name = "FROM..TO", default_value = "1..4096", value_parser = range)]
    heads: RangeInclusive<u32>,
    /// Sequence lengths
    #[arg(long, value_name = "FROM..TO", default_value = "16..8192", value_parser = range)]
    seq: RangeInclusive<u32>,
    /// Head dimensions; every size is measured with each of them
    #[arg(long, value_name = "D", value_delimiter = ',', default_value = "64")]
    head_dim: Vec<u32>,
    /// Measure this many random pairs of sizes, log-uniform in both ranges, instead of a grid
    #[arg(long, value_name = "N")]
    random: Option<usize>,
    /// Measure first the sizes at which the predicted times of two kernels are closest. With --variants all, these tell
    /// `fa512 map fit` most about the choice between kernels
    #[arg(long)]
    unsure: bool,
    /// Shapes to measure first, as BxHxS, or BxHxSxD where D is not 64, separated by commas
    #[arg(long, value_name = "BxHxS", value_delimiter = ',', value_parser = shape)]
    shapes: Vec<Shape>,
    /// Element types of Q, K, V and O
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = element_parser(), default_values = ["f16"])]
    elements: Vec<Element>,
    /// Which keys a query attends to
    #[arg(long, value_delimiter = ',', value_parser = mask_parser(), default_values = ["full", "causal"])]
    masks: Vec<Mask>,
    /// Order of dimensions of all tensors
    #[arg(long, value_parser = layout_parser(), default_value = Layout::Bhsd.name())]
    layout: Layout,
    /// Contender to measure beside ours; may be repeated [default: torch:cudnn, torch:flash]
    #[arg(long = "contender", value_name = "CONTENDER")]
    contenders: Vec<Wanted>,
    /// Which of our kernels to time
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Variants::Chosen)]
    variants: Variants,
    /// Stop after this many minutes
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    minutes: Option<Duration>,
    /// Seed of the sizes, the inputs and the order within turns
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Samples of each contender at a point
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Leave out points whose Q, K, V, O and LSE together have more MiB
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    largest: u32,
    /// Leave out points whose operations and bytes alone take longer than this many ms
    #[arg(long, value_name = "MS", default_value_t = 3.0)]
    longest: f64,
    /// Keep the inputs in L2, instead of rotating over sets of inputs that are larger than L2
    #[arg(long)]
    warm_l2: bool,
    /// Begin every call when the previous one is complete
    #[arg(long)]
    no_overlap: bool,
    /// Number of worst points to show
    #[arg(long, value_name = "N", default_value_t = text::SHOWN)]
    worst: usize,
    #[command(flatten)]
    gpu: GpuOption,
    #[command(flatten)]
    ptx: PtxOptions,
    /// Python to run PyTorch with [default: python3 or python in PATH]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
}

/// Which of our kernels to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Variants {
    /// The kernel that selection chooses.
    Chosen,
    /// Every kernel that computes the problem.
    All,
}

/// Parses a range of sizes such as `1..4096`, both ends included.
fn range(text: &str) -> std::result::Result<RangeInclusive<u32>, String> {
    let ends = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match ends {
        Some((from, to)) if 1 <= from && from <= to => Ok(from..=to),
        _ => Err("expected two numbers as in 1..4096, the first not larger and at least 1".into()),
    }
}

impl Options {
    fn wanted(&self) -> Vec<Wanted> {
        let peers = match self.contenders.is_empty() {
            true => [Backend::Cudnn, Backend::Flash].map(|backend| Wanted::One(Spec::Torch(backend))).to_vec(),
            false => self.contenders.clone(),
        };
        [Wanted::One(Spec::Preferred)].into_iter().chain(peers).collect()
    }

    fn cases(&self, ceilings: &Ceilings) -> Vec<Case> {
        let sizes = Sizes { heads: self.heads.clone(), sequence: self.seq.clone() };
        let drawn = match self.random {
            Some(count) => sizes.random(count, self.seed),
            None => sizes.grid(self.seed),
        };
        let with_columns = |shape: Shape| self.head_dim.iter().map(move |&head_dim| shape.with_head_dim(head_dim));
        let shapes: Vec<_> = self.shapes.iter().copied().chain(drawn.into_iter().flat_map(with_columns)).collect();
        let limits = Limits { bytes: f64::from(self.largest) * f64::from(1 << 20), floor_us: self.longest * 1e3 };
        points::cases(&shapes, &self.elements, &self.masks, self.layout, &limits, ceilings)
    }

    /// `cases` in measuring order: the requested shapes first.
    fn in_order(&self, cases: Vec<Case>, folder: &PtxFolder, device: &Device) -> Vec<Case> {
        let gpu = device.gpu();
        let costs = Costs::find(cost::SHIPPED, &gpu).filter(|_| self.unsure);
        let Some(costs) = costs else { return cases };
        let variants = || folder.entries().map(|(entry, _)| entry.variant());
        let lead = |case: &Case| doubt::lead(&case.problem().ok()?, variants(), costs, &gpu);
        let (named, drawn): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| self.shapes.contains(&case.shape));
        named.into_iter().chain(doubt::least_sure_first(drawn, lead)).collect()
    }

    fn protocol(&self, gpu: &GpuExecutor) -> RunProtocol {
        let usual = Protocol::on(gpu.device(), self.warm_l2);
        RunProtocol {
            timing: Protocol {
                warm_up_ms: WARM_UP_MS,
                sample_us: SAMPLE_US,
                overlap: !self.no_overlap,
                host_launch: false,
                ..usual
            },
            samples: self.samples as usize,
            order_seed: self.seed,
            distribution: Distribution::Normal,
            input_seed: self.seed,
        }
    }
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    options.gpu.apply()?;
    files::check_target(&options.out)?;
    let folder = options.ptx.find()?;
    let mut gpu = gpu_for_times()?;
    let mut sources = Sources::new(folder.clone(), options.python.clone());
    let always = sources.open(&options.wanted())?;
    let monitor = Monitor::new(gpu.device());
    let ceilings = gpu.ceilings(&folder)?;
    let cases = options.in_order(options.cases(&ceilings), &folder, gpu.device());
    let protocol = options.protocol(&gpu);
    let mut names: Vec<_> = always.iter().map(|contender| contender.name().to_owned()).collect();
    names.extend((options.variants == Variants::All).then(|| "every variant".to_owned()));
    let header = Header {
        contenders: names,
        libraries: sources.versions(),
        ..header(&folder, &gpu, &monitor, protocol.clone(), ceilings.clone())
    };
    let mut journal = Journal::open(&options.out, header)?;
    let stop = stop_on_interrupt()?;
    let bench =
        Bench { protocol, heads_checked: 1, resamples: RESAMPLES, ceilings: &ceilings, monitor: &monitor, stop: &stop };
    let mut contenders = Contenders::new(gpu, Arc::new(folder), always, options.variants == Variants::All)?;
    let mut progress = Progress::new("measuring", (cases.len() * bench.turns()) as u64);
    let end = Session { bench, time: options.minutes }.run(&cases, &mut contenders, &mut journal, &mut progress)?;
    drop(progress);
    report(options, &journal, end, cases.len())
}

fn header(
    folder: &PtxFolder,
    gpu: &GpuExecutor,
    monitor: &Monitor,
    protocol: RunProtocol,
    ceilings: Ceilings,
) -> Header {
    let manifest = folder.manifest();
    Header {
        command: std::env::args().collect(),
        started_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        ptx: folder.digest(),
        code_generator: manifest.code_generator.clone(),
        git_commit: manifest.git_commit.clone(),
        kernels: folder.entries().filter_map(|(entry, _)| listed(entry)).collect(),
        contenders: Vec::new(),
        libraries: Default::default(),
        protocol,
        environment: environment(gpu, monitor),
        ceilings,
    }
}

/// `entry`, unless it is for packed sequences, which no point of a map has.
fn listed(entry: &Entry) -> Option<Kernel> {
    (entry.sequence != Sequence::Packed).then(|| Kernel { entry: entry.name.clone(), config: Some(entry.config) })
}

/// Prints the results.
fn report(options: &Options, journal: &Journal, end: End, points: usize) -> Result<Verdict> {
    let map = journal.map();
    let mut shown = text::map(map, options.worst);
    shown += &end.words(map.points.len(), &format!("{points} points"), &options.out);
    output::print(&shown)?;
    let mut results = map.points.iter().flat_map(|point| &point.results);
    let wrong = results.any(|outcome| matches!(outcome.time, Time::Wrong { .. }));
    Ok(end.verdict(wrong))
}
