//! Locks that survive a panic: state behind them changes only when nothing can fail any more.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The guard of `mutex`, even if a thread panicked while holding it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
