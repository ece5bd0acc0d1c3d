//! Progress bars on a terminal for work that takes a while.

use std::time::{Duration, Instant};

use crate::bench::Observer;
use crate::record::Case;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output;

/// Work shorter than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar on standard error that appears, if that is a terminal, once the work has taken two seconds.
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
}

impl Progress {
    /// A bar for `total` steps of work called `what`.
    pub fn new(what: &'static str, total: u64) -> Self {
        Self::with_template(what, Some(total), "{msg} {bar:40} {percent}% ({eta} left)")
    }

    /// A bar that also shows finished steps per second; without a total, only their number and the time.
    pub fn with_rate(what: &'static str, total: Option<u64>) -> Self {
        let template = match total {
            Some(_) => "{msg} {bar:40} {pos} of {len} ({per_sec}, {eta} left)",
            None => "{msg} {spinner} {pos} ({per_sec}, {elapsed})",
        };
        Self::with_template(what, total, template)
    }

    fn with_template(what: &'static str, total: Option<u64>, template: &str) -> Self {
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden()).with_style(style);
        bar.set_message(what);
        Self { bar, start: Instant::now() }
    }

    /// Writes a line to standard error, above the bar.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| output::note(text));
    }

    /// Counts finished steps.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
        if self.bar.is_hidden() && self.start.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

/// A step is one turn of a case.
impl Observer for Progress {
    fn checking(&mut self, _: &Case, _: &str) {
        self.advance(0);
    }

    fn turned(&mut self, _: &Case) {
        self.advance(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Runs `work`, whose steps cannot be counted. Shows a clock on standard error if that is a terminal and the work is
/// `expected` to take over two seconds.
pub fn with_clock<T>(what: String, expected: Duration, work: impl FnOnce() -> T) -> T {
    if expected < PATIENCE {
        return work();
    }
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("the template is valid");
    let clock = ProgressBar::new_spinner().with_style(style).with_message(what);
    clock.enable_steady_tick(Duration::from_millis(200));
    let result = work();
    clock.finish_and_clear();
    result
}
