//! Runs the cases of many texts on all cores.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Result;
use cli::ptx_module::PtxModule;

use crate::trial::{Trial, Verdict};

/// A text with the cases it is put through, until one of them notices something.
pub struct Attempt<'a> {
    trial: &'a Trial,
    module: PtxModule,
    /// The first case that noticed something or failed, of those that have run, and what came of it.
    ended: Mutex<Option<(usize, Result<Verdict>)>>,
}

impl<'a> Attempt<'a> {
    /// The cases of `trial`, with `ptx` as the text of its entry.
    pub fn new(trial: &'a Trial, ptx: &str) -> Self {
        Self { trial, module: trial.module(ptx), ended: Mutex::new(None) }
    }

    /// Runs a case, unless an earlier one has ended the attempt or there is none.
    fn run(&self, case: usize) {
        if case >= self.trial.cases() || ended_before(&self.ended(), case) {
            return;
        }
        let outcome = self.trial.run(&self.module, case);
        if !matches!(outcome, Ok(Verdict::Survived)) {
            let mut ended = self.ended();
            if !ended_before(&ended, case) {
                *ended = Some((case, outcome));
            }
        }
    }

    fn ended(&self) -> MutexGuard<'_, Option<(usize, Result<Verdict>)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verdict(self) -> Result<Verdict> {
        let ended = self.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.map_or(Ok(Verdict::Survived), |(_, outcome)| outcome)
    }
}

/// Whether an attempt has ended before it comes to `case`.
fn ended_before(ended: &Option<(usize, Result<Verdict>)>, case: usize) -> bool {
    ended.as_ref().is_some_and(|(earlier, _)| *earlier < case)
}

/// The verdict on each, which is that of the first case that notices anything, whatever the number of cores. `progress` is called
/// with how many of how many cases are done.
///
/// All come to their first case before any comes to its second. Those few that are left in the end so keep all cores busy: their
/// later cases do not wait for the earlier ones.
pub fn verdicts(attempts: Vec<Attempt<'_>>, progress: impl Fn(usize, usize) + Sync) -> Vec<Result<Verdict>> {
    let most_cases = attempts.iter().map(|attempt| attempt.trial.cases()).max().unwrap_or(0);
    let all = attempts.len() * most_cases;
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        for number in std::iter::repeat_with(|| next.fetch_add(1, Relaxed)).take_while(|number| *number < all) {
            attempts[number % attempts.len()].run(number / attempts.len());
            progress(done.fetch_add(1, Relaxed) + 1, all);
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    attempts.into_iter().map(Attempt::verdict).collect()
}
