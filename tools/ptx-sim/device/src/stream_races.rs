//! Stream races: unordered work of two streams on the same memory.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ptx_sim::SourceLocation;

use crate::order::{Clock, Line, Order, Work};
use crate::sync::lock;

/// Maximum pieces of work remembered.
const MOST_WORK: usize = 1024;
/// Maximum memory ranges remembered, over all work.
const MOST_RANGES: usize = 1 << 20;

/// Memory that a piece of work reads or writes.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// First byte.
    pub address: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it is atomic; atomic accesses do not race with each other.
    pub is_strong: bool,
    /// The kind of access.
    pub by: By,
}

/// The origin of a memory access.
#[derive(Clone, Debug)]
pub(crate) enum By {
    /// A copy or a fill.
    Call,
    /// An instruction: its line in the PTX, and the source location of that line.
    Line(u32, Option<SourceLocation>),
    /// Start or end of the lifetime of the memory, with the verb for messages.
    Life(&'static str),
}

impl Access {
    /// The access of a copy or fill.
    pub fn plain(address: u64, bytes: u64, writes: bool) -> Self {
        Self { address, bytes, writes, is_strong: false, by: By::Call }
    }

    fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    fn races_with(&self, other: &Access) -> bool {
        self.address < other.end()
            && other.address < self.end()
            && (self.writes || other.writes)
            && !(self.is_strong && other.is_strong)
    }

    /// The access in words, with its line.
    fn describe(&self) -> String {
        let effect = if self.writes { "writes" } else { "reads" };
        match &self.by {
            By::Call => format!("{effect} it"),
            By::Life(effect) => format!("{effect} it"),
            By::Line(line, None) => format!("{effect} it in line {line} of the PTX"),
            By::Line(line, Some(source)) => format!("{effect} it in line {line} of the PTX, from {source}"),
        }
    }
}

/// Memory accesses of a piece of work, in parts for the nodes of a graph.
#[derive(Default)]
pub(crate) struct Touched {
    parts: Vec<Part>,
}

/// A launch, a copy or a fill.
struct Part {
    /// Name in messages.
    name: String,
    accesses: Vec<Access>,
}

impl Touched {
    /// Adds the accesses of a launch, copy or fill.
    pub fn add(&mut self, name: String, accesses: Vec<Access>) {
        if !accesses.is_empty() {
            self.parts.push(Part { name, accesses });
        }
    }

    fn ranges(&self) -> usize {
        self.parts.iter().map(|part| part.accesses.len()).sum()
    }
}

/// Completed work.
struct Done {
    work: Work,
    /// Everything that happened before its end.
    clock: Clock,
    touched: Touched,
    /// Name of its stream in messages.
    stream: String,
}

/// Two accesses that race.
pub(crate) struct StreamRace {
    /// The first byte that both access.
    pub address: u64,
    /// The earlier access, in words.
    pub earlier: String,
    /// The later access, in words.
    pub later: String,
}

/// Detects races: the order of streams and the memory accesses of their work.
#[derive(Default)]
pub(crate) struct StreamRaces {
    /// Whether a stream other than the legacy default stream was ever created; without one all work is in order.
    has_streams: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    order: Order,
    done: VecDeque<Done>,
    /// Pairs that have been reported.
    told: HashSet<(String, String)>,
}

impl StreamRaces {
    /// Starts watching: a stream other than the legacy default stream exists.
    pub fn begin(&self) {
        self.has_streams.store(true, Relaxed);
    }

    /// Whether anything can race.
    pub fn is_watching(&self) -> bool {
        self.has_streams.load(Relaxed)
    }

    /// As [`Order::give`].
    pub fn give(&self, line: Line, is_blocking: bool) -> (Work, Clock) {
        lock(&self.state).order.give(line, is_blocking)
    }

    /// As [`Order::wait`].
    pub fn wait(&self, line: Line, is_blocking: bool, before: &Clock) {
        lock(&self.state).order.wait(line, is_blocking, before);
    }

    /// As [`Order::synchronize`].
    pub fn synchronize(&self, before: &Clock) {
        let mut state = lock(&self.state);
        state.order.synchronize(before);
        state.forget_what_is_before_everything();
    }

    /// As [`Order::synchronize_context`].
    pub fn synchronize_context(&self, context: u64) {
        let mut state = lock(&self.state);
        state.order.synchronize_context(context);
        state.forget_what_is_before_everything();
    }

    /// Removes a context that is gone, with its addresses.
    pub fn forget_context(&self, context: u64) {
        let mut state = lock(&self.state);
        state.order.forget_context(context);
        state.done.retain(|done| done.work.line.context != context);
    }

    /// As [`Order::forget_stream`].
    pub fn forget_stream(&self, line: Line) {
        lock(&self.state).order.forget_stream(line);
    }

    /// Adds completed work of the stream named `stream` in messages; returns its races that have not been reported.
    pub fn add(&self, (work, clock): (Work, Clock), touched: Touched, stream: String) -> Vec<StreamRace> {
        if touched.parts.is_empty() {
            return Vec::new();
        }
        let mut state = lock(&self.state);
        let new = Done { work, clock, touched, stream };
        let found: Vec<_> =
            state.done.iter().filter(|old| !are_ordered(old, &new)).flat_map(|old| races(old, &new)).collect();
        state.done.push_back(new);
        state.limit();
        found.into_iter().filter(|race| state.told.insert((race.earlier.clone(), race.later.clone()))).collect()
    }
}

impl State {
    fn forget_what_is_before_everything(&mut self) {
        let State { order, done, .. } = self;
        done.retain(|done| !order.program().knows(done.work));
    }

    /// Drops the oldest work beyond the limits.
    fn limit(&mut self) {
        let mut ranges: usize = self.done.iter().map(|done| done.touched.ranges()).sum();
        while self.done.len() > MOST_WORK || (ranges > MOST_RANGES && self.done.len() > 1) {
            ranges -= self.done.pop_front().map_or(0, |done| done.touched.ranges());
        }
    }
}

fn are_ordered(old: &Done, new: &Done) -> bool {
    new.clock.knows(old.work) || old.clock.knows(new.work)
}

/// The first race of each pair of parts.
fn races(old: &Done, new: &Done) -> Vec<StreamRace> {
    let pairs = old.touched.parts.iter().flat_map(|before| new.touched.parts.iter().map(move |after| (before, after)));
    let race = |(before, after): (&Part, &Part)| {
        let (first, second) = first_race(&before.accesses, &after.accesses)?;
        Some(StreamRace {
            address: first.address.max(second.address),
            earlier: format!("{} on {}, which {}", before.name, old.stream, first.describe()),
            later: format!("{} on {}, which {}", after.name, new.stream, second.describe()),
        })
    };
    pairs.filter_map(race).collect()
}

/// The racing pair with the lowest address.
fn first_race<'a>(before: &'a [Access], after: &'a [Access]) -> Option<(&'a Access, &'a Access)> {
    let mut sorted: Vec<&Access> = after.iter().collect();
    sorted.sort_unstable_by_key(|access| access.address);
    // Accesses may overlap; no earlier one is longer than the longest.
    let longest = after.iter().map(|access| access.bytes).max().unwrap_or(0);
    let meets = |access: &'a Access| {
        let first = sorted.partition_point(|other| other.address.saturating_add(longest) <= access.address);
        let near = sorted[first..].iter().take_while(|other| other.address < access.end());
        near.copied().find(|other| access.races_with(other)).map(|other| (access, other))
    };
    before.iter().filter_map(meets).min_by_key(|(first, second)| first.address.max(second.address))
}
