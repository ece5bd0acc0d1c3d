//! Races between streams: work of two streams on the same memory that nothing orders.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ptx_sim::SourceLocation;

use crate::order::{Clock, Line, Order, Work};
use crate::sync::lock;

/// Pieces of work that are remembered.
const MOST_WORK: usize = 1024;
/// Ranges of memory that are remembered, in all of them.
const MOST_RANGES: usize = 1 << 20;

/// Memory that a piece of work reads or writes.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// First byte.
    pub address: u64,
    /// How many.
    pub bytes: u64,
    /// Whether they are written.
    pub writes: bool,
    /// Whether by atomic operations, which do not race with each other.
    pub is_strong: bool,
    /// What does.
    pub by: By,
}

/// What accesses memory.
#[derive(Clone, Debug)]
pub(crate) enum By {
    /// A copy or a fill.
    Call,
    /// An instruction: its line in the PTX, and what that comes from.
    Line(u32, Option<SourceLocation>),
    /// What begins or ends the life of the memory, and what that does to it.
    Life(&'static str),
}

impl Access {
    /// Of a copy or a fill.
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

    /// What it does, and by which line.
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

/// What a piece of work does with memory, in parts of a graph one after the other.
#[derive(Default)]
pub(crate) struct Touched {
    parts: Vec<Part>,
}

/// A launch, a copy or a fill.
struct Part {
    /// What messages call it.
    name: String,
    accesses: Vec<Access>,
}

impl Touched {
    /// Adds a launch, a copy or a fill.
    pub fn add(&mut self, name: String, accesses: Vec<Access>) {
        if !accesses.is_empty() {
            self.parts.push(Part { name, accesses });
        }
    }

    fn ranges(&self) -> usize {
        self.parts.iter().map(|part| part.accesses.len()).sum()
    }
}

/// Work that was done.
struct Done {
    work: Work,
    /// What happened before its end.
    clock: Clock,
    touched: Touched,
    /// What messages call its stream.
    stream: String,
}

/// Two accesses that race.
pub(crate) struct StreamRace {
    /// The first byte that both reach.
    pub address: u64,
    /// The two, in words.
    pub earlier: String,
    /// The one that was given later.
    pub later: String,
}

/// Watches the order of streams, and what their work does with memory.
#[derive(Default)]
pub(crate) struct StreamRaces {
    /// Whether there ever was a stream but the legacy default one: until then, everything is in order.
    has_streams: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    order: Order,
    done: VecDeque<Done>,
    /// Pairs that were told.
    told: HashSet<(String, String)>,
}

impl StreamRaces {
    /// A stream is there that is not the legacy default one.
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

    /// Forgets a context that is gone, with its addresses.
    pub fn forget_context(&self, context: u64) {
        let mut state = lock(&self.state);
        state.order.forget_context(context);
        state.done.retain(|done| done.work.line.context != context);
    }

    /// As [`Order::forget_stream`].
    pub fn forget_stream(&self, line: Line) {
        lock(&self.state).order.forget_stream(line);
    }

    /// Adds work that was done on a stream that messages call `stream`; what it races with, of which nothing was said before.
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

    /// Keeps to the limits of what is remembered.
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

/// The first race of each two parts.
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

/// The pair with the lowest address.
fn first_race<'a>(before: &'a [Access], after: &'a [Access]) -> Option<(&'a Access, &'a Access)> {
    let mut sorted: Vec<&Access> = after.iter().collect();
    sorted.sort_unstable_by_key(|access| access.address);
    // Accesses may overlap: none before this one reaches further than the longest.
    let longest = after.iter().map(|access| access.bytes).max().unwrap_or(0);
    let meets = |access: &'a Access| {
        let first = sorted.partition_point(|other| other.address.saturating_add(longest) <= access.address);
        let near = sorted[first..].iter().take_while(|other| other.address < access.end());
        near.copied().find(|other| access.races_with(other)).map(|other| (access, other))
    };
    before.iter().filter_map(meets).min_by_key(|(first, second)| first.address.max(second.address))
}
