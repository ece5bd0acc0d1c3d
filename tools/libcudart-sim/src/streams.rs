//! Streams, events, and graphs that are captured.

use std::ffi::c_void;

use crate::devices::enter;
use crate::driver::{Handle, HostFunction, call};
use crate::status::runtime_api;

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

    fn cudaStreamSynchronize(stream: Handle) {
        enter()?;
        call!(cuStreamSynchronize(stream))
    }

    fn cudaStreamQuery(stream: Handle) {
        enter()?;
        call!(cuStreamQuery(stream))
    }

    fn cudaStreamWaitEvent(stream: Handle, event: Handle, flags: u32) {
        enter()?;
        call!(cuStreamWaitEvent(stream, event, flags))
    }

    fn cudaStreamGetPriority(stream: Handle, priority: *mut i32) {
        enter()?;
        call!(cuStreamGetPriority(stream, priority))
    }

    fn cudaStreamGetFlags(stream: Handle, flags: *mut u32) {
        enter()?;
        call!(cuStreamGetFlags(stream, flags))
    }

    fn cudaStreamBeginCapture(stream: Handle, mode: u32) {
        enter()?;
        call!(cuStreamBeginCapture_v2(stream, mode))
    }

    fn cudaStreamEndCapture(stream: Handle, graph: *mut Handle) {
        enter()?;
        call!(cuStreamEndCapture(stream, graph))
    }

    fn cudaStreamIsCapturing(stream: Handle, status: *mut u32) {
        enter()?;
        call!(cuStreamIsCapturing(stream, status))
    }

    fn cudaGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        call!(cuGraphGetNodes(graph, nodes, count))
    }

    fn cudaGraphInstantiate(result: *mut Handle, graph: Handle, flags: u64) {
        enter()?;
        call!(cuGraphInstantiateWithFlags(result, graph, flags))
    }

    fn cudaGraphLaunch(graph: Handle, stream: Handle) {
        enter()?;
        call!(cuGraphLaunch(graph, stream))
    }

    fn cudaGraphExecDestroy(graph: Handle) {
        call!(cuGraphExecDestroy(graph))
    }

    fn cudaGraphDestroy(graph: Handle) {
        call!(cuGraphDestroy(graph))
    }

    fn cudaEventRecordWithFlags(event: Handle, stream: Handle, _flags: u32) {
        enter()?;
        call!(cuEventRecord(event, stream))
    }

    fn cudaLaunchHostFunc(stream: Handle, function: HostFunction, data: *mut c_void) {
        enter()?;
        call!(cuLaunchHostFunc(stream, function, data))
    }

    fn cudaEventCreate(result: *mut Handle) {
        enter()?;
        call!(cuEventCreate(result, 0))
    }

    fn cudaEventCreateWithFlags(result: *mut Handle, flags: u32) {
        enter()?;
        call!(cuEventCreate(result, flags))
    }

    fn cudaEventRecord(event: Handle, stream: Handle) {
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
