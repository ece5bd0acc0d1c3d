//! Runs the cases of many texts on all cores.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;

use crate::trial::{Trial, Verdict};

/// A text with the cases it is put through, until one of them notices something.
pub struct Attempt<'a> {
    trial: &'a Trial,
    text: Arc<str>,
    /// The first case that noticed something or failed, of those that have run, and what came of it.
    ended: Mutex<Option<(usize, Result<Verdict>)>>,
}

impl<'a> Attempt<'a> {
    /// The cases of `trial`, with `ptx` as the text of its entry.
    pub fn new(trial: &'a Trial, ptx: &str) -> Self {
        Self { trial, text: trial.text(ptx), ended: Mutex::new(None) }
    }

    /// Runs a case, unless an earlier one has ended the attempt or there is none.
    fn run(&self, case: usize) {
        if case >= self.trial.cases() || self.ended_before(case) {
            return;
        }
        let outcome = self.trial.run(&self.text, case);
        if !matches!(outcome, Ok(Verdict::Survived)) {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            if ended.as_ref().is_none_or(|(earlier, _)| case < *earlier) {
                *ended = Some((case, outcome));
            }
        }
    }

    fn ended_before(&self, case: usize) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.as_ref().is_some_and(|(earlier, _)| *earlier < case)
    }

    fn verdict(self) -> Result<Verdict> {
        let ended = self.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.map_or(Ok(Verdict::Survived), |(_, outcome)| outcome)
    }
}

/// Most cases that an attempt can come to, of all of them together.
pub fn checks(attempts: &[Attempt<'_>]) -> usize {
    attempts.len() * most_cases(attempts)
}

fn most_cases(attempts: &[Attempt<'_>]) -> usize {
    attempts.iter().map(|attempt| attempt.trial.cases()).max().unwrap_or(0)
}

/// The verdict on each, which is that of the first case that notices anything, whatever the number of cores. `progress` is called
/// for each of the [`checks`].
///
/// All come to their first case before any comes to its second. Those few that are left in the end so keep all cores busy: their
/// later cases do not wait for the earlier ones.
pub fn verdicts(attempts: Vec<Attempt<'_>>, progress: impl Fn() + Sync) -> Vec<Result<Verdict>> {
    let (checks, next) = (checks(&attempts), AtomicUsize::new(0));
    let work = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Relaxed)).take_while(|number| *number < checks);
        for number in numbers {
            attempts[number % attempts.len()].run(number / attempts.len());
            progress();
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    attempts.into_iter().map(Attempt::verdict).collect()
}
