//! Nsight Compute's `ncu`: its command lines, its output, and the numbers taken from it.
//!
//! Metric names and units are those of the Nsight Compute documentation ("Profiling Guide", "Metrics Reference" and
//! "Metrics Structure"); each of them exists for every architecture from sm_80 to sm_90.

mod failure;
mod invocation;
mod profile;
mod raw_page;

pub use failure::failure;
pub use invocation::{CacheControl, ClockControl, Invocation, METRICS, import_arguments};
pub use profile::{BankConflicts, FORMAT, Occupancy, OccupancyLimit, Profile, STALL_REASONS, Stall, Throughput};
pub use raw_page::RawPage;
