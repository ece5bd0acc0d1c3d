//! The memories of a GPU, each with a record of which bytes were written.

mod global;

pub use global::{GlobalMemory, MemoryError};

/// Why an access cannot be done: a description of where the address lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutOfBounds(pub String);
