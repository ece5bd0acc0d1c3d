//! Launches that may begin before those in front of them have ended (programmatic dependent launches): what of their stream may
//! still run then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use ptx_sim::{GlobalAccess, Unfinished};

use crate::order::Line;
use crate::sync::lock;

/// What a grid has accessed; `None` where nobody looked.
type Accesses = Option<Vec<GlobalAccess>>;

/// The grids of streams of which nobody has waited for the end.
#[derive(Default)]
pub(crate) struct Dependents {
    is_watching: AtomicBool,
    grids: Mutex<HashMap<Line, Vec<Accesses>>>,
}

impl Dependents {
    /// There are kernels that overlap others.
    pub fn begin(&self) {
        self.is_watching.store(true, Relaxed);
    }

    /// Whether it matters what grids access.
    pub fn is_watching(&self) -> bool {
        self.is_watching.load(Relaxed)
    }

    /// What may still run when a grid begins that overlaps the one before it; `None` where that is not known.
    pub fn unfinished(&self, line: Line) -> Option<Arc<Unfinished>> {
        let grids = lock(&self.grids);
        let all = grids.get(&line).map_or(&[][..], Vec::as_slice);
        let known = all.iter().map(Option::as_ref).collect::<Option<Vec<_>>>()?;
        Some(Arc::new(Unfinished::new(known.into_iter().flatten())))
    }

    /// A grid was launched. What was in front of it has ended before the next one begins, unless it `keeps_previous`.
    pub fn add(&self, line: Line, accesses: Accesses, keeps_previous: bool) {
        let mut grids = lock(&self.grids);
        let all = grids.entry(line).or_default();
        if !keeps_previous {
            all.clear();
        }
        all.push(accesses);
    }

    /// All that the stream was given so far ends before what it is given next.
    pub fn end(&self, line: Line) {
        lock(&self.grids).remove(&line);
    }

    /// The same of all streams of a context.
    pub fn end_context(&self, context: u64) {
        lock(&self.grids).retain(|line, _| line.context != context);
    }
}
