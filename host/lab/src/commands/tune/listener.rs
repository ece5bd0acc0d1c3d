//! Progress display and watchdog of a tuning run.

use crate::tune::lab::Listener;
use cli::bench::Observer;
use cli::record::Case;

use super::restart::Watchdog;
use cli::commands::progress::Progress;

/// Shows how many candidates were measured, and has the watchdog watch the current ones.
pub struct Shown {
    progress: Progress,
    watchdog: Watchdog,
}

impl Shown {
    /// A listener at the start of a run; `watchdog` waits for candidates that do not end.
    pub fn new(watchdog: Watchdog) -> Self {
        Self { progress: Progress::with_rate("tuning: measurements", None), watchdog }
    }
}

impl Listener for Shown {
    fn case(&mut self, case: &Case, incumbent: &str, candidates: usize) {
        self.progress.say(&format!("{case}: {candidates} candidates, incumbent {incumbent}"));
    }

    fn begins(&mut self, case: &Case, samples: usize, candidates: &[&str]) {
        self.watchdog.watch(case, samples, candidates);
    }

    fn ends(&mut self, candidates: &[&str]) {
        self.watchdog.rest();
        self.progress.advance(candidates.len() as u64);
    }
}

impl Observer for Shown {
    fn checking(&mut self, _: &Case, _: &str) {
        self.progress.advance(0);
    }

    fn turned(&mut self, _: &Case) {}
}
