//! CUDA graphs: many launches that the driver starts at once (CUDA Driver API, "Stream Management", "Graph
//! Management").

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::ptr;

use cust::stream::Stream;

use super::driver::Code;
use super::failure::Failure;

/// Launches that follow each other without the host. Must be dropped in the context in which it was made.
pub struct Graph {
    executable: *mut c_void,
}

// SAFETY: any thread that has the context current may use the handle.
unsafe impl Send for Graph {}

impl Graph {
    /// Records what `submit` puts on `stream`, without running it.
    pub fn capture(stream: &Stream, submit: impl FnOnce() -> Result<(), Failure>) -> Result<Self, Failure> {
        const THREAD_LOCAL: c_uint = 1;
        let stream = stream.as_inner().cast();
        // SAFETY: `stream` is borrowed, so it is alive.
        unsafe { raw::cuStreamBeginCapture_v2(stream, THREAD_LOCAL) }.ok()?;
        let submitted = submit();
        let mut template = ptr::null_mut();
        // SAFETY: as above; `template` receives the function's result.
        unsafe { raw::cuStreamEndCapture(stream, &mut template) }.ok()?;
        let mut executable = ptr::null_mut();
        let instantiated = submitted.and_then(|()| {
            // SAFETY: the template was captured just now; 0 means no flags.
            Ok(unsafe { raw::cuGraphInstantiateWithFlags(&mut executable, template, 0) }.ok()?)
        });
        // SAFETY: nothing else refers to the template, and the executable graph does not need it.
        unsafe { raw::cuGraphDestroy(template) }.ok()?;
        instantiated.map(|()| Self { executable })
    }

    /// Enqueues the launches on `stream`.
    pub fn launch(&self, stream: &Stream) -> Result<(), Failure> {
        // SAFETY: the graph lives as long as `self`, the stream as long as its borrow.
        Ok(unsafe { raw::cuGraphLaunch(self.executable, stream.as_inner().cast()) }.ok()?)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // An error here follows from a lost context, which an earlier call has reported.
        // SAFETY: nothing uses the graph after this.
        let _ = unsafe { raw::cuGraphExecDestroy(self.executable) };
    }
}

/// Declarations, with plain pointers in place of cust_raw's handle types.
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
