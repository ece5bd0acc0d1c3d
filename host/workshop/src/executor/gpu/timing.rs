//! Timing of launches by events.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use cust::event::{Event, EventFlags};
use cust::stream::Stream;

use super::failure::Failure;
use super::graph::Graph;
use crate::statistics::Samples;
use crate::timing::{Batch, Protocol};

/// Launches of the first batch of the warm-up are doubled up to this many; the driver queues about a thousand before it
/// makes the caller wait.
const MAXIMUM_QUEUED: u32 = 512;
/// Batches whose submission is timed.
const HOST_BATCHES: usize = 15;
/// Launches of such a batch.
const HOST_BATCH: u32 = 32;

/// A graph of calls between two events.
pub struct TimedGraph {
    graph: Graph,
    watch: Stopwatch,
    calls: u32,
}

impl TimedGraph {
    /// Warms up with the launches that `submit` puts on `stream`, each the next of `input_sets`, and captures as many as a
    /// sample has.
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

    /// Runs the graph once: µs per call.
    pub fn sample(&self, stream: &Stream) -> Result<f64, Failure> {
        let elapsed = self.watch.time(stream, || self.graph.launch(stream))?;
        Ok(elapsed / f64::from(self.calls))
    }
}

/// Two events.
pub struct Stopwatch {
    start: Event,
    stop: Event,
}

impl Stopwatch {
    /// Events of the current context.
    pub fn new() -> Result<Self, Failure> {
        Ok(Self { start: Event::new(EventFlags::DEFAULT)?, stop: Event::new(EventFlags::DEFAULT)? })
    }

    /// µs that the device takes for what `submit` puts on `stream`.
    pub fn time(&self, stream: &Stream, submit: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
        self.start.record(stream)?;
        submit()?;
        self.stop.record(stream)?;
        self.stop.synchronize()?;
        Ok(f64::from(self.stop.elapsed_time_f32(&self.start)?) * 1e3)
    }
}

/// Submits growing batches for as long as `protocol` says; returns µs per call.
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

/// µs that the processor takes for submitting one launch to an idle stream: the median over batches.
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
    // A clock that does not move within a batch gives no positive times.
    Ok(Samples::new(times).ok().map(|times| times.median()))
}
