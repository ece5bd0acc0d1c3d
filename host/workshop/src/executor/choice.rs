//! Opens a GPU or the simulator.

use super::Executor;
use super::gpu::GpuExecutor;
use super::sim::SimExecutor;
use crate::error::{Error, Result};

/// Which kind of device to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceChoice {
    /// A GPU if there is one, else the simulator.
    Auto,
    /// A GPU, or failure.
    Gpu,
    /// The simulator.
    Sim,
}

/// An executor, and why it is this one.
pub struct Opened {
    /// The executor.
    pub executor: Box<dyn Executor>,
    /// The reason, as text.
    pub reason: String,
}

/// Opens a device. A simulator stands for `simulated_architecture`, as in 90 for `sm_90`.
///
/// # Errors
/// [`Error::Unavailable`] when a GPU was demanded and there is none, and whatever the driver reports of one that is there
/// but does not work: that is never hidden by taking the simulator instead.
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
