//! Progress messages on standard error.

use std::borrow::Cow;
use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

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

fn show(files: &[PathBuf], total: u64, terminal: bool) {
    const MEGABYTE: u64 = 1_000_000;
    let size = |path: &PathBuf| Path::metadata(path).map_or(0, |metadata| metadata.len());
    let arrived: u64 = files.iter().map(size).sum();
    let (begin, end) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
    eprint!("{begin}xtask: downloaded {} of {} MB{end}", arrived / MEGABYTE, total.div_ceil(MEGABYTE));
    let _ = stderr().flush();
}
