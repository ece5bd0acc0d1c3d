//! CUDA graphs: many launches that the driver starts as one (CUDA Driver API, "Stream Management", "Graph Management").

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::ptr;

use cust::stream::Stream;

use super::driver::Code;
use super::failure::Failure;

/// Launches that follow each other without the processor's help. Must be dropped in the context that it was made in.
pub struct Graph {
    executable: *mut c_void,
}

// SAFETY: a handle of the driver may be used from any thread that has its context current.
unsafe impl Send for Graph {}

impl Graph {
    /// Records what `submit` puts on `stream`, without running it.
    pub fn capture(stream: &Stream, submit: impl FnOnce() -> Result<(), Failure>) -> Result<Self, Failure> {
        const THREAD_LOCAL: c_uint = 1;
        let stream = stream.as_inner().cast();
        // SAFETY: the stream is alive, as `stream` holds a borrow.
        unsafe { raw::cuStreamBeginCapture_v2(stream, THREAD_LOCAL) }.ok()?;
        let submitted = submit();
        let mut template = ptr::null_mut();
        // SAFETY: as above; `template` is where the function puts its result.
        unsafe { raw::cuStreamEndCapture(stream, &mut template) }.ok()?;
        let mut executable = ptr::null_mut();
        let instantiated = submitted.and_then(|()| {
            // SAFETY: the template was captured just now; 0 means no flags.
            Ok(unsafe { raw::cuGraphInstantiateWithFlags(&mut executable, template, 0) }.ok()?)
        });
        // SAFETY: nothing else knows the template, and what was made of it does not need it.
        unsafe { raw::cuGraphDestroy(template) }.ok()?;
        instantiated.map(|()| Self { executable })
    }

    /// Puts the launches on `stream`.
    pub fn launch(&self, stream: &Stream) -> Result<(), Failure> {
        // SAFETY: the graph lives as long as `self`, the stream as long as its borrow.
        Ok(unsafe { raw::cuGraphLaunch(self.executable, stream.as_inner().cast()) }.ok()?)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A failure follows a lost context, which the call before it has reported.
        // SAFETY: nothing uses the graph after this.
        let _ = unsafe { raw::cuGraphExecDestroy(self.executable) };
    }
}

/// The declarations, without the types that cust_raw gives to handles.
mod raw {
    use super::{Code, c_uint, c_ulonglong, c_void};

    unsafe extern "C" {
        pub fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_uint) -> Code;
        pub fn cuStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> Code;
        pub fn cuGraphInstantiateWithFlags(
            executable: *mut *mut c_void,
            graph: *mut c_void,
            flags: c_ulonglong,
        ) -> Code;
        pub fn cuGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> Code;
        pub fn cuGraphDestroy(graph: *mut c_void) -> Code;
        pub fn cuGraphExecDestroy(executable: *mut c_void) -> Code;
    }
}
