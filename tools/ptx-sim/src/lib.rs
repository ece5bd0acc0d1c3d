//! Executes PTX on the CPU and reports what is wrong with it.

mod counters;
mod finding;
mod launch;
mod memory;
mod module;

pub use counters::Counters;
pub use finding::{Finding, FindingClass, LaneAddress, SourceLocation};
pub use launch::{Launch, LaunchError, Options, Report};
pub use memory::{GlobalMemory, MemoryError};
pub use module::{Module, ParseError, run};
