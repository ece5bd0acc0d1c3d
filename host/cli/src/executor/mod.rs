//! Executors: run a kernel on a GPU through the CUDA driver, or in the simulator. Code above this trait does not know
//! which.

mod choice;
pub mod gpu;
mod one_entry;
pub mod sim;

use contract::backward::plan::BackwardLaunch;
use contract::plan::Launch;

use crate::device::Device;
use crate::error::Result;
use crate::ptx_module::PtxModule;
use crate::timing::{Batch, Protocol};

pub use choice::{DeviceChoice, Opened, open};

/// Device memory owned by an executor. Every buffer is followed by a guard, which [`Executor::damaged_guards`] checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Index in the executor that allocated it.
    pub id: usize,
    /// Device address, at least 256-byte aligned.
    pub address: u64,
    /// Usable size in bytes, without the guard.
    pub bytes: u64,
}

/// Observations about a launch other than its outputs.
#[derive(Debug, Default)]
pub struct Execution {
    /// Findings of the simulator; always empty on a GPU.
    pub findings: Vec<ptx_sim::Finding>,
    /// Counters of the simulator; absent on a GPU.
    pub counters: Option<ptx_sim::Counters>,
    /// Boxes of Q, K and V that the simulator loaded, if [`ptx_sim::Options::box_loads`] is set.
    pub box_loads: Vec<ptx_sim::BoxLoad>,
}

impl Execution {
    /// Adds the observations about a launch that followed.
    fn add(&mut self, later: Self) {
        self.findings.extend(later.findings);
        self.box_loads.extend(later.box_loads);
        match (&mut self.counters, later.counters) {
            (Some(counters), Some(later)) => *counters += later,
            (counters, later) => *counters = counters.take().or(later),
        }
    }
}

/// A guard that a kernel wrote to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GuardDamage {
    /// Name given to [`Executor::allocate`].
    pub buffer: String,
    /// First damaged byte, counted from the end of the buffer.
    pub first: u64,
    /// Number of damaged bytes.
    pub bytes: u64,
}

/// What a call wrote, and what else it did.
#[derive(Debug)]
pub struct Outcome<T> {
    /// The executor's observations.
    pub execution: Execution,
    /// What it wrote.
    pub outputs: T,
    /// Names of the inputs that the kernel changed.
    pub changed_inputs: Vec<String>,
    /// Guards that the kernel wrote to.
    pub damaged_guards: Vec<GuardDamage>,
}

/// Launches prepared for timing, owned by an executor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Index in the executor that made it.
    pub id: usize,
    /// Calls per sample.
    pub batch: Batch,
}

/// A device that runs kernels.
pub trait Executor {
    /// The device.
    fn device(&self) -> &Device;

    /// Makes the entries of `module` available to [`Executor::launch`]. Replaces a module of the same file name, unless
    /// it has the same text.
    fn load(&mut self, module: &PtxModule) -> Result<()>;

    /// [`Self::load`] for one entry; where loading is slow, loads only that one.
    fn load_entry(&mut self, module: &PtxModule, _entry: &str) -> Result<()> {
        self.load(module)
    }

    /// Allocates `bytes` of device memory followed by a guard. `name` appears in messages. The contents are
    /// uninitialised; the simulator reports reads of them.
    fn allocate(&mut self, name: &str, bytes: u64) -> Result<Buffer>;

    /// Frees a buffer.
    fn free(&mut self, buffer: Buffer) -> Result<()>;

    /// Copies `data` to the start of `buffer`; `data` must not be longer than the buffer.
    fn write(&mut self, buffer: Buffer, data: &[u8]) -> Result<()>;

    /// Copies the start of `buffer` to `data`; `data` must not be longer than the buffer.
    fn read(&mut self, buffer: Buffer, data: &mut [u8]) -> Result<()>;

    /// Encodes the tensor maps of a bound launch, if its kernel has any.
    fn complete(&mut self, launch: &mut Launch<'_>) -> Result<()>;

    /// Runs a [completed](Executor::complete) launch and waits for it. A fault is an error on a GPU and a finding in
    /// the simulator.
    fn launch(&mut self, launch: &Launch<'_>) -> Result<Execution>;

    /// Encodes the tensor maps of a launch of a gradient, if its kernel has any, runs it with those that have to precede and follow it, and waits for
    /// them. A fault is as for [`Self::launch`].
    fn launch_backward(&mut self, launch: &mut BackwardLaunch) -> Result<Execution>;

    /// Prepares completed `launches`, one per input set, for timing by `protocol`, with a warm-up; `None` if times are
    /// meaningless (the simulator).
    fn prepare_sample(&mut self, launches: &[Launch<'_>], protocol: &Protocol) -> Result<Option<Sample>>;

    /// Takes a sample. Returns µs per call.
    fn take_sample(&mut self, sample: Sample) -> Result<f64>;

    /// Frees a sample made by [`Executor::prepare_sample`].
    fn free_sample(&mut self, sample: Sample) -> Result<()>;

    /// The guards that a kernel wrote to. The simulator reports such writes as findings instead.
    fn damaged_guards(&mut self) -> Result<Vec<GuardDamage>>;
}
