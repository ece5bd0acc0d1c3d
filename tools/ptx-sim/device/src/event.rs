//! Events.

use std::sync::{Arc, Mutex};

use crate::code::Code;
use crate::error::{Error, Result};
use crate::objects::{Call, Context, Event, Recorded};
use crate::sync::lock;

impl Event {
    /// Creates an event of `context` (`cuEventCreate`); `is_timed` if it is used for timing.
    ///
    /// # Errors
    /// As [`Context::check`].
    pub fn new(context: &Arc<Context>, is_timed: bool) -> Result<Arc<Self>> {
        context.check(Call::Asynchronous)?;
        Ok(Arc::new(Self { context: context.clone(), is_timed, recorded: Mutex::default() }))
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn recorded(&self) -> Recorded {
        lock(&self.recorded).clone()
    }

    pub(crate) fn record(&self, recorded: Recorded) {
        *lock(&self.recorded) = recorded;
    }

    /// Whether the work before it is complete, which it always is (`cuEventQuery`).
    ///
    /// # Errors
    /// Those of [`Event::synchronize`]; [`Code::STREAM_CAPTURE_UNSUPPORTED`] if a capture forbids unsafe calls; that
    /// capture is invalidated.
    pub fn query(&self) -> Result<()> {
        self.context.machine().check_unsafe_call()?;
        self.synchronize()
    }

    /// Waits until the work before it is complete (`cuEventSynchronize`).
    ///
    /// # Errors
    /// Those of [`Context::check`]; [`Code::CAPTURED_EVENT`] if it was last recorded in a capture, which is
    /// invalidated.
    pub fn synchronize(&self) -> Result<()> {
        match self.recorded() {
            Recorded::Captured(point) => {
                point.capture().invalidate();
                return Err(Code::CAPTURED_EVENT.into());
            }
            Recorded::At(_, clock) => self.context.machine().stream_races.synchronize(&clock),
            Recorded::Never => {}
        }
        self.context.check(Call::Synchronous)
    }

    /// Milliseconds from `start` to this event (`cuEventElapsedTime`).
    ///
    /// # Errors
    /// [`Code::INVALID_HANDLE`] if one of them was never recorded or is not timed, or if they belong to different
    /// contexts; those of [`Event::synchronize`].
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        let refused = |what: &str| Err(Error::new(Code::INVALID_HANDLE, what));
        if self.context.id() != start.context.id() {
            return refused("the time between events of different contexts");
        }
        if !self.is_timed || !start.is_timed {
            return refused("the time between events, one of which was created with CU_EVENT_DISABLE_TIMING");
        }
        start.synchronize()?;
        self.synchronize()?;
        match (start.recorded(), self.recorded()) {
            (Recorded::At(start, _), Recorded::At(end, _)) => {
                let sign = if end < start { -1.0 } else { 1.0 };
                let between = if end < start { start - end } else { end - start };
                Ok(sign * (between.as_secs_f64() * 1e3) as f32)
            }
            _ => refused("the time between events, one of which was never recorded"),
        }
    }
}
