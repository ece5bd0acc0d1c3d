//! Progress messages on standard error.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::command_line;

/// A task that is announced, and whose duration is shown if noticeable.
#[derive(Debug)]
pub struct Step {
    what: Cow<'static, str>,
    begun: Instant,
}

impl Step {
    /// Announces `what`.
    pub fn begin(what: impl Into<Cow<'static, str>>) -> Self {
        let what = what.into();
        eprintln!("xtask: {what}");
        Self { what, begun: Instant::now() }
    }

    /// Shows the duration if it exceeds two seconds.
    pub fn done(self) {
        let took = self.begun.elapsed();
        if took >= Duration::from_secs(2) {
            eprintln!("xtask: {} took {:.1} s", self.what, took.as_secs_f64());
        }
    }
}

/// Shows the progress of a download from the sizes of its files, until dropped.
#[derive(Debug)]
pub struct DownloadMeter {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl DownloadMeter {
    /// Watches `files` grow towards `total` bytes together.
    pub fn watch(files: Vec<PathBuf>, total: u64) -> Self {
        let (stop, stopped) = mpsc::channel();
        let terminal = stderr().is_terminal();
        let interval = if terminal { Duration::from_millis(200) } else { Duration::from_secs(5) };
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                show(&files, total, terminal);
            }
            if terminal {
                eprint!("\r\x1b[K");
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for DownloadMeter {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs `command`, which writes a line as `[3/100] what` for each of its steps. Shows their number in place on a terminal, elsewhere twenty
/// times. Other lines are a compiler's messages, and are passed on.
pub fn run_counting(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = started.with_context(|| format!("could not start `{}`", command_line(command)))?;
    let lines = BufReader::new(child.stdout.take().context("a child without output")?).lines();
    let terminal = stderr().is_terminal();
    let mut shown = 0;
    for line in lines {
        let line = line?;
        match steps(&line) {
            Some((done, all)) if terminal => eprint!("\r\x1b[K{program}: {done} of {all}"),
            Some((done, all)) if done * 20 / all > shown => {
                shown = done * 20 / all;
                eprintln!("xtask: {program}: {done} of {all}");
            }
            Some(_) => {}
            None => eprintln!("{line}"),
        }
    }
    if terminal {
        eprintln!();
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{}` failed ({status})", command_line(command));
    }
    Ok(())
}

/// The numbers in `[3/100] what`.
fn steps(line: &str) -> Option<(usize, usize)> {
    let (done, all) = line.strip_prefix('[')?.split_once(']')?.0.split_once('/')?;
    Some((done.parse().ok()?, all.parse().ok().filter(|all| *all > 0)?))
}

fn show(files: &[PathBuf], total: u64, terminal: bool) {
    const MEGABYTE: u64 = 1_000_000;
    let size = |path: &PathBuf| Path::metadata(path).map_or(0, |metadata| metadata.len());
    let arrived: u64 = files.iter().map(size).sum();
    let (begin, end) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
    eprint!("{begin}xtask: downloaded {} of {} MB{end}", arrived / MEGABYTE, total.div_ceil(MEGABYTE));
    let _ = stderr().flush();
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{run_counting, steps};

    #[test]
    fn the_steps_of_ninja_are_counted() {
        assert_eq!(steps("[7/983] Building CXX object [a/b].o"), Some((7, 983)));
        for other in ["ninja: Entering directory `llvm-7'", "[x/3] y", "[3/0] y", "[3]"] {
            assert_eq!(steps(other), None, "{other}");
        }
    }

    #[test]
    fn a_failure_is_that_of_the_program() {
        let sh = |script: &str| run_counting(Command::new("sh").args(["-c", script]));
        sh("echo '[1/1] one'").unwrap();
        let error = sh("echo '[1/2] one'; exit 3").unwrap_err().to_string();
        assert!(error.ends_with("failed (exit status: 3)"), "{error}");
    }
}
