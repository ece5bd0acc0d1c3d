//! Somewhere to run a kernel: a GPU through the CUDA driver, or the simulator. Nothing above this trait knows which.

mod choice;
pub mod gpu;
mod one_entry;
pub mod sim;

use contract::plan::Launch;

use crate::device::Device;
use crate::error::Result;
use crate::ptx_module::PtxModule;
use crate::timing::{Batch, Protocol};

pub use choice::{DeviceChoice, Opened, open};

/// Device memory owned by an executor. Behind every buffer lies a guard that [`Executor::damaged_guards`] checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Index in the executor that made it.
    pub id: usize,
    /// Device address, at least 256-byte aligned.
    pub address: u64,
    /// Usable size in bytes, without the guard.
    pub bytes: u64,
}

/// What one launch did, beyond writing its outputs.
#[derive(Debug, Default)]
pub struct Execution {
    /// What the simulator found wrong; always empty on a GPU.
    pub findings: Vec<ptx_sim::Finding>,
    /// What the simulator counted; absent on a GPU.
    pub counters: Option<ptx_sim::Counters>,
}

/// A guard behind a buffer that a kernel wrote to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GuardDamage {
    /// Name given to [`Executor::allocate`].
    pub buffer: String,
    /// First damaged byte, counted from the end of the buffer.
    pub first: u64,
    /// Number of damaged bytes.
    pub bytes: u64,
}

/// Launches that are ready to be timed, owned by an executor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Index in the executor that made it.
    pub id: usize,
    /// What it consists of.
    pub batch: Batch,
}

/// Somewhere to run a kernel.
pub trait Executor {
    /// The device.
    fn device(&self) -> &Device;

    /// Makes the entries of `module` available to [`Executor::launch`]; a module of the same file name is replaced,
    /// and nothing is done when that one has the same text.
    fn load(&mut self, module: &PtxModule) -> Result<()>;

    /// [`Self::load`] for one entry; where loading takes long, of that one alone.
    fn load_entry(&mut self, module: &PtxModule, _entry: &str) -> Result<()> {
        self.load(module)
    }

    /// Allocates `bytes` of device memory with a guard behind it; `name` appears in messages. The contents are
    /// undefined until written, and the simulator reports reads of them.
    fn allocate(&mut self, name: &str, bytes: u64) -> Result<Buffer>;

    /// Frees a buffer.
    fn free(&mut self, buffer: Buffer) -> Result<()>;

    /// Copies `data` to the start of `buffer`; `data` must not be longer than the buffer.
    fn write(&mut self, buffer: Buffer, data: &[u8]) -> Result<()>;

    /// Copies the start of `buffer` to `data`; `data` must not be longer than the buffer.
    fn read(&mut self, buffer: Buffer, data: &mut [u8]) -> Result<()>;

    /// Completes a bound launch with the tensor maps that its kernel copies through, if it does.
    fn complete(&mut self, launch: &mut Launch<'_>) -> Result<()>;

    /// Runs a [completed](Executor::complete) launch and waits for it. A kernel that faults is an error on a GPU and a finding in the simulator.
    fn launch(&mut self, launch: &Launch<'_>) -> Result<Execution>;

    /// Makes completed `launches`, one for each set of inputs, ready to be timed by `protocol`, after a warm-up; `None` where times
    /// mean nothing (the simulator).
    fn prepare_sample(&mut self, launches: &[Launch<'_>], protocol: &Protocol) -> Result<Option<Sample>>;

    /// Takes a sample: µs per call.
    fn take_sample(&mut self, sample: Sample) -> Result<f64>;

    /// Frees what [`Executor::prepare_sample`] made.
    fn free_sample(&mut self, sample: Sample) -> Result<()>;

    /// The guards that a kernel has written to. The simulator reports such writes as findings instead.
    fn damaged_guards(&mut self) -> Result<Vec<GuardDamage>>;
}
