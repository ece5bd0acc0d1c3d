//! `fa512 tune run`: checks and times the compiled candidates on a GPU, then decides.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contract::parts::Workspace;

use crate::tune::lab::GROUP;
use crate::tune::plan::Plan;
use crate::tune::record::{Header, Journal, Record};
use crate::tune::session::{End, Session};
use crate::tune::task::{Participant, Shard, Task};
use cli::bench::Bench;
use cli::compare::Thresholds;
use cli::contender::Contender;
use cli::contender::ptx::Ptx;
use cli::device::Device;
use cli::error::{Error, Result};
use cli::executor::Executor;
use cli::executor::gpu::GpuExecutor;
use cli::inputs::Distribution;
use cli::ptx_folder::PtxFolder;
use cli::record::{Case, Ceilings, RunProtocol};
use cli::statistics::RESAMPLES;
use cli::telemetry::Monitor;
use cli::timing::Protocol;
use contract::cost;
use contract::manifest::Entry;
use contract::selection;
use contract::variants::VARIANTS;

use super::listener::Shown;
use super::restart::{Restart, Watchdog};
use super::text;
use cli::commands::bench::environment;
use cli::commands::compare::percent;
use cli::commands::fuzz::minutes;
use cli::commands::gpu_option::GpuOption;
use cli::commands::interrupt::stop_on_interrupt;
use cli::commands::{Verdict, gpu_for_times, output};

/// Check and measure the compiled candidates on a GPU; the fastest must beat the incumbent
///
/// The record is written as trials are made. The same command continues it, however the last run ended.
#[derive(clap::Args)]
#[command(
    after_help = "A candidate is compared with the f64 reference before it is timed. It is timed in turns with the \
                        incumbent, the shipped variant that selection launches now. The fastest candidate meets the \
                        incumbent again in the protocol of `fa512 bench`, and replaces it by the rules of `fa512 \
                        compare`.\n\nExit codes: 0 done, or out of time, 2 could not run, or interrupted."
)]
pub struct Options {
    /// Plan written by `fa512 tune plan --out`
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Folder written by `cargo xtask ptx --variants`
    #[arg(long, value_name = "FOLDER")]
    ptx: PathBuf,
    /// Record to write, one JSON object per line; an existing one is continued
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Stop searching after this many minutes, divided among the cases; the final comparisons always run
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    minutes: Option<Duration>,
    /// Candidates of a case that tpe and latin-hypercube measure [default: a third of them, at least 24]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    trials: Option<u32>,
    /// Measure only a part of the candidates, such as 1/4 for the first of four, without final comparisons; `fa512 tune
    /// merge` merges the records
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// How much less time than the incumbent a candidate must take, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0 * Thresholds::default().improvement, value_parser = percent)]
    improvement: f64,
    /// Samples of each in the final comparison
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Keep the inputs in L2, instead of rotating over sets of inputs that are larger than L2
    #[arg(long)]
    warm_l2: bool,
    /// Heads of each case to compare with the f64 reference: the first, the last, and random others
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    check_heads: u32,
    #[command(flatten)]
    gpu: GpuOption,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    options.gpu.apply()?;
    let plan = Plan::load(&options.plan)?;
    let folder = PtxFolder::open(&options.ptx)?;
    let gpu = gpu_for_times()?;
    let tasks = tasks(&plan, &folder, gpu.device(), options.shard.unwrap_or(Shard::WHOLE))?;
    let monitor = Monitor::new(gpu.device());
    let protocol = options.protocol(gpu.device(), &plan);
    let header = header(&plan, &folder, &gpu, &monitor, protocol.clone());
    let mut journal = Journal::open(&options.out, header)?;
    let stop = stop_on_interrupt()?;
    let restart = Restart::new(options.minutes);
    let ceilings = Ceilings::default();
    let bench = Bench {
        protocol,
        heads_checked: options.check_heads as usize,
        resamples: RESAMPLES,
        ceilings: &ceilings,
        monitor: &monitor,
        stop: &stop,
    };
    let folder = Arc::new(folder);
    let open = |name: &str| -> Result<Box<dyn Contender>> {
        Ok(Box::new(Ptx::new(name, Box::new(GpuExecutor::open()?), folder.clone(), Some(name.to_owned()))))
    };
    let session = Session {
        bench: &bench,
        open: &open,
        strategy: plan.strategy,
        trials: options.trials.map(|trials| trials as usize),
        seed: plan.seed,
        group: if restart.alone { 1 } else { GROUP },
        time: restart.time(),
        thresholds: options.thresholds(),
    };
    let mut shown = Shown::new(Watchdog::new(options.out.clone(), restart.clone()));
    let end = session.run(&tasks, &mut journal, &mut shown)?;
    drop(shown);
    match end {
        End::LostDevice => Err(restart.again(!restart.alone)),
        End::Done | End::Interrupted => report(options, &plan, journal.record(), end),
    }
}

impl Options {
    fn protocol(&self, device: &Device, plan: &Plan) -> RunProtocol {
        RunProtocol {
            timing: Protocol::on(device, self.warm_l2),
            samples: self.samples as usize,
            order_seed: plan.seed,
            distribution: Distribution::Normal,
            input_seed: plan.seed,
        }
    }

    /// What a challenger has to reach; `None` for a shard, which makes no decision.
    fn thresholds(&self) -> Option<Thresholds> {
        let thresholds = Thresholds { improvement: self.improvement / 100.0, ..Thresholds::default() };
        self.shard.is_none().then_some(thresholds)
    }
}

/// The candidates and the incumbent of each case.
fn tasks(plan: &Plan, folder: &PtxFolder, device: &Device, shard: Shard) -> Result<Vec<Task>> {
    let absent = plan.pool.candidates.iter().filter(|candidate| entry(folder, &candidate.name).is_none()).count();
    if absent > 0 {
        output::note(&format!("{absent} candidates of the plan are not in {}", folder.path().display()));
    }
    let mut tasks = Vec::new();
    for case in &plan.cases {
        let there = plan.candidates(case).into_iter().filter_map(|candidate| entry(folder, &candidate.name));
        let participant = |entry: &Entry| Participant { name: entry.name.clone(), config: entry.config };
        let participants = there.map(participant).collect();
        let incumbent = incumbent(plan, folder, device, case)?;
        tasks.push(Task { case: *case, participants, incumbent }.part(shard));
    }
    Ok(tasks)
}

/// The entry called `name`.
fn entry<'a>(folder: &'a PtxFolder, name: &str) -> Option<&'a Entry> {
    folder.entries().map(|(entry, _)| entry).find(|entry| entry.name == name)
}

/// The shipped variant that is currently chosen for `case`.
fn incumbent(plan: &Plan, folder: &PtxFolder, device: &Device, case: &Case) -> Result<String> {
    let problem = case.problem()?;
    let entries = folder.entries().map(|(entry, _)| entry);
    let shipped = entries.filter(|entry| plan.incumbents.contains(&entry.name)).map(Entry::variant);
    let choice = selection::choose(shipped, cost::SHIPPED, &problem, &device.gpu(), Workspace::Provided).map_err(|error| {
        Error::Invalid(format!(
            "{case} has no incumbent in {}: {error}\n(cargo xtask ptx --variants of this plan compiles the shipped variants, too)",
            folder.path().display()
        ))
    })?;
    Ok(choice.plan.variant().entry.to_owned())
}

fn header(plan: &Plan, folder: &PtxFolder, gpu: &GpuExecutor, monitor: &Monitor, protocol: RunProtocol) -> Header {
    let manifest = folder.manifest();
    Header {
        command: std::env::args().collect(),
        started_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        plan: plan.digest(),
        ptx: folder.digest(),
        code_generator: manifest.code_generator.clone(),
        git_commit: manifest.git_commit.clone(),
        strategy: plan.strategy,
        protocol,
        environment: environment(gpu, monitor),
    }
}

fn report(options: &Options, plan: &Plan, record: &Record, end: End) -> Result<Verdict> {
    let mut shown = text::results(record, text::SHOWN);
    let path = options.out.display();
    match (end, options.shard) {
        (End::Interrupted, _) => shown += &format!("\ninterrupted; the same command goes on from {path}\n"),
        (_, Some(_)) => shown += "\nnext: fa512 tune merge, with the records of the other parts\n",
        (_, None) => {
            shown += &new_variants(plan, record);
        }
    }
    output::print(&shown)?;
    Ok(if end == End::Done { Verdict::Pass } else { Verdict::CannotRun })
}

/// Lines for the variant list, for winners that are not shipped yet.
fn new_variants(plan: &Plan, record: &Record) -> String {
    let decisions = record.last_decisions();
    let is_new = |name: &str| {
        let won = decisions.iter().any(|decision| decision.winner() == name);
        won && VARIANTS.iter().all(|variant| variant.entry != name)
    };
    let new = plan.pool.candidates.iter().filter(|candidate| is_new(&candidate.name));
    let lines: String =
        new.map(|candidate| format!("    {} (measured as {})\n", candidate.listing(), candidate.name)).collect();
    match lines.is_empty() {
        true => lines,
        false => format!(
            "\nto ship, lines of kernel-gpu/contract/src/launch/variants.rs, behind the names of their entries:\n{lines}\nnext, with \
             these lines: fa512 map run --variants all, and fa512 map fit: predicted times choose what is launched\n"
        ),
    }
}
