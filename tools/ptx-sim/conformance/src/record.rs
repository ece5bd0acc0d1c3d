//! Records results of a GPU.
//!
//! Cases run in a child process, which is replaced after a failed case: after a fault the driver refuses all further work of a
//! process.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::forms::Class;
use crate::gpu::Gpu;
use crate::vectors::{Origin, Recorded, Vectors};

/// A line that [`run`] prints.
#[derive(Serialize, Deserialize)]
enum Message {
    /// The first one.
    Origin(Origin),
    /// Each further one: what a case gave.
    Result(Result<Recorded, String>),
}

/// Failures after which the rest of a class is skipped.
const MOST_FAILURES: usize = 16;

/// Runs the cases of a class that have no current result in `folder`, from the `from`-th of them on, and prints the
/// results, until one fails.
///
/// # Errors
/// When there is no GPU to run them on.
pub fn run(class: &Class, folder: &Path, from: usize) -> Result<()> {
    let gpu = Gpu::open()?;
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let date = date.split('T').next().unwrap_or_default().to_owned();
    print(&Message::Origin(Origin { device: gpu.name()?, cuda: gpu.cuda_version()?, date }))?;
    for case in missing(class, folder).1.iter().skip(from) {
        let result = gpu.output(case).map(|output| Recorded::new(case.digest(), &output));
        let result = result.map_err(|error| format!("{error:#}"));
        let failed = result.is_err();
        print(&Message::Result(result))?;
        if failed {
            break;
        }
    }
    Ok(())
}

fn print(message: &Message) -> Result<()> {
    let mut output = std::io::stdout().lock();
    serde_json::to_writer(&mut output, message)?;
    Ok(output.write_all(b"\n").and_then(|()| output.flush())?)
}

/// The stored results of a class that are current, and the cases that have none.
fn missing(class: &Class, folder: &Path) -> (Vectors, Vec<Case>) {
    let mut cases = class.cases();
    let mut vectors = Vectors::load(folder, class.name).unwrap_or_default();
    vectors.retain_current(&cases);
    cases.retain(|case| !vectors.results.contains_key(&case.name));
    (vectors, cases)
}

/// Runs every case of a class that has no current result in `folder`, and stores the results; a message for each that
/// failed.
///
/// # Errors
/// If results cannot be obtained or stored.
pub fn record(class: &Class, folder: &Path) -> Result<Vec<String>> {
    let (mut vectors, cases) = missing(class, folder);
    let mut failures = Vec::new();
    let mut next = 0;
    while next < cases.len() && failures.len() < MOST_FAILURES {
        let (origin, results) = run_apart(class, folder, next)?;
        if results.is_empty() {
            bail!("the process that runs the cases ended before it ran one");
        }
        let origin = vectors.add_origin(origin);
        for result in results {
            let Case { name, .. } = &cases[next];
            match result {
                Ok(recorded) => drop(vectors.results.insert(name.clone(), Recorded { origin, ..recorded })),
                Err(error) => failures.push(format!("{name}: {error}")),
            }
            next += 1;
        }
    }
    vectors.save(folder, class.name)?;
    let untried = cases.len() - next;
    failures.extend((untried > 0).then(|| format!("{untried} cases of class {} were not tried", class.name)));
    Ok(failures)
}

/// [`run`] in a new process: what it printed.
fn run_apart(class: &Class, folder: &Path, from: usize) -> Result<(Origin, Vec<Result<Recorded, String>>)> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut child = Command::new(program)
        .args(["run", "--class", class.name, &from.to_string(), "--vectors"])
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the process that runs the cases")?;
    let output = child.stdout.take().context("the output of that process")?;
    let mut lines = BufReader::new(output).lines();
    let read = |line: std::io::Result<String>| -> Result<Message> { Ok(serde_json::from_str(&line?)?) };
    let first = lines.next().map(read).transpose()?;
    let results = lines.map(|line| match read(line)? {
        Message::Result(result) => Ok(result),
        Message::Origin(_) => bail!("a second origin"),
    });
    let results = results.collect::<Result<Vec<_>>>()?;
    child.wait()?;
    match first {
        Some(Message::Origin(origin)) => Ok((origin, results)),
        _ => bail!("no case could be run"),
    }
}
