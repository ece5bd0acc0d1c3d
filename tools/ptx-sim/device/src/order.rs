//! The happens-before order: vector clocks of streams, events and the program.
//!
//! The rules are those of the CUDA programming guide. Work of one stream is in order. The legacy default stream and
//! blocking streams wait for each other. An event stands for all earlier work of its stream. After a call that waits,
//! everything that the program does is later than what it waited for. All threads of the program count as one, which
//! hides races but never invents one.

use std::collections::HashMap;

/// Identifies a stream in clocks. The legacy default stream of a context is one line, however often it is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    /// The context that it belongs to.
    pub context: u64,
    /// The number of the stream; `None` for the legacy default stream.
    pub stream: Option<u64>,
}

/// For each stream, how much of its work has happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(HashMap<Line, u64>);

impl Clock {
    fn join(&mut self, other: &Clock) {
        for (line, count) in &other.0 {
            let known = self.0.entry(*line).or_default();
            *known = (*known).max(*count);
        }
    }

    /// Whether `work` has happened.
    pub fn knows(&self, work: Work) -> bool {
        self.0.get(&work.line).is_some_and(|count| work.number <= *count)
    }
}

/// A piece of work submitted to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// The stream.
    pub line: Line,
    /// Number in the stream, from 1.
    pub number: u64,
}

/// Clock and kind of a stream.
struct Known {
    clock: Clock,
    is_blocking: bool,
}

/// The clocks of all streams, and of the program.
#[derive(Default)]
pub(crate) struct Order {
    streams: HashMap<Line, Known>,
    program: Clock,
}

impl Order {
    /// Submits work to a stream: returns its number and the clock at its end.
    pub fn give(&mut self, line: Line, is_blocking: bool) -> (Work, Clock) {
        let mut clock = self.program.clone();
        for (other, known) in &self.streams {
            let is_waited_for = match (line.stream, other.stream) {
                _ if *other == line => true,
                (None, Some(_)) => known.is_blocking && other.context == line.context,
                (Some(_), None) => is_blocking && other.context == line.context,
                _ => false,
            };
            if is_waited_for {
                clock.join(&known.clock);
            }
        }
        let number = clock.0.get(&line).copied().unwrap_or(0) + 1;
        clock.0.insert(line, number);
        self.streams.insert(line, Known { clock: clock.clone(), is_blocking });
        (Work { line, number }, clock)
    }

    /// Orders later work of a stream after `before` (`cuStreamWaitEvent`).
    pub fn wait(&mut self, line: Line, is_blocking: bool, before: &Clock) {
        self.give(line, is_blocking);
        if let Some(known) = self.streams.get_mut(&line) {
            known.clock.join(before);
        }
    }

    /// Orders everything later after `before` (`cuEventSynchronize`, `cuStreamSynchronize`).
    pub fn synchronize(&mut self, before: &Clock) {
        self.program.join(before);
    }

    /// Orders everything later after all work in a context (`cuCtxSynchronize`).
    pub fn synchronize_context(&mut self, context: u64) {
        for (_, known) in self.streams.iter().filter(|(line, _)| line.context == context) {
            self.program.join(&known.clock);
        }
    }

    /// Removes the streams of a context that is gone.
    pub fn forget_context(&mut self, context: u64) {
        self.streams.retain(|line, _| line.context != context);
        for clock in self.streams.values_mut().map(|known| &mut known.clock).chain([&mut self.program]) {
            clock.0.retain(|line, _| line.context != context);
        }
    }

    /// Removes a stream that is gone, if the program has waited for all of its work.
    pub fn forget_stream(&mut self, line: Line) {
        let Some(known) = self.streams.get(&line) else { return };
        let number = known.clock.0.get(&line).copied().unwrap_or(0);
        if self.program.knows(Work { line, number }) {
            self.streams.remove(&line);
            for clock in self.streams.values_mut().map(|known| &mut known.clock).chain([&mut self.program]) {
                clock.0.remove(&line);
            }
        }
    }

    /// The clock of the program: everything that it has waited for.
    pub fn program(&self) -> &Clock {
        &self.program
    }
}
