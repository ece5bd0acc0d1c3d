//! `fa512 bench`: times contenders against each other on a GPU.

pub mod contenders;
mod table;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::bench::Bench;
use crate::contender::spec::Spec;
use crate::error::Result;
use crate::executor::Executor;
use crate::executor::gpu::GpuExecutor;
use crate::files;
use crate::inputs::Distribution;
use crate::record::{BenchRecord, Case, Environment, Outcome, Pair, Row, RunProtocol};
use crate::statistics::{Bootstrap, RESAMPLES};
use crate::telemetry::Monitor;
use crate::timing::Protocol;
use contract::config::{Element, Mask};
use contract::problem::{DEFAULT_HEAD_DIM, Problem, Shape};
use contract::view::Layout;

use super::gpu_option::GpuOption;
use super::interrupt::stop_on_interrupt;
use super::progress::Progress;
use super::ptx_options::PtxOptions;
use super::score_mod_options::ScoreModOptions;
use super::{Verdict, element_parser, gpu_for_times, layout_parser, mask_parser, named_file, output};
use contenders::{Sources, Wanted};

/// Default shapes.
const DEFAULT_SHAPES: [&str; 3] = ["4x8x512", "32x8x512", "64x16x512"];

/// Measure kernels against each other and against libraries on a GPU: checked first, then timed in turns.
#[derive(clap::Args)]
#[command(
    after_help = "Contenders: fa512 (our kernel, as selection picks it for the case), variant:NAME, codegen:NAME (the \
                        kernel of another code generator, from the folder ptx-NAME beside ours; fa512 is measured too if it is \
                        the only contender), twin (the CUDA C++ twin, codegen:cuda), ptx:FOLDER[:VARIANT], torch:flash, \
                        torch:cudnn, torch:efficient, torch:flex, cubek and cubek:unit (cubek-attention, by `cargo xtask cubek`), or all \
                        (fa512, twin and those of the libraries that are installed).\n\nExit codes: 0 measured, 1 a contender is wrong (and was not timed), 2 could not run."
)]
pub struct Options {
    /// Shapes as BxHxS, or BxHxSxD where D is not 64, separated by commas
    #[arg(long, value_name = "BxHxS", value_delimiter = ',', value_parser = shape, default_values = DEFAULT_SHAPES)]
    shapes: Vec<Shape>,
    /// Which keys a query attends to
    #[arg(long, value_delimiter = ',', value_parser = mask_parser(), default_values = ["full", "causal"])]
    masks: Vec<Mask>,
    /// Element type of Q, K, V and O
    #[arg(long = "type", value_name = "TYPE", value_parser = element_parser(), default_value = Element::F16.name())]
    element: Element,
    /// Factors on the scores, separated by commas; with normal inputs scores have a standard deviation of √D times as much
    /// [default: 1/√D]
    #[arg(long = "scale", value_name = "FACTOR", value_delimiter = ',', allow_negative_numbers = true)]
    scales: Vec<f64>,
    #[command(flatten)]
    score_mod: ScoreModOptions,
    /// Contender to measure; may be repeated [default: fa512]
    #[arg(long = "contender", value_name = "CONTENDER")]
    contenders: Vec<Wanted>,
    /// Compare two contenders turn by turn: the ratio of their medians with its interval; may be repeated
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    paired: Vec<Spec>,
    /// Order of dimensions of all tensors
    #[arg(long, value_parser = layout_parser(), default_value = Layout::Bhsd.name())]
    layout: Layout,
    /// How inputs are filled
    #[arg(long, value_enum, default_value_t = Distribution::Normal)]
    distribution: Distribution,
    /// Seed of the inputs, the order within turns and the intervals
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Samples of each contender
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Keep the inputs in L2, instead of rotating over sets of inputs that are larger than L2
    #[arg(long)]
    warm_l2: bool,
    /// Begin every call when the previous one is complete, instead of letting our launches overlap
    #[arg(long)]
    no_overlap: bool,
    /// Heads of each case to compare with the f64 reference: the first, the last, and random others
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    check_heads: u32,
    #[command(flatten)]
    gpu: GpuOption,
    #[command(flatten)]
    ptx: PtxOptions,
    /// Python to run PyTorch with, whose wheels may have what cubek-attention needs [default: python3 or python in PATH]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// Also write a record with all samples to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Parses B, H and S as in `32x8x512`, optionally D as in `16x16x512x128`. After a slash, H and S may be followed by
/// the values of K and V, as in `4x32/8x512`. No problem has another shape than those that it accepts.
pub fn shape(text: &str) -> std::result::Result<Shape, String> {
    let shape = parse_shape(text).ok_or_else(|| {
        "expected numbers as in 32x8x512 or 32x8x512x128: batch, heads, sequence, head dimension; or 4x32/8x512/1024 where K and V have \
         other heads or another length"
            .to_owned()
    })?;
    Problem::new(shape, Mask::Full, Layout::Bhsd).map(|_| shape).map_err(|refusal| refusal.to_string())
}

fn parse_shape(text: &str) -> Option<Shape> {
    let mut parts = text.split('x');
    let batch = parts.next()?.parse().ok()?;
    let (heads, kv_heads) = queries_and_keys(parts.next()?)?;
    let (sequence, kv_sequence) = queries_and_keys(parts.next()?)?;
    let head_dim = parts.next().map_or(Some(DEFAULT_HEAD_DIM), |columns| columns.parse().ok())?;
    parts.next().is_none().then_some(Shape { batch, heads, kv_heads, sequence, kv_sequence, head_dim })
}

/// The number for Q and the number for K and V, by default the same.
fn queries_and_keys(text: &str) -> Option<(u32, u32)> {
    let (queries, keys) = text.split_once('/').unwrap_or((text, text));
    Some((queries.parse().ok()?, keys.parse().ok()?))
}

impl Options {
    /// Every case, shape by shape, then mask by mask.
    fn cases(&self) -> Vec<Case> {
        let Self { element, layout, .. } = *self;
        let score_mod = self.score_mod.form();
        let scales = match self.scales.as_slice() {
            [] => vec![None],
            scales => scales.iter().copied().map(Some).collect(),
        };
        let kinds: Vec<_> =
            self.masks.iter().flat_map(|&mask| scales.iter().map(move |&scale| (mask, scale))).collect();
        let case = |&shape, &(mask, scale)| Case { shape, element, mask, layout, score_mod, scale };
        self.shapes.iter().flat_map(|shape| kinds.iter().map(move |kind| case(shape, kind))).collect()
    }

    /// Contenders whose ratios are shown, in pairs: those of `--paired`; for a single code generator, its kernel and
    /// ours.
    fn paired(&self) -> Vec<Spec> {
        match (self.paired.as_slice(), self.contenders.as_slice()) {
            ([], [Wanted::One(other @ Spec::CodeGenerator(_))]) => vec![other.clone(), Spec::Preferred],
            _ => self.paired.clone(),
        }
    }

    /// All contenders to measure.
    fn wanted(&self) -> Vec<Wanted> {
        let paired = self.paired().into_iter().map(Wanted::One);
        let wanted: Vec<_> = self.contenders.iter().cloned().chain(paired).collect();
        if wanted.is_empty() { vec![Wanted::One(Spec::Preferred)] } else { wanted }
    }

    fn protocol(&self, gpu: &GpuExecutor) -> RunProtocol {
        RunProtocol {
            timing: Protocol { overlap: !self.no_overlap, ..Protocol::on(gpu.device(), self.warm_l2) },
            samples: self.samples as usize,
            order_seed: self.seed,
            distribution: self.distribution,
            input_seed: self.seed,
        }
    }
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let cases = options.cases();
    cases.iter().try_for_each(|case| case.problem().map(drop))?;
    options.gpu.apply()?;
    let target = named_file(("--json", &options.json));
    files::check_targets(target.as_slice(), &[])?;
    let folder = options.ptx.find()?;
    folder.check_targets(target.as_slice())?;
    let mut gpu = gpu_for_times()?;
    let mut contenders = Sources::new(folder.clone(), options.python.clone()).open(&options.wanted())?;
    let monitor = Monitor::new(gpu.device());
    let started_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let ceilings = gpu.ceilings(&folder)?;
    let stop = stop_on_interrupt()?;
    let bench = Bench {
        protocol: options.protocol(&gpu),
        heads_checked: options.check_heads as usize,
        resamples: RESAMPLES,
        ceilings: &ceilings,
        monitor: &monitor,
        stop: &stop,
    };
    let mut progress = Progress::new("measuring", (cases.len() * bench.turns()) as u64);
    let mut rows = Vec::new();
    for case in &cases {
        rows.extend(bench.run(case, &mut contenders, &mut progress)?);
    }
    drop(progress);
    let record = BenchRecord {
        command: std::env::args().collect(),
        started_at,
        environment: environment(&gpu, &monitor),
        protocol: bench.protocol.clone(),
        pairs: pairs(&options.paired(), &rows, options.seed),
        rows,
        ceilings,
    };
    if let Some(path) = &options.json {
        record.save(path)?;
    }
    output::print_wrapped(&table::render(&record))?;
    let wrong = record.rows.iter().any(|row| matches!(row.outcome, Outcome::Wrong { .. }));
    let measured = record.rows.iter().any(|row| row.measurement().is_some());
    Ok(match (wrong, measured) {
        (true, _) => Verdict::Fail,
        (false, true) => Verdict::Pass,
        (false, false) => Verdict::CannotRun,
    })
}

/// The GPU and its state, as a record says them.
pub fn environment(gpu: &GpuExecutor, monitor: &Monitor) -> Environment {
    Environment {
        device: gpu.device().clone(),
        telemetry: monitor.describe(),
        program_version: env!("CARGO_PKG_VERSION").into(),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        processor_threads: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// A [`Pair`] for each pair in `paired` and each case in which both were measured.
fn pairs(paired: &[Spec], rows: &[Row], seed: u64) -> Vec<Pair> {
    let bootstrap = Bootstrap::new(seed);
    let of = |name: String| rows.iter().filter(move |row| row.contender == name);
    let ratio = |first: &Row, second: &Spec| {
        let second = of(second.to_string()).find(|row| row.case == first.case)?;
        Pair::new(first, second, &bootstrap)
    };
    paired.chunks_exact(2).flat_map(|two| of(two[0].to_string()).filter_map(|first| ratio(first, &two[1]))).collect()
}

#[cfg(test)]
mod tests {
    use crate::record::sizes;
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn a_code_generator_alone_is_paired_with_our_own_kernel() {
        let people = |arguments: &[&str]| {
            let Line { options } = Line::parse_from(["bench"].iter().chain(arguments));
            let wanted = options.wanted().into_iter().map(|wanted| match wanted {
                Wanted::One(spec) => spec.to_string(),
                Wanted::All => "all".into(),
            });
            (wanted.collect::<Vec<_>>().join(" "), options.paired().len())
        };
        let rust_cuda = ["--contender", "codegen:rust-cuda"];
        assert_eq!(people(&rust_cuda), ("codegen:rust-cuda codegen:rust-cuda fa512".into(), 2));
        let with_another = [rust_cuda, ["--contender", "torch:flash"]].concat();
        assert_eq!(people(&with_another), ("codegen:rust-cuda torch:flash".into(), 0));
        assert_eq!(people(&["--contender", "torch:flash"]), ("torch:flash".into(), 0));
        assert_eq!(people(&[]), ("fa512".into(), 0));
    }

    #[test]
    fn any_number_of_pairs_may_be_named() {
        let arguments = ["bench", "--paired", "fa512", "torch:flash", "--paired", "fa512", "torch:cudnn"];
        let paired: Vec<_> = Line::parse_from(arguments)
            .options
            .paired()
            .chunks(2)
            .map(|two| format!("{} {}", two[0], two[1]))
            .collect();
        assert_eq!(paired, ["fa512 torch:flash", "fa512 torch:cudnn"]);
    }

    #[test]
    fn shapes_are_three_numbers_or_four() {
        assert_eq!(shape("4x8x512"), Ok(Shape::new(4, 8, 512)));
        let shared = Shape::new(4, 32, 512).with_kv_heads(8);
        for shape in [Shape::new(4, 8, 512), Shape::new(1, 2, 3).with_head_dim(128), shared, shared.with_kv_sequence(7)]
        {
            assert_eq!(super::shape(&sizes(shape)), Ok(shape), "what is shown can be asked for");
        }
        for text in ["4x8", "4x8x512x64x2", "4,8,512", "axbxc", ""] {
            assert!(shape(text).unwrap_err().contains("32x8x512"), "{text}");
        }
        let refused = |text| shape(text).unwrap_err();
        assert!(refused("0x0x0").contains("is 0; it must be at least 1"), "{}", refused("0x0x0"));
        assert!(refused("1x1x64x500").contains("head_dim is 500"), "{}", refused("1x1x64x500"));
        assert!(refused("1x3/2x64").contains("multiple of those of K and V"), "{}", refused("1x3/2x64"));
    }
}
