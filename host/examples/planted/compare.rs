//! What compute-sanitizer's tools say about every planted bug, or about every clean twin.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use kernel_gpu::planted::{CASES, Case};
use rayon::prelude::*;

/// compute-sanitizer's tools.
const TOOLS: [&str; 4] = ["memcheck", "racecheck", "initcheck", "synccheck"];
/// Exit status of `timeout` when the time was up, and when that took SIGKILL.
const TIMED_OUT: [Option<i32>; 2] = [Some(124), Some(137)];
/// What the output says when a kernel failed in which the tool found nothing.
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

/// Runs every kernel under every tool and prints a Markdown table.
pub fn run(options: &Options) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let runs: Vec<(&Case, &str)> = CASES.iter().flat_map(|case| TOOLS.map(|tool| (case, tool))).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs).build().map_err(|error| error.to_string())?;
    let verdicts: Vec<String> = pool.install(|| {
        let verdict =
            |(case, tool): &(&Case, &str)| sanitize(&program, tool, options.which.entry(case), options.seconds);
        runs.par_iter().map(verdict).collect::<Result<_, String>>()
    })?;
    println!("| class | kernel | {} |\n|---|---|---|---|---|---|", TOOLS.join(" | "));
    for (case, verdicts) in CASES.iter().zip(verdicts.chunks(TOOLS.len())) {
        println!("| {} | {} | {} |", case.folder, case.name, verdicts.join(" | "));
    }
    Ok(())
}

/// What `tool` says about `entry`.
fn sanitize(program: &Path, tool: &str, entry: &str, seconds: u32) -> Result<String, String> {
    // `timeout` ends the whole process group: compute-sanitizer and the program it runs.
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", &seconds.to_string(), "compute-sanitizer", "--tool", tool]);
    command.arg(program).args(["run", entry]).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("timeout: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains("COMPUTE-SANITIZER") {
        return Err(format!("compute-sanitizer does not run: {text}{}", String::from_utf8_lossy(&output.stderr)));
    }
    let verdict = verdict(&text);
    Ok(match (verdict, TIMED_OUT.contains(&output.status.code())) {
        (Some(found), false) => found,
        (Some(found), true) => format!("{found}; hangs"),
        (None, true) => "hangs".to_owned(),
        (None, false) if LAUNCH_FAILS.iter().any(|sign| text.contains(sign)) => "launch fails".to_owned(),
        (None, false) => "–".to_owned(),
    })
}

/// The first thing a tool's output complains about, without what the CUDA API returned because of it.
fn verdict(text: &str) -> Option<String> {
    const NOT_A_COMPLAINT: [&str; 7] = [
        "COMPUTE-SANITIZER",
        "ERROR SUMMARY",
        "RACECHECK SUMMARY",
        "Target application",
        "Program hit",
        "Error: No",
        " ",
    ];
    let complaints = text.lines().filter_map(|line| line.strip_prefix("========= "));
    let mut complaints = complaints.filter(|line| !NOT_A_COMPLAINT.iter().any(|start| line.starts_with(start)));
    let complaint = complaints.next()?;
    Some(complaint.split(" at ").next().unwrap_or(complaint).trim().to_owned())
}
