//! Streams, captures and events.

use std::cell::RefCell;
use std::sync::Arc;

use sim_device::{Capture, Code, Error, Event, Graph, Mode, Result, Stream, StreamKind, exchange_thread_mode};

use crate::border::driver_api;
use crate::driver::{self, context_handle, current, handle, lookup, remove};
use crate::graphs::node_handle;
use crate::types::{Handle, In, Out};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: u32 = 2;
/// `CU_EVENT_INTERPROCESS`.
const INTERPROCESS: u32 = 4;
/// `CU_EVENT_RECORD_EXTERNAL`, `CU_EVENT_WAIT_EXTERNAL`.
const EXTERNAL: u32 = 1;

thread_local! {
    /// The dependencies to which `cuStreamGetCaptureInfo` last pointed this thread.
    static DEPENDENCIES: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

fn create(result: Out<Handle>, flags: u32, priority: i32) -> Result<()> {
    let context = current()?;
    result.require()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(Error::invalid(format!("the flags are {flags:#x}")));
    }
    let stream = Stream::new(&context, StreamKind::Created, flags == 0, priority)?;
    result.set(handle(&stream, Some(&context)))
}

fn destroy(stream: Handle) -> Result<()> {
    current()?;
    if [Handle::NULL, Handle::LEGACY, Handle::PER_THREAD].contains(&stream) {
        return Err(Error::new(Code::INVALID_HANDLE, "a default stream cannot be destroyed"));
    }
    remove::<Stream>(stream, "stream")?.destroy();
    Ok(())
}

fn mode(number: u32) -> Result<Mode> {
    match number {
        0 => Ok(Mode::Global),
        1 => Ok(Mode::ThreadLocal),
        2 => Ok(Mode::Relaxed),
        _ => Err(Error::invalid(format!("{number} is no capture mode"))),
    }
}

/// `CUstreamCaptureStatus`.
fn status(capture: Option<&Arc<Capture>>) -> u32 {
    match capture {
        None => 0,
        Some(capture) if capture.is_invalidated() => 2,
        Some(_) => 1,
    }
}

struct CaptureInfo {
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    dependencies: Out<*const Handle>,
    edges: Out<usize>,
    count: Out<usize>,
}

fn capture_info(stream: Handle, out: CaptureInfo) -> Result<()> {
    out.status.require()?;
    let stream = driver::stream(stream)?;
    let capture = stream.capture();
    out.status.set(status(capture.as_ref()))?;
    let Some(capture) = capture.filter(|capture| !capture.is_invalidated()) else { return Ok(()) };
    out.id.set_if_wanted(capture.id());
    out.graph.set_if_wanted(handle::<Graph>(capture.graph(), None));
    let nodes: Vec<_> = capture.frontier(stream.id()).iter().map(|node| node_handle(capture.graph(), *node)).collect();
    out.count.set_if_wanted(nodes.len());
    out.edges.set_if_wanted(0);
    DEPENDENCIES.with_borrow_mut(|dependencies| {
        *dependencies = nodes;
        out.dependencies.set_if_wanted(dependencies.as_ptr());
    });
    Ok(())
}

fn nowhere<T>() -> Out<T> {
    Out::nowhere()
}

fn event_elapsed(milliseconds: Out<f32>, start: Handle, end: Handle) -> Result<()> {
    milliseconds.require()?;
    let (start, end) = (lookup::<Event>(start, "event")?, lookup::<Event>(end, "event")?);
    milliseconds.set(end.milliseconds_since(&start)?)
}

fn record(event: Handle, stream: Handle, flags: u32) -> Result<()> {
    let stream = driver::stream(stream)?;
    let event = lookup::<Event>(event, "event")?;
    match flags {
        0 => stream.record(&event),
        EXTERNAL => stream.submit(sim_device::Operation::Record(event)),
        _ => Err(Error::invalid(format!("the flags are {flags:#x}"))),
    }
}

driver_api! {
    fn cuStreamCreate(result: Out<Handle>, flags: u32) {
        create(result, flags, 0)
    }

    fn cuStreamCreateWithPriority(result: Out<Handle>, flags: u32, priority: i32) {
        create(result, flags, priority)
    }

    fn cuStreamDestroy_v2(stream: Handle) {
        destroy(stream)
    }

    fn cuStreamDestroy(stream: Handle) {
        destroy(stream)
    }

    fn cuStreamSynchronize(stream: Handle) per_thread cuStreamSynchronize_ptsz(stream) {
        driver::stream(stream)?.synchronize()
    }

    fn cuStreamQuery(stream: Handle) per_thread cuStreamQuery_ptsz(stream) {
        driver::stream(stream)?.synchronize()
    }

    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) per_thread cuStreamWaitEvent_ptsz(stream) {
        let stream = driver::stream(stream)?;
        let event = lookup::<Event>(event, "event")?;
        match flags {
            0 => stream.wait(&event),
            // Recorded work is complete, so that a wait for it needs no node.
            EXTERNAL => stream.submit(sim_device::Operation::Empty),
            _ => Err(Error::invalid(format!("the flags are {flags:#x}"))),
        }
    }

    fn cuStreamGetCtx(stream: Handle, result: Out<Handle>) per_thread cuStreamGetCtx_ptsz(stream) {
        result.set(context_handle(driver::stream(stream)?.context()))
    }

    fn cuStreamGetCtx_v2(stream: Handle, result: Out<Handle>, green: Out<Handle>) per_thread cuStreamGetCtx_v2_ptsz(stream) {
        result.set(context_handle(driver::stream(stream)?.context()))?;
        green.set_if_wanted(Handle::NULL);
        Ok(())
    }

    fn cuStreamGetFlags(stream: Handle, flags: Out<u32>) per_thread cuStreamGetFlags_ptsz(stream) {
        flags.set(if driver::stream(stream)?.is_blocking() { 0 } else { NON_BLOCKING })
    }

    fn cuStreamGetPriority(stream: Handle, priority: Out<i32>) per_thread cuStreamGetPriority_ptsz(stream) {
        priority.set(driver::stream(stream)?.priority())
    }

    fn cuStreamGetDevice(stream: Handle, device: Out<i32>) per_thread cuStreamGetDevice_ptsz(stream) {
        device.set(driver::stream(stream)?.context().gpu() as i32)
    }

    fn cuStreamGetId(stream: Handle, id: Out<u64>) per_thread cuStreamGetId_ptsz(stream) {
        let stream = driver::stream(stream)?;
        // The legacy stream of a context is a single stream.
        id.set(if stream.kind() == StreamKind::Legacy { 1 << 32 | stream.context().id() } else { stream.id() })
    }

    fn cuStreamBeginCapture(stream: Handle) per_thread cuStreamBeginCapture_ptsz(stream) {
        driver::stream(stream)?.begin_capture(Mode::Global)
    }

    fn cuStreamBeginCapture_v2(stream: Handle, number: u32) per_thread cuStreamBeginCapture_v2_ptsz(stream) {
        driver::stream(stream)?.begin_capture(mode(number)?)
    }

    fn cuStreamEndCapture(stream: Handle, result: Out<Handle>) per_thread cuStreamEndCapture_ptsz(stream) {
        result.set(Handle::NULL)?;
        result.set(handle(&driver::stream(stream)?.end_capture()?, None))
    }

    fn cuStreamIsCapturing(stream: Handle, result: Out<u32>) per_thread cuStreamIsCapturing_ptsz(stream) {
        result.set(status(driver::stream(stream)?.capture().as_ref()))
    }

    fn cuStreamGetCaptureInfo(stream: Handle, status: Out<u32>, id: Out<u64>) per_thread cuStreamGetCaptureInfo_ptsz(stream) {
        let (graph, dependencies, edges, count) = (nowhere(), nowhere(), nowhere(), nowhere());
        capture_info(stream, CaptureInfo { status, id, graph, dependencies, edges, count })
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: Handle,
        status: Out<u32>,
        id: Out<u64>,
        graph: Out<Handle>,
        dependencies: Out<*const Handle>,
        count: Out<usize>,
    ) per_thread cuStreamGetCaptureInfo_v2_ptsz(stream) {
        capture_info(stream, CaptureInfo { status, id, graph, dependencies, edges: nowhere(), count })
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: Handle,
        status: Out<u32>,
        id: Out<u64>,
        graph: Out<Handle>,
        dependencies: Out<*const Handle>,
        edges: Out<usize>,
        count: Out<usize>,
    ) per_thread cuStreamGetCaptureInfo_v3_ptsz(stream) {
        capture_info(stream, CaptureInfo { status, id, graph, dependencies, edges, count })
    }

    fn cuThreadExchangeStreamCaptureMode(number: Out<u32>) {
        driver::machine()?;
        let before = exchange_thread_mode(mode(number.get()?)?);
        number.set(match before {
            Mode::Global => 0,
            Mode::ThreadLocal => 1,
            Mode::Relaxed => 2,
        })
    }

    fn cuEventCreate(result: Out<Handle>, flags: u32) {
        let context = current()?;
        result.require()?;
        if flags & !7 != 0 {
            return Err(Error::invalid(format!("the flags are {flags:#x}")));
        }
        if flags & INTERPROCESS != 0 {
            return Err(Error::unsupported("events cannot be given to other processes"));
        }
        let event = Event::new(&context, flags & DISABLE_TIMING == 0)?;
        result.set(handle(&event, Some(&context)))
    }

    fn cuEventDestroy_v2(event: Handle) {
        remove::<Event>(event, "event").map(drop)
    }

    fn cuEventDestroy(event: Handle) {
        remove::<Event>(event, "event").map(drop)
    }

    fn cuEventRecord(event: Handle, stream: Handle) per_thread cuEventRecord_ptsz(stream) {
        record(event, stream, 0)
    }

    fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: u32) per_thread cuEventRecordWithFlags_ptsz(stream) {
        record(event, stream, flags)
    }

    fn cuEventSynchronize(event: Handle) {
        lookup::<Event>(event, "event")?.synchronize()
    }

    fn cuEventQuery(event: Handle) {
        lookup::<Event>(event, "event")?.query()
    }

    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        event_elapsed(milliseconds, start, end)
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) {
        event_elapsed(milliseconds, start, end)
    }

    fn cuCtxGetExecAffinity(_affinity: In<u64>, _kind: u32) {
        current()?;
        Err(Code::UNSUPPORTED_EXEC_AFFINITY.into())
    }
}
