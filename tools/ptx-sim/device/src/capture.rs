//! Stream capture: work submitted to streams becomes a graph instead of being executed.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::code::Code;
use crate::error::{Error, Result};
use crate::objects::{Capture, CaptureState, Captures, Graph, Member, Mode, Node, Operation, Point};
use crate::sync::lock;

thread_local! {
    static THREAD_MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Sets how this thread interacts with captures and returns the previous mode (`cuThreadExchangeStreamCaptureMode`).
pub fn exchange_thread_mode(mode: Mode) -> Mode {
    THREAD_MODE.replace(mode)
}

impl Point {
    /// The capture.
    pub(crate) fn capture(&self) -> &Capture {
        &self.capture
    }
}

/// Identifies a stream for captures.
#[derive(Clone, Copy)]
pub(crate) struct StreamKey {
    pub stream: u64,
    pub context: u64,
    pub is_blocking: bool,
}

impl Capture {
    /// Its number, unique among the captures of the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The graph so far.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Whether a forbidden call has invalidated it.
    pub fn is_invalidated(&self) -> bool {
        lock(&self.state).is_invalidated
    }

    /// Invalidates it.
    pub(crate) fn invalidate(&self) {
        lock(&self.state).is_invalidated = true;
    }

    /// Nodes on which the next operation on `stream` depends.
    pub fn frontier(&self, stream: u64) -> Vec<usize> {
        let state = lock(&self.state);
        state.members.iter().find(|member| member.stream == stream).map_or(Vec::new(), |member| member.frontier.clone())
    }

    fn check(&self, state: &CaptureState) -> Result<()> {
        if state.is_invalidated { Err(Code::STREAM_CAPTURE_INVALIDATED.into()) } else { Ok(()) }
    }

    fn takes_part(&self, stream: u64) -> bool {
        lock(&self.state).members.iter().any(|member| member.stream == stream)
    }

    /// Adds a node for `operation`, submitted to `stream`.
    pub(crate) fn add(&self, stream: u64, operation: Operation) -> Result<()> {
        let mut state = lock(&self.state);
        self.check(&state)?;
        let Some(member) = state.members.iter_mut().find(|member| member.stream == stream) else {
            return Err(Code::STREAM_CAPTURE_UNMATCHED.into());
        };
        let node = self.graph.add(Node { operation, dependencies: member.frontier.clone() })?;
        member.frontier = vec![node];
        Ok(())
    }

    /// The current position of `stream`.
    pub(crate) fn point(self: &Arc<Self>, stream: u64) -> Result<Point> {
        self.check(&lock(&self.state))?;
        Ok(Point { capture: self.clone(), frontier: self.frontier(stream) })
    }

    /// Adds the stream of `key` to the capture if it is not in it yet, and makes its next work depend on `point` too.
    fn join(&self, key: StreamKey, point: &Point) -> Result<()> {
        let mut state = lock(&self.state);
        self.check(&state)?;
        let position = state.members.iter().position(|member| member.stream == key.stream);
        let position = position.unwrap_or_else(|| {
            let member = Member { stream: key.stream, is_blocking: key.is_blocking, frontier: Vec::new() };
            state.members.push(member);
            state.members.len() - 1
        });
        let frontier = &mut state.members[position].frontier;
        frontier.extend_from_slice(&point.frontier);
        frontier.sort_unstable();
        frontier.dedup();
        Ok(())
    }

    /// Whether the next operation on the origin stream would depend on every captured node.
    fn is_joined(&self, state: &CaptureState) -> bool {
        let nodes = self.graph.nodes();
        let origin = state.members.iter().find(|member| member.stream == self.origin);
        let mut open: Vec<usize> = origin.map_or(Vec::new(), |member| member.frontier.clone());
        let mut reached = HashSet::new();
        while let Some(node) = open.pop() {
            if reached.insert(node) {
                open.extend(&nodes[node].dependencies);
            }
        }
        state.members.iter().all(|member| member.frontier.iter().all(|node| reached.contains(node)))
    }
}

impl Captures {
    /// The capture that a stream takes part in.
    pub fn of(&self, stream: u64) -> Option<Arc<Capture>> {
        lock(&self.0).iter().find(|capture| capture.takes_part(stream)).cloned()
    }

    pub fn begin(&self, key: StreamKey, mode: Mode) -> Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.of(key.stream).is_some() {
            return Err(Error::new(Code::ILLEGAL_STATE, "the stream captures already"));
        }
        let member = Member { stream: key.stream, is_blocking: key.is_blocking, frontier: Vec::new() };
        lock(&self.0).push(Arc::new(Capture {
            id: NEXT.fetch_add(1, Relaxed),
            mode,
            thread: std::thread::current().id(),
            origin: key.stream,
            context: key.context,
            graph: Graph::new(),
            state: Mutex::new(CaptureState { members: vec![member], ..CaptureState::default() }),
        }));
        Ok(())
    }

    pub fn end(&self, key: StreamKey) -> Result<Arc<Graph>> {
        let capture =
            self.of(key.stream).ok_or_else(|| Error::new(Code::ILLEGAL_STATE, "the stream does not capture"))?;
        if capture.mode != Mode::Relaxed && capture.thread != std::thread::current().id() {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD.into());
        }
        if capture.origin != key.stream {
            capture.invalidate();
            return Err(Code::STREAM_CAPTURE_UNMATCHED.into());
        }
        self.remove(|other| other.id == capture.id);
        let mut state = lock(&capture.state);
        state.has_ended = true;
        capture.check(&state)?;
        if !capture.is_joined(&state) {
            return Err(Code::STREAM_CAPTURE_UNJOINED.into());
        }
        Ok(capture.graph.clone())
    }

    /// Makes a stream wait for an event that was recorded in a capture: the stream joins that capture.
    pub fn wait(&self, key: StreamKey, point: &Point) -> Result<()> {
        let own = self.of(key.stream);
        let ended = lock(&point.capture.state).has_ended;
        match own {
            Some(own) if own.id != point.capture.id => {
                own.invalidate();
                point.capture.invalidate();
                Err(if ended { Code::STREAM_CAPTURE_ISOLATION } else { Code::STREAM_CAPTURE_MERGE }.into())
            }
            None if ended => Err(Code::CAPTURED_EVENT.into()),
            None if key.context != point.capture.context => {
                point.capture.invalidate();
                Err(Error::unsupported("a capture with streams of several contexts is not simulated"))
            }
            _ => point.capture.join(key, point),
        }
    }

    /// Checks a call that is unsafe during capture: captures that forbid it are invalidated.
    pub fn check_unsafe_call(&self) -> Result<()> {
        let (mode, thread) = (THREAD_MODE.get(), std::thread::current().id());
        let forbids = |capture: &Capture| {
            if capture.thread == thread {
                mode != Mode::Relaxed && capture.mode != Mode::Relaxed
            } else {
                mode == Mode::Global && capture.mode == Mode::Global
            }
        };
        self.invalidate_where(forbids, Code::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Checks a wait for a whole context.
    pub fn check_context_synchronized(&self, context: u64) -> Result<()> {
        self.invalidate_where(|capture| capture.context == context, Code::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Checks work on the legacy default stream, on which every blocking stream of the context waits.
    pub fn check_legacy_stream(&self, context: u64) -> Result<()> {
        let depends = |capture: &Capture| {
            capture.context == context && lock(&capture.state).members.iter().any(|member| member.is_blocking)
        };
        self.invalidate_where(depends, Code::STREAM_CAPTURE_IMPLICIT)
    }

    /// Removes the captures of a context that is gone.
    pub fn forget_context(&self, context: u64) {
        self.remove(|capture| capture.context == context);
    }

    /// Ends or invalidates the capture of a stream that is destroyed.
    pub fn forget_stream(&self, stream: u64) {
        if let Some(capture) = self.of(stream) {
            capture.invalidate();
            if capture.origin == stream {
                self.remove(|other| other.id == capture.id);
            }
        }
    }

    /// Removes captures. They are dropped outside the lock: dropping one may end a context, which calls back here.
    fn remove(&self, is_gone: impl Fn(&Capture) -> bool) {
        let gone: Vec<_> = lock(&self.0).extract_if(.., |capture| is_gone(capture)).collect();
        drop(gone);
    }

    fn invalidate_where(&self, offends: impl Fn(&Capture) -> bool, code: Code) -> Result<()> {
        let captures = lock(&self.0);
        let mut found = false;
        for capture in captures.iter().filter(|capture| offends(capture)) {
            capture.invalidate();
            found = true;
        }
        if found { Err(code.into()) } else { Ok(()) }
    }
}
