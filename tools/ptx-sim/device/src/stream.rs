//! Streams. Operations are executed on submission: one of the orders that a GPU could choose.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::capture::StreamKey;
use crate::code::Code;
use crate::error::{Error, Result};
use crate::objects::{Call, Capture, Context, Event, Graph, Mode, Operation, Recorded};
use crate::operation::During;
use crate::order::Line;
use crate::problem::Problem;
use crate::stream_races::{StreamRace, Touched};

/// Kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// The legacy default stream.
    Legacy,
    /// The default stream of a thread.
    PerThread,
    /// Created by the program.
    Created,
}

/// A stream (`CUstream`).
pub struct Stream {
    context: Arc<Context>,
    id: u64,
    kind: StreamKind,
    is_blocking: bool,
    priority: i32,
}

/// Lowest and highest priority of a stream.
pub const PRIORITIES: (i32, i32) = (0, -5);

impl Stream {
    /// Creates a stream of `context`. A blocking stream and the legacy default stream wait for each other
    /// (`cuStreamCreateWithPriority`).
    ///
    /// # Errors
    /// As [`Context::check`].
    pub fn new(context: &Arc<Context>, kind: StreamKind, is_blocking: bool, priority: i32) -> Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        context.check(Call::Asynchronous)?;
        let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
        let id = NEXT.fetch_add(1, Relaxed);
        if kind != StreamKind::Legacy {
            context.machine().stream_races.begin();
        }
        Ok(Arc::new(Self { context: context.clone(), id, kind, is_blocking, priority }))
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Its number, unique among the streams of the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its kind.
    pub fn kind(&self) -> StreamKind {
        self.kind
    }

    /// Whether it and the legacy default stream wait for each other.
    pub fn is_blocking(&self) -> bool {
        self.is_blocking
    }

    /// Its priority.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Its identity in the order of streams.
    fn line(&self) -> Line {
        Line { context: self.context.id(), stream: (self.kind != StreamKind::Legacy).then_some(self.id) }
    }

    /// Its description in messages.
    fn describe(&self) -> String {
        match self.kind {
            StreamKind::Legacy => "the legacy default stream".to_owned(),
            StreamKind::PerThread => "the default stream of a thread".to_owned(),
            StreamKind::Created => format!("stream {}", self.id),
        }
    }

    /// Executes `operation` in stream order and reports its races.
    fn execute(&self, operation: &Operation) -> Result<()> {
        let races = &self.context.machine().stream_races;
        let (work, clock) = races.give(self.line(), self.is_blocking);
        let mut during = During { clock, touched: Touched::default(), line: self.line() };
        operation.execute(&self.context, &mut during)?;
        let During { clock, touched, .. } = during;
        if matches!(operation, Operation::Copy(copy) if copy.is_waited_for()) {
            races.synchronize(&clock);
        }
        for race in races.add((work, clock), touched, self.describe()) {
            self.tell(&race);
        }
        Ok(())
    }

    fn tell(&self, race: &StreamRace) {
        let machine = self.context.machine();
        let StreamRace { address, earlier, later } = race;
        let owner = machine.reached_through(*address, &self.context);
        let place = owner.and_then(|owner| owner.describe_address(*address));
        let place = place.unwrap_or_else(|| format!("address {address:#x}"));
        let text = format!(
            "{place}: {earlier}, and {later}: nothing orders the two; let the second stream wait for an event that is recorded behind \
             the first (cuStreamWaitEvent), or synchronize in between"
        );
        machine.problem(Problem::StreamRace, &text);
    }

    fn key(&self) -> StreamKey {
        StreamKey { stream: self.id, context: self.context.id(), is_blocking: self.is_blocking }
    }

    /// The capture that it takes part in.
    pub fn capture(&self) -> Option<Arc<Capture>> {
        self.context.machine().captures.of(self.id)
    }

    /// Refuses the legacy default stream while a blocking stream of the context captures.
    fn check_legacy(&self) -> Result<()> {
        match self.kind {
            StreamKind::Legacy => self.context.machine().captures.check_legacy_stream(self.context.id()),
            _ => Ok(()),
        }
    }

    /// Executes `operation`, or adds it to the graph being captured.
    ///
    /// # Errors
    /// Mistakes in the operation, before it is executed; those of [`Context::check`] for asynchronous calls;
    /// [`Code::STREAM_CAPTURE_INVALIDATED`] or [`Code::STREAM_CAPTURE_IMPLICIT`].
    pub fn submit(&self, operation: Operation) -> Result<()> {
        self.context.check(Call::Asynchronous)?;
        operation.check(&self.context)?;
        match self.capture() {
            Some(capture) => capture.add(self.id, operation),
            None => {
                self.check_legacy()?;
                self.execute(&operation)
            }
        }
    }

    /// Executes `operation` and waits for it, as calls without `Async` in their name do.
    ///
    /// # Errors
    /// Those of [`Stream::submit`] and [`Stream::synchronize`]; [`Code::STREAM_CAPTURE_UNSUPPORTED`] if a capture
    /// forbids unsafe calls; that capture is invalidated.
    pub fn submit_and_wait(&self, operation: Operation) -> Result<()> {
        self.synchronize()?;
        self.context.machine().check_unsafe_call()?;
        self.submit(operation)?;
        self.wait_for_work();
        self.context.check(Call::Synchronous)
    }

    /// Records `event` after all work submitted so far (`cuEventRecord`).
    ///
    /// # Errors
    /// [`Code::INVALID_HANDLE`] for an event of another context; as [`Stream::submit`].
    pub fn record(&self, event: &Arc<Event>) -> Result<()> {
        if event.context().id() != self.context.id() {
            return Err(Error::new(Code::INVALID_HANDLE, "event and stream belong to different contexts"));
        }
        self.context.check(Call::Asynchronous)?;
        match self.capture() {
            Some(capture) => event.record(Recorded::Captured(capture.point(self.id)?)),
            None => {
                self.check_legacy()?;
                let (_, clock) = self.context.machine().stream_races.give(self.line(), self.is_blocking);
                event.record(Recorded::At(Instant::now(), clock));
            }
        }
        Ok(())
    }

    /// Makes later work wait for `event` (`cuStreamWaitEvent`).
    ///
    /// # Errors
    /// Those of captures: [`Code::STREAM_CAPTURE_ISOLATION`], [`Code::STREAM_CAPTURE_MERGE`], [`Code::CAPTURED_EVENT`],
    /// [`Code::STREAM_CAPTURE_IMPLICIT`]; as [`Context::check`].
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.context.check(Call::Asynchronous)?;
        match (event.recorded(), self.capture()) {
            (Recorded::Captured(point), _) if self.kind == StreamKind::Legacy => {
                point.capture().invalidate();
                Err(Code::STREAM_CAPTURE_IMPLICIT.into())
            }
            (Recorded::Captured(point), _) => self.context.machine().captures.wait(self.key(), &point),
            (Recorded::At(..), Some(capture)) => {
                capture.invalidate();
                Err(Code::STREAM_CAPTURE_ISOLATION.into())
            }
            (Recorded::At(_, clock), None) => {
                self.check_legacy()?;
                self.context.machine().stream_races.wait(self.line(), self.is_blocking, &clock);
                Ok(())
            }
            (Recorded::Never, _) => self.check_legacy(),
        }
    }

    /// Waits until all work is complete (`cuStreamSynchronize`, `cuStreamQuery`).
    ///
    /// # Errors
    /// Those of [`Context::check`] for synchronous calls; [`Code::STREAM_CAPTURE_UNSUPPORTED`] during capture, which is
    /// then invalidated.
    pub fn synchronize(&self) -> Result<()> {
        if let Some(capture) = self.capture() {
            capture.invalidate();
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED.into());
        }
        self.check_legacy()?;
        self.wait_for_work();
        self.context.check(Call::Synchronous)
    }

    /// Orders everything later after the work of the stream.
    fn wait_for_work(&self) {
        let races = &self.context.machine().stream_races;
        let (_, clock) = races.give(self.line(), self.is_blocking);
        races.synchronize(&clock);
        self.context.machine().dependents.end(self.line());
    }

    /// Begins a capture (`cuStreamBeginCapture`).
    ///
    /// # Errors
    /// [`Code::STREAM_CAPTURE_UNSUPPORTED`] for the legacy default stream; [`Code::ILLEGAL_STATE`] if it is capturing
    /// already; those of [`Context::check`].
    pub fn begin_capture(&self, mode: Mode) -> Result<()> {
        // Held until the capture is registered, so that destroying the context meanwhile removes it.
        let _alive = self.context.state(Call::Asynchronous)?;
        if self.kind == StreamKind::Legacy {
            return Err(Error::new(Code::STREAM_CAPTURE_UNSUPPORTED, "the legacy default stream cannot capture"));
        }
        self.context.machine().captures.begin(self.key(), mode)
    }

    /// Ends the capture and returns its graph (`cuStreamEndCapture`).
    ///
    /// # Errors
    /// [`Code::ILLEGAL_STATE`] if it is not capturing; those of captures.
    pub fn end_capture(&self) -> Result<Arc<Graph>> {
        self.context.check(Call::Asynchronous)?;
        self.context.machine().captures.end(self.key())
    }

    /// Destroys the stream and invalidates a capture that it takes part in (`cuStreamDestroy`).
    pub fn destroy(&self) {
        self.context.machine().captures.forget_stream(self.id);
        self.context.machine().stream_races.forget_stream(self.line());
    }
}
