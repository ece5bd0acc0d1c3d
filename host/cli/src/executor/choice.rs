//! Opens a GPU or the simulator.

use super::Executor;
use super::gpu::GpuExecutor;
use super::sim::SimExecutor;
use crate::error::{Error, Result};

/// The kind of device to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceChoice {
    /// A GPU if there is one, else the simulator.
    Auto,
    /// A GPU; fails without one.
    Gpu,
    /// The simulator.
    Sim,
}

/// An executor, and why it was chosen.
pub struct Opened {
    /// The executor.
    pub executor: Box<dyn Executor>,
    /// The reason, as a message.
    pub reason: String,
}

/// Opens a device. The simulator simulates `simulated_architecture`, such as 90 for `sm_90`.
///
/// # Errors
/// [`Error::Unavailable`] when a GPU was requested and there is none. Also any driver error about a GPU that exists but
/// does not work: the simulator never replaces it silently.
pub fn open(choice: DeviceChoice, simulated_architecture: u32) -> Result<Opened> {
    let simulator = |reason: String| {
        let executor = Box::new(SimExecutor::new(simulated_architecture)?);
        Ok(Opened { executor, reason })
    };
    if choice == DeviceChoice::Sim {
        return simulator("asked for".into());
    }
    match GpuExecutor::open() {
        Ok(executor) => {
            let reason = if choice == DeviceChoice::Gpu { "asked for" } else { "the CUDA driver answers" };
            Ok(Opened { executor: Box::new(executor), reason: reason.into() })
        }
        Err(Error::Unavailable(reason)) if choice == DeviceChoice::Auto => simulator(reason),
        Err(error) => Err(error),
    }
}
