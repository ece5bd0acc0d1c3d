//! Mistakes of programs in their use of the driver.

use serde::Serialize;

/// A kind of mistake outside kernels, or of unsupported request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// A call uses memory that was freed.
    UseAfterFree,
    /// Memory is freed a second time.
    DoubleFree,
    /// The freed address is not the start of an allocation.
    InvalidFree,
    /// A copy or fill exceeds an allocation.
    OutOfBounds,
    /// A host address is passed where device memory is expected.
    HostPointer,
    /// A device address is passed where host memory is expected.
    DevicePointer,
    /// A null pointer is passed where device memory is expected.
    NullPointer,
    /// The program copies never-written memory to the host.
    UninitialisedCopy,
    /// The program copies partly unwritten memory to the host.
    PartlyUninitialisedCopy,
    /// An allocation that is never freed.
    Leak,
    /// Two streams access the same memory without order, and one of them writes.
    StreamRace,
    /// A kernel or module that is not simulated: nothing is known about it.
    NotSimulated,
    /// NVIDIA's runtime requests interfaces that are not public; whatever depends on them does not run.
    PrivateInterface,
    /// Another call that fails.
    FailedCall,
}

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A mistake.
    Error,
    /// Also occurs in correct programs.
    Warning,
    /// Says nothing about the program.
    Refusal,
}

impl Problem {
    /// Its severity.
    pub fn severity(self) -> Severity {
        match self {
            Problem::Leak | Problem::PartlyUninitialisedCopy | Problem::FailedCall => Severity::Warning,
            Problem::NotSimulated | Problem::PrivateInterface => Severity::Refusal,
            _ => Severity::Error,
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Problem::UseAfterFree => "use after free",
            Problem::DoubleFree => "double free",
            Problem::InvalidFree => "invalid free",
            Problem::OutOfBounds => "out of bounds",
            Problem::HostPointer => "host pointer",
            Problem::DevicePointer => "device pointer",
            Problem::NullPointer => "null pointer",
            Problem::UninitialisedCopy => "uninitialised copy",
            Problem::PartlyUninitialisedCopy => "partly uninitialised copy",
            Problem::Leak => "leak",
            Problem::StreamRace => "race between streams",
            Problem::NotSimulated => "not simulated",
            Problem::PrivateInterface => "private interface",
            Problem::FailedCall => "failed call",
        })
    }
}
