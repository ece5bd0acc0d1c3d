//! Runs every planted bug, or every clean twin, under compute-sanitizer's tools and reports what they say.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use planted::{Architecture, CASES, Case, Class};
use rayon::prelude::*;

/// compute-sanitizer's tools.
const TOOLS: [&str; 4] = ["memcheck", "racecheck", "initcheck", "synccheck"];
/// Exit status of `timeout` when the time was up, and when it had to send SIGKILL.
const TIMED_OUT: [Option<i32>; 2] = [Some(124), Some(137)];
/// Verdict on a kernel that a tool does not complain about.
const SILENT: &str = "–";
/// Verdict on a kernel that does not end.
const HANGS: &str = "hangs";
/// Verdict on a kernel whose launch fails with a driver error, without a finding.
const FAILS: &str = "launch fails";
/// Verdict on a kernel whose process ended by a signal.
const CRASHES: &str = "crashes";
/// What the output says in that case.
const CRASHED: &str = "process didn't terminate successfully";
/// What the output says when a kernel failed without a finding of the tool.
const LAUNCH_FAILS: [&str; 2] = ["Program hit", "Target application returned an error"];

/// What to run, and how much at a time.
#[derive(clap::Args)]
pub struct Options {
    /// The kernels with the bugs, or their clean twins
    which: Which,
    /// Processes at a time
    #[arg(long, default_value_t = 8)]
    jobs: usize,
    /// Seconds after which a kernel is taken to hang
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Only kernels for this architecture
    #[arg(long, value_parser = architecture)]
    architecture: Option<Architecture>,
    /// Only kernels of these classes
    #[arg(long, value_delimiter = ',')]
    classes: Vec<String>,
    /// mbarriers that racecheck and synccheck shall expect in a block; PTX, unlike nvcc's output, does not say how many
    #[arg(long)]
    mbarriers: Option<u32>,
}

fn architecture(name: &str) -> Result<Architecture, String> {
    let found = Architecture::ALL.into_iter().find(|architecture| architecture.name() == name);
    found.ok_or_else(|| format!("there are {}", Architecture::ALL.map(Architecture::name).join(" and ")))
}

impl Options {
    fn includes(&self, case: &Case) -> bool {
        self.architecture.is_none_or(|architecture| case.architecture == architecture)
            && (self.classes.is_empty() || self.classes.iter().any(|class| case.folder == class))
    }

    /// Arguments for a tool.
    fn arguments(&self, tool: &str) -> Vec<String> {
        let mut arguments = vec!["--tool".to_owned(), tool.to_owned()];
        if let (Some(mbarriers), "racecheck" | "synccheck") = (self.mbarriers, tool) {
            arguments.push(format!("--num-cuda-barriers={mbarriers}"));
        }
        arguments
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Planted,
    Clean,
}

impl Which {
    fn entry(self, case: &Case) -> &'static str {
        match self {
            Which::Planted => case.planted,
            Which::Clean => case.clean,
        }
    }
}

/// The tools' verdicts on one kernel.
struct Row<'a> {
    case: &'a Case,
    verdicts: Vec<String>,
}

/// How well the tools notice a bug.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notice {
    /// A tool names the error.
    Named,
    /// The kernel fails or hangs, without a finding.
    Symptom,
    /// Nothing happens.
    Silent,
}

impl Row<'_> {
    fn notice(&self) -> Notice {
        let all = |known: &[&str]| self.verdicts.iter().all(|verdict| known.contains(&verdict.as_str()));
        match (all(&[SILENT]), all(&[SILENT, HANGS, FAILS, CRASHES])) {
            (true, _) => Notice::Silent,
            (_, true) => Notice::Symptom,
            _ => Notice::Named,
        }
    }
}

/// Runs the kernels under every tool and prints two Markdown tables: by class, and every kernel.
pub fn run(options: &Options) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let cases: Vec<&Case> = CASES.iter().filter(|case| options.includes(case)).collect();
    let runs: Vec<(&Case, &str)> = cases.iter().flat_map(|case| TOOLS.map(|tool| (*case, tool))).collect();
    let mut verdicts = vec![String::new(); runs.len()];
    judge(&program, &runs, &mut verdicts, options.jobs, options, |_, _| true)?;
    // A hanging kernel takes time slices from the others, which then may seem to hang too.
    let is_doubtful = |case: &Case, verdict: &str| case.class != Class::Deadlock && verdict == HANGS;
    judge(&program, &runs, &mut verdicts, options.jobs.div_ceil(4), options, is_doubtful)?;
    let chunks = verdicts.chunks(TOOLS.len());
    let rows: Vec<Row<'_>> =
        cases.into_iter().zip(chunks).map(|(case, verdicts)| Row { case, verdicts: verdicts.to_vec() }).collect();
    summarise(&rows);
    println!("\n| class | kernel | {} |\n|---|---|---|---|---|---|", TOOLS.join(" | "));
    for Row { case, verdicts } in &rows {
        println!("| {} | {} | {} |", case.folder, case.name, verdicts.join(" | "));
    }
    Ok(())
}

/// Runs the tools on cases that `is_wanted` accepts (given case and current verdict), in parallel, and replaces their
/// verdicts.
fn judge(
    program: &Path,
    runs: &[(&Case, &str)],
    verdicts: &mut [String],
    jobs: usize,
    options: &Options,
    is_wanted: impl Fn(&Case, &str) -> bool + Sync,
) -> Result<(), String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().map_err(|error| error.to_string())?;
    pool.install(|| {
        let pairs = runs.par_iter().zip(verdicts.par_iter_mut());
        pairs.filter(|((case, _), verdict)| is_wanted(case, verdict)).try_for_each(|((case, tool), verdict)| {
            *verdict = sanitize(program, tool, options.which.entry(case), options)?;
            Ok(())
        })
    })
}

/// Prints how many kernels of each class were noticed.
fn summarise(rows: &[Row<'_>]) {
    println!("| class | kernels | named | symptom | silent |\n|---|---|---|---|---|");
    let mut classes: Vec<&str> = rows.iter().map(|row| row.case.folder).collect();
    classes.dedup();
    for class in classes {
        let of_class: Vec<&Row<'_>> = rows.iter().filter(|row| row.case.folder == class).collect();
        let count = |notice| of_class.iter().filter(|row| row.notice() == notice).count();
        let [named, symptom, silent] = [Notice::Named, Notice::Symptom, Notice::Silent].map(count);
        println!("| {class} | {} | {named} | {symptom} | {silent} |", of_class.len());
    }
}

/// What `tool` says about `entry`.
fn sanitize(program: &Path, tool: &str, entry: &str, options: &Options) -> Result<String, String> {
    // `timeout` ends the whole process group: compute-sanitizer and the program it runs.
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", &options.seconds.to_string(), "compute-sanitizer"]).args(options.arguments(tool));
    command.arg(program).args(["run", entry]).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("timeout: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains("COMPUTE-SANITIZER") {
        return Err(format!("compute-sanitizer does not run: {text}{}", String::from_utf8_lossy(&output.stderr)));
    }
    let verdict = verdict(&text);
    Ok(match (verdict, TIMED_OUT.contains(&output.status.code())) {
        (Some(found), false) => found,
        (Some(found), true) => format!("{found}; {HANGS}"),
        (None, true) => HANGS.to_owned(),
        (None, false) if text.contains(CRASHED) => CRASHES.to_owned(),
        (None, false) if LAUNCH_FAILS.iter().any(|sign| text.contains(sign)) => FAILS.to_owned(),
        (None, false) => SILENT.to_owned(),
    })
}

/// The first complaint in a tool's output, except errors that the CUDA API returned as a consequence.
fn verdict(text: &str) -> Option<String> {
    const NOT_A_COMPLAINT: [&str; 8] = [
        "COMPUTE-SANITIZER",
        "ERROR SUMMARY",
        "RACECHECK SUMMARY",
        "Target application",
        "Program hit",
        "Error: No",
        "Error: process",
        " ",
    ];
    let complaints = text.lines().filter_map(|line| line.strip_prefix("========= "));
    let mut complaints = complaints.filter(|line| !NOT_A_COMPLAINT.iter().any(|start| line.starts_with(start)));
    let complaint = complaints.next()?;
    Some(complaint.split(" at ").next().unwrap_or(complaint).trim().to_owned())
}
