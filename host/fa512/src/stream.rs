//! Streams of the caller.

use std::ffi::c_void;
use std::ptr;

use crate::driver::{Code, Driver, Handle};
use crate::error::Error;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`: no streams of one context but those of the current one.
const DEFAULT_STREAMS: std::ops::RangeInclusive<usize> = 0..=2;

/// A `CUstream` (or `cudaStream_t`, which is the same) of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(Handle);

// SAFETY: a stream is a number to this library; CUDA lets every thread use it.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// The legacy default stream of the current context, as a null handle names it.
    pub const LEGACY: Self = Self(ptr::null_mut());

    /// The default stream of the calling thread (`CU_STREAM_PER_THREAD`).
    pub const PER_THREAD: Self = Self(ptr::without_provenance_mut(2));

    /// The stream with this handle; null is [`Self::LEGACY`], also in a program that was compiled with
    /// `CUDA_API_PER_THREAD_DEFAULT_STREAM`.
    pub const fn from_raw(stream: *mut c_void) -> Self {
        Self(stream)
    }

    /// Waits until the stream has come to the end of what is on it (`cuStreamSynchronize`): for results that go to somebody who
    /// knows of no stream. No call of this library does so by itself.
    ///
    /// # Errors
    /// When the stream captures, or something that was on it has failed.
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

    /// Requires the stream to belong to `context`, the current one.
    pub(crate) fn check_context(self, driver: &Driver, context: Handle) -> Result<(), Error> {
        if DEFAULT_STREAMS.contains(&self.0.addr()) {
            return Ok(());
        }
        let mut own = ptr::null_mut();
        // SAFETY: the caller of every launch promises a living stream; `own` is where the function puts its result.
        match unsafe { (driver.call.stream_get_context)(self.0, &mut own) } {
            Code::SUCCESS if own == context => Ok(()),
            Code::SUCCESS | Code::INVALID_CONTEXT => Err(Error::OtherStream),
            // A stream of a green context.
            Code::NOT_SUPPORTED => Ok(()),
            code => driver.check(code, || "asking for the stream's context"),
        }
    }

    /// Whether what is put on the stream goes into a graph.
    pub(crate) fn is_capturing(self, driver: &Driver) -> Result<bool, Error> {
        let mut status = 0;
        // SAFETY: as above.
        match unsafe { (driver.call.stream_is_capturing)(self.0, &mut status) } {
            // The legacy stream while another captures that waits for it.
            Code::STREAM_CAPTURE_IMPLICIT => Ok(true),
            code => driver.check(code, || "asking whether the stream captures").map(|()| status != 0),
        }
    }
}
