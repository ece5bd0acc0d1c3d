//! Programmatic dependent launches: a grid may begin before earlier grids of its stream have ended. Tracks which of
//! them may still be running then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use ptx_sim::{GlobalAccess, Unfinished};

use crate::order::Line;
use crate::sync::lock;

/// Accesses of a grid; `None` if they were not recorded.
type Accesses = Option<Vec<GlobalAccess>>;

/// Per stream, the grids whose end nothing has waited for.
#[derive(Default)]
pub(crate) struct Dependents {
    is_watching: AtomicBool,
    grids: Mutex<HashMap<Line, Vec<Accesses>>>,
}

impl Dependents {
    /// Starts watching: some kernels overlap others.
    pub fn begin(&self) {
        self.is_watching.store(true, Relaxed);
    }

    /// Whether accesses of grids have to be recorded.
    pub fn is_watching(&self) -> bool {
        self.is_watching.load(Relaxed)
    }

    /// The grids that may still run when an overlapping grid begins; `None` if unknown.
    pub fn unfinished(&self, line: Line) -> Option<Arc<Unfinished>> {
        let grids = lock(&self.grids);
        let all = grids.get(&line).map_or(&[][..], Vec::as_slice);
        let known = all.iter().map(Option::as_ref).collect::<Option<Vec<_>>>()?;
        Some(Arc::new(Unfinished::new(known.into_iter().flatten())))
    }

    /// Records a launched grid. Grids before it have ended before the next one begins, unless it `keeps_previous`.
    pub fn add(&self, line: Line, accesses: Accesses, keeps_previous: bool) {
        let mut grids = lock(&self.grids);
        let all = grids.entry(line).or_default();
        if !keeps_previous {
            all.clear();
        }
        all.push(accesses);
    }

    /// All work submitted to the stream so far ends before its next work begins.
    pub fn end(&self, line: Line) {
        lock(&self.grids).remove(&line);
    }

    /// As [`Dependents::end`], for all streams of a context.
    pub fn end_context(&self, context: u64) {
        lock(&self.grids).retain(|line, _| line.context != context);
    }
}
