//! What is wrong with what a program does with its GPUs.

use serde::Serialize;

/// A kind of mistake outside kernels, or of something that could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// A call uses memory that was freed.
    UseAfterFree,
    /// Memory is freed a second time.
    DoubleFree,
    /// What is freed is no beginning of an allocation.
    InvalidFree,
    /// A copy or fill goes beyond an allocation.
    OutOfBounds,
    /// An address of the host's is given where memory of a GPU belongs.
    HostPointer,
    /// An address of a GPU's is given where memory of the host belongs.
    DevicePointer,
    /// A null pointer is given where memory of a GPU belongs.
    NullPointer,
    /// The program reads back memory of which nothing was ever written.
    UninitialisedCopy,
    /// The program reads back memory of which a part was never written.
    PartlyUninitialisedCopy,
    /// An allocation that is never freed.
    Leak,
    /// Two streams use the same memory, one of them writes, and nothing orders them.
    StreamRace,
    /// A kernel or module that is not simulated: nothing is known of it.
    NotSimulated,
    /// The runtime of NVIDIA asks for interfaces that are not public: what goes by it does not run.
    PrivateInterface,
    /// Another call that fails.
    FailedCall,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A mistake.
    Error,
    /// What correct programs do too.
    Warning,
    /// No statement about the program.
    Refusal,
}

impl Problem {
    /// How bad it is.
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
