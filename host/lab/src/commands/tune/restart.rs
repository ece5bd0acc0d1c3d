//! Recovery from candidates that take down the GPU or the process: one that faults makes the GPU unusable for this
//! process, one that does not end keeps it waiting. In both cases a new process replaces this one and continues from
//! the record, first with one candidate at a time, to find out which one it was.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::tune::record::{self, Outcome, Trial};
use cli::error::Error;
use cli::record::Case;

use cli::commands::print_error;

/// Tells the next process to measure one candidate at a time.
const ALONE: &str = "FA512_TUNE_ALONE";
/// Passes the remaining seconds of `--minutes` to the next process.
const SECONDS: &str = "FA512_TUNE_SECONDS";

/// Time limit for preparing, checking and timing a group, excluding its candidates.
const PATIENCE: Duration = Duration::from_secs(60);
/// Additional time per candidate, which the driver may have to compile.
const PATIENCE_PER_CANDIDATE: Duration = Duration::from_secs(20);
/// Polling interval of the watchdog.
const INTERVAL: Duration = Duration::from_millis(250);

/// How a replacement process continues.
#[derive(Clone, Debug)]
pub struct Restart {
    /// Whether this process measures one candidate at a time.
    pub alone: bool,
    /// When time is up.
    deadline: Option<Instant>,
}

impl Restart {
    /// The rest of `time` that a previous process, if any, has left.
    pub fn new(time: Option<Duration>) -> Self {
        let left = std::env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        let deadline = time.map(|time| Instant::now() + left.unwrap_or(time));
        Self { alone: std::env::var_os(ALONE).is_some(), deadline }
    }

    /// Remaining time of this process.
    pub fn time(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Replaces this process with a new one, measuring one candidate at a time if `alone`. Returns only if that
    /// fails.
    pub fn again(&self, alone: bool) -> Error {
        let failed = |error: std::io::Error| Error::Unavailable(format!("could not start this program again: {error}"));
        let mut command = match std::env::current_exe() {
            Ok(program) => Command::new(program),
            Err(error) => return failed(error),
        };
        command.args(std::env::args_os().skip(1)).env_remove(ALONE).env_remove(SECONDS);
        if alone {
            command.env(ALONE, "1");
        }
        if let Some(time) = self.time() {
            command.env(SECONDS, time.as_secs().to_string());
        }
        failed(replace_process(&mut command))
    }
}

#[cfg(unix)]
fn replace_process(command: &mut Command) -> std::io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

#[cfg(not(unix))]
fn replace_process(command: &mut Command) -> std::io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(2)),
        Err(error) => error,
    }
}

/// The candidates being measured, and their deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    deadline: Instant,
    case: Case,
    samples: usize,
    candidates: Vec<String>,
}

/// Ends the wait for candidates that do not end.
pub struct Watchdog {
    watched: Arc<Mutex<Option<Watched>>>,
}

impl Watchdog {
    /// A watchdog for a run with its record at `record`. If a kernel does not end, it ends this process; the next one
    /// continues without that candidate, or finds out which it is.
    pub fn new(record: PathBuf, restart: Restart) -> Self {
        Self::calling(move |late| end(late, &record, &restart))
    }

    /// A watchdog that calls `bark` with the candidates that exceed their deadline.
    fn calling(bark: impl Fn(&Watched) + Send + 'static) -> Self {
        let watched: Arc<Mutex<Option<Watched>>> = Arc::default();
        let looked_at = Arc::downgrade(&watched);
        thread::spawn(move || {
            while let Some(watched) = looked_at.upgrade() {
                let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(late) = watched.take_if(|watched| Instant::now() > watched.deadline) {
                    bark(&late);
                }
                drop(watched);
                thread::sleep(INTERVAL);
            }
        });
        Self { watched }
    }

    /// Starts watching: `candidates` are now being measured.
    pub fn watch(&self, case: &Case, samples: usize, candidates: &[&str]) {
        self.watch_for(PATIENCE + PATIENCE_PER_CANDIDATE * candidates.len() as u32, case, samples, candidates);
    }

    fn watch_for(&self, patience: Duration, case: &Case, samples: usize, candidates: &[&str]) {
        self.set(Some(Watched {
            deadline: Instant::now() + patience,
            case: *case,
            samples,
            candidates: candidates.iter().map(|&name| name.to_owned()).collect(),
        }));
    }

    /// Stops watching: they are done.
    pub fn rest(&self) {
        self.set(None);
    }

    fn set(&self, watched: Option<Watched>) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = watched;
    }
}

fn end(late: &Watched, record: &Path, restart: &Restart) {
    let error = match late.candidates.as_slice() {
        [] => Error::Unavailable(format!("the incumbent or the fastest candidate of {} does not end", late.case)),
        [candidate] => {
            let outcome = Outcome::NotRun { reason: "does not end".into() };
            let trial = Trial { case: late.case, candidate: candidate.clone(), samples: late.samples, outcome };
            match record::append(record, trial) {
                Ok(()) => restart.again(false),
                Err(error) => error,
            }
        }
        _ => restart.again(true),
    };
    print_error(&error);
    std::process::exit(2);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use contract::config::{Element, Mask};
    use contract::problem::Shape;
    use contract::view::Layout;

    const CASE: Case = Case::plain(Shape::new(1, 1, 512), Element::F16, Mask::Full, Layout::Bhsd);

    #[test]
    fn those_who_are_late_are_named_once_and_those_who_are_done_never() {
        let (sender, barked) = mpsc::channel();
        let watchdog = Watchdog::calling(move |late| sender.send(late.clone()).unwrap());
        watchdog.watch_for(Duration::from_secs(3600), &CASE, 3, &["in time"]);
        watchdog.watch_for(Duration::ZERO, &CASE, 3, &["done"]);
        watchdog.rest();
        watchdog.watch_for(Duration::ZERO, &CASE, 9, &["late"]);
        let late = barked.recv_timeout(Duration::from_secs(30)).expect("the watchdog barks");
        assert_eq!((late.samples, late.candidates), (9, vec!["late".to_owned()]));
        assert_eq!(barked.recv_timeout(3 * INTERVAL).ok(), None, "once is enough");
    }

    #[test]
    fn the_time_that_is_left_goes_down() {
        let restart = Restart::new(Some(Duration::from_secs(60)));
        assert!(restart.time().is_some_and(|left| left <= Duration::from_secs(60) && left > Duration::from_secs(50)));
        assert_eq!(Restart::new(None).time(), None);
    }
}
