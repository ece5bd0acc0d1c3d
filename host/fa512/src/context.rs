//! The primary context of a GPU, for callers of the CUDA runtime API (PyTorch), which know a tensor's GPU but no
//! context.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;

use crate::driver::{Driver, Handle};
use crate::error::Error;
use crate::gpu::{self, Gpu};

/// Guard: while it lives, the primary context of a GPU is current on the calling thread. Dropping it restores the
/// previous context.
pub struct Entered {
    pushed: Option<&'static Driver>,
    /// A context is current per thread, so the guard must not move to another one.
    _thread: PhantomData<*mut ()>,
}

impl Gpu {
    /// Makes the GPU's primary context current on the calling thread, as `cudaSetDevice` does, until the returned guard
    /// is dropped. Creates the context if necessary and retains it for the lifetime of the process.
    ///
    /// # Errors
    /// When the GPU was only described ([`Gpu::described`]), or the driver cannot create the context.
    pub fn enter(&self) -> Result<Entered, Error> {
        let driver = Driver::get()?;
        let primary = primary(driver, self.ordinal().ok_or(Error::OtherGpu { planned: None })?)?;
        if gpu::current(driver)? == primary {
            return Ok(Entered { pushed: None, _thread: PhantomData });
        }
        // SAFETY: the context is retained, and never released.
        driver.check(unsafe { (driver.call.context_push)(primary) }, || "making a primary context current")?;
        Ok(Entered { pushed: Some(driver), _thread: PhantomData })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(driver) = self.pushed else { return };
        let mut popped = ptr::null_mut();
        // An error here follows from a lost context, which the call in between has already reported.
        // SAFETY: this thread pushed a context, and everything pushed after it is popped again; `popped` receives the
        // function's result.
        unsafe { (driver.call.context_pop)(&mut popped) };
    }
}

/// A `CUcontext`.
#[derive(Clone, Copy)]
struct Primary(Handle);

// SAFETY: the handle is only passed to the driver, which takes it from any thread.
unsafe impl Send for Primary {}
// SAFETY: as above.
unsafe impl Sync for Primary {}

/// The primary context of GPU `ordinal`, retained by the first call.
fn primary(driver: &Driver, ordinal: usize) -> Result<Handle, Error> {
    static PRIMARIES: OnceLock<Box<[OnceLock<Primary>]>> = OnceLock::new();
    let primaries = PRIMARIES.get_or_init(|| (0..driver.gpus).map(|_| OnceLock::new()).collect());
    let slot = primaries.get(ordinal).ok_or(Error::OtherGpu { planned: Some(ordinal) })?;
    if let Some(known) = slot.get() {
        return Ok(known.0);
    }
    let device = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
    let mut context = ptr::null_mut();
    // SAFETY: `context` receives the function's result. Two threads at once retain it twice, which is harmless.
    let code = unsafe { (driver.call.primary_context_retain)(&mut context, device) };
    driver.check(code, || format!("making the primary context of GPU {ordinal}"))?;
    Ok(slot.get_or_init(|| Primary(context)).0)
}
