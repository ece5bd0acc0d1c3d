//! Executes PTX on the CPU and reports what is wrong with it.

mod counters;
mod decode;
mod exec;
mod finding;
mod isa;
mod launch;
mod memory;
mod module;
mod numeric;
mod parse;

pub use counters::Counters;
pub use finding::{Finding, FindingClass, LaneAddress, SourceLocation};
pub use launch::{Launch, LaunchError, Options, Report};
pub use memory::{GlobalMemory, MemoryError};
pub use module::{Module, run};
pub use parse::ParseError;
