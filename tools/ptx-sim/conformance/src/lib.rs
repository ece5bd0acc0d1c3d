//! Compares the simulator with results computed by a GPU.
//!
//! For each instruction form that `ptx-sim` executes there is a [`Case`](case::Case): a small kernel with operands at the
//! edges of its types and pseudo-random ones. [`record`] runs the cases on a GPU and stores the results; [`check`] runs
//! them in the simulator and compares. `tools/ptx-sim/docs/conformance.md` says what agrees, and what to do for a new instruction.
//!
//! `forms` has the cases, by class; `kernel` and `lanewise` make their PTX, `values` their operands. `rule` defines how
//! results are compared; `exempt` lists what has no recorded result.

pub mod case;
pub mod check;
pub mod exempt;
pub mod forms;
mod gpu;
mod kernel;
mod lanewise;
pub mod record;
mod rule;
mod simulator;
mod values;
pub mod vectors;
