//! The driver's objects. Most hold each other, so they are defined together; the file named after each has what it does.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, Weak};
use std::thread::ThreadId;
use std::time::Instant;

use ptx_sim::{TexelFormat, Texels};

use crate::code::Code;
use crate::config::Config;
use crate::declarations::EntryDeclaration;
use crate::dependents::Dependents;
use crate::host_range::HostRanges;
use crate::image::{Image, Parameter};
use crate::memory::Memory;
use crate::order::Clock;
use crate::report::Reporter;
use crate::stream_races::StreamRaces;

/// Size of a context's address span, bytes; addresses are never reused during its lifetime.
pub(crate) const SPAN: u64 = 1 << 39;

/// First address of the first context. It is above the addresses where programs and language runtimes place host
/// memory, below those where Linux does, and its low bits tell an address truncated to 32 bits from a null pointer.
pub(crate) const FIRST_ADDRESS: u64 = 0x2000_1000_0000;

/// Upper bound of addresses of simulated memory.
pub(crate) const LAST_ADDRESS: u64 = 1 << 46;

/// Simulated GPUs and everything on them. Each context has its own memory, as on a GPU, at addresses that no other
/// context uses.
pub struct Machine {
    pub(crate) config: Config,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) reporter: Reporter,
    /// Its number among the machines of the process.
    pub(crate) number: u64,
    pub(crate) captures: Captures,
    pub(crate) stream_races: StreamRaces,
    pub(crate) dependents: Dependents,
    /// By number of the address span.
    pub(crate) contexts: Mutex<BTreeMap<u64, Weak<Context>>>,
    pub(crate) free_spans: Mutex<VecDeque<u64>>,
    pub(crate) host: Mutex<HostRanges>,
    pub(crate) next_context: AtomicU64,
    pub(crate) next_allocation: AtomicU64,
    pub(crate) launches: AtomicU64,
}

/// A GPU.
pub struct Gpu {
    /// Position among all GPUs of the machine, whether or not the program sees them.
    pub(crate) index: u32,
    pub(crate) memory_used: Mutex<u64>,
    pub(crate) primary: Mutex<Primary>,
}

#[derive(Default)]
pub(crate) struct Primary {
    pub(crate) context: Option<Arc<Context>>,
    pub(crate) retained: u32,
    pub(crate) flags: u32,
}

/// Kind of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The GPU's primary context, shared by all that retain it.
    Primary,
    /// Created by the program.
    Own,
}

/// How a call treats an error that a kernel left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Waits for the GPU, and returns the error.
    Synchronous,
    /// Only queues work: ignores the error, but returns it once a synchronous call has returned it.
    Asynchronous,
}

/// The error that a kernel left.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    /// Whether a synchronous call has returned it.
    pub(crate) was_returned: bool,
}

/// State of a context that its lock protects.
pub(crate) struct State {
    pub memory: Memory,
    pub(crate) fault: Option<Fault>,
}

/// A context on a GPU (`CUcontext`).
pub struct Context {
    pub(crate) machine: Arc<Machine>,
    pub(crate) id: u64,
    pub(crate) gpu: u32,
    pub(crate) flags: AtomicU32,
    pub(crate) kind: Kind,
    pub(crate) span: u64,
    /// Allocations whose unwritten bytes have been reported.
    pub(crate) told_unwritten: Mutex<HashSet<u64>>,
    /// `None` once destroyed.
    pub(crate) state: Mutex<Option<State>>,
}

/// An entry of a module, ready to be launched in the module's context (`CUfunction`).
pub struct Function {
    pub(crate) context: Arc<Context>,
    pub(crate) image: Arc<Image>,
    pub(crate) declaration: EntryDeclaration,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) max_dynamic_shared_bytes: AtomicU32,
}

/// What a program asks for (`CUDA_ARRAY3D_DESCRIPTOR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayDescriptor {
    /// Width, height, and depth or layers; 0 for an absent dimension.
    pub extent: [u64; 3],
    /// Format of the texels.
    pub format: TexelFormat,
    /// [`LAYERED`](crate::LAYERED), [`SURFACES`](crate::SURFACES) and others.
    pub flags: u32,
}

/// A CUDA array (`CUarray`).
pub struct Array {
    pub(crate) context: Arc<Context>,
    pub(crate) descriptor: ArrayDescriptor,
    pub(crate) texels: Texels,
    pub(crate) name: String,
    pub(crate) is_live: AtomicBool,
}

/// How a function is launched.
#[derive(Clone)]
pub struct Launch {
    /// What is launched.
    pub function: Arc<Function>,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub dynamic_shared_bytes: u32,
    /// Whether the grid may begin before the previous one of its stream has ended
    /// (`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`).
    pub overlaps_previous: bool,
    /// Blocks of a cluster in x, y and z (`CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`); `None` for what the function
    /// requires.
    pub cluster: Option<[u32; 3]>,
    /// Whether all blocks are resident at once, so that they may wait for each other (a cooperative launch).
    pub cooperative: bool,
    /// The bytes of each parameter, in order.
    pub parameters: Vec<Vec<u8>>,
}

/// Host memory of the program, for copies executed when a graph is launched.
pub trait HostMemory: Send + Sync {
    /// Its address.
    fn address(&self) -> u64;
    /// Whether it is page-locked: an asynchronous copy to it may complete after the call returns.
    fn is_page_locked(&self) -> bool;
    /// Copies from `offset` on into `data`.
    fn read(&self, offset: u64, data: &mut [u8]);
    /// Copies `data` to `offset`.
    fn write(&self, offset: u64, data: &[u8]);
}

/// One end of a copy.
#[derive(Clone)]
pub enum Place {
    /// Device memory of a context, by address.
    Device(u64),
    /// An array, from a byte offset on ([`Array::offset`]).
    Array(Arc<Array>, u64),
    /// Host memory of the program.
    Host(Arc<dyn HostMemory>),
}

/// A copy.
#[derive(Clone)]
pub struct Copy {
    /// Destination.
    pub destination: Place,
    /// Source.
    pub source: Place,
    /// Size, bytes.
    pub bytes: u64,
}

/// Fill of memory with one value.
#[derive(Clone)]
pub struct Fill {
    /// First address.
    pub address: u64,
    /// The value: 1, 2 or 4 bytes.
    pub value: Vec<u8>,
    /// Values per row.
    pub width: u64,
    /// Rows.
    pub height: u64,
    /// Distance between rows, bytes.
    pub pitch: u64,
}

/// Start or end of the lifetime of stream-ordered memory.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether it is freed rather than allocated.
    pub ends: bool,
}

/// An operation of a stream.
#[derive(Clone)]
#[non_exhaustive]
pub enum Operation {
    /// A kernel.
    Launch(Launch),
    /// A copy.
    Copy(Copy),
    /// A fill.
    Fill(Fill),
    /// Record of an event.
    Record(Arc<Event>),
    /// Call of a function of the program.
    Call(Arc<dyn Fn() + Send + Sync>),
    /// Another graph.
    Graph(Arc<GraphExec>),
    /// Stream-ordered allocation or free; every other use of the memory has to be ordered with it.
    Life(Life),
    /// No operation: later work waits for earlier work.
    Empty,
}

/// The state that an event has recorded.
#[derive(Clone, Default)]
pub(crate) enum Recorded {
    /// Nothing yet: a wait for it returns at once.
    #[default]
    Never,
    /// Completed work, and everything that happened before it.
    At(Instant, Clock),
    /// A position in a capture.
    Captured(Point),
}

/// An event (`CUevent`).
pub struct Event {
    pub(crate) context: Arc<Context>,
    pub(crate) is_timed: bool,
    pub(crate) recorded: Mutex<Recorded>,
}

/// A node of a graph.
#[derive(Clone)]
pub struct Node {
    /// What it does.
    pub operation: Operation,
    /// Indices of the nodes that it depends on; all are smaller than its own.
    pub dependencies: Vec<usize>,
}

/// A graph (`CUgraph`).
#[derive(Default)]
pub struct Graph {
    pub(crate) nodes: Mutex<Vec<Node>>,
}

/// A graph that can be launched (`CUgraphExec`).
pub struct GraphExec {
    pub(crate) nodes: Mutex<Vec<Node>>,
}

/// Which calls are forbidden during the capture (`CUstreamCaptureMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Unsafe calls from any thread.
    #[default]
    Global,
    /// Unsafe calls from the capturing thread.
    ThreadLocal,
    /// No calls.
    Relaxed,
}

/// A capture in progress.
pub struct Capture {
    pub(crate) id: u64,
    pub(crate) mode: Mode,
    pub(crate) thread: ThreadId,
    /// The stream on which it began.
    pub(crate) origin: u64,
    pub(crate) context: u64,
    pub(crate) graph: Arc<Graph>,
    pub(crate) state: Mutex<CaptureState>,
}

#[derive(Default)]
pub(crate) struct CaptureState {
    pub(crate) is_invalidated: bool,
    pub(crate) has_ended: bool,
    /// Participating streams, each with the dependencies of its next operation.
    pub(crate) members: Vec<Member>,
}

pub(crate) struct Member {
    pub(crate) stream: u64,
    pub(crate) is_blocking: bool,
    pub(crate) frontier: Vec<usize>,
}

/// A position in a capture: the set of nodes on which later work depends.
#[derive(Clone)]
pub struct Point {
    pub(crate) capture: Arc<Capture>,
    pub(crate) frontier: Vec<usize>,
}

/// The captures in progress on a machine.
#[derive(Default)]
pub(crate) struct Captures(pub(crate) Mutex<Vec<Arc<Capture>>>);
