//! Streams and events.

use std::ffi::c_void;

use crate::context::enter;
use crate::driver::{HostFunction, call};
use crate::handles::Handle;
use crate::status::{Status, runtime_api};

/// A `cudaStreamCallback_t`.
type Callback = Option<unsafe extern "C" fn(Handle, u32, *mut c_void)>;

/// A pending call of a stream callback.
struct Pending {
    function: unsafe extern "C" fn(Handle, u32, *mut c_void),
    stream: Handle,
    data: *mut c_void,
}

/// Makes the call and frees the record.
unsafe extern "C" fn call_back(pending: *mut c_void) {
    // SAFETY: `cudaStreamAddCallback` gave the record to the stream, which calls once.
    let Pending { function, stream, data } = *unsafe { Box::from_raw(pending.cast::<Pending>()) };
    // SAFETY: the program allows calls of the function from any thread.
    unsafe { function(stream, Status::SUCCESS.0, data) };
}

runtime_api! {
    fn cudaStreamCreate(result: *mut Handle) {
        enter()?;
        call!(cuStreamCreate(result, 0))
    }

    fn cudaStreamCreateWithFlags(result: *mut Handle, flags: u32) {
        enter()?;
        call!(cuStreamCreate(result, flags))
    }

    fn cudaStreamCreateWithPriority(result: *mut Handle, flags: u32, priority: i32) {
        enter()?;
        call!(cuStreamCreateWithPriority(result, flags, priority))
    }

    fn cudaStreamDestroy(stream: Handle) {
        enter()?;
        call!(cuStreamDestroy_v2(stream))
    }

    fn cudaStreamSynchronize(stream: Handle) per_thread cudaStreamSynchronize_ptsz(stream) {
        enter()?;
        call!(cuStreamSynchronize(stream))
    }

    fn cudaStreamQuery(stream: Handle) per_thread cudaStreamQuery_ptsz(stream) {
        enter()?;
        call!(cuStreamQuery(stream))
    }

    fn cudaStreamWaitEvent(stream: Handle, event: Handle, flags: u32) per_thread cudaStreamWaitEvent_ptsz(stream) {
        enter()?;
        call!(cuStreamWaitEvent(stream, event, flags))
    }

    fn cudaStreamGetPriority(stream: Handle, priority: *mut i32) per_thread cudaStreamGetPriority_ptsz(stream) {
        enter()?;
        call!(cuStreamGetPriority(stream, priority))
    }

    fn cudaStreamGetFlags(stream: Handle, flags: *mut u32) per_thread cudaStreamGetFlags_ptsz(stream) {
        enter()?;
        call!(cuStreamGetFlags(stream, flags))
    }

    fn cudaStreamBeginCapture(stream: Handle, mode: u32) per_thread cudaStreamBeginCapture_ptsz(stream) {
        enter()?;
        call!(cuStreamBeginCapture_v2(stream, mode))
    }

    fn cudaStreamEndCapture(stream: Handle, graph: *mut Handle) per_thread cudaStreamEndCapture_ptsz(stream) {
        enter()?;
        call!(cuStreamEndCapture(stream, graph))
    }

    fn cudaStreamIsCapturing(stream: Handle, status: *mut u32) per_thread cudaStreamIsCapturing_ptsz(stream) {
        enter()?;
        call!(cuStreamIsCapturing(stream, status))
    }

    fn cudaEventRecordWithFlags(event: Handle, stream: Handle, _flags: u32) per_thread cudaEventRecordWithFlags_ptsz(stream) {
        enter()?;
        call!(cuEventRecord(event, stream))
    }

    fn cudaLaunchHostFunc(stream: Handle, function: HostFunction, data: *mut c_void) per_thread cudaLaunchHostFunc_ptsz(stream) {
        enter()?;
        call!(cuLaunchHostFunc(stream, function, data))
    }

    fn cudaStreamAddCallback(stream: Handle, function: Callback, data: *mut c_void, _flags: u32) per_thread cudaStreamAddCallback_ptsz(stream) {
        enter()?;
        let call = Box::into_raw(Box::new(Pending { function: function.ok_or(Status::INVALID_VALUE)?, stream, data }));
        call!(cuLaunchHostFunc(stream, Some(call_back), call.cast())).inspect_err(|_| {
            // SAFETY: the driver did not take the record.
            drop(unsafe { Box::from_raw(call) });
        })
    }

    fn cudaStreamGetId(stream: Handle, id: *mut u64) per_thread cudaStreamGetId_ptsz(stream) {
        enter()?;
        call!(cuStreamGetId(stream, id))
    }

    fn cudaStreamGetDevice(stream: Handle, device: *mut i32) per_thread cudaStreamGetDevice_ptsz(stream) {
        enter()?;
        call!(cuStreamGetDevice(stream, device))
    }

    fn cudaStreamSetAttribute(stream: Handle, _number: u32, _value: *const c_void) per_thread cudaStreamSetAttribute_ptsz(stream) {
        // Cache policy and synchronisation policy.
        enter()?;
        let mut flags = 0;
        call!(cuStreamGetFlags(stream, &mut flags))
    }

    fn cudaThreadExchangeStreamCaptureMode(mode: *mut u32) {
        call!(cuThreadExchangeStreamCaptureMode(mode))
    }

    fn cudaEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) {
        enter()?;
        call!(cuEventElapsedTime(milliseconds, start, end))
    }

    fn cudaEventCreate(result: *mut Handle) {
        enter()?;
        call!(cuEventCreate(result, 0))
    }

    fn cudaEventCreateWithFlags(result: *mut Handle, flags: u32) {
        enter()?;
        call!(cuEventCreate(result, flags))
    }

    fn cudaEventRecord(event: Handle, stream: Handle) per_thread cudaEventRecord_ptsz(stream) {
        enter()?;
        call!(cuEventRecord(event, stream))
    }

    fn cudaEventSynchronize(event: Handle) {
        enter()?;
        call!(cuEventSynchronize(event))
    }

    fn cudaEventQuery(event: Handle) {
        enter()?;
        call!(cuEventQuery(event))
    }

    fn cudaEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        enter()?;
        call!(cuEventElapsedTime(milliseconds, start, end))
    }

    fn cudaEventDestroy(event: Handle) {
        enter()?;
        call!(cuEventDestroy_v2(event))
    }
}
