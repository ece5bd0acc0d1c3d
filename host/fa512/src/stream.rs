//! The caller's streams.

use std::ffi::c_void;
use std::ptr;

use crate::driver::{Code, Driver, Handle};
use crate::error::Error;

/// Handles of default streams (null, `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`), which belong to any current context.
const DEFAULT_STREAMS: std::ops::RangeInclusive<usize> = 0..=2;

/// The caller's `CUstream`. `cudaStream_t` is the same type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(Handle);

// SAFETY: this library treats a stream as a number, and CUDA accepts it from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// The legacy default stream of the current context: the null handle.
    pub const LEGACY: Self = Self(ptr::null_mut());

    /// The default stream of the calling thread (`CU_STREAM_PER_THREAD`).
    pub const PER_THREAD: Self = Self(ptr::without_provenance_mut(2));

    /// The stream with this handle. Null is [`Self::LEGACY`], even in a program compiled with
    /// `CUDA_API_PER_THREAD_DEFAULT_STREAM`.
    pub const fn from_raw(stream: *mut c_void) -> Self {
        Self(stream)
    }

    /// Waits until all work on the stream has completed (`cuStreamSynchronize`), for results that are used without a
    /// stream. No other function of this library synchronises.
    ///
    /// # Errors
    /// When the stream is capturing, or work on it has failed.
    ///
    /// # Safety
    /// The stream is alive.
    pub unsafe fn synchronize(self) -> Result<(), Error> {
        let driver = Driver::get()?;
        // SAFETY: passed on to the caller.
        driver.check(unsafe { (driver.call.stream_synchronize)(self.0) }, || "waiting for the stream")
    }

    pub(crate) fn handle(self) -> Handle {
        self.0
    }

    /// Requires the stream to belong to `context`, which is the current one.
    pub(crate) fn check_context(self, driver: &Driver, context: Handle) -> Result<(), Error> {
        if DEFAULT_STREAMS.contains(&self.0.addr()) {
            return Ok(());
        }
        let mut own = ptr::null_mut();
        // SAFETY: the caller of every launch promises a live stream; `own` receives the function's result.
        match unsafe { (driver.call.stream_get_context)(self.0, &mut own) } {
            Code::SUCCESS if own == context => Ok(()),
            Code::SUCCESS | Code::INVALID_CONTEXT => Err(Error::OtherStream),
            // The stream belongs to a green context.
            Code::NOT_SUPPORTED => Ok(()),
            code => driver.check(code, || "asking for the stream's context"),
        }
    }

    /// Whether the stream is capturing into a graph.
    pub(crate) fn is_capturing(self, driver: &Driver) -> Result<bool, Error> {
        let mut status = 0;
        // SAFETY: as above.
        match unsafe { (driver.call.stream_is_capturing)(self.0, &mut status) } {
            // The legacy stream, while a stream is capturing that synchronises with it.
            Code::STREAM_CAPTURE_IMPLICIT => Ok(true),
            code => driver.check(code, || "asking whether the stream captures").map(|()| status != 0),
        }
    }
}
