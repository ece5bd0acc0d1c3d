//! Times launches with CUDA events.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use cust::event::{Event, EventFlags};
use cust::stream::Stream;

use super::failure::Failure;
use super::graph::Graph;
use crate::statistics::Samples;
use crate::timing::{Batch, Protocol};

/// During the warm-up, batches grow up to this many launches; the driver queues about a thousand before it blocks the
/// caller.
const MAXIMUM_QUEUED: u32 = 512;
/// Number of batches whose submission is timed.
const HOST_BATCHES: usize = 15;
/// Launches per such batch.
const HOST_BATCH: u32 = 32;

/// A graph of calls, timed by two events.
pub struct TimedGraph {
    graph: Graph,
    watch: Stopwatch,
    calls: u32,
}

impl TimedGraph {
    /// Warms up with launches that `submit` enqueues on `stream`, rotating over `input_sets`, and captures a sample's
    /// number of them.
    pub fn prepare(
        stream: &Stream,
        protocol: &Protocol,
        input_sets: NonZeroU32,
        mut submit: impl FnMut(u32) -> Result<(), Failure>,
    ) -> Result<(Self, Batch), Failure> {
        let watch = Stopwatch::new()?;
        let mut submit_many = |calls: u32| (0..calls).try_for_each(|call| submit(call % input_sets.get()));
        let call_us = warm_up(&watch, stream, protocol, &mut submit_many)?;
        let host_launch_us = if protocol.host_launch { host_launch_us(stream, &mut submit_many)? } else { None };
        let calls = protocol.calls(call_us, input_sets);
        let graph = Graph::capture(stream, || submit_many(calls))?;
        let timed = Self { graph, watch, calls };
        // The first launch of a graph uploads it.
        timed.sample(stream)?;
        let batch = Batch { calls, input_sets: input_sets.get(), cuda_graph: true, host_launch_us };
        Ok((timed, batch))
    }

    /// Runs the graph once. Returns µs per call.
    pub fn sample(&self, stream: &Stream) -> Result<f64, Failure> {
        let elapsed = self.watch.time(stream, || self.graph.launch(stream))?;
        Ok(elapsed / f64::from(self.calls))
    }
}

/// A pair of events.
pub struct Stopwatch {
    start: Event,
    stop: Event,
}

impl Stopwatch {
    /// Creates the events in the current context.
    pub fn new() -> Result<Self, Failure> {
        Ok(Self { start: Event::new(EventFlags::DEFAULT)?, stop: Event::new(EventFlags::DEFAULT)? })
    }

    /// µs of device time of what `submit` enqueues on `stream`.
    pub fn time(&self, stream: &Stream, submit: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
        self.start.record(stream)?;
        submit()?;
        self.stop.record(stream)?;
        self.stop.synchronize()?;
        Ok(f64::from(self.stop.elapsed_time_f32(&self.start)?) * 1e3)
    }
}

/// Submits growing batches for the time that `protocol` specifies. Returns µs per call.
fn warm_up(
    watch: &Stopwatch,
    stream: &Stream,
    protocol: &Protocol,
    submit_many: &mut impl FnMut(u32) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let duration = Duration::try_from_secs_f64(protocol.warm_up_ms / 1e3).unwrap_or_default();
    let started = Instant::now();
    let mut calls = 1;
    loop {
        let each = watch.time(stream, || submit_many(calls))? / f64::from(calls);
        if started.elapsed() >= duration {
            return Ok(each);
        }
        calls = (2 * calls).min(MAXIMUM_QUEUED);
    }
}

/// µs of host time to submit one launch to an idle stream, the median over batches.
fn host_launch_us(
    stream: &Stream,
    submit_many: &mut impl FnMut(u32) -> Result<(), Failure>,
) -> Result<Option<f64>, Failure> {
    let mut times = Vec::with_capacity(HOST_BATCHES);
    for _ in 0..HOST_BATCHES {
        let started = Instant::now();
        submit_many(HOST_BATCH)?;
        times.push(started.elapsed().as_secs_f64() * 1e6 / f64::from(HOST_BATCH));
        stream.synchronize()?;
    }
    // If the clock does not advance within a batch, there are no positive times.
    Ok(Samples::new(times).ok().map(|times| times.median()))
}
